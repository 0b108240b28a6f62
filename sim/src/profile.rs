//! Where the time of a run goes: CPU cycles of its thread by part, each counted where it is spent and nowhere else.
//!
//! Off unless somebody asks for it ([`enable`]). Never part of what a run does: it reads the processor's own counter, which
//! no simulated clock hides, and its figures go to people alone.

use serde::Serialize;
use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A part of a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Part { $($(#[$doc])* $name,)* }

        impl Part {
            /// All of them.
            pub const ALL: &'static [Part] = &[$(Part::$name,)*];

            /// Its name, for people.
            pub const fn name(self) -> &'static str {
                match self { $(Part::$name => $text,)* }
            }
        }
    };
}

parts! {
    /// What is left: the executor, timers, the director of the run.
    Executor = "executor",
    /// The simulated network.
    Network = "network",
    /// The simulated disks.
    Disk = "disk",
    /// The oracle, and the words of the trace for it.
    Oracle = "oracle",
    /// The brokers' own code.
    Brokers = "brokers",
    /// The coordinators' own code.
    Coordinators = "coordinators",
    /// The clients' code.
    Clients = "clients",
}

const PARTS: usize = Part::ALL.len();

static ENABLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State { part: 0, since: 0, cycles: [0; PARTS] }) };
}

#[derive(Clone, Copy)]
struct State {
    part: usize,
    since: u64,
    cycles: [u64; PARTS],
}

/// Has runs count from now on, in all threads.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// The processor's counter of this moment.
fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reading the time-stamp counter has no effect, and every x86-64 has one.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    crate::driver::thread_cpu_ns()
}

/// Counts for the part that was before, once it is dropped.
#[derive(Debug)]
pub struct Within(Option<usize>);

/// What follows counts for `part`, as long as what is given lives.
pub fn within(part: Part) -> Within {
    Within(is_enabled().then(|| switch(part as usize)))
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            switch(before);
        }
    }
}

/// Counts for another part from now on. Gives the one before.
fn switch(part: usize) -> usize {
    let now = cycles();
    let mut state = STATE.get();
    state.cycles[state.part] += now.wrapping_sub(state.since);
    let before = std::mem::replace(&mut state.part, part);
    state.since = now;
    STATE.set(state);
    before
}

/// A run begins on this thread.
pub(crate) fn begin() {
    STATE.set(State { part: Part::Executor as usize, since: cycles(), cycles: [0; PARTS] });
}

/// A run on this thread is over, which took so much CPU time.
pub(crate) fn end(cpu_ns: u64) -> Profile {
    if !is_enabled() {
        return Profile::default();
    }
    switch(Part::Executor as usize);
    let cycles = STATE.get().cycles;
    let sum = cycles.iter().sum::<u64>().max(1);
    Profile { ns: cycles.map(|own| (u128::from(own) * u128::from(cpu_ns) / u128::from(sum)) as u64) }
}

/// How much CPU time each part took, in nanoseconds, in the order of [`Part::ALL`]. All zeros where nobody counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Profile {
    ns: [u64; PARTS],
}

impl Profile {
    /// Adds another run's.
    pub fn add(&mut self, other: &Profile) {
        for (sum, own) in self.ns.iter_mut().zip(other.ns) {
            *sum += own;
        }
    }

    /// CPU time of a part, in nanoseconds.
    pub fn of(&self, part: Part) -> u64 {
        self.ns[part as usize]
    }

    /// CPU time of all parts, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.ns.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_counts_what_is_spent_in_it_alone() {
        enable();
        begin();
        let mut kept = 0u64;
        {
            let _brokers = within(Part::Brokers);
            for number in 0..400_000u64 {
                kept = kept.wrapping_mul(31).wrapping_add(std::hint::black_box(number));
            }
            let _oracle = within(Part::Oracle);
        }
        std::hint::black_box(kept);
        let profile = end(1_000_000);
        assert!(profile.of(Part::Brokers) > 500_000, "{profile:?}");
        assert!(profile.of(Part::Oracle) < 200_000 && profile.of(Part::Disk) == 0, "{profile:?}");
        assert!((999_000..=1_000_000).contains(&profile.total_ns()));
    }
}
