//! Holds cleaning back to `log.cleaner.io.max.bytes.per.second`. Owns the account of bytes; never reads or writes.

use sillon_runtime::{Monotonic, Runtime};
use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// So much may be done ahead of the rate.
const BURST: Duration = Duration::from_millis(300);

/// Shared by all that clean.
#[derive(Debug)]
pub struct Throttle {
    runtime: Runtime,
    account: Mutex<Account>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    bytes_per_second: f64,
    /// When what was done until now has had its time.
    paid_until: Monotonic,
}

impl Account {
    /// Until when to wait after so many more bytes; none where they are within the rate.
    fn take(&mut self, bytes: usize, now: Monotonic) -> Option<Monotonic> {
        let seconds = bytes as f64 / self.bytes_per_second;
        // A rate without a limit takes no time; one that is nearly nothing takes a long, but not an endless one.
        let cost = Duration::try_from_secs_f64(seconds.min(3600.0)).unwrap_or(Duration::ZERO);
        self.paid_until = self.paid_until.max(now) + cost;
        (self.paid_until.saturating_since(now) > BURST).then_some(self.paid_until)
    }
}

impl Throttle {
    /// One without a limit.
    pub fn new(runtime: Runtime) -> Throttle {
        let account = Account { bytes_per_second: f64::INFINITY, paid_until: Monotonic(0) };
        Throttle { runtime, account: Mutex::new(account) }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().expect("nobody panics while holding the account")
    }

    /// Puts another rate in force, from the next bytes on.
    pub fn set_rate(&self, bytes_per_second: f64) {
        self.account().bytes_per_second = bytes_per_second.max(1.0);
    }

    /// Notes bytes that were read or written, and waits until the rate allows more.
    pub(super) async fn took(&self, bytes: usize) {
        let until = self.account().take(bytes, self.runtime.now());
        if let Some(until) = until {
            self.runtime.sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_but_for_a_burst() {
        let mut account = Account { bytes_per_second: 1000.0, paid_until: Monotonic(0) };
        let second = 1_000_000_000;
        assert_eq!(account.take(200, Monotonic(second)), None, "a burst");
        assert_eq!(account.take(300, Monotonic(second)), Some(Monotonic(second + second / 2)));
        assert_eq!(account.take(100, Monotonic(2 * second)), None, "what was saved does not add up");
        let mut free = Account { bytes_per_second: f64::INFINITY, ..account };
        assert_eq!(free.take(usize::MAX, Monotonic(9 * second)), None);
    }
}
