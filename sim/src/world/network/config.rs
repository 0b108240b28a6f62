//! What the network is like. Owns the numbers; moves no bytes.

use serde::{Deserialize, Serialize};

/// One direction between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkProfile {
    /// The shortest time that a segment takes.
    pub latency_min_us: u64,
    /// The longest time that an ordinary segment takes.
    pub latency_max_us: u64,
    /// How many segments in a million are of the long tail.
    pub tail_ppm: u32,
    /// The longest time that a segment of the long tail takes.
    pub tail_max_us: u64,
    /// How many segments in a million are lost, and sent again after the retransmission timeout.
    pub loss_ppm: u32,
    /// How many segments in a million have their connection reset instead.
    pub reset_ppm: u32,
    /// How many bytes pass in a second; 0 for no limit.
    pub bandwidth_bytes_per_second: u64,
}

impl LinkProfile {
    /// Between machines of one data centre, with some bad luck.
    pub const DATA_CENTRE: LinkProfile = LinkProfile {
        latency_min_us: 100,
        latency_max_us: 1_500,
        tail_ppm: 1_000,
        tail_max_us: 50_000,
        loss_ppm: 0,
        reset_ppm: 0,
        bandwidth_bytes_per_second: 0,
    };
    /// Within one machine.
    pub const LOOPBACK: LinkProfile = LinkProfile {
        latency_min_us: 10,
        latency_max_us: 50,
        tail_ppm: 0,
        tail_max_us: 0,
        loss_ppm: 0,
        reset_ppm: 0,
        bandwidth_bytes_per_second: 0,
    };
}

impl Default for LinkProfile {
    fn default() -> LinkProfile {
        LinkProfile::DATA_CENTRE
    }
}

/// The whole network, and what the machines' TCP is like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Each direction between two machines, where nothing else is set.
    pub link: LinkProfile,
    /// From each machine to itself.
    pub loopback: LinkProfile,
    /// How many bytes of one direction may be on their way or unread.
    pub window_bytes: usize,
    /// The most bytes that one write takes.
    pub segment_bytes: usize,
    /// How many writes in a million take only a part of what they could.
    pub partial_write_ppm: u32,
    /// How many reads in a million give only a part of what they could.
    pub partial_read_ppm: u32,
    /// The first wait before a segment is sent again; it doubles each time.
    pub retransmission_min_ms: u64,
    /// The longest wait before a segment is sent again. Linux has 120 s; with that, a connection may stand still for
    /// two minutes after a partition has healed.
    pub retransmission_max_ms: u64,
    /// After how long without an answer a connection with data on its way is given up (Linux: about 924 s).
    pub user_timeout_ms: u64,
    /// The first wait for an answer to a SYN; it doubles each time.
    pub syn_timeout_ms: u64,
    /// How often a SYN is sent again before a connect fails (Linux: 6, which makes 127 s).
    pub syn_retries: u32,
    /// How many connections may wait to be accepted; further SYNs are dropped.
    pub backlog: usize,
}

impl Default for NetworkConfig {
    fn default() -> NetworkConfig {
        NetworkConfig {
            link: LinkProfile::DATA_CENTRE,
            loopback: LinkProfile::LOOPBACK,
            window_bytes: 64 << 10,
            segment_bytes: 16 << 10,
            partial_write_ppm: 10_000,
            partial_read_ppm: 10_000,
            retransmission_min_ms: 200,
            retransmission_max_ms: 3_000,
            user_timeout_ms: 924_600,
            syn_timeout_ms: 1_000,
            syn_retries: 6,
            backlog: 128,
        }
    }
}
