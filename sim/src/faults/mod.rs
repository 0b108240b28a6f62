//! What goes wrong, when, and where: the fault plan of a run.
//!
//! ```text
//!   [faults.KIND] rates ──┐
//!                         ├─ plan (drawn from the seed, before the run begins) ──► [(time, node, fault)] ──► driver
//!   [[script]] steps ─────┤                                                          │
//!   a bundle's plan ──────┘                                                          └─► bundle
//! ```
//! One file for each kind, named as the kind is: what it takes, how it is drawn, what it does to the world.
//! Owns the plan. Never draws while a run is under way: what the world decides in detail (which unsynced bytes
//! a power loss spares) is the world's own, recorded in its decision tapes.

mod aim;
mod bit_rot;
mod boot_loop;
mod clock_drift;
mod clock_jump;
mod connection_reset;
mod crash;
mod disk_full;
mod draws;
mod machines;
mod misdirected_write;
mod partition;
mod pause;
mod plan;
mod power_loss;
mod read_error;
mod restart;
mod rolling_restart;
mod slow_disk;
mod step;
mod sync_failure;
mod torn_write;
mod write_error;

pub use aim::{Aim, ServerRole};
pub use draws::Draws;
pub use machines::{Machines, Target};
pub use plan::{PlannedFault, draw_plan};
pub use step::{DiskChange, Step, Steps};

use crate::scenario::units::{Between, Quantity, SignedNanos, human_bytes, human_nanos, human_signed_nanos};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which way a partition blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Nothing passes.
    Both,
    /// The node receives nothing; what it sends arrives.
    In,
    /// What the node sends is lost on the way; it still receives.
    Out,
}

/// Between which machines a partition runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Between the machine and all others.
    Isolate,
    /// Between two halves of the servers, the machine in one of them. Each client is in one half or reaches both.
    Halves,
    /// As halves, but the machine reaches both.
    Bridge,
    /// Between the machine and all brokers. It still reaches the coordinator and the clients.
    #[serde(rename = "from-brokers")]
    FromBrokers,
    /// Between the machine and all members of the ensemble. It still reaches the brokers and the clients.
    #[serde(rename = "from-coordinators")]
    FromMembers,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Isolate => "isolate",
            Shape::Halves => "halves",
            Shape::Bridge => "bridge",
            Shape::FromBrokers => "from-brokers",
            Shape::FromMembers => "from-coordinators",
        })
    }
}

/// A partition's shape as a scenario writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShapeChoice {
    /// See [`Shape::Isolate`].
    Isolate,
    /// See [`Shape::Halves`].
    Halves,
    /// See [`Shape::Bridge`].
    Bridge,
    /// See [`Shape::FromBrokers`].
    #[serde(rename = "from-brokers")]
    FromBrokers,
    /// See [`Shape::FromMembers`].
    #[serde(rename = "from-coordinators")]
    FromMembers,
    /// Isolate, halves or bridge.
    Any,
    /// Any of them all.
    #[serde(rename = "any-in-cluster")]
    AnyInCluster,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Both => "both",
            Direction::In => "in",
            Direction::Out => "out",
        })
    }
}

/// What a fault may be given in a scenario, by the name of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// How long it lasts.
    Duration,
    /// How long each operation takes meanwhile.
    Latency,
    /// By how much a clock moves.
    By,
    /// How much too fast a clock runs.
    PartsPerMillion,
    /// How many operations are hit.
    Operations,
    /// How much room is left.
    FreeBytes,
    /// Which way.
    Direction,
    /// Between which machines.
    Shape,
}

impl Parameter {
    /// Its key in a scenario file.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Duration => "duration",
            Parameter::Latency => "latency",
            Parameter::By => "by",
            Parameter::PartsPerMillion => "parts_per_million",
            Parameter::Operations => "operations",
            Parameter::FreeBytes => "free_bytes",
            Parameter::Direction => "direction",
            Parameter::Shape => "shape",
        }
    }
}

/// One kind of fault as it is listed, checked and drawn.
struct KindEntry {
    name: &'static str,
    summary: &'static str,
    /// Each parameter with its default (as a scenario would write it) and its meaning.
    parameters: &'static [(Parameter, &'static str, &'static str)],
    /// Draws the explicit faults of one strike.
    draw: fn(&Ranges, &mut Draws) -> Vec<(u64, Fault)>,
    /// The kinds that a strike consists of; empty where it is itself.
    consists_of: &'static [FaultKind],
    /// Each fault of a strike hits the machine after the one before, until all machines have had theirs.
    goes_round: bool,
}

