//! One run: a world is built, servers boot in it, clients work, faults strike, the oracle judges.
//!
//! ```text
//!   RunInput (config, plan, seeds or tape)
//!      └─ run ── thread of its own ── World
//!            cluster   servers: start, exit     brokers, members   what each is made of and tells (ear)
//!            agenda    what happens when          act   carries out one step
//!            clients   the workload             judges             who is told what
//!            application   a user's own program in place of clients
//!            roles     who leads, follows, is controller    core      what alone is healed, where not everything is
//!            phases    safety ─► heal ─► liveness ─► final check
//!      └─► RunOutcome (hash, counts, verdict; tape and events where asked for)
//! ```
//! Owns the order of a run. Never judges (the oracle does), and draws nothing: all that is left to chance was drawn
//! before, or is one of the world's decisions.

mod act;
mod agenda;
mod application;
mod brokers;
mod clients;
mod cluster;
mod conditions;
mod core;
mod disks;
mod ear;
mod file_faults;
mod group_ear;
mod judges;
mod members;
mod phases;
mod roles;
mod session_trace;
mod split;

pub use application::Verdict;
pub(crate) use application::{Program, Stage};

use crate::{
    decisions::{Decisions, Divergence, Tape},
    faults::{FaultKind, PlannedFault},
    oracle::{Invariant, Statistics, Violation, coordinator::CoordinatorStatistics},
    profile::{self, Profile},
    scenario::DrawnConfig,
    world::{self, Event, Retention, Sink, World, now_ns, run_seeded},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Everything that determines a run.
#[derive(Clone, Debug)]
pub struct RunInput {
    /// The seed that configuration, plan and decisions were drawn from. Names the run; nothing is drawn from it here
    /// where a tape is given.
    pub seed: u64,
    /// Seeds the executor: the order in which ready tasks run.
    pub scheduler_seed: u64,
    /// The drawn configuration.
    pub config: DrawnConfig,
    /// Every fault.
    pub plan: Vec<PlannedFault>,
    /// Where the world's decisions come from.
    pub decisions: DecisionSource,
}

/// Where the world's decisions come from.
#[derive(Clone, Debug)]
pub enum DecisionSource {
    /// From the seed.
    Seed {
        /// Whether they are kept, for a bundle.
        record: bool,
    },
    /// From a bundle.
    Tape(Tape),
}

/// What of a run's events is wanted.
#[derive(Default)]
pub enum Watch {
    /// Their hash.
    #[default]
    Hash,
    /// All of them.
    Keep,
    /// Each as it happens.
    Show(Sink),
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Watch::Hash => "Hash",
            Watch::Keep => "Keep",
            Watch::Show(_) => "Show",
        })
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// An invariant did not hold.
    Violation(Violation),
    /// The product panicked.
    Panic {
        /// When, in nanoseconds of simulated time.
        at_ns: u64,
        /// On which machine, by its host name.
        machine: String,
        /// The task, the place and the message.
        text: String,
    },
    /// A broker ended without being asked to, or did not end when asked to.
    Broker {
        /// When, in nanoseconds of simulated time.
        at_ns: u64,
        /// On which machine, by its host name.
        machine: String,
        /// What it did.
        text: String,
    },
    /// A member of the ensemble did, or ended with an error that nothing explains.
    Member {
        /// When, in nanoseconds of simulated time.
        at_ns: u64,
        /// On which machine, by its host name.
        machine: String,
        /// What it did.
        text: String,
    },
    /// A user's program did not come to what it should.
    Application {
        /// When, in nanoseconds of simulated time.
        at_ns: u64,
        /// What it said.
        text: String,
    },
    /// The simulator itself broke: a panic outside every simulated process, or a standstill.
    Simulator {
        /// What it said.
        text: String,
    },
}

