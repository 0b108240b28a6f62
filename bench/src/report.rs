//! What a suite found: values of each server, ratios of interleaved runs with their bounds, as a table for
//! people and as JSON. Never measures.

use serde::Serialize;
use std::fmt::{self, Display, Formatter};

/// The median; the mean of the middle two where there is an even number.
///
/// # Panics
/// If there are no values.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median of nothing");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The value below which `percent` of the sorted values lie.
///
/// # Panics
/// If there are no values.
pub fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// What one server gave in all runs.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The server.
    pub server: String,
    /// What was measured, with its unit.
    pub quantity: String,
    /// One value for each run, in the order of the runs.
    pub runs: Vec<f64>,
    /// Their median.
    pub median: f64,
}

/// A value that has to stay below a bound.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// What is compared.
    pub what: String,
    /// What came out.
    pub value: f64,
    /// What it must not exceed.
    pub bound: f64,
    /// Whether it does not.
    pub met: bool,
}

/// Everything that a suite found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The suite, with what was run.
    pub title: String,
    /// The values.
    pub measured: Vec<Measured>,
    /// The comparisons.
    pub verdicts: Vec<Verdict>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds what a server gave.
    ///
    /// # Panics
    /// If there are no runs.
    pub fn measure(&mut self, server: &str, quantity: &str, runs: Vec<f64>) {
        let median = median(&runs);
        self.measured.push(Measured {
            server: server.to_owned(),
            quantity: quantity.to_owned(),
            runs,
            median,
        });
    }

    /// The values of a server, for the ratios.
    ///
    /// # Panics
    /// If it was not measured: the suite that asks has measured it.
    fn runs(&self, server: &str, quantity: &str) -> &[f64] {
        let found = self.measured.iter().find(|one| one.server == server && one.quantity == quantity);
        &found.expect("measured before").runs
    }

    /// Compares two servers by the median of the ratios of the runs that were made one after the other.
    ///
    /// # Panics
    /// If one of them was not measured.
    pub fn bound_ratio(&mut self, server: &str, other: &str, quantity: &str, bound: f64) {
        let pairs = self.runs(server, quantity).iter().zip(self.runs(other, quantity));
        let ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
        self.bound(format!("{server} / {other}, {quantity}"), median(&ratios), bound);
    }

    /// Compares a value with its bound.
    pub fn bound(&mut self, what: String, value: f64, bound: f64) {
        self.verdicts.push(Verdict { what, value, bound, met: value <= bound });
    }

    /// Adds something that a reader has to know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether every bound is kept.
    pub fn met(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.met)
    }
}

impl Display for Report {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.title)?;
        for Measured { server, quantity, runs, median } in &self.measured {
            let (least, most) =
                runs.iter().fold((f64::MAX, f64::MIN), |(low, high), run| (low.min(*run), high.max(*run)));
            writeln!(formatter, "  {server:<14} {quantity:<28} {median:>10.3}   ({least:.3} to {most:.3})")?;
        }
        for Verdict { what, value, bound, met } in &self.verdicts {
            let word = if *met { "ok" } else { "MISSED" };
            writeln!(formatter, "  {word:<6} {what:<50} {value:>8.3}   bound {bound}")?;
        }
        for note in &self.notes {
            writeln!(formatter, "  note: {note}")?;
        }
        Ok(())
    }
}

/// Prints how many bounds of all reports are kept.
pub fn print_summary(reports: &[Report]) {
    let verdicts = reports.iter().flat_map(|report| &report.verdicts);
    let (met, missed): (Vec<_>, Vec<_>) = verdicts.partition(|verdict| verdict.met);
    println!("{} bounds kept, {} MISSED", met.len(), missed.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn percentiles() {
        let sorted: Vec<u64> = (0..1000).collect();
        assert_eq!(percentile(&sorted, 50), 500);
        assert_eq!(percentile(&sorted, 99), 990);
        assert_eq!(percentile(&[7], 99), 7);
    }

    #[test]
    fn a_ratio_is_the_median_of_the_pairs_and_not_the_ratio_of_the_medians() {
        let mut report = Report::new("test");
        report.measure("a", "s", vec![1.0, 8.0, 3.0]);
        report.measure("b", "s", vec![1.0, 4.0, 1.0]);
        report.bound_ratio("a", "b", "s", 2.0);
        assert_eq!(report.verdicts[0].value, 2.0);
        assert!(report.met());
        report.bound("x".to_owned(), 2.1, 2.0);
        assert!(!report.met());
        assert!(report.to_string().contains("MISSED"));
    }
}
