//! How long to wait before the next attempt (KIP-580): doubling up to a bound, with a fifth of chance either way.

use std::time::Duration;

/// The wait after so many failures in a row. `random` is any random number.
///
/// The first failure waits about `initial_ms`; none waits longer than six fifths of `max_ms`.
pub(crate) fn backoff(initial_ms: u64, max_ms: u64, failures: u32, random: u64) -> Duration {
    let doubled =
        initial_ms.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(max_ms.max(initial_ms));
    // From 800 to 1200 thousandths.
    let thousandths = 800 + random % 401;
    Duration::from_micros(doubled.saturating_mul(thousandths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_bound() {
        let middle = 200;
        let waits: Vec<_> =
            (1..=6).map(|failures| backoff(100, 1000, failures, middle).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff(100, 1000, 40, middle).as_millis(), 1000);
    }

    #[test]
    fn chance_moves_it_by_a_fifth() {
        for random in 0..2000 {
            let wait = backoff(1000, 1000, 1, random).as_millis();
            assert!((800..=1200).contains(&wait), "{wait}");
        }
    }
}
