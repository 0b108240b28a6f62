//! The two clocks. Owns their types; never reads one.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A point on a node's monotonic clock, in nanoseconds since a start that only that node knows.
///
/// Never `std::time::Instant`: in simulation each node's clock has its own rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The time from `earlier` to `self`, zero where `earlier` is the later one.
    pub fn saturating_since(self, earlier: Monotonic) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Monotonic {
    type Output = Monotonic;
    fn add(self, duration: Duration) -> Monotonic {
        Monotonic(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Monotonic {
    type Output = Duration;
    fn sub(self, earlier: Monotonic) -> Duration {
        self.saturating_since(earlier)
    }
}

/// A node's wall clock: milliseconds since 1970-01-01T00:00:00Z, as Kafka counts them. May be skewed, may step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// The time given to [`crate::Runtime::timeout`] ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time ran out")
    }
}

impl std::error::Error for Elapsed {}
