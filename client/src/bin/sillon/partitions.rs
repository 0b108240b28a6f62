//! `sillon partitions`: more partitions, moves to other brokers, elections. Owns how moves are written and look.

use crate::{Context, groups::table, output::pretty};
use clap::Subcommand;
use serde_json::json;
use sillon_client::{
    admin::{Admin, AdminError, ElectionType},
    consumer::TopicPartition,
};

#[derive(Subcommand)]
pub enum Partitions {
    /// Gives a topic more partitions.
    Add {
        /// The topic.
        topic: String,
        /// How many it is to have in all.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        total: i32,
        /// Only checks whether it could be done.
        #[arg(long)]
        validate_only: bool,
    },
    /// Moves partitions to other brokers.
    #[command(after_help = "\
Examples:
  sillon partitions reassign orders:0=1,2,3 orders:1=2,3,1     the preferred leader first
  sillon partitions reassign --cancel orders:0
  sillon partitions reassign                                   what is on its way")]
    Reassign {
        /// Which partition is to be on which brokers.
        #[arg(value_name = "TOPIC:P=ID,…", value_parser = parse_move)]
        moves: Vec<(TopicPartition, Vec<i32>)>,
        /// Cancels the move of a partition. May be given several times.
        #[arg(long, value_name = "TOPIC:P", value_parser = parse_partition)]
        cancel: Vec<TopicPartition>,
    },
    /// Elects leaders: the preferred ones, or any that lives.
    Elect {
        /// The partitions; all where none is named.
        #[arg(value_name = "TOPIC:P", value_parser = parse_partition)]
        partitions: Vec<TopicPartition>,
        /// Also a replica that is not in sync, where no other lives: what only the others have is lost.
        #[arg(long)]
        unclean: bool,
    },
}

fn parse_partition(text: &str) -> Result<TopicPartition, String> {
    let parsed = text.rsplit_once(':').and_then(|(topic, number)| Some((topic, number.parse().ok()?)));
    let (topic, number) = parsed.ok_or("TOPIC:PARTITION is expected, such as orders:0")?;
    Ok(TopicPartition::new(topic, number))
}

fn parse_move(text: &str) -> Result<(TopicPartition, Vec<i32>), String> {
    let (partition, brokers) =
        text.split_once('=').ok_or("TOPIC:PARTITION=ID,ID is expected, such as orders:0=1,2")?;
    let broker = |id: &str| id.parse().map_err(|_| format!("\"{id}\" is not a broker id"));
    Ok((parse_partition(partition)?, brokers.split(',').map(broker).collect::<Result<_, String>>()?))
}

fn numbers(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

fn done(context: &Context, text: String) -> String {
    if context.json { pretty(&json!({ "done": text })) } else { format!("{text}.\n") }
}

/// Carries the command out and gives what is to be printed.
///
/// # Errors
/// Those of the administration.
pub async fn run(context: &Context, admin: &mut Admin, command: Partitions) -> Result<String, AdminError> {
    match command {
        Partitions::Add { topic, total, validate_only } => {
            admin.create_partitions(&topic, total, &[], validate_only).await?;
            let what = if validate_only { "could have" } else { "has" };
            Ok(done(context, format!("Topic {topic} {what} {total} partitions")))
        }
        Partitions::Reassign { moves, cancel } if moves.is_empty() && cancel.is_empty() => {
            let found = admin.list_partition_reassignments().await?;
            if context.json {
                let found = found.iter().map(|(part, found)| {
                    json!({
                        "topic": &*part.topic, "partition": part.partition, "replicas": found.replicas,
                        "adding": found.adding, "removing": found.removing,
                    })
                });
                return Ok(pretty(&found.collect()));
            }
            let rows = found.iter().map(|(part, found)| {
                let (adding, removing) = (numbers(&found.adding), numbers(&found.removing));
                vec![part.to_string(), numbers(&found.replicas), adding, removing]
            });
            Ok(table(&["PARTITION", "REPLICAS", "ADDING", "REMOVING"], &rows.collect::<Vec<_>>()))
        }
        Partitions::Reassign { moves, cancel } => {
            let count = (moves.len(), cancel.len());
            let moves = moves.into_iter().map(|(part, brokers)| (part, Some(brokers)));
            let all = moves.chain(cancel.into_iter().map(|part| (part, None))).collect();
            admin.alter_partition_reassignments(&all).await?;
            Ok(done(context, format!("Began {} moves, cancelled {}", count.0, count.1)))
        }
        Partitions::Elect { partitions, unclean } => {
            let election = if unclean { ElectionType::Unclean } else { ElectionType::Preferred };
            let named = (!partitions.is_empty()).then(|| partitions.into_iter().collect());
            admin.elect_leaders(election, named.as_ref()).await?;
            Ok(done(context, "Every partition that was asked for has the leader it can have".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_read() {
        assert_eq!(parse_move("a:b:0=1,2"), Ok((TopicPartition::new("a:b", 0), vec![1, 2])));
        assert!(parse_move("orders=1").is_err() && parse_move("orders:0").is_err());
        assert_eq!(parse_move("orders:0=x"), Err("\"x\" is not a broker id".to_owned()));
    }
}
