//! `sillon partitions`: more partitions, elections. Owns how a partition is named on the command line.

use crate::{Context, output::pretty};
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

pub fn parse_partition(text: &str) -> Result<TopicPartition, String> {
    let parsed = text.rsplit_once(':').and_then(|(topic, number)| Some((topic, number.parse().ok()?)));
    let (topic, number) = parsed.ok_or("TOPIC:PARTITION is expected, such as orders:0")?;
    Ok(TopicPartition::new(topic, number))
}

/// What a command that has nothing else to print says.
pub fn done(context: &Context, text: String) -> String {
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
    fn partitions_are_read() {
        assert_eq!(parse_partition("a:b:0"), Ok(TopicPartition::new("a:b", 0)));
        assert!(parse_partition("orders").is_err() && parse_partition("orders:x").is_err());
    }
}
