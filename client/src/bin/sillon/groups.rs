//! `sillon groups`: listing, describing with lag, setting back, deleting. Owns how groups look, and what a reset comes to
//! before it is carried out.

use crate::{Context, output::pretty};
use clap::{Args, Subcommand};
use serde_json::json;
use sillon_client::{
    admin::{Admin, AdminError, GroupDescription},
    consumer::{OffsetAndMetadata, SeekTarget, TopicPartition},
};
use std::collections::BTreeMap;

#[derive(Subcommand)]
pub enum Groups {
    /// Prints the names of all groups, one a line.
    List,
    /// Prints what each partition's reader has committed, and how far that is behind.
    Describe {
        /// The group.
        group: String,
        /// Prints the members instead.
        #[arg(long)]
        members: bool,
        /// Prints the state instead.
        #[arg(long, conflicts_with = "members")]
        state: bool,
    },
    /// Sets how far a group has come. Prints what would be done; --execute does it. The group has to be without members.
    #[command(after_help = "\
Examples:
  sillon groups reset readers --topic orders --to-earliest              what would be done
  sillon groups reset readers --topic orders:0,1 --to-offset 500 --execute
  sillon groups reset readers --all-topics --shift-by -100 --execute
  sillon groups reset readers --topic orders --to-time 1700000000000 --execute")]
    Reset(Reset),
    /// Deletes groups without members, with their offsets.
    Delete {
        /// The groups.
        #[arg(required = true)]
        groups: Vec<String>,
    },
}

