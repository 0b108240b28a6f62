//! The keys of the cleaner, which compacts logs. Owns their part of the table, with Kafka's defaults; what a topic says of its
//! own compaction is among the topics' keys.

use super::{Key, Kind, NOT_NEGATIVE, broker, while_running};

/// The keys `log.cleaner.*` that are not the defaults of a topic's keys.
pub const CLEANER_KEYS: &[Key] = &[
    while_running(
        "log.cleaner.backoff.ms",
        NOT_NEGATIVE,
        "15000",
        "How long the cleaner waits before it looks again where there was no log to clean.",
    ),
    while_running(
        "log.cleaner.dedupe.buffer.size",
        NOT_NEGATIVE,
        "134217728",
        "How much memory the keys of logs that are being compacted may take, in all threads together.",
    ),
    broker("log.cleaner.enable", Kind::Boolean, "true", "Whether logs are compacted at all."),
    while_running(
        "log.cleaner.io.buffer.load.factor",
        Kind::Double,
        "0.9",
        "Which part of the memory for keys is used.",
    ),
    while_running(
        "log.cleaner.io.buffer.size",
        Kind::Int(0, i32::MAX),
        "524288",
        "How much a cleaner writes at a time, in all threads together.",
    ),
    while_running(
        "log.cleaner.io.max.bytes.per.second",
        Kind::Double,
        "1.7976931348623157E308",
        "How much cleaners may read and write per second, in all threads together.",
    ),
    broker(
        "log.cleaner.threads",
        Kind::Int(0, i32::MAX),
        "1",
        "How many logs are compacted at the same time.",
    ),
];
