//! Random values for every type that a schema may name, from a seed: the same seed gives the same values.
//! For tests only (feature `arbitrary`).

use bytes::Bytes;
use uuid::Uuid;

use super::{Field, Format, Records};

/// SplitMix64: small, good enough for test data, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that repeats for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        assert!(limit > 0, "there is no number below zero");
        (self.next_u64() % limit as u64) as usize
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A type with random values that a given version can carry.
pub trait Arbitrary: Sized {
    /// A random value for `format`; null only if `nullable`.
    fn arbitrary(format: Format, nullable: bool, random: &mut Random) -> Self;
}

macro_rules! arbitrary_integers {
    ($($type:ty),*) => {$(
        impl Arbitrary for $type {
            fn arbitrary(_: Format, _: bool, random: &mut Random) -> Self {
                // Limits and small numbers find more than evenly spread ones.
                match random.below(6) {
                    0 => <$type>::MIN,
                    1 => <$type>::MAX,
                    2 => 0,
                    3 => random.below(100) as $type,
                    _ => random.next_u64() as $type,
                }
            }
        }
    )*};
}

arbitrary_integers!(i8, i16, u16, i32, i64);

impl Arbitrary for bool {
    fn arbitrary(_: Format, _: bool, random: &mut Random) -> Self {
        random.one_in(2)
    }
}

impl Arbitrary for f64 {
    fn arbitrary(_: Format, _: bool, random: &mut Random) -> Self {
        random.next_u64() as f64 / 1024.0
    }
}

impl Arbitrary for Uuid {
    fn arbitrary(_: Format, _: bool, random: &mut Random) -> Self {
        if random.one_in(4) { Uuid::nil() } else { Uuid::from_u64_pair(random.next_u64(), random.next_u64()) }
    }
}

impl Arbitrary for String {
    fn arbitrary(_: Format, _: bool, random: &mut Random) -> Self {
        // One in a few is long enough for a compact length of two bytes.
        let limit = if random.one_in(20) { 300 } else { 12 };
        let letters = ['a', 'Z', '0', '.', '-', '_', ' ', 'é', '語', '🦀'];
        (0..random.below(limit)).map(|_| letters[random.below(letters.len())]).collect()
    }
}

impl Arbitrary for Bytes {
    fn arbitrary(_: Format, _: bool, random: &mut Random) -> Self {
        let limit = if random.one_in(100) { 20_000 } else { 200 };
        (0..random.below(limit)).map(|_| random.next_u64() as u8).collect()
    }
}

impl<T: Arbitrary> Arbitrary for Vec<T> {
    fn arbitrary(format: Format, _: bool, random: &mut Random) -> Self {
        (0..random.below(4)).map(|_| T::arbitrary(format, false, random)).collect()
    }
}

impl<T: Arbitrary> Arbitrary for Option<T>
where
    Option<T>: Field,
{
    fn arbitrary(format: Format, nullable: bool, random: &mut Random) -> Self {
        if nullable && random.one_in(3) { None } else { Some(T::arbitrary(format, false, random)) }
    }
}

impl Arbitrary for Records {
    fn arbitrary(format: Format, nullable: bool, random: &mut Random) -> Self {
        match Option::<Bytes>::arbitrary(format, nullable, random) {
            None => Self::Null,
            Some(bytes) => Self::Bytes(bytes),
        }
    }
}
