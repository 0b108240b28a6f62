//! `sillon consume`: records on standard output. Owns how a record looks.

use crate::Context;
use clap::Args;
use sillon_client::{
    ClientError,
    admin::Admin,
    consumer::{
        Consumer, ConsumerConfig, ConsumerRecord, IsolationLevel, OffsetReset, SeekTarget, TopicPartition,
    },
};
use sillon_runtime::tokio_backend::stop_signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(500);
/// The exit code of a program that a signal ended, as shells know it.
const INTERRUPTED: i32 = 130;

#[derive(Args)]
#[command(after_help = "\
The format of a record:
  %t topic   %p partition   %o offset   %T time in milliseconds   %k key   %s value   %h headers
  %K, %S length of key and value in bytes   \\n, \\t   %% the sign itself

Examples:
  sillon consume orders --from-beginning --exit-at-end
  sillon consume orders --partition 2 --offset 1000 --max-messages 10 --format '%o %k: %s\\n'
  sillon consume orders --from-time 1700000000000
  sillon consume orders --group readers")]
pub struct Consume {
    /// The topic.
    topic: String,
    /// Only this partition. May be given several times.
    #[arg(long, value_name = "N", conflicts_with = "group")]
    partition: Vec<i32>,
    /// Begins at the first record there is.
    #[arg(long, conflicts_with_all = ["offset", "from_time"])]
    from_beginning: bool,
    /// Begins at this offset; a negative one counts from the end.
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with_all = ["from_time", "group"])]
    offset: Option<i64>,
    /// Begins at the first record of this time, in milliseconds since 1970, or a later one.
    #[arg(long, value_name = "MS", conflicts_with = "group")]
    from_time: Option<i64>,
    /// Shares the topic with the other members of this group, and commits.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Ends after so many records.
    #[arg(long, value_name = "N")]
    max_messages: Option<usize>,
    /// Ends at what is the end of each partition at the beginning.
    #[arg(long, conflicts_with = "group")]
    exit_at_end: bool,
    /// Leaves out what is not committed.
    #[arg(long)]
    read_committed: bool,
    /// How a record looks.
    #[arg(long, value_name = "FORMAT", default_value = "%s\\n")]
    format: String,
}

/// Prints records until there is a reason to end.
///
/// # Errors
/// What ends it before.
pub async fn run(context: &Context, admin: &mut Admin, command: Consume) -> Result<String, String> {
    let told = |error: ClientError| error.to_string();
    // A consumer waits for a topic that is not there yet; a person who mistyped its name wants to know.
    admin.describe_topics(std::slice::from_ref(&command.topic)).await.map_err(|error| error.to_string())?;
    let is_over = end_at_signal(context);
    let config = ConsumerConfig {
        group_id: command.group.clone(),
        auto_offset_reset: if command.from_beginning { OffsetReset::Earliest } else { OffsetReset::Latest },
        isolation_level: match command.read_committed {
            true => IsolationLevel::ReadCommitted,
            false => IsolationLevel::ReadUncommitted,
        },
        allow_auto_create_topics: false,
        // What a poll gives is committed: so no more than is printed.
        max_poll_records: if command.group.is_some() && command.max_messages.is_some() { 1 } else { 500 },
        default_api_timeout_ms: crate::millis(context.timeout),
        ..ConsumerConfig::new(context.network())
    };
    let mut consumer = Consumer::new(&context.runtime, config).map_err(told)?;
    let mut ends = BTreeMap::new();
    if command.group.is_some() {
        consumer.subscribe([command.topic.as_str()]).map_err(told)?;
    } else {
        let parts = assign(context, &mut consumer, &command).await.map_err(told)?;
        if command.exit_at_end {
            ends = consumer.end_offsets(&parts).await.map_err(told)?;
        }
    }
    let mut left = command.max_messages.unwrap_or(usize::MAX);
    while left > 0
        && !is_over.load(Ordering::Relaxed)
        && !(command.exit_at_end && is_at(&mut consumer, &ends).await.map_err(told)?)
    {
        let mut records = consumer.poll(POLL).await.map_err(told)?;
        records.truncate(left);
        left -= records.len();
        let mut out = std::io::stdout().lock();
        let printed = records.iter().try_for_each(|record| {
            let text = if context.json { json(record) } else { formatted(&command.format, record) };
            out.write_all(&text)
        });
        match printed.and_then(|()| out.flush()) {
            Ok(()) => {}
            // Whoever reads has enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(format!("cannot print: {error}")),
        }
    }
    consumer.close(context.timeout).await.map_err(told)?;
    Ok(String::new())
}

/// Becomes true at the first Ctrl-C: what was printed is committed then, and the group is left. A second one ends the program.
fn end_at_signal(context: &Context) -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    context.runtime.spawn("signal", async move {
        // Where no handler can be installed, Ctrl-C ends the program as it always does.
        if stop_signal().await.is_ok() {
            over.store(true, Ordering::Relaxed);
            if stop_signal().await.is_ok() {
                std::process::exit(INTERRUPTED);
            }
        }
    });
    is_over
}

