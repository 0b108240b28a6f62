//! The simulator: Sillon's own crates, unchanged, in a world where one seed decides every answer.
//!
//! [`world`] is that world (clocks, network, disks, processes and their faults); [`decisions`] is where each of its
//! random values comes from, so that a run can be recorded, replayed and shrunk. Only this crate knows madsim.

#[cfg(not(madsim))]
compile_error!(
    "sillon-sim needs `--cfg madsim`. `.cargo/config.toml` of this workspace sets it, but RUSTFLAGS or \
     CARGO_ENCODED_RUSTFLAGS in your environment overrides that file. Unset the variable, or add `--cfg madsim` to \
     it, and run cargo from inside the workspace."
);

#[cfg(madsim)]
pub mod decisions;
#[cfg(madsim)]
pub mod world;