impl Failure {
    /// What failed, in a word: the invariant's number, `panic`, …
    pub fn name(&self) -> &'static str {
        match self {
            Failure::Violation(violation) => violation.invariant.name(),
            Failure::Panic { .. } => "panic",
            Failure::Broker { .. } => "broker",
            Failure::Member { .. } => "member",
            Failure::Application { .. } => "application",
            Failure::Simulator { .. } => "simulator",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |ns: u64| ns as f64 / 1e9;
        match self {
            Failure::Violation(violation) => violation.fmt(f),
            Failure::Panic { at_ns, machine, text }
            | Failure::Broker { at_ns, machine, text }
            | Failure::Member { at_ns, machine, text } => {
                write!(f, "{} at {:.6} s on {machine}: {text}", self.name(), at(*at_ns))
            }
            Failure::Application { at_ns, text } => write!(f, "at {:.6} s: {text}", at(*at_ns)),
            Failure::Simulator { text } => write!(f, "simulator: {text}"),
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Its seed.
    pub seed: u64,
    /// The hash over all events.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// Simulated time, in nanoseconds.
    pub simulated_ns: u64,
    /// CPU time of the run's thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Where it went, where somebody counted.
    pub profile: Profile,
    /// The plan's faults that struck, by kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// What that did to machines, disks and network, by the world's own count.
    pub effects: BTreeMap<world::FaultKind, u64>,
    /// How often each invariant was evaluated. Each is named.
    pub evaluations: BTreeMap<Invariant, u64>,
    /// How much happened.
    pub statistics: Statistics,
    /// How much happened in the ensemble.
    pub ensemble: CoordinatorStatistics,
    /// What was promised and lost as it may be, in words.
    pub out_of_contract: Vec<String>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The decisions, where they were recorded.
    pub tape: Tape,
    /// The events, where they were kept.
    pub trace: Vec<Event>,
    /// Where a replay left its tape.
    pub divergence: Option<Divergence>,
}

/// Runs a seed of a scenario, or a bundle's schedule.
pub fn run(input: RunInput, watch: Watch) -> RunOutcome {
    run_what(input, watch, None)
}

/// Runs a user's program in place of the scenario's clients.
pub(crate) fn run_application(input: RunInput, watch: Watch, program: &Program) -> RunOutcome {
    run_what(input, watch, Some(program.clone()))
}

fn run_what(input: RunInput, watch: Watch, program: Option<Program>) -> RunOutcome {
    let seed = input.seed;
    let result = run_seeded(input.scheduler_seed, move || whole_run(input, watch, program));
    result.unwrap_or_else(|panic| RunOutcome {
        seed,
        hash: 0,
        events: 0,
        simulated_ns: 0,
        cpu_ns: 0,
        profile: Profile::default(),
        faults: BTreeMap::new(),
        effects: BTreeMap::new(),
        evaluations: BTreeMap::new(),
        statistics: Statistics::default(),
        ensemble: CoordinatorStatistics::default(),
        out_of_contract: Vec::new(),
        failure: Some(Failure::Simulator { text: panic.to_string() }),
        tape: Tape::default(),
        trace: Vec::new(),
        divergence: None,
    })
}

async fn whole_run(input: RunInput, watch: Watch, program: Option<Program>) -> RunOutcome {
    let cpu_before_ns = thread_cpu_ns();
    profile::begin();
    let decisions = Arc::new(match input.decisions {
        DecisionSource::Seed { record } => Decisions::random(input.seed, record),
        DecisionSource::Tape(tape) => Decisions::replay(tape),
    });
    let retention = if matches!(watch, Watch::Keep) { Retention::All } else { Retention::None };
    let world = World::new(cluster::world_config(&input.config, retention), decisions.clone());
    if let Watch::Show(sink) = watch {
        world.trace().set_sink(Some(sink));
    }
    let application = program.as_ref().map(|program| (program, input.seed));
    let finished = phases::run(&world, &input.config, &input.plan, application).await;
    let trace = world.trace();
    let cpu_ns = thread_cpu_ns() - cpu_before_ns;
    RunOutcome {
        seed: input.seed,
        hash: trace.chain(),
        events: trace.count(),
        simulated_ns: now_ns(),
        cpu_ns,
        profile: profile::end(cpu_ns),
        faults: finished.faults,
        effects: world.fault_counts(),
        evaluations: finished.judges.evaluations(),
        statistics: finished.judges.statistics(),
        ensemble: finished.judges.ensemble_statistics(),
        out_of_contract: finished.judges.out_of_contract(),
        failure: finished.failure,
        tape: decisions.tape(),
        trace: trace.events(),
        divergence: decisions.divergence(),
    }
}

/// CPU time of this thread, by getrusage(2): madsim answers clock_gettime(2) with simulated time, but not this.
pub(crate) fn thread_cpu_ns() -> u64 {
    // SAFETY: the structure is plain numbers, for which zeros are a value, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) != 0 {
            return 0;
        }
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
