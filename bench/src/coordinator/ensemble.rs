//! Ensembles that are started, stopped and killed through the scripts in conformance/: our own, and a real ZooKeeper.

use crate::{Result, process};
use std::{net::SocketAddr, path::PathBuf, process::Command};

/// An ensemble with its own directory and ports.
#[derive(Debug)]
pub struct Ensemble {
    /// Its name in tables.
    pub name: &'static str,
    script: PathBuf,
    members: usize,
    directory: PathBuf,
    base_port: u16,
}

impl Ensemble {
    /// One that is not started yet. `script` is conformance/ensemble.sh, or another that takes its commands; member N
    /// listens on `base_port` + N.
    pub fn new(
        name: &'static str,
        script: PathBuf,
        members: usize,
        directory: PathBuf,
        base_port: u16,
    ) -> Self {
        Self { name, script, members, directory, base_port }
    }

    /// Starts all members, with no data.
    ///
    /// # Errors
    /// What the script says where one does not serve.
    pub fn start_empty(&self) -> Result<()> {
        self.order(&["remove"])?;
        self.order(&["start"])?;
        Ok(())
    }

    /// Kills all members and removes their data.
    ///
    /// # Errors
    /// What the script says.
    pub fn remove(&self) -> Result<()> {
        self.order(&["remove"]).map(drop)
    }

    /// Kills the member that leads; gives its number.
    ///
    /// # Errors
    /// Where none leads.
    pub fn kill_leader(&self) -> Result<String> {
        let leader = self.order(&["leader"])?.trim().to_owned();
        self.order(&["kill", &leader])?;
        Ok(leader)
    }

    /// Starts a member again and waits until it serves.
    ///
    /// # Errors
    /// What the script says where it does not.
    pub fn start(&self, member: &str) -> Result<()> {
        self.order(&["start", member]).map(drop)
    }

    /// Where the members listen.
    ///
    /// # Errors
    /// What the script says.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let text = self.order(&["connect"])?;
        text.trim().split(',').map(|address| Ok(address.parse()?)).collect()
    }

    /// Where the leading member listens.
    ///
    /// # Errors
    /// Where none leads.
    pub fn leader_address(&self) -> Result<SocketAddr> {
        let leader: usize = self.order(&["leader"])?.trim().parse()?;
        Ok(self.addresses()?[leader - 1])
    }

    /// The CPU seconds of all members so far.
    ///
    /// # Errors
    /// A member that does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.pids()?.into_iter().map(process::cpu_seconds).sum()
    }

    /// The resident memory of all members, in bytes.
    ///
    /// # Errors
    /// A member that does not run.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.pids()?.into_iter().map(process::resident_bytes).sum()
    }

    /// The process ids of the members.
    ///
    /// # Errors
    /// A member that does not run.
    pub fn pids(&self) -> Result<Vec<u32>> {
        // Of each member a line: number, address, mode, process id.
        self.order(&["status"])?
            .lines()
            .map(|line| {
                let pid = line.split_whitespace().nth(3).and_then(|word| word.parse().ok());
                Ok(pid.ok_or_else(|| format!("{}: a member does not run: {line}", self.name))?)
            })
            .collect()
    }

    fn order(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.script)
            .args(words)
            .env("ENSEMBLE_SIZE", self.members.to_string())
            .env("ENSEMBLE_DIRECTORY", &self.directory)
            .env("ENSEMBLE_PORT", self.base_port.to_string())
            .output()
            .map_err(|error| format!("{}: {error}", self.script.display()))?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} {}: {told}", self.script.display(), words.join(" ")).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("{} may still run: {error}", self.name);
        }
    }
}
