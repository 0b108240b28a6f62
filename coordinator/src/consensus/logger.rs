//! What the raft crate logs, forwarded to tracing. Owns the mapping of levels; never passes on what is below "info"
//! there (it names random values that decide nothing).

use slog::{Drain, KV, Key, Level, Logger, Never, OwnedKVList, Record, Serializer, o};
use std::fmt::{self, Write};

/// A logger for the raft crate.
pub(super) fn to_tracing() -> Logger {
    Logger::root(ToTracing, o!())
}

struct ToTracing;

struct Line(String);

impl Serializer for Line {
    fn emit_arguments(&mut self, key: Key, value: &fmt::Arguments<'_>) -> slog::Result {
        write!(self.0, ", {key} {value}").map_err(slog::Error::from)
    }
}

fn line(record: &Record<'_>, values: &OwnedKVList) -> String {
    let mut line = Line(record.msg().to_string());
    // A value that cannot be printed is left out.
    let _ = record.kv().serialize(record, &mut line);
    let _ = values.serialize(record, &mut line);
    line.0
}

impl Drain for ToTracing {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, values: &OwnedKVList) -> Result<(), Never> {
        match record.level() {
            Level::Critical | Level::Error => tracing::error!("raft: {}", line(record, values)),
            Level::Warning => tracing::warn!("raft: {}", line(record, values)),
            Level::Info if tracing::enabled!(tracing::Level::DEBUG) => {
                tracing::debug!("raft: {}", line(record, values));
            }
            Level::Info | Level::Debug | Level::Trace => {}
        }
        Ok(())
    }

    fn is_enabled(&self, level: Level) -> bool {
        level.is_at_least(Level::Info)
    }
}
