//! How soon a broker answers, and how much memory it takes when nothing happens.

use super::{BROKER, Settings};
use crate::{
    Result,
    client::Connection,
    process,
    process::Server,
    report::{Report, median},
};
use std::{fs, thread::sleep, time::Duration};

const START: &str = "ms to the first answer";
const MEMORY: &str = "MiB at rest";
const START_BOUND_MS: f64 = 100.0;
const MEMORY_BOUND_MIB: f64 = 40.0;

/// From the start on an empty directory to the first answer to ApiVersions, and the resident memory two seconds later.
///
/// # Errors
/// A broker that does not start or answers with an error.
pub fn startup(settings: &Settings) -> Result<Vec<Report>> {
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for turn in 0..settings.pairs {
        let name = format!("startup-{turn}");
        let mut server = Server::start(&settings.broker_program(&name, None)?)?;
        drop(server.wait_until_listening(Duration::from_secs(30))?);
        Connection::connect(server.address)?.api_versions()?;
        times.push(server.started.elapsed().as_secs_f64() * 1e3);
        sleep(Duration::from_secs(2));
        memory.push(process::resident_bytes(server.pid())? as f64 / f64::from(1 << 20));
        server.kill()?;
        fs::remove_dir_all(settings.work.join(&name))?;
    }
    let mut report = Report::new(format!("start on an empty directory: {} runs", settings.pairs));
    let (time, most) = (median(&times), memory.iter().copied().fold(0.0, f64::max));
    report.measure(BROKER, START, times);
    report.measure(BROKER, MEMORY, memory);
    report.bound(format!("{BROKER}, {START}"), time, START_BOUND_MS);
    report.bound(format!("{BROKER}, {MEMORY}, the most of all runs"), most, MEMORY_BOUND_MIB);
    Ok(vec![report])
}
