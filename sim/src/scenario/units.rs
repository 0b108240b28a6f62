//! Quantities as people write them: `"250ms"`, `"64KiB"`, and ranges of them, `"1ms..20ms"`.
//!
//! Owns reading them from text, with errors that say what to write instead. Never draws from a range.

use serde::{Deserialize, Deserializer, de};
use std::{fmt, marker::PhantomData};

/// Something that a scenario writes as text or as a whole number.
pub trait Quantity: Copy + Ord + Sized {
    /// What it is and how to write it, for error messages: `a duration such as "250ms", "30s" or "5min"`.
    const EXPECTED: &'static str;

    /// Reads it from text.
    ///
    /// # Errors
    /// What is wrong with the text, and what to write.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Reads it from a whole number, where a bare number has one meaning only.
    fn from_integer(_number: i64) -> Option<Self> {
        None
    }
}

/// A length of time in nanoseconds, written `"250ms"`, `"1.5s"`, `"-5s"`; negative only where a clock is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignedNanos(pub i64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

/// A number of bytes, written `"64KiB"`, `"100B"` or as a whole number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A plain whole number that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

/// A whole number of either sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignedCount(pub i64);

/// From the smaller to the larger, both included: `"1ms..20ms"`. One value alone is both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between<Q> {
    /// The smallest value.
    pub from: Q,
    /// The largest value.
    pub to: Q,
}

impl<Q: Copy> Between<Q> {
    /// One value only.
    pub const fn only(value: Q) -> Between<Q> {
        Between { from: value, to: value }
    }
}

const TIME_UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12)];
const SIZE_UNITS: [(&str, f64); 7] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// Reads a number with one of `units` behind it. Units are matched as written; a near miss in letter case is named.
fn number_with_unit(text: &str, what: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let text = text.trim();
    let split =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let names = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let number: f64 = match number.parse() {
        Ok(number) => number,
        Err(_) => return Err(format!("`{text}` is not {what}")),
    };
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: write one of {}", names()));
    }
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(number * factor),
        None => match units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((name, _)) => Err(format!("`{unit}` is not a unit: did you mean `{name}`?")),
            None => Err(format!("`{unit}` is not a unit: the units are {}", names())),
        },
    }
}

impl Quantity for SignedNanos {
    const EXPECTED: &'static str = "a duration such as \"250ms\", \"30s\" or \"-5min\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let nanos = number_with_unit(text, Self::EXPECTED, &TIME_UNITS)?;
        // A hundred years: far beyond any scenario, far below where 64 bits or a float's exactness end.
        if nanos.abs() > 3.2e18 {
            return Err(format!("`{text}` is too long: a hundred years is the most"));
        }
        Ok(SignedNanos(nanos.round() as i64))
    }
}

impl Quantity for Nanos {
    const EXPECTED: &'static str = "a duration such as \"250ms\", \"30s\" or \"5min\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let SignedNanos(nanos) = SignedNanos::from_text(text)
            .map_err(|error| error.replace(SignedNanos::EXPECTED, Self::EXPECTED))?;
        u64::try_from(nanos).map(Nanos).map_err(|_| format!("`{text}` is negative: this duration cannot be"))
    }
}

impl Quantity for Bytes {
    const EXPECTED: &'static str = "a size such as \"64KiB\", \"100B\" or 4096";

    fn from_text(text: &str) -> Result<Self, String> {
        let bytes = number_with_unit(text, Self::EXPECTED, &SIZE_UNITS)?;
        if !(0.0..=1e15).contains(&bytes) {
            return Err(format!("`{text}` is out of range: 0 B to 1000000 GB"));
        }
        Ok(Bytes(bytes.round() as u64))
    }

    fn from_integer(number: i64) -> Option<Self> {
        u64::try_from(number).ok().map(Bytes)
    }
}

impl Quantity for Count {
    const EXPECTED: &'static str = "a whole number, 0 or more";

    fn from_text(text: &str) -> Result<Self, String> {
        text.trim().parse().map(Count).map_err(|_| format!("`{text}` is not {}", Self::EXPECTED))
    }

    fn from_integer(number: i64) -> Option<Self> {
        u64::try_from(number).ok().map(Count)
    }
}

impl Quantity for SignedCount {
    const EXPECTED: &'static str = "a whole number";

    fn from_text(text: &str) -> Result<Self, String> {
        text.trim().parse().map(SignedCount).map_err(|_| format!("`{text}` is not {}", Self::EXPECTED))
    }

    fn from_integer(number: i64) -> Option<Self> {
        Some(SignedCount(number))
    }
}

impl<Q: Quantity> Between<Q> {
    fn from_text(text: &str) -> Result<Self, String> {
        match text.split_once("..") {
            None => Q::from_text(text).map(Between::only),
            Some((from, to)) => {
                let (from, to) = (Q::from_text(from)?, Q::from_text(to)?);
                if from > to {
                    return Err(format!("the range `{text}` is reversed: the smaller end comes first"));
                }
                Ok(Between { from, to })
            }
        }
    }
}

struct QuantityVisitor<T, Q>(PhantomData<(T, Q)>);

