//! Where checks give their verdicts: counts every evaluation, keeps every violation. Knows no invariant by itself.

use super::invariant::{Invariant, Violation};
use std::{collections::BTreeMap, sync::Arc};

/// After so many violations the rest is noise.
const MAX_VIOLATIONS: usize = 64;

/// The verdicts of one run, and what is being judged right now.
#[derive(Debug)]
pub struct Judge {
    now_ns: u64,
    node: Option<u32>,
    partition: Option<Arc<str>>,
    evaluations: Vec<u64>,
    violations: Vec<Violation>,
}

impl Judge {
    pub(super) fn new() -> Judge {
        Judge {
            now_ns: 0,
            node: None,
            partition: None,
            evaluations: vec![0; Invariant::ALL.len()],
            violations: Vec::new(),
        }
    }

    /// What the next demands are about.
    pub(super) fn at(&mut self, now_ns: u64, node: Option<u32>, partition: Option<&Arc<str>>) {
        self.now_ns = now_ns;
        self.node = node;
        self.partition = partition.cloned();
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Counts one evaluation that was not trivial, and keeps a violation where the condition does not hold.
    pub(super) fn demand(&mut self, invariant: Invariant, holds: bool, text: impl FnOnce() -> String) {
        self.evaluated(invariant);
        if !holds {
            self.violated(invariant, text());
        }
    }

    pub(super) fn evaluated(&mut self, invariant: Invariant) {
        self.evaluations[invariant as usize] += 1;
    }

    pub(super) fn violated(&mut self, invariant: Invariant, text: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            let partition = self.partition.as_deref().map(str::to_owned);
            self.violations.push(Violation {
                invariant,
                at_ns: self.now_ns,
                node: self.node,
                partition,
                text,
            });
        }
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(super) fn evaluations(&self) -> BTreeMap<Invariant, u64> {
        Invariant::ALL.iter().map(|invariant| (*invariant, self.evaluations[*invariant as usize])).collect()
    }
}
