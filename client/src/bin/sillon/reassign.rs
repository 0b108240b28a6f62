//! `sillon reassign`: moves of partitions to other brokers. Owns how moves are written and look.

use crate::{
    Context,
    groups::table,
    output::pretty,
    partitions::{done, parse_partition},
};
use clap::Args;
use serde_json::json;
use sillon_client::{
    admin::{Admin, AdminError},
    consumer::TopicPartition,
};

#[derive(Args)]
#[command(after_help = "\
Examples:
  sillon reassign orders:0=1,2,3 orders:1=2,3,1     the preferred leader first
  sillon reassign --cancel orders:0
  sillon reassign                                   what is on its way")]
pub struct Reassign {
    /// Which partition is to be on which brokers; without any, what is on its way is printed.
    #[arg(value_name = "TOPIC:P=ID,…", value_parser = parse_move)]
    moves: Vec<(TopicPartition, Vec<i32>)>,
    /// Cancels the move of a partition. May be given several times.
    #[arg(long, value_name = "TOPIC:P", value_parser = parse_partition)]
    cancel: Vec<TopicPartition>,
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

/// Carries the command out and gives what is to be printed.
///
/// # Errors
/// Those of the administration.
pub async fn run(context: &Context, admin: &mut Admin, command: Reassign) -> Result<String, AdminError> {
    let Reassign { moves, cancel } = command;
    if moves.is_empty() && cancel.is_empty() {
        return list(context, admin).await;
    }
    let count = (moves.len(), cancel.len());
    let moves = moves.into_iter().map(|(part, brokers)| (part, Some(brokers)));
    let all = moves.chain(cancel.into_iter().map(|part| (part, None))).collect();
    admin.alter_partition_reassignments(&all).await?;
    Ok(done(context, format!("Began {} moves, cancelled {}", count.0, count.1)))
}

async fn list(context: &Context, admin: &mut Admin) -> Result<String, AdminError> {
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
