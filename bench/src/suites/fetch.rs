//! How much CPU it takes to read a gigabyte, on both sides of the connection: on loopback, sendfile only moves
//! the cost of copying to the receiver.

use super::{BROKER, FLOOR, KAFKA, Settings, Subject, order};
use crate::{Result, client::Connection, load, process, report::Report};
use std::{fs::File, io::copy, path::PathBuf};

const QUANTITY: &str = "CPU s/GB, both sides";
const BOUND: f64 = 1.3;
/// What is asked for at a time.
const PIECE_BYTES: i32 = 1 << 20;
/// Small against a piece, so that little is sent of a batch that does not fit the piece any more.
const BATCH_BYTES: usize = 16 * 1024;
/// How often the log is read in one run.
const ROUNDS: usize = 2;

/// Reads a log that is in the page cache from its start, 1 MiB at a time; server and client each on a processor of its own.
///
/// # Errors
/// Servers that do not start or that answer with an error.
pub fn fetch(settings: &Settings) -> Result<Vec<Report>> {
    let pinned = process::processors()? >= 2;
    let server_processor = pinned.then_some(1);
    let volume = settings.volume(900_000_000);
    let mut report = Report::new(format!(
        "fetch from the start, 1 MiB at a time: {} interleaved runs of {} MB",
        settings.pairs,
        volume * ROUNDS as u64 / 1_000_000
    ));
    let broker = Subject::started(BROKER, &settings.broker_program("fetch-broker", server_processor)?)?;
    let mut readers = vec![Reader::of_topic(broker, volume)?];
    let file = copy_of_log(settings)?;
    let length = file.metadata()?.len();
    let floor = settings.floor_program("file", &settings.work.join("fetch-file"), server_processor)?;
    readers.push(Reader { subject: Subject::started(FLOOR, &floor)?, what: What::File { length } });
    if let Some(kafka) = settings.kafka {
        readers.push(Reader::of_topic(Subject::external(KAFKA, kafka), volume)?);
    }
    // The client reads on a thread of its own, so that the pin ends with it.
    let (cpu, rate) = std::thread::scope(|scope| {
        let client = scope.spawn(|| -> Result<_> {
            if pinned {
                process::pin_to(0)?;
            }
            run(settings, &readers)
        });
        client.join().map_err(|_| "the client has panicked")?
    })?;
    for ((reader, cpu), rate) in readers.iter().zip(cpu).zip(rate) {
        report.measure(reader.subject.name, QUANTITY, cpu);
        report.measure(reader.subject.name, "MB/s", rate);
    }
    report.bound_ratio(BROKER, FLOOR, QUANTITY, BOUND);
    report.note(if pinned {
        "the server runs on processor 1, the client on processor 0; Kafka, where it takes part, wherever it likes"
    } else {
        "there is one processor only: server and client share it"
    });
    for reader in &readers {
        if let What::Topic { name, .. } = &reader.what {
            reader.subject.delete_topic(name)?;
        }
    }
    Ok(vec![report])
}

/// The values of each reader: CPU seconds for a gigabyte, and megabytes a second.
type Values = (Vec<Vec<f64>>, Vec<Vec<f64>>);

fn run(settings: &Settings, readers: &[Reader]) -> Result<Values> {
    let mut cpu = vec![Vec::new(); readers.len()];
    let mut rate = vec![Vec::new(); readers.len()];
    for reader in readers {
        reader.read()?; // the first reading warms up
    }
    for turn in 0..settings.pairs {
        for index in order(readers.len(), turn) {
            let before = readers[index].subject.cpu_seconds()?;
            let (mut bytes, mut client, mut seconds) = (0, 0.0, 0.0);
            for _ in 0..ROUNDS {
                let fetched = readers[index].read()?;
                bytes += fetched.bytes;
                client += fetched.client_cpu_seconds;
                seconds += fetched.elapsed.as_secs_f64();
            }
            let server = readers[index].subject.cpu_seconds()? - before;
            cpu[index].push((server + client) / (bytes as f64 / 1e9));
            rate[index].push(bytes as f64 / 1e6 / seconds);
        }
    }
    Ok((cpu, rate))
}

struct Reader {
    subject: Subject,
    what: What,
}

enum What {
    Topic { name: String, end: i64 },
    File { length: u64 },
}

impl Reader {
    fn of_topic(subject: Subject, volume: u64) -> Result<Self> {
        let name = subject.new_topic("fetch")?;
        load::produce(subject.address, &name, 1, BATCH_BYTES, volume)?;
        let end = Connection::connect(subject.address)?.log_end_offset(&name, 0)?;
        Ok(Self { subject, what: What::Topic { name, end } })
    }

    fn read(&self) -> Result<load::Fetched> {
        match &self.what {
            What::Topic { name, end } => load::fetch(self.subject.address, name, *end, PIECE_BYTES),
            What::File { length } => load::fetch_file(self.subject.address, *length, PIECE_BYTES),
        }
    }
}

/// The same bytes as a file of its own for the bare loop: the broker's segments, one after the other.
fn copy_of_log(settings: &Settings) -> Result<File> {
    let mut file = File::create(settings.work.join("fetch-file"))?;
    for segment in segments(&settings.work.join("fetch-broker"))? {
        copy(&mut File::open(segment)?, &mut file)?;
    }
    Ok(file)
}

fn segments(broker: &std::path::Path) -> Result<Vec<PathBuf>> {
    let mut found = super::recovery::log_files(broker)?;
    found.retain(|path| path.metadata().is_ok_and(|metadata| metadata.len() > 0));
    if found.is_empty() {
        return Err("the broker has written no .log file".into());
    }
    Ok(found)
}