/// What [`QuantityVisitor`] can build: a quantity, or a range of it.
trait FromScenario<Q>: Sized {
    const IS_RANGE: bool;
    fn text(text: &str) -> Result<Self, String>;
    fn integer(number: i64) -> Option<Self>;
}

impl<Q: Quantity> FromScenario<Q> for Q {
    const IS_RANGE: bool = false;
    fn text(text: &str) -> Result<Self, String> {
        Q::from_text(text)
    }
    fn integer(number: i64) -> Option<Self> {
        Q::from_integer(number)
    }
}

impl<Q: Quantity> FromScenario<Q> for Between<Q> {
    const IS_RANGE: bool = true;
    fn text(text: &str) -> Result<Self, String> {
        Between::from_text(text)
    }
    fn integer(number: i64) -> Option<Self> {
        Q::from_integer(number).map(Between::only)
    }
}

impl<T: FromScenario<Q>, Q: Quantity> de::Visitor<'_> for QuantityVisitor<T, Q> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::EXPECTED)?;
        if T::IS_RANGE { f.write_str(", or a range \"FROM..TO\"") } else { Ok(()) }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::text(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::integer(number).ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
        }
    }
}

impl<'de, Q: Quantity> Deserialize<'de> for Between<Q> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor::<Between<Q>, Q>(PhantomData))
    }
}

macro_rules! deserialize_quantity {
    ($($name:ident),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(QuantityVisitor::<$name, $name>(PhantomData))
            }
        }
    )*};
}
deserialize_quantity!(SignedNanos, Nanos, Bytes, Count, SignedCount);

/// A duration for people: `1.5s`, `250ms`, `2min 5s`.
pub fn human_nanos(nanos: u64) -> String {
    let trim = |value: f64, unit: &str| {
        let text = format!("{value:.3}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        0 => "0s".into(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => trim(nanos as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => trim(nanos as f64 / 1e6, "ms"),
        1_000_000_000..120_000_000_000 => trim(nanos as f64 / 1e9, "s"),
        120_000_000_000..7_200_000_000_000 => {
            format!("{}min {}s", nanos / 60_000_000_000, nanos / 1_000_000_000 % 60)
        }
        _ => format!("{}h {}min", nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60),
    }
}

/// [`human_nanos`] with a sign.
pub fn human_signed_nanos(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "+" };
    format!("{sign}{}", human_nanos(nanos.unsigned_abs()))
}

/// A size for people: `100B`, `64KiB`, `1.5MiB`.
pub fn human_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor {
            let text = format!("{:.2}", bytes as f64 / factor as f64);
            return format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_read_as_people_write_them() {
        assert_eq!(Nanos::from_text("250ms"), Ok(Nanos(250_000_000)));
        assert_eq!(Nanos::from_text("1.5 s"), Ok(Nanos(1_500_000_000)));
        assert_eq!(SignedNanos::from_text("-2min"), Ok(SignedNanos(-120_000_000_000)));
        assert_eq!(Bytes::from_text("64KiB"), Ok(Bytes(65536)));
        assert_eq!(Bytes::from_text("2MB"), Ok(Bytes(2_000_000)));
        assert_eq!(
            Between::<Nanos>::from_text("1ms..20ms"),
            Ok(Between { from: Nanos(1_000_000), to: Nanos(20_000_000) })
        );
    }

    #[test]
    fn errors_say_what_to_write() {
        let duration = |text| Nanos::from_text(text).unwrap_err();
        assert_eq!(duration("30"), "`30` has no unit: write one of ns, us, ms, s, min, h");
        assert_eq!(duration("3 S"), "`S` is not a unit: did you mean `s`?");
        assert_eq!(duration("3 weeks"), "`weeks` is not a unit: the units are ns, us, ms, s, min, h");
        assert_eq!(duration("-1s"), "`-1s` is negative: this duration cannot be");
        assert_eq!(duration("soon"), "`soon` is not a duration such as \"250ms\", \"30s\" or \"5min\"");
        assert_eq!(duration("1e99h"), "`e99h` is not a unit: the units are ns, us, ms, s, min, h");
        assert_eq!(duration("99999999h"), "`99999999h` is too long: a hundred years is the most");
        assert_eq!(Bytes::from_text("1kib").unwrap_err(), "`kib` is not a unit: did you mean `KiB`?");
        assert_eq!(
            Between::<Nanos>::from_text("20ms..1ms").unwrap_err(),
            "the range `20ms..1ms` is reversed: the smaller end comes first"
        );
    }

    #[test]
    fn quantities_print_shortly() {
        assert_eq!(human_nanos(1_500_000_000), "1.5s");
        assert_eq!(human_nanos(250_000_000), "250ms");
        assert_eq!(human_nanos(125_000_000_000), "2min 5s");
        assert_eq!(human_signed_nanos(-5_000_000), "-5ms");
        assert_eq!(human_bytes(65536), "64KiB");
        assert_eq!(human_bytes(1_572_864), "1.5MiB");
        assert_eq!(human_bytes(100), "100B");
    }
}