/// Assigns the partitions by hand and goes to where reading shall begin.
async fn assign(
    context: &Context,
    consumer: &mut Consumer,
    command: &Consume,
) -> Result<BTreeSet<TopicPartition>, ClientError> {
    let deadline = context.runtime.now() + context.timeout;
    let metadata = consumer.cluster().topic(&command.topic, deadline).await?;
    let known = metadata.topic(&command.topic).map_or(0, |topic| topic.partitions.len());
    let numbers: Vec<i32> = match command.partition.as_slice() {
        [] => (0..).take(known).collect(),
        named => named.to_vec(),
    };
    if let Some(partition) =
        numbers.iter().find(|number| usize::try_from(**number).is_ok_and(|number| number >= known))
    {
        let (topic, partition) = (command.topic.clone(), *partition);
        return Err(ClientError::NoSuchPartition { topic, partition, partitions: known });
    }
    let parts: BTreeSet<TopicPartition> =
        numbers.into_iter().map(|partition| TopicPartition::new(&command.topic, partition)).collect();
    consumer.assign(parts.clone())?;
    let ends = match command.offset {
        Some(offset) if offset < 0 => consumer.end_offsets(&parts).await?,
        _ => BTreeMap::new(),
    };
    for part in &parts {
        match (command.offset, command.from_time) {
            (Some(offset), _) if offset >= 0 => consumer.seek(part, offset)?,
            (Some(offset), _) => consumer.seek(part, (ends.get(part).unwrap_or(&0) + offset).max(0))?,
            (None, Some(time)) => consumer.seek_to(part, SeekTarget::Time(time))?,
            (None, None) => {}
        }
    }
    Ok(parts)
}

async fn is_at(consumer: &mut Consumer, ends: &BTreeMap<TopicPartition, i64>) -> Result<bool, ClientError> {
    for (part, end) in ends {
        if consumer.position(part).await? < *end {
            return Ok(false);
        }
    }
    Ok(true)
}

fn text(bytes: Option<&[u8]>) -> serde_json::Value {
    bytes.map_or(serde_json::Value::Null, |bytes| String::from_utf8_lossy(bytes).into())
}

fn json(record: &ConsumerRecord) -> Vec<u8> {
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|header| serde_json::json!({ "key": text(Some(&header.key)), "value": text(header.value.as_deref()) }))
        .collect();
    let value = serde_json::json!({
        "topic": &*record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key.as_deref()),
        "value": text(record.value.as_deref()),
        "headers": headers,
    });
    // One line for each record, so that programs can read them as they come.
    format!("{value}\n").into_bytes()
}

fn formatted(format: &str, record: &ConsumerRecord) -> Vec<u8> {
    let mut out = Vec::new();
    let mut signs = format.chars();
    let length =
        |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    while let Some(sign) = signs.next() {
        match (sign, if matches!(sign, '%' | '\\') { signs.next() } else { None }) {
            ('%', Some('t')) => out.extend(record.topic.bytes()),
            ('%', Some('p')) => out.extend(record.partition.to_string().bytes()),
            ('%', Some('o')) => out.extend(record.offset.to_string().bytes()),
            ('%', Some('T')) => out.extend(record.timestamp.to_string().bytes()),
            ('%', Some('k')) => out.extend(record.key.as_deref().unwrap_or_default()),
            ('%', Some('s')) => out.extend(record.value.as_deref().unwrap_or_default()),
            ('%', Some('K')) => out.extend(length(record.key.as_deref()).to_string().bytes()),
            ('%', Some('S')) => out.extend(length(record.value.as_deref()).to_string().bytes()),
            ('%', Some('h')) => {
                for (index, header) in record.headers.iter().enumerate() {
                    out.extend(if index > 0 { &b","[..] } else { b"" });
                    out.extend(&header.key);
                    out.push(b'=');
                    out.extend(header.value.as_deref().unwrap_or_default());
                }
            }
            ('\\', Some('n')) => out.push(b'\n'),
            ('\\', Some('t')) => out.push(b'\t'),
            ('%' | '\\', Some(other)) => out.extend(other.to_string().bytes()),
            (sign, _) => out.extend(sign.to_string().bytes()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_client::consumer::RecordHeader;

    #[test]
    fn a_record_looks_as_the_format_says() {
        let record = ConsumerRecord {
            topic: "orders".into(),
            partition: 2,
            offset: 17,
            leader_epoch: None,
            timestamp: 1000,
            timestamp_type: Default::default(),
            key: None,
            value: Some("a book".into()),
            headers: vec![RecordHeader { key: "h".into(), value: Some("1".into()) }],
        };
        let told = |format| String::from_utf8(formatted(format, &record)).expect("text");
        assert_eq!(told("%t-%p@%o %T %k|%K: %s (%S) %h%%\\n"), "orders-2@17 1000 |-1: a book (6) h=1%\n");
        assert_eq!(told("%"), "%");
    }
}
