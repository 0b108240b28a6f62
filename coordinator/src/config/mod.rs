//! The coordinator's configuration: ZooKeeper's `zoo.cfg`, with ZooKeeper's key names.
//!
//! Owns the tables of keys (`keys`), the file format (`properties`) and `server.N` lines (`members`). Never reads a
//! file: the caller hands in the text of `zoo.cfg` and of `myid`.

mod build;
pub mod keys;
pub mod members;
pub mod properties;
#[cfg(test)]
mod tests;

use crate::types::MemberId;
use keys::{Key, Kind, Otherwise};
use members::{HostPort, MemberAddress};
use properties::{Place, Property};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// The member of a standalone server. As in ZooKeeper, whose standalone servers give out sessions as server 1 does.
pub const STANDALONE_MEMBER: MemberId = MemberId(1);
/// The largest number of a member: it goes into the highest byte of the sessions that the member gives out.
pub const MEMBER_MAX: u64 = 255;

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: invalid value \"{value}\" for {key}: {expected}")]
pub struct ConfigError {
    /// Where it stands.
    pub place: Place,
    /// The key.
    pub key: String,
    /// The value given.
    pub value: String,
    /// What is allowed.
    pub expected: String,
}

/// Something that a person should know, but that does not stop the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands.
    pub place: Place,
    /// What it is about.
    pub text: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Which four-letter commands are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandWhitelist {
    /// All of them.
    All,
    /// These.
    Only(BTreeSet<String>),
}

impl CommandWhitelist {
    /// Whether a command is answered.
    pub fn allows(&self, command: &str) -> bool {
        match self {
            CommandWhitelist::All => true,
            CommandWhitelist::Only(commands) => commands.contains(command),
        }
    }
}

/// A coordinator's configuration, checked.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// `tickTime`.
    pub tick_time_ms: u64,
    /// `initLimit`, in ticks.
    pub init_limit_ticks: u64,
    /// `syncLimit`, in ticks.
    pub sync_limit_ticks: u64,
    /// `dataDir`.
    pub data_directory: PathBuf,
    /// `dataLogDir`; the same as `dataDir` unless it is set.
    pub log_directory: PathBuf,
    /// `clientPort` and `clientPortAddress`, or what stands behind the `;` of this member's `server.N` line. At least
    /// one; an empty host is every address of the machine.
    pub client_addresses: Vec<HostPort>,
    /// The `server.N` lines. Empty for a standalone server.
    pub members: BTreeMap<MemberId, MemberAddress>,
    /// Who this is: one of `members`, or [`STANDALONE_MEMBER`] where there are none.
    pub member: MemberId,
    /// `maxClientCnxns`, `None` for any number.
    pub connections_per_address: Option<usize>,
    /// `minSessionTimeout`, or two ticks.
    pub min_session_timeout_ms: i32,
    /// `maxSessionTimeout`, or twenty ticks.
    pub max_session_timeout_ms: i32,
    /// `autopurge.snapRetainCount`, at least 3.
    pub snapshots_retained: usize,
    /// `autopurge.purgeInterval`, `None` for only as needed.
    pub purge_interval_hours: Option<u64>,
    /// `4lw.commands.whitelist`.
    pub command_whitelist: CommandWhitelist,
    /// `snapCount`.
    pub snapshot_interval_transactions: u64,
    /// `jute.maxbuffer`.
    pub request_max_bytes: usize,
    /// `extendedTypesEnabled`.
    pub extended_types_enabled: bool,
    /// `DigestAuthenticationProvider.superDigest`.
    pub super_digest: Option<String>,
    /// `metricsProvider.httpHost` and `httpPort`, where metrics are served at all: with the Prometheus provider, or
    /// with a port.
    pub metrics_address: Option<HostPort>,
    /// `znode.container.checkIntervalMs`.
    pub container_check_interval_ms: u64,
    /// `sillon.electionTimeoutMs`.
    pub election_timeout_ms: u64,
    /// `sillon.heartbeatIntervalMs`.
    pub heartbeat_interval_ms: u64,
    /// `sillon.logMemoryBytes`.
    pub log_memory_bytes: usize,
    /// Every key that was set, with its value, under the name in the table of keys.
    set: BTreeMap<&'static str, String>,
}

impl Default for CoordinatorConfig {
    fn default() -> CoordinatorConfig {
        CoordinatorConfig::from_text("", "defaults", None).expect("the defaults are legal").0
    }
}

/// What a file says, checked one by one.
#[derive(Debug, Default)]
struct Settings {
    values: BTreeMap<&'static str, (Place, String)>,
    servers: BTreeMap<MemberId, (Place, String)>,
}

impl CoordinatorConfig {
    /// Reads the text of a `zoo.cfg`. `source_name` names it in messages. `myid` is the text of the file of that name in
    /// `dataDir` or what the command line says instead; it goes before the key `myid`.
    ///
    /// # Errors
    /// The first bad value, with its place. A key that is not supported is a warning, unless it would be unsafe to go
    /// on without it.
    pub fn from_text(
        text: &str,
        source_name: &str,
        myid: Option<&str>,
    ) -> Result<(CoordinatorConfig, Vec<Warning>), ConfigError> {
        CoordinatorConfig::from_list(properties::parse(text, source_name), source_name, myid)
    }

