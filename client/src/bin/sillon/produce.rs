//! `sillon produce`: lines of standard input or of a file become records. Owns how a line is cut into key, headers and
//! value.
#![allow(clippy::disallowed_types)] // The program reads its own input.

use crate::{Context, progress};
use clap::Args;
use sillon_client::{
    ClientError,
    producer::{Acks, Header, Producer, ProducerConfig, ProducerRecord},
};
use sillon_protocol::records::Compression;
use sillon_runtime::Runtime;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How many lines are read ahead at most where they are there already.
const LINES_AT_A_TIME: usize = 1024;

#[derive(Args)]
#[command(after_help = "\
Examples:
  echo hello | sillon produce orders
  sillon produce orders --key-separator : < lines        each line is KEY:VALUE
  sillon produce orders --file lines --header source=import --compression zstd")]
pub struct Produce {
    /// The topic.
    topic: String,
    /// Reads this file instead of standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Cuts each line into key and value at the first of these; without it there are no keys.
    #[arg(long, value_name = "TEXT")]
    key_separator: Option<String>,
    /// A line that is this, as key or value, stands for null.
    #[arg(long, value_name = "TEXT")]
    null_marker: Option<String>,
    /// A header of every record. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::parse_config)]
    header: Vec<(String, String)>,
    /// The partition of every record; by default the key decides.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// When a record counts as written: 0 once it is sent, 1 once the leader has it, all once all in-sync replicas do.
    #[arg(long, default_value = "all", value_parser = ["0", "1", "all"])]
    acks: String,
    /// How batches are compressed.
    #[arg(long, default_value = "none", value_parser = ["none", "gzip", "snappy", "lz4", "zstd"])]
    compression: String,
    /// How long a batch waits for more records, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5)]
    linger: u64,
}

impl Produce {
    fn config(&self, context: &Context) -> ProducerConfig {
        let acks = match self.acks.as_str() {
            "0" => Acks::None,
            "1" => Acks::Leader,
            _ => Acks::All,
        };
        let named = |codec: &Compression| codec.name() == self.compression;
        ProducerConfig {
            acks,
            enable_idempotence: acks == Acks::All,
            linger_ms: self.linger,
            compression_type: Compression::ALL.into_iter().find(named).unwrap_or_default(),
            max_block_ms: crate::millis(context.timeout),
            ..ProducerConfig::new(context.network())
        }
    }

    /// What is read, and how many bytes that is, where it is known.
    fn source(&self) -> Result<(Source, Option<u64>), String> {
        let Some(path) = &self.file else {
            return Ok((BufReader::with_capacity(1 << 16, Box::new(std::io::stdin())), None));
        };
        let cannot = |error| format!("cannot read {}: {error}", path.display());
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        let size = metadata.is_file().then_some(metadata.len());
        Ok((BufReader::with_capacity(1 << 16, Box::new(file)), size))
    }

    /// Key and value of a line.
    fn cut<'a>(&self, line: &'a [u8], number: u64) -> Result<KeyAndValue<'a>, String> {
        let known = |bytes: &'a [u8]| {
            Some(bytes)
                .filter(|bytes| self.null_marker.as_ref().is_none_or(|marker| marker.as_bytes() != *bytes))
        };
        let Some(separator) = self.key_separator.as_ref().map(String::as_bytes) else {
            return Ok((None, known(line)));
        };
        let place = line.windows(separator.len().max(1)).position(|window| window == separator);
        let place = place.ok_or_else(|| {
            format!("line {number} has no \"{}\" between key and value", String::from_utf8_lossy(separator))
        })?;
        Ok((known(&line[..place]), known(&line[place + separator.len()..])))
    }
}

type KeyAndValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

type Source = BufReader<Box<dyn Read + Send>>;

/// Reads the next lines: at least one, and more as far as they are there already. None at the end.
async fn lines(runtime: &Runtime, source: Source) -> Result<(Source, Vec<Vec<u8>>), String> {
    let read = move || {
        let mut source = source;
        let mut lines = Vec::new();
        while lines.len() < LINES_AT_A_TIME && (lines.is_empty() || source.buffer().contains(&b'\n')) {
            let mut line = Vec::new();
            if source.read_until(b'\n', &mut line).map_err(|error| format!("cannot read: {error}"))? == 0 {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            lines.push(line);
        }
        Ok((source, lines))
    };
    runtime.blocking(read).await.map_err(|error| error.to_string())?
}

/// Sends all lines. Gives how many were written.
///
/// # Errors
/// The first thing that went wrong; what was sent before it may be written.
pub async fn run(context: &Context, command: Produce) -> Result<String, String> {
    let told = |error: ClientError| error.to_string();
    let producer = Producer::new(&context.runtime, command.config(context)).map_err(told)?;
    let headers: Vec<Header<'_>> =
        command.header.iter().map(|(key, value)| Header::new(key, value.as_bytes())).collect();
    let failure: Arc<Mutex<Option<ClientError>>> = Arc::default();
    let written = Arc::new(AtomicU64::new(0));
    let (mut source, size) = command.source()?;
    let bar = size.map(|size| progress::bytes(context, "Writing", size));
    let mut number = 0;
    loop {
        let (rest, lines) = lines(&context.runtime, source).await?;
        source = rest;
        if lines.is_empty() {
            break;
        }
        if let Some(bar) = &bar {
            bar.inc(lines.iter().map(|line| line.len() as u64 + 1).sum());
        }
        for line in &lines {
            number += 1;
            let (key, value) = command.cut(line, number)?;
            let record = ProducerRecord {
                key,
                value,
                partition: command.partition,
                headers: &headers,
                ..ProducerRecord::tombstone(&command.topic)
            };
            let (failure, written) = (failure.clone(), written.clone());
            let note = move |result: Result<_, ClientError>| match result {
                Ok(_) => {
                    written.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    failure.lock().expect("nothing panics while it holds this lock").get_or_insert(error);
                }
            };
            producer.send_then(&record, note).await.map_err(|error| format!("line {number}: {error}"))?;
        }
    }
    producer.close(Duration::from_secs(3600)).await.map_err(told)?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let failure = failure.lock().expect("nothing panics while it holds this lock").take();
    let written = written.load(Ordering::Relaxed);
    match failure {
        Some(error) => Err(format!("{written} of {number} records were written: {error}")),
        None if context.json => Ok(crate::output::pretty(&serde_json::json!({ "written": written }))),
        None => Ok(String::new()),
    }
}
