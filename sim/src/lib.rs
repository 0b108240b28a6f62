//! The simulator: Sillon's own crates, unchanged, in a world where one seed decides every answer.
//!
//! [`world`] is that world (clocks, network, disks, processes and their faults); [`decisions`] is where each of its
//! random values comes from, so that a run can be recorded, replayed and shrunk. Only this crate knows madsim.
//!
//! ```text
//!   cli ── campaigns of seeds, replay, traces         report ── what they have come to
//!    └─ driver ── one run: phases, brokers, clients   repro ─── bundles of failing runs
//!        ├─ scenario, faults ── what to run, what goes wrong when
//!        ├─ workload ────────── clients                oracle ── what must hold
//!        └─ world, decisions
//!   app ── tests of a user's own application: the same runs, with the user's program as the client
//! ```

#[cfg(not(madsim))]
compile_error!(
    "sillon-sim needs `--cfg madsim`. `.cargo/config.toml` of this workspace sets it, but RUSTFLAGS or \
     CARGO_ENCODED_RUSTFLAGS in your environment overrides that file. Unset the variable, or add `--cfg madsim` to \
     it, and run cargo from inside the workspace."
);

pub use sillon_sim_macros::test;

#[cfg(madsim)]
pub mod app;
#[cfg(madsim)]
pub mod cli;
#[cfg(madsim)]
pub mod decisions;
#[cfg(madsim)]
pub mod driver;
#[cfg(madsim)]
pub mod faults;
#[cfg(madsim)]
pub mod oracle;
#[cfg(madsim)]
pub mod profile;
#[cfg(madsim)]
pub mod report;
#[cfg(madsim)]
pub mod repro;
#[cfg(madsim)]
pub mod scenario;
#[cfg(madsim)]
pub mod workload;
#[cfg(madsim)]
pub mod world;
