//! How long a broker takes to check the logs that a crash has left, against reading the same files and
//! computing the same checksums.

use super::{BROKER, FLOOR, Settings};
use crate::{Result, client::Connection, load, process, process::Server, report::Report};
use crc_fast::{CrcAlgorithm, checksum};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

const SECONDS: &str = "s";
const CPU: &str = "CPU s";
const BOUND: f64 = 1.5;
const PARTITIONS: i32 = 4;
const TOPIC: &str = "recovery";
const READ_BYTES: usize = 1 << 20;
/// Bytes of a batch in front of those that the checksum covers, and of its header.
const CHECKSUMMED_FROM: usize = 21;
const HEADER_BYTES: usize = 61;
/// Bytes in front of those that the batch's length counts.
const LENGTH_EXCLUDES: usize = 12;
/// Less CPU than this part of what the checksums alone take means that the files were not read.
const LEAST_PART: f64 = 0.5;

/// A broker killed after a gigabyte in four partitions, started again; each run on the same files.
///
/// # Errors
/// A broker that does not start or that does not find its records again.
pub fn recovery(settings: &Settings) -> Result<Vec<Report>> {
    // Not less in a short run: the start itself would be most of what is measured.
    let volume = 1_000_000_000;
    let crashed = settings.work.join("recovery-crashed");
    let ends = crash(settings, volume)?;
    fs::rename(settings.work.join("recovery"), &crashed)?;
    let (mut broker, mut broker_cpu, mut floor, mut floor_cpu) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.pairs {
        // Both read the same copy, which is in the page cache.
        let data = settings.work.join("recovery");
        copy_directory(&crashed, &data)?;
        let (seconds, cpu) = read_and_check(&data)?;
        floor.push(seconds);
        floor_cpu.push(cpu);
        let (seconds, cpu) = recover(settings, &ends)?;
        broker.push(seconds);
        broker_cpu.push(cpu);
    }
    let mut report = Report::new(format!(
        "recovery after kill -9, {PARTITIONS} partitions, {} MB in all, cached: {} runs",
        volume / 1_000_000,
        settings.pairs
    ));
    let least = |cpu: &[f64]| cpu.iter().copied().fold(f64::MAX, f64::min);
    let checked = least(&broker_cpu) >= LEAST_PART * least(&floor_cpu);
    report.measure(BROKER, SECONDS, broker);
    report.measure(BROKER, CPU, broker_cpu);
    report.measure(FLOOR, SECONDS, floor);
    report.measure(FLOOR, CPU, floor_cpu);
    report.bound_ratio(BROKER, FLOOR, SECONDS, BOUND);
    report.bound("the logs were not checked (1) or were (0)".to_owned(), f64::from(u8::from(!checked)), 0.0);
    report.note("the files are on the disk and in the page cache, so that neither side waits for the disk");
    report.note("the broker's time is all from its start until every partition tells its log end offset");
    Ok(vec![report])
}

/// Fills the partitions and kills the broker; gives their log end offsets.
fn crash(settings: &Settings, volume: u64) -> Result<Vec<i64>> {
    let server = Server::start_and_wait(&settings.broker_program("recovery", None)?)?;
    let mut connection = Connection::connect(server.address)?;
    connection.create_topic(TOPIC, PARTITIONS)?;
    let each = volume / u64::try_from(PARTITIONS)?;
    for partition in 0..PARTITIONS {
        load::produce_to(server.address, TOPIC, partition, 1, 128 * 1024, each)?;
    }
    let ends = log_end_offsets(&mut connection)?;
    server.kill()?;
    Ok(ends)
}

fn log_end_offsets(connection: &mut Connection) -> Result<Vec<i64>> {
    (0..PARTITIONS).map(|partition| connection.log_end_offset(TOPIC, partition)).collect()
}

/// Starts a broker on a copy of the crashed one's files; gives how long it took, in wall and CPU seconds.
fn recover(settings: &Settings, ends: &[i64]) -> Result<(f64, f64)> {
    let mut server = Server::start(&settings.broker_program("recovery", None)?)?;
    drop(server.wait_until_listening(Duration::from_secs(60))?);
    let mut connection = Connection::connect(server.address)?;
    // A broker may listen before its logs are open.
    while let Err(error) = log_end_offsets(&mut connection) {
        if server.started.elapsed() > Duration::from_secs(60) {
            return Err(error);
        }
        sleep(Duration::from_millis(1));
        connection = Connection::connect(server.address)?;
    }
    let (seconds, cpu) = (server.started.elapsed().as_secs_f64(), process::cpu_seconds(server.pid())?);
    let found = log_end_offsets(&mut connection)?;
    if found != ends {
        return Err(format!("after recovery the logs end at {found:?}, not at {ends:?}").into());
    }
    server.kill()?;
    fs::remove_dir_all(settings.work.join("recovery"))?;
    Ok((seconds, cpu))
}

/// Reads every log file in large pieces and computes the checksum of each batch, on one thread.
fn read_and_check(directory: &Path) -> Result<(f64, f64)> {
    let (start, cpu_before) = (Instant::now(), process::thread_cpu_seconds()?);
    let mut buffer = vec![0; READ_BYTES];
    for path in log_files(directory)? {
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        let mut position = 0;
        while position < length {
            let read = file.read_at(&mut buffer, position)?;
            let taken = check_batches(&buffer[..read])?;
            if taken == 0 {
                return Err(format!("{}: no whole batch at {position}", path.display()).into());
            }
            position += taken as u64;
        }
    }
    Ok((start.elapsed().as_secs_f64(), process::thread_cpu_seconds()? - cpu_before))
}

/// Checks the whole batches at the start of `bytes`; gives how many bytes they are.
fn check_batches(bytes: &[u8]) -> Result<usize> {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        let length = u32::from_be_bytes(header[8..12].try_into()?);
        let end = at + LENGTH_EXCLUDES + length as usize;
        let Some(batch) = bytes.get(at..end) else { break };
        let stored = u32::from_be_bytes(header[17..21].try_into()?);
        if checksum(CrcAlgorithm::Crc32Iscsi, &batch[CHECKSUMMED_FROM..]) != u64::from(stored) {
            return Err("a batch with a wrong checksum".into());
        }
        at = end;
    }
    Ok(at)
}

/// Every .log file below a directory, in order.
pub(super) fn log_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(log_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Copies a directory, and waits until the copy is on the disk: what recovery itself syncs then costs nothing, as
/// after a crash of the machine.
fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            File::open(target)?.sync_all()?;
        }
    }
    Ok(())
}
