//! Scenarios: what to run, as TOML files that people write.
//!
//! ```text
//!   file ──► model (shape, units) ──► check (ranges, combinations, names) ──► Scenario
//!                                                                               │ + seed
//!                                                                               ▼
//!                                                            draw: DrawnConfig + fault plan of one run
//! ```
//! Owns reading, checking and drawing. Every mistake is reported with file, line, column and what to write instead.
//! Never runs anything.
#![allow(clippy::disallowed_methods)] // Scenario files lie on the real disk.

mod check;
mod cluster;
mod draw;
mod ensemble;
mod error;
mod groups;
mod model;
mod places;
mod properties;
pub mod units;

pub use check::Expectations;
pub use cluster::DrawnHeal;
pub use draw::{DrawnClock, DrawnConfig, DrawnDisk, DrawnNetwork, DrawnTopics};
pub use ensemble::{CLIENT_PORT, DATA_DIRECTORY, DrawnEnsemble};
pub use error::{ScenarioError, Source, nearest, suggestion};

use crate::faults::{FaultKind, FaultRate, ScriptedFault};
use std::path::{Path, PathBuf};

/// A scenario file, read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    source: Source,
    file: model::File,
    rates: Vec<FaultRate>,
    script: Vec<ScriptedFault>,
    expect: Expectations,
}

/// A scenario could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is longer than any scenario.
    #[error("{path}: {length} bytes are too many for a scenario: {LENGTH_MAX_BYTES} is the most", path = path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        length: u64,
    },
    /// The file has a mistake.
    #[error(transparent)]
    Invalid(#[from] ScenarioError),
}

const LENGTH_MAX_BYTES: u64 = 1 << 20;

impl Scenario {
    /// Reads and checks a scenario. `source_name` is how errors name it.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(source_name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let source = Source { name: source_name.to_string(), text: text.to_string() };
        let file: model::File = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        let check::Resolved { rates, script, expect } = check::check(&source, &file)?;
        Ok(Scenario { source, file, rates, script, expect })
    }

    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// The file cannot be read, or its first mistake.
    pub fn load(path: &Path) -> Result<Scenario, LoadError> {
        let io = |error| LoadError::Io { path: path.to_path_buf(), error };
        let length = std::fs::metadata(path).map_err(io)?.len();
        if length > LENGTH_MAX_BYTES {
            return Err(LoadError::TooLong { path: path.to_path_buf(), length });
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        Ok(Scenario::parse(&path.display().to_string(), &text)?)
    }

    /// Its name, which is also its file's.
    pub fn name(&self) -> &str {
        self.file.name.get_ref()
    }

    /// What it is about.
    pub fn description(&self) -> &str {
        self.file.description.get_ref().trim()
    }

    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// Where it was read from, as the user named it.
    pub fn source_name(&self) -> &str {
        &self.source.name
    }

    /// Whether it has brokers.
    pub fn has_brokers(&self) -> bool {
        self.file.brokers() > 0
    }

    /// Whether some of its runs have several brokers.
    pub fn has_clusters(&self) -> bool {
        self.file.brokers() > 1
    }

    /// Whether it has consumer groups.
    pub fn has_groups(&self) -> bool {
        self.file.groups.count.get_ref().0 > 0
    }

    /// Whether it has a coordinator ensemble.
    pub fn has_ensemble(&self) -> bool {
        self.file.ensemble.is_some()
    }

    /// What a campaign has to show.
    pub fn expectations(&self) -> &Expectations {
        &self.expect
    }

    /// Every kind of fault that it may inject.
    pub fn fault_kinds(&self) -> Vec<FaultKind> {
        let mut kinds: Vec<FaultKind> =
            self.rates.iter().map(|rate| rate.kind).chain(self.script.iter().map(|step| step.kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// The kinds that runs count: those that others consist of stand for themselves.
    pub fn injected_kinds(&self) -> Vec<FaultKind> {
        let named = self.fault_kinds();
        let mut kinds: Vec<FaultKind> = named.iter().flat_map(|kind| kind.consists_of()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Replaces the length of the safety phase, and with it how much is injected.
    pub fn set_safety_ns(&mut self, safety_ns: u64) {
        let span = self.file.phases.safety.span();
        self.file.phases.safety = toml::Spanned::new(span, units::Nanos(safety_ns));
        self.script.retain(|step| step.at_ns < safety_ns);
    }
}

#[cfg(test)]
mod tests;