macro_rules! kinds {
    ($($variant:ident => $module:ident,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FaultKind {
            $(#[doc = concat!("See the file faults/", stringify!($module), ".rs.")] $variant,)*
        }

        impl FaultKind {
            /// Every kind.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$variant,)*];

            fn entry(self) -> &'static KindEntry {
                match self {
                    $(FaultKind::$variant => &$module::ENTRY,)*
                }
            }
        }
    };
}

kinds! {
    BitRot => bit_rot,
    BootLoop => boot_loop,
    ClockDrift => clock_drift,
    ClockJump => clock_jump,
    ConnectionReset => connection_reset,
    Crash => crash,
    DiskFull => disk_full,
    MisdirectedWrite => misdirected_write,
    Partition => partition,
    Pause => pause,
    PowerLoss => power_loss,
    ReadError => read_error,
    Restart => restart,
    RollingRestart => rolling_restart,
    SlowDisk => slow_disk,
    SyncFailure => sync_failure,
    TornWrite => torn_write,
    WriteError => write_error,
}

impl FaultKind {
    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it does, in one sentence.
    pub fn summary(self) -> &'static str {
        self.entry().summary
    }

    /// Each parameter with its default and its meaning.
    pub fn parameters(self) -> &'static [(Parameter, &'static str, &'static str)] {
        self.entry().parameters
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The kinds of the single faults that a strike injects: mostly this one alone.
    pub fn consists_of(self) -> Vec<FaultKind> {
        match self.entry().consists_of {
            [] => vec![self],
            kinds => kinds.to_vec(),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One fault with its explicit parameters: nothing is left to chance but what the world's tapes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Bytes on the disk change.
    BitRot(bit_rot::BitRot),
    /// A clock runs too fast or too slow.
    ClockDrift(clock_drift::ClockDrift),
    /// The wall clock steps.
    ClockJump(clock_jump::ClockJump),
    /// Connections are cut.
    ConnectionReset(connection_reset::ConnectionReset),
    /// The process dies.
    Crash(crash::Crash),
    /// No room on the disk.
    DiskFull(disk_full::DiskFull),
    /// A write lands elsewhere.
    MisdirectedWrite(misdirected_write::MisdirectedWrite),
    /// The network between machines breaks.
    Partition(partition::Partition),
    /// The process stands still.
    Pause(pause::Pause),
    /// The machine loses power.
    PowerLoss(power_loss::PowerLoss),
    /// Reads fail.
    ReadError(read_error::ReadError),
    /// The process is stopped as an operator would, and started again.
    Restart(restart::Restart),
    /// The disk is slow.
    SlowDisk(slow_disk::SlowDisk),
    /// Syncs fail.
    SyncFailure(sync_failure::SyncFailure),
    /// Power is lost while a write is half done.
    TornWrite(torn_write::TornWrite),
    /// Writes fail.
    WriteError(write_error::WriteError),
}

impl Fault {
    /// Its kind.
    pub fn kind(&self) -> FaultKind {
        match self {
            Fault::BitRot(_) => FaultKind::BitRot,
            Fault::ClockDrift(_) => FaultKind::ClockDrift,
            Fault::ClockJump(_) => FaultKind::ClockJump,
            Fault::ConnectionReset(_) => FaultKind::ConnectionReset,
            Fault::Crash(_) => FaultKind::Crash,
            Fault::DiskFull(_) => FaultKind::DiskFull,
            Fault::MisdirectedWrite(_) => FaultKind::MisdirectedWrite,
            Fault::Partition(_) => FaultKind::Partition,
            Fault::Pause(_) => FaultKind::Pause,
            Fault::PowerLoss(_) => FaultKind::PowerLoss,
            Fault::ReadError(_) => FaultKind::ReadError,
            Fault::Restart(_) => FaultKind::Restart,
            Fault::SlowDisk(_) => FaultKind::SlowDisk,
            Fault::SyncFailure(_) => FaultKind::SyncFailure,
            Fault::TornWrite(_) => FaultKind::TornWrite,
            Fault::WriteError(_) => FaultKind::WriteError,
        }
    }

    /// What it consists of, each act with its time after the strike in nanoseconds.
    pub fn steps(&self) -> Steps {
        match self {
            Fault::BitRot(fault) => fault.steps(),
            Fault::ClockDrift(fault) => fault.steps(),
            Fault::ClockJump(fault) => fault.steps(),
            Fault::ConnectionReset(fault) => fault.steps(),
            Fault::Crash(fault) => fault.steps(),
            Fault::DiskFull(fault) => fault.steps(),
            Fault::MisdirectedWrite(fault) => fault.steps(),
            Fault::Partition(fault) => fault.steps(),
            Fault::Pause(fault) => fault.steps(),
            Fault::PowerLoss(fault) => fault.steps(),
            Fault::ReadError(fault) => fault.steps(),
            Fault::Restart(fault) => fault.steps(),
            Fault::SlowDisk(fault) => fault.steps(),
            Fault::SyncFailure(fault) => fault.steps(),
            Fault::TornWrite(fault) => fault.steps(),
            Fault::WriteError(fault) => fault.steps(),
        }
    }

    /// Whether it changes bytes that had been synced, so that they are lost.
    pub fn damages_what_is_stored(&self) -> bool {
        matches!(self, Fault::BitRot(_) | Fault::MisdirectedWrite(_))
    }

    /// When the machine's process runs again, in nanoseconds after the strike; nothing where it goes on running.
    pub fn down_until_ns(&self) -> Option<u64> {
        self.steps().into_iter().find(|(_, step)| *step == Step::Start).map(|(after_ns, _)| after_ns)
    }
}

/// Its name and parameters: `power-loss for 2s`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind().name();
        match self {
            Fault::BitRot(fault) => write!(f, "{name} of {} bits", fault.bits),
            Fault::ClockDrift(fault) => {
                write!(f, "{name} {:+} ppm for {}", fault.parts_per_million, human_nanos(fault.duration_ns))
            }
            Fault::ClockJump(fault) => write!(f, "{name} {}", human_signed_nanos(fault.by_ns)),
            Fault::ConnectionReset(fault) => affected(f, name, fault.parts_per_million, fault.duration_ns),
            Fault::Crash(fault) => write!(f, "{name}, down {}", human_nanos(fault.down_ns)),
            Fault::DiskFull(fault) => {
                write!(
                    f,
                    "{name}, {} free, for {}",
                    human_bytes(fault.free_bytes),
                    human_nanos(fault.duration_ns)
                )
            }
            Fault::MisdirectedWrite(fault) => affected(f, name, fault.parts_per_million, fault.duration_ns),
            Fault::Partition(fault) => {
                let shape = fault.shape.map_or_else(String::new, |(shape, _)| format!(" {shape}"));
                write!(f, "{name}{shape} {} for {}", fault.direction, human_nanos(fault.duration_ns))
            }
            Fault::Pause(fault) => write!(f, "{name} for {}", human_nanos(fault.duration_ns)),
            Fault::PowerLoss(fault) => write!(f, "{name}, down {}", human_nanos(fault.down_ns)),
            Fault::ReadError(fault) => affected(f, name, fault.parts_per_million, fault.duration_ns),
            Fault::Restart(fault) => write!(f, "{name}, down {}", human_nanos(fault.down_ns)),
            Fault::SlowDisk(fault) => write!(
                f,
                "{name}, {} an operation, for {}",
                human_nanos(fault.latency_ns),
                human_nanos(fault.duration_ns)
            ),
            Fault::SyncFailure(fault) => affected(f, name, fault.parts_per_million, fault.duration_ns),
            Fault::TornWrite(fault) => write!(f, "{name}, down {}", human_nanos(fault.down_ns)),
            Fault::WriteError(fault) => affected(f, name, fault.parts_per_million, fault.duration_ns),
        }
    }
}

