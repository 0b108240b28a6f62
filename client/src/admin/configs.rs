//! Configuration of topics and brokers: reading it, and changing some of it (KIP-339). Owns what is asked for that.

use super::{Admin, AdminError, Target, topics::refused};
use sillon_protocol::{
    ErrorCode,
    messages::{
        DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResource, IncrementalAlterableConfig,
    },
};

/// What is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigResource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by id.
    Broker(i32),
    /// What holds for all brokers that have nothing of their own.
    AllBrokers,
}

impl ConfigResource {
    fn on_wire(&self) -> (i8, String) {
        match self {
            ConfigResource::Topic(name) => (2, name.clone()),
            ConfigResource::Broker(id) => (4, id.to_string()),
            ConfigResource::AllBrokers => (4, String::new()),
        }
    }
}

impl std::fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConfigResource::Topic(name) => write!(f, "topic {name}"),
            ConfigResource::Broker(id) => write!(f, "broker {id}"),
            ConfigResource::AllBrokers => f.write_str("all brokers"),
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// The topic's own.
    Topic,
    /// The broker's own, changed while it runs.
    Broker,
    /// All brokers', changed while they run.
    AllBrokers,
    /// The broker's file.
    File,
    /// Nobody has set it.
    Default,
    /// Something else, by Kafka's number.
    Other(i8),
}

/// One entry of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` where there is none, or it is not told.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: ConfigSource,
    /// Whether it cannot be changed while the broker runs.
    pub read_only: bool,
    /// Whether its value is not told.
    pub is_sensitive: bool,
}

impl ConfigEntry {
    fn new(found: &DescribeConfigsResourceResult) -> ConfigEntry {
        let source = match found.config_source {
            1 => ConfigSource::Topic,
            2 => ConfigSource::Broker,
            3 => ConfigSource::AllBrokers,
            4 => ConfigSource::File,
            5 => ConfigSource::Default,
            other => ConfigSource::Other(other),
        };
        ConfigEntry {
            name: found.name.clone(),
            value: found.value.clone(),
            source,
            read_only: found.read_only,
            is_sensitive: found.is_sensitive,
        }
    }
}

/// What to do with one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// It has this value from now on.
    Set(String),
    /// It is the default again.
    Delete,
    /// These are added to its list.
    Append(String),
    /// These are taken out of its list.
    Subtract(String),
}

impl ConfigChange {
    fn on_wire(&self) -> (i8, Option<String>) {
        match self {
            ConfigChange::Set(value) => (0, Some(value.clone())),
            ConfigChange::Delete => (1, None),
            ConfigChange::Append(value) => (2, Some(value.clone())),
            ConfigChange::Subtract(value) => (3, Some(value.clone())),
        }
    }
}

impl Admin {
    /// The whole configuration of a topic or a broker, in the broker's order.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn describe_configs(
        &mut self,
        resource: &ConfigResource,
    ) -> Result<Vec<ConfigEntry>, AdminError> {
        let what = format!("read the configuration of {resource}");
        let (resource_type, resource_name) = resource.on_wire();
        let asked = DescribeConfigsResource { resource_type, resource_name, configuration_keys: None };
        let request = DescribeConfigsRequest { resources: vec![asked], ..DescribeConfigsRequest::default() };
        // A broker's file is known to itself alone.
        if let ConfigResource::Broker(id) = resource {
            self.brokers().await?;
            let response = self.ask_broker(*id, &what, &request).await?;
            let result = response.results.into_iter().next().unwrap_or_default();
            if result.error_code != 0 {
                let code = ErrorCode::from(result.error_code);
                let source =
                    crate::ClientError::refused(what.as_str(), code, result.error_message.as_deref());
                return Err(AdminError::Client { what, source });
            }
            return Ok(result.configs.iter().map(ConfigEntry::new).collect());
        }
        let answer = self.call(Target::Any, &what, &request, |_| ErrorCode::NONE).await?;
        let Some(result) = answer.response.results.first() else { return Ok(Vec::new()) };
        let code = ErrorCode::from(result.error_code);
        if code.is_error() {
            return Err(refused(&answer, &what, code, result.error_message.as_deref()));
        }
        Ok(result.configs.iter().map(ConfigEntry::new).collect())
    }

    /// Changes these entries and leaves the others as they are; with `validate_only` it only checks whether it could.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn alter_configs(
        &mut self,
        resource: &ConfigResource,
        changes: &[(String, ConfigChange)],
        validate_only: bool,
    ) -> Result<(), AdminError> {
        let what = format!("change the configuration of {resource}");
        let (resource_type, resource_name) = resource.on_wire();
        let configs = changes.iter().map(|(name, change)| {
            let (config_operation, value) = change.on_wire();
            IncrementalAlterableConfig { name: name.clone(), config_operation, value }
        });
        let resource =
            IncrementalAlterConfigsResource { resource_type, resource_name, configs: configs.collect() };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only };
        let answer = self
            .call(Target::Controller, &what, &request, |response| {
                response.responses.first().map_or(ErrorCode::NONE, |result| result.error_code.into())
            })
            .await?;
        let Some(result) = answer.response.responses.first() else { return Ok(()) };
        match ErrorCode::from(result.error_code) {
            ErrorCode::NONE => Ok(()),
            code => Err(refused(&answer, &what, code, result.error_message.as_deref())),
        }
    }
}