#[derive(Args)]
pub struct Reset {
    /// The group.
    group: String,
    /// A topic, or some of its partitions. May be given several times.
    #[arg(long, value_name = "TOPIC[:P,…]", required_unless_present = "all_topics")]
    topic: Vec<String>,
    /// All partitions that the group has offsets of.
    #[arg(long, conflicts_with = "topic")]
    all_topics: bool,
    #[command(flatten)]
    to: ResetTo,
    /// Does it.
    #[arg(long)]
    execute: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct ResetTo {
    /// To the first record there is.
    #[arg(long)]
    to_earliest: bool,
    /// To the end.
    #[arg(long)]
    to_latest: bool,
    /// To this offset, or to the nearest there is.
    #[arg(long, value_name = "N")]
    to_offset: Option<i64>,
    /// So many records on, or back if it is negative.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    shift_by: Option<i64>,
    /// To the first record of this time, in milliseconds since 1970, or a later one.
    #[arg(long, value_name = "MS")]
    to_time: Option<i64>,
}

/// Carries the command out and gives what is to be printed.
///
/// # Errors
/// Those of the administration, and commands that make no sense.
pub async fn run(context: &Context, admin: &mut Admin, command: Groups) -> Result<String, String> {
    let told = |error: AdminError| error.to_string();
    match command {
        Groups::List => {
            let groups = admin.list_groups().await.map_err(told)?;
            let names: Vec<_> = groups.iter().map(|group| group.group_id.as_str()).collect();
            Ok(if context.json {
                let groups = groups.iter().map(|group| {
                    json!({
                        "group": group.group_id, "state": group.state, "protocolType": group.protocol_type,
                        "type": group.group_type,
                    })
                });
                pretty(&groups.collect())
            } else {
                names.iter().map(|name| format!("{name}\n")).collect()
            })
        }
        Groups::Describe { group, members, state } => {
            let described = admin.describe_group(&group).await.map_err(told)?;
            match (members, state) {
                (true, _) => Ok(members_of(context, &described)),
                (_, true) => Ok(state_of(context, &described)),
                _ => offsets_of(context, admin, &described).await.map_err(told),
            }
        }
        Groups::Reset(reset) => self::reset(context, admin, &reset).await,
        Groups::Delete { groups } => {
            for group in &groups {
                admin.delete_group(group).await.map_err(told)?;
            }
            let done = groups.iter().map(|group| format!("Deleted group {group}.\n")).collect();
            Ok(if context.json { pretty(&json!({ "deleted": groups })) } else { done })
        }
    }
}

/// Rows under heads, each column as wide as it has to be.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let line = |cells: &[&str]| {
        let padded: Vec<_> = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:<width$}", width = width(column)))
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(heads);
    for row in rows {
        text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

fn members_of(context: &Context, group: &GroupDescription) -> String {
    if context.json {
        let members = group.members.iter().map(|member| {
            json!({
                "member": member.member_id, "instance": member.group_instance_id, "host": member.client_host,
                "client": member.client_id,
                "assignment": member.assignment.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        });
        return pretty(&members.collect());
    }
    let rows = group.members.iter().map(|member| {
        vec![
            group.group_id.clone(),
            member.member_id.clone(),
            member.group_instance_id.clone().unwrap_or_else(|| "-".to_owned()),
            member.client_host.clone(),
            member.client_id.clone(),
            member.assignment.len().to_string(),
            member.assignment.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        ]
    });
    let heads = ["GROUP", "CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"];
    table(&heads, &rows.collect::<Vec<_>>())
}

fn state_of(context: &Context, group: &GroupDescription) -> String {
    if context.json {
        return pretty(&json!({
            "group": group.group_id, "coordinator": group.coordinator, "assignor": group.protocol,
            "state": group.state, "members": group.members.len(),
        }));
    }
    let row = vec![
        group.group_id.clone(),
        group.coordinator.to_string(),
        group.protocol.clone(),
        group.state.clone(),
        group.members.len().to_string(),
    ];
    table(&["GROUP", "COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"], &[row])
}

async fn offsets_of(
    context: &Context,
    admin: &mut Admin,
    group: &GroupDescription,
) -> Result<String, AdminError> {
    let committed = admin.group_offsets(&group.group_id).await?;
    let mut readers = BTreeMap::new();
    for member in &group.members {
        readers.extend(member.assignment.iter().map(|part| (part.clone(), member)));
    }
    let parts = committed.keys().chain(readers.keys()).map(|part| (part.clone(), SeekTarget::End));
    let ends = admin.list_offsets(parts.collect()).await?;
    let mut rows = Vec::new();
    let mut objects = Vec::new();
    for (part, end) in &ends {
        let end = end.map(|end| end.offset);
        let current = committed.get(part).map(|found| found.offset);
        let lag = current.zip(end).map(|(current, end)| (end - current).max(0));
        let reader = readers.get(part);
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        objects.push(json!({
            "topic": &*part.topic, "partition": part.partition, "currentOffset": current, "logEndOffset": end,
            "lag": lag, "member": reader.map(|reader| &reader.member_id),
        }));
        rows.push(vec![
            group.group_id.clone(),
            part.topic.to_string(),
            part.partition.to_string(),
            cell(current.map(|offset| offset.to_string())),
            cell(end.map(|offset| offset.to_string())),
            cell(lag.map(|lag| lag.to_string())),
            cell(reader.map(|reader| reader.member_id.clone())),
            cell(reader.map(|reader| reader.client_host.clone())),
            cell(reader.map(|reader| reader.client_id.clone())),
        ]);
    }
    let heads = [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ];
    Ok(if context.json { pretty(&objects.into()) } else { table(&heads, &rows) })
}

async fn reset(context: &Context, admin: &mut Admin, reset: &Reset) -> Result<String, String> {
    let told = |error: AdminError| error.to_string();
    let committed = admin.group_offsets(&reset.group).await.map_err(told)?;
    let parts = match reset.all_topics {
        true => committed.keys().cloned().collect(),
        false => named(admin, &reset.topic).await?,
    };
    let targets = targets(admin, reset, &parts, &committed).await?;
    if reset.execute {
        let offsets = targets.iter().map(|(part, offset)| (part.clone(), OffsetAndMetadata::from(*offset)));
        admin.alter_group_offsets(&reset.group, &offsets.collect()).await.map_err(told)?;
    }
    if context.json {
        let plan = targets.iter().map(|(part, offset)| {
            json!({ "topic": &*part.topic, "partition": part.partition, "newOffset": offset })
        });
        return Ok(pretty(&json!({ "executed": reset.execute, "offsets": plan.collect::<Vec<_>>() })));
    }
    let row = |(part, offset): (&TopicPartition, &i64)| {
        vec![reset.group.clone(), part.topic.to_string(), part.partition.to_string(), offset.to_string()]
    };
    let rows: Vec<_> = targets.iter().map(row).collect();
    let mut text = table(&["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], &rows);
    if !reset.execute {
        text += "Nothing was changed: --execute does it.\n";
        let groups = admin.list_groups().await.map_err(told)?;
        let is_read = |state: &str| !matches!(state, "" | "Empty" | "Dead");
        if groups.iter().any(|group| group.group_id == reset.group && is_read(&group.state)) {
            text += &format!("{} has members at present: they have to stop first.\n", reset.group);
        }
    }
    Ok(text)
}

/// The partitions that are named as TOPIC or TOPIC:P,P.
async fn named(admin: &mut Admin, topics: &[String]) -> Result<Vec<TopicPartition>, String> {
    let mut parts = Vec::new();
    for text in topics {
        let (topic, numbers) = match text.split_once(':') {
            Some((topic, numbers)) => (topic, Some(numbers)),
            None => (text.as_str(), None),
        };
        match numbers {
            Some(numbers) => {
                for number in numbers.split(',') {
                    let number = number
                        .parse()
                        .map_err(|_| format!("--topic {text}: \"{number}\" is no partition"))?;
                    parts.push(TopicPartition::new(topic, number));
                }
            }
            None => {
                let described =
                    admin.describe_topics(&[topic.to_owned()]).await.map_err(|error| error.to_string())?;
                let indexes =
                    described.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.index);
                parts.extend(indexes.map(|index| TopicPartition::new(topic, index)));
            }
        }
    }
    Ok(parts)
}

/// Where each partition is to be set, within what its log holds.
async fn targets(
    admin: &mut Admin,
    reset: &Reset,
    parts: &[TopicPartition],
    committed: &BTreeMap<TopicPartition, OffsetAndMetadata>,
) -> Result<BTreeMap<TopicPartition, i64>, String> {
    let mut at = async |target: SeekTarget| {
        let wanted = parts.iter().map(|part| (part.clone(), target)).collect();
        let found = admin.list_offsets(wanted).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(
            found
                .into_iter()
                .filter_map(|(part, found)| Some((part, found?.offset)))
                .collect::<BTreeMap<_, _>>(),
        )
    };
    let (begins, ends) = (at(SeekTarget::Beginning).await?, at(SeekTarget::End).await?);
    let times = match reset.to.to_time {
        Some(time) => at(SeekTarget::Time(time)).await?,
        None => BTreeMap::new(),
    };
    let mut targets = BTreeMap::new();
    for part in parts {
        let (begin, end) = (begins.get(part).copied().unwrap_or(0), ends.get(part).copied().unwrap_or(0));
        let to = &reset.to;
        let wanted = match (to.to_earliest, to.to_offset, to.shift_by, to.to_time) {
            (true, ..) => begin,
            (_, Some(offset), ..) => offset,
            (_, _, Some(shift), _) => {
                let now = committed.get(part).map(|found| found.offset);
                let now = now.ok_or_else(|| format!("{part} has no committed offset to count from"))?;
                now.saturating_add(shift)
            }
            (_, _, _, Some(_)) => times.get(part).copied().unwrap_or(end),
            _ => end,
        };
        targets.insert(part.clone(), wanted.clamp(begin, end.max(begin)));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let rows = [vec!["readers".to_owned(), "1".to_owned()], vec!["r".to_owned(), "22".to_owned()]];
        assert_eq!(table(&["GROUP", "N"], &rows), "GROUP    N\nreaders  1\nr        22\n");
    }
}
