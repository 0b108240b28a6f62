//! How much a member has served, for the four-letter words and the metrics. Owns the counts; decides nothing.

use std::time::Duration;

/// Counts since the start, or since they were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets from clients.
    pub packets_received: u64,
    /// Packets to clients.
    pub packets_sent: u64,
    /// Requests that wait for their reply.
    pub outstanding: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// The time all of them took.
    pub total_latency: Duration,
    /// The shortest time.
    pub minimum_latency: Option<Duration>,
    /// The longest time.
    pub maximum_latency: Duration,
}

impl Statistics {
    pub(super) fn answered(&mut self, latency: Duration) {
        self.packets_sent += 1;
        self.answered += 1;
        self.total_latency += latency;
        self.minimum_latency = Some(self.minimum_latency.map_or(latency, |shortest| shortest.min(latency)));
        self.maximum_latency = self.maximum_latency.max(latency);
    }

    /// Starts counting anew; what is outstanding stays so.
    pub fn reset(&mut self) {
        *self = Statistics { outstanding: self.outstanding, ..Statistics::default() };
    }

    /// Shortest, mean and longest time, in milliseconds.
    pub fn latency_ms(&self) -> (u64, f64, u64) {
        let whole = |latency: Duration| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        let mean = if self.answered == 0 {
            0.0
        } else {
            self.total_latency.as_secs_f64() * 1000.0 / self.answered as f64
        };
        (self.minimum_latency.map_or(0, whole), mean, whole(self.maximum_latency))
    }
}