fn affected(f: &mut fmt::Formatter<'_>, name: &str, parts_per_million: u32, duration_ns: u64) -> fmt::Result {
    write!(f, "{name} {:.1} % for {}", f64::from(parts_per_million) / 1e4, human_nanos(duration_ns))
}

/// What a strike's parameters are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Nanoseconds.
    pub duration_ns: Between<u64>,
    /// Nanoseconds.
    pub latency_ns: Between<u64>,
    /// Nanoseconds, of either sign.
    pub by_ns: Between<i64>,
    /// Parts per million, of either sign.
    pub parts_per_million: Between<i64>,
    /// A count.
    pub operations: Between<u64>,
    /// Bytes.
    pub free_bytes: Between<u64>,
    /// A direction, or any.
    pub direction: Option<Direction>,
    /// A shape of partition.
    pub shape: ShapeChoice,
}

impl Ranges {
    /// What the kind takes where a scenario says nothing.
    pub fn defaults(kind: FaultKind) -> Ranges {
        let mut ranges = Ranges {
            duration_ns: Between::only(0),
            latency_ns: Between::only(0),
            by_ns: Between::only(0),
            parts_per_million: Between::only(0),
            operations: Between::only(0),
            free_bytes: Between::only(0),
            direction: None,
            shape: ShapeChoice::Isolate,
        };
        for (parameter, default, _) in kind.parameters() {
            match parameter {
                Parameter::Duration => ranges.duration_ns = default_range(default, unsigned_nanos),
                Parameter::Latency => ranges.latency_ns = default_range(default, unsigned_nanos),
                Parameter::By => ranges.by_ns = default_range(default, nanos),
                Parameter::PartsPerMillion => ranges.parts_per_million = default_range(default, number),
                Parameter::Operations => ranges.operations = default_range(default, number),
                Parameter::FreeBytes => ranges.free_bytes = default_range(default, number),
                Parameter::Direction | Parameter::Shape => {}
            }
        }
        ranges
    }
}