    /// Reads a list of properties; a later one overrides an earlier one of the same key.
    ///
    /// # Errors
    /// As [`CoordinatorConfig::from_text`].
    pub fn from_list(
        list: Vec<Property>,
        source_name: &str,
        myid: Option<&str>,
    ) -> Result<(CoordinatorConfig, Vec<Warning>), ConfigError> {
        let mut warnings = Vec::new();
        let mut settings = Settings::default();
        for property in list {
            if let Some(number) = property.key.strip_prefix("server.") {
                let member = server_number(number).map_err(|expected| error(&property, expected))?;
                let Property { key, value, place } = property;
                let earlier = settings.servers.insert(member, (place.clone(), value));
                warn_of_repetition(&mut warnings, &key, &place, earlier);
            } else if let Some(key) = keys::find(&property.key) {
                key.check(&property.value).map_err(|expected| error(&property, expected))?;
                let Property { value, place, .. } = property;
                let earlier = settings.values.insert(key.name, (place.clone(), value));
                warn_of_repetition(&mut warnings, key.name, &place, earlier);
            } else {
                warnings.extend(judge_unsupported(&property)?);
            }
        }
        let config = build::build(&settings, source_name, myid, &mut warnings)?;
        Ok((config, warnings))
    }

    /// The `dataDir` of a text, for whoever has to read the file `myid` in it first.
    pub fn data_directory_of(text: &str) -> PathBuf {
        let list = properties::parse(text, "");
        let data_directory =
            |property: &&Property| keys::find(&property.key).is_some_and(|key| key.name == "dataDir");
        let value = list.iter().rev().find(data_directory).map(|property| property.value.as_str());
        PathBuf::from(value.unwrap_or_else(|| default_of("dataDir")))
    }

    /// Whether this is a standalone server: there are no `server.N` lines, or only this member's.
    pub fn is_standalone(&self) -> bool {
        self.members.len() < 2
    }

    /// Where this member listens for its peers; `None` for a standalone server without a `server.N` line.
    pub fn peer_address(&self) -> Option<HostPort> {
        let own = self.members.get(&self.member)?;
        Some(HostPort { host: own.host.clone(), port: own.peer_port })
    }

    /// Every key with the value in force, sorted by name, secrets hidden; `server.N` lines as they were understood.
    pub fn effective(&self) -> BTreeMap<String, String> {
        let value = |key: &Key| match (self.set_value(key.name), key.kind) {
            (Some(value), Kind::Secret) if !value.is_empty() => "(hidden)".to_owned(),
            (value, _) => value.unwrap_or(key.default).to_owned(),
        };
        let mut effective: BTreeMap<String, String> =
            keys::KEYS.iter().map(|key| (key.name.to_owned(), value(key))).collect();
        if let Some(address) = self.client_addresses.first() {
            effective.insert("clientPort".to_owned(), address.port.to_string());
            effective.insert("clientPortAddress".to_owned(), address.host.clone());
        }
        effective.insert("dataLogDir".to_owned(), self.log_directory.display().to_string());
        effective.insert("maxSessionTimeout".to_owned(), self.max_session_timeout_ms.to_string());
        effective.insert("minSessionTimeout".to_owned(), self.min_session_timeout_ms.to_string());
        effective.insert("myid".to_owned(), self.member.to_string());
        effective.insert("autopurge.snapRetainCount".to_owned(), self.snapshots_retained.to_string());
        let servers = self.members.iter();
        effective.extend(servers.map(|(member, address)| (format!("server.{member}"), address.to_string())));
        effective
    }

    /// The value that the file sets for a key, under the name of the table of keys.
    pub fn set_value(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str)
    }
}

fn default_of(name: &str) -> &'static str {
    keys::find(name).expect("the caller names a key of the table").default
}

fn server_number(text: &str) -> Result<MemberId, String> {
    match text.parse() {
        Ok(number) if (1..=MEMBER_MAX).contains(&number) => Ok(MemberId(number)),
        _ => Err(format!("server.N with N from 1 to {MEMBER_MAX} is expected")),
    }
}

fn warn_of_repetition(
    warnings: &mut Vec<Warning>,
    key: &str,
    place: &Place,
    earlier: Option<(Place, String)>,
) {
    if let Some((earlier, _)) = earlier {
        let text = format!("{key} was set before at {earlier}; the later value counts");
        warnings.push(Warning { place: place.clone(), text });
    }
}

/// What to say of a key that is not honoured.
fn judge_unsupported(property: &Property) -> Result<Option<Warning>, ConfigError> {
    let text = match keys::find_unsupported(&property.key) {
        Some(entry) if entry.harmless.iter().any(|value| property.value.eq_ignore_ascii_case(value)) => {
            return Ok(None);
        }
        Some(entry) if entry.otherwise == Otherwise::Refuse => {
            return Err(error(property, format!("{} is expected", entry.text)));
        }
        Some(entry) => format!("{} {}", property.key, entry.text),
        None => match keys::nearest(&property.key) {
            Some(near) => format!("{} is not supported and is ignored; did you mean {near}?", property.key),
            None => format!("{} is not supported and is ignored", property.key),
        },
    };
    Ok(Some(Warning { place: property.place.clone(), text }))
}

fn error(property: &Property, expected: String) -> ConfigError {
    ConfigError {
        place: property.place.clone(),
        key: property.key.clone(),
        value: property.value.clone(),
        expected,
    }
}
