//! `sillon configs`: reading and changing the configuration of topics and brokers. Owns how it looks.

use crate::{Context, groups::table, output::pretty};
use clap::{Args, Subcommand};
use serde_json::json;
use sillon_client::admin::{Admin, AdminError, ConfigChange, ConfigResource, ConfigSource};

#[derive(Subcommand)]
pub enum Configs {
    /// Prints what is configured, by default only what differs from the defaults.
    #[command(after_help = "\
Examples:
  sillon configs describe --topic orders
  sillon configs describe --broker 1 --all")]
    Describe {
        #[command(flatten)]
        of: Of,
        /// Also what nobody has set.
        #[arg(long)]
        all: bool,
    },
    /// Changes some of it and leaves the rest as it is.
    #[command(after_help = "\
Examples:
  sillon configs alter --topic orders --set retention.ms=86400000 --set cleanup.policy=delete
  sillon configs alter --topic orders --delete retention.ms
  sillon configs alter --all-brokers --set leader.replication.throttled.rate=10000000")]
    Alter {
        #[command(flatten)]
        of: Of,
        /// Gives an entry a value. May be given several times.
        #[arg(long, value_name = "KEY=VALUE", value_parser = crate::parse_config)]
        set: Vec<(String, String)>,
        /// Makes an entry the default again. May be given several times.
        #[arg(long, value_name = "KEY")]
        delete: Vec<String>,
        /// Adds to an entry that is a list. May be given several times.
        #[arg(long, value_name = "KEY=VALUE", value_parser = crate::parse_config)]
        append: Vec<(String, String)>,
        /// Takes out of an entry that is a list. May be given several times.
        #[arg(long, value_name = "KEY=VALUE", value_parser = crate::parse_config)]
        subtract: Vec<(String, String)>,
        /// Only checks whether it could be done.
        #[arg(long)]
        validate_only: bool,
    },
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Of {
    /// Of a topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Of a broker.
    #[arg(long, value_name = "ID")]
    broker: Option<i32>,
    /// Of all brokers that have nothing of their own.
    #[arg(long)]
    all_brokers: bool,
}

impl Of {
    fn resource(self) -> ConfigResource {
        match (self.topic, self.broker) {
            (Some(topic), _) => ConfigResource::Topic(topic),
            (_, Some(broker)) => ConfigResource::Broker(broker),
            _ => ConfigResource::AllBrokers,
        }
    }
}

fn told(source: ConfigSource) -> String {
    match source {
        ConfigSource::Topic => "topic".to_owned(),
        ConfigSource::Broker => "broker".to_owned(),
        ConfigSource::AllBrokers => "all brokers".to_owned(),
        ConfigSource::File => "file".to_owned(),
        ConfigSource::Default => "default".to_owned(),
        ConfigSource::Other(number) => format!("source {number}"),
    }
}

/// Carries the command out and gives what is to be printed.
///
/// # Errors
/// Those of the administration.
pub async fn run(context: &Context, admin: &mut Admin, command: Configs) -> Result<String, AdminError> {
    match command {
        Configs::Describe { of, all } => {
            let mut entries = admin.describe_configs(&of.resource()).await?;
            entries.retain(|entry| all || entry.source != ConfigSource::Default);
            if context.json {
                let entries = entries.iter().map(|entry| {
                    json!({
                        "name": entry.name, "value": entry.value, "source": told(entry.source),
                        "readOnly": entry.read_only, "sensitive": entry.is_sensitive,
                    })
                });
                return Ok(pretty(&entries.collect()));
            }
            let hidden = |entry: &sillon_client::admin::ConfigEntry| match entry.is_sensitive {
                true => "(not told)".to_owned(),
                false => entry.value.clone().unwrap_or_default(),
            };
            let rows =
                entries.iter().map(|entry| vec![entry.name.clone(), hidden(entry), told(entry.source)]);
            Ok(table(&["NAME", "VALUE", "SOURCE"], &rows.collect::<Vec<_>>()))
        }
        Configs::Alter { of, set, delete, append, subtract, validate_only } => {
            let resource = of.resource();
            let mut changes: Vec<(String, ConfigChange)> = Vec::new();
            changes.extend(set.into_iter().map(|(name, value)| (name, ConfigChange::Set(value))));
            changes.extend(delete.into_iter().map(|name| (name, ConfigChange::Delete)));
            changes.extend(append.into_iter().map(|(name, value)| (name, ConfigChange::Append(value))));
            changes.extend(subtract.into_iter().map(|(name, value)| (name, ConfigChange::Subtract(value))));
            admin.alter_configs(&resource, &changes, validate_only).await?;
            let what = if validate_only { "Could change" } else { "Changed" };
            Ok(match context.json {
                true => pretty(&json!({ "changed": resource.to_string(), "validateOnly": validate_only })),
                false => format!("{what} the configuration of {resource}.\n"),
            })
        }
    }
}