fn nanos(text: &str) -> i64 {
    SignedNanos::from_text(text).expect("the defaults of a fault are legal").0
}

fn unsigned_nanos(text: &str) -> u64 {
    nanos(text).unsigned_abs()
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("the defaults of a fault are legal")
}

fn default_range<T: Copy>(text: &str, read: impl Fn(&str) -> T) -> Between<T> {
    match text.split_once("..") {
        None => Between::only(read(text)),
        Some((from, to)) => Between { from: read(from), to: read(to) },
    }
}

/// `[faults.KIND]`, checked.
#[derive(Clone, Debug)]
pub struct FaultRate {
    /// What strikes.
    pub kind: FaultKind,
    /// How often, on average, in a minute of simulated time.
    pub per_minute: f64,
    /// Where.
    pub on: Target,
    /// What the machine does that is hit, where that decides; else any of `on`.
    pub role: Option<ServerRole>,
    /// Each machine of `on` is hit, at the same time.
    pub all_at_once: bool,
    /// What its parameters are drawn from.
    pub ranges: Ranges,
}

/// A `[[script]]` step, checked.
#[derive(Clone, Debug)]
pub struct ScriptedFault {
    /// When, in nanoseconds from the start of the safety phase.
    pub at_ns: u64,
    /// The machines.
    pub place: Place,
    /// What strikes.
    pub kind: FaultKind,
    /// What its parameters are drawn from.
    pub ranges: Ranges,
}

/// Where a step of a script strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine.
    Machine(u32),
    /// On a machine that does this then.
    Role(ServerRole),
    /// On all of these, at the same time.
    All(Target),
}

impl FaultKind {
    /// Whether a strike is one fault on one machine: only such a kind can be aimed at a role, or hit all machines at once.
    pub fn is_single(self) -> bool {
        self.entry().consists_of.is_empty()
    }
}

/// A fault with the parameters that its kind has by default, for tests.
#[cfg(test)]
pub(crate) fn some_fault(kind: FaultKind, draws: &mut Draws) -> Fault {
    (kind.entry().draw)(&Ranges::defaults(kind), draws)[0].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_legal_defaults_and_draws_what_it_says() {
        let mut draws = Draws::new(7, "test");
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_name(kind.name()), Some(*kind));
            for _ in 0..20 {
                let strike = (kind.entry().draw)(&Ranges::defaults(*kind), &mut draws);
                assert!(!strike.is_empty(), "{kind}");
                assert!(strike.iter().all(|(_, fault)| kind.consists_of().contains(&fault.kind())), "{kind}");
            }
        }
    }

    #[test]
    fn names_are_sorted_as_they_are_listed() {
        assert!(FaultKind::ALL.windows(2).all(|pair| pair[0].name() < pair[1].name()));
    }
}
