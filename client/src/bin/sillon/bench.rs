//! `sillon bench`: how fast records are written and read. Owns what is measured: records, time, delays.

use crate::{Context, output::pretty, progress};
use clap::Args;
use serde_json::json;
use sillon_client::{
    ClientError,
    consumer::{Consumer, ConsumerConfig, OffsetReset, TopicPartition},
    producer::{Producer, ProducerConfig, ProducerRecord},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// How many records are between two whose delay is measured.
const SAMPLE_EVERY: u64 = 64;

#[derive(Args)]
#[command(after_help = "\
Examples:
  sillon topics create bench --partitions 4
  sillon bench bench --records 1000000 --size 1024
  sillon bench bench --records 1000000 --read-only")]
pub struct Bench {
    /// The topic; it has to exist.
    topic: String,
    /// How many records.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    records: u64,
    /// How large each value is, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// How large a batch may become, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 131_072)]
    batch_size: usize,
    /// How long a batch waits for more, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5)]
    linger: u64,
    /// Reads what is there already.
    #[arg(long)]
    read_only: bool,
    /// Does not read what it has written.
    #[arg(long, conflicts_with = "read_only")]
    write_only: bool,
}

/// What was measured.
struct Measured {
    what: &'static str,
    records: u64,
    bytes: u64,
    seconds: f64,
    /// Delays in milliseconds: the median, the 99th percentile, the longest.
    delays: Option<[f64; 3]>,
}

impl Measured {
    fn rate(&self) -> f64 {
        self.records as f64 / self.seconds.max(1e-9)
    }

    fn megabytes(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9) / 1e6
    }

    fn told(&self, json: bool) -> String {
        if json {
            return pretty(&json!({
                "what": self.what, "records": self.records, "seconds": self.seconds,
                "recordsPerSecond": self.rate(), "megabytesPerSecond": self.megabytes(),
                "delayMs": self.delays.map(|[median, high, longest]| json!({ "p50": median, "p99": high, "max": longest })),
            }));
        }
        let delays = self.delays.map_or_else(String::new, |[median, high, longest]| {
            format!(", delay {median:.1} ms median, {high:.1} ms 99th percentile, {longest:.1} ms longest")
        });
        let (rate, megabytes) = (self.rate(), self.megabytes());
        let Measured { what, records, seconds, .. } = self;
        format!(
            "{what} {records} records in {seconds:.2} s: {rate:.0} records/s, {megabytes:.1} MB/s{delays}\n"
        )
    }
}

/// Measures and gives what is to be printed.
///
/// # Errors
/// What went wrong: a measurement with errors in it is none.
pub async fn run(context: &Context, command: Bench) -> Result<String, String> {
    let told = |error: ClientError| error.to_string();
    let mut text = String::new();
    if !command.read_only {
        text += &write(context, &command).await.map_err(told)?.told(context.json);
    }
    if !command.write_only {
        text += &read(context, &command).await.map_err(told)?.told(context.json);
    }
    Ok(text)
}

async fn write(context: &Context, command: &Bench) -> Result<Measured, ClientError> {
    let config = ProducerConfig {
        batch_size: command.batch_size,
        linger_ms: command.linger,
        allow_auto_create_topics: false,
        ..ProducerConfig::new(context.network())
    };
    let producer = Producer::new(&context.runtime, config)?;
    producer.partitions_for(&command.topic).await?;
    let mut value = vec![0; command.size];
    context.runtime.fill_random(&mut value);
    let record = ProducerRecord::new(&command.topic, &value);
    let delays: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let failure: Arc<Mutex<Option<ClientError>>> = Arc::default();
    let bar = progress::records(context, "Writing", command.records);
    let begin = context.runtime.now();
    for number in 0..command.records {
        if !number.is_multiple_of(SAMPLE_EVERY) {
            producer.send(&record).await?.forget();
            continue;
        }
        let (delays, failure, runtime, sent) =
            (delays.clone(), failure.clone(), context.runtime.clone(), context.runtime.now());
        let note = move |result: Result<_, ClientError>| match result {
            Ok(_) => {
                delays.lock().expect("nothing panics while it holds this lock").push(runtime.now() - sent)
            }
            Err(error) => {
                failure.lock().expect("nothing panics while it holds this lock").get_or_insert(error);
            }
        };
        producer.send_then(&record, note).await?;
        bar.set_position(number);
    }
    producer.flush().await;
    bar.finish_and_clear();
    let seconds = (context.runtime.now() - begin).as_secs_f64();
    if let Some(error) = failure.lock().expect("nothing panics while it holds this lock").take() {
        return Err(error);
    }
    let mut delays = std::mem::take(&mut *delays.lock().expect("nothing panics while it holds this lock"));
    delays.sort();
    let at = |part: usize| delays.get((delays.len() * part / 100).min(delays.len().saturating_sub(1)));
    let ms = |delay: Option<&Duration>| delay.map_or(0.0, |delay| delay.as_secs_f64() * 1e3);
    let delays = Some([ms(at(50)), ms(at(99)), ms(delays.last())]);
    let bytes = command.records * command.size as u64;
    Ok(Measured { what: "Wrote", records: command.records, bytes, seconds, delays })
}

async fn read(context: &Context, command: &Bench) -> Result<Measured, ClientError> {
    let config = ConsumerConfig {
        auto_offset_reset: OffsetReset::Earliest,
        allow_auto_create_topics: false,
        ..ConsumerConfig::new(context.network())
    };
    let mut consumer = Consumer::new(&context.runtime, config)?;
    let deadline = context.runtime.now() + context.timeout;
    let metadata = consumer.cluster().topic(&command.topic, deadline).await?;
    let known = metadata.topic(&command.topic).map_or(0, |topic| topic.partitions.len());
    let parts = (0..).take(known).map(|partition| TopicPartition::new(&command.topic, partition));
    consumer.assign(parts)?;
    let assigned = consumer.assignment();
    let mut left: BTreeMap<TopicPartition, i64> = consumer.end_offsets(&assigned).await?;
    let (mut records, mut bytes) = (0, 0);
    let bar = progress::records(context, "Reading", command.records);
    let begin = context.runtime.now();
    while records < command.records && !left.is_empty() {
        for record in consumer.poll(Duration::from_secs(1)).await? {
            records += 1;
            bytes += record.value.as_ref().map_or(0, |value| value.len() as u64);
        }
        bar.set_position(records);
        let at = consumer.consumed();
        left.retain(|part, end| at.get(part).is_none_or(|position| position.offset < *end));
    }
    bar.finish_and_clear();
    let seconds = (context.runtime.now() - begin).as_secs_f64();
    Ok(Measured { what: "Read", records, bytes, seconds, delays: None })
}
