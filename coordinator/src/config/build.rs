//! Makes a configuration of checked settings: what several keys say together. Owns those rules; never parses a file.

use super::{
    CommandWhitelist, ConfigError, CoordinatorConfig, MEMBER_MAX, STANDALONE_MEMBER, Settings, Warning,
    default_of, keys,
    members::{self, HostPort, MemberAddress},
    properties::Place,
};
use crate::types::MemberId;
use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

/// The four-letter commands of ZooKeeper 3.8.
const COMMANDS: &[&str] = &[
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "icfg", "isro", "mntr", "ruok", "srst",
    "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
];
/// ZooKeeper keeps at least this many snapshots, whatever it is told.
const SNAPSHOTS_RETAINED_MIN: usize = 3;
/// How many heartbeats an election timeout holds at the least: one lost heartbeat must not bring an election.
const HEARTBEATS_PER_ELECTION_TIMEOUT: u64 = 3;
/// The class name with which ZooKeeper serves metrics over HTTP.
const PROMETHEUS: &str = "PrometheusMetricsProvider";

pub(super) fn build(
    settings: &Settings,
    source_name: &str,
    myid: Option<&str>,
    warnings: &mut Vec<Warning>,
) -> Result<CoordinatorConfig, ConfigError> {
    let values = Values { settings, source_name };
    let (members, clients) = values.members(warnings)?;
    let member = values.member(&members, myid, warnings)?;
    let tick_time_ms: u64 = values.number("tickTime");
    let (min_session_timeout_ms, max_session_timeout_ms) = values.session_timeouts(tick_time_ms)?;
    let data_directory = PathBuf::from(values.text("dataDir"));
    if data_directory.as_os_str().is_empty() {
        return Err(values.error("dataDir", "a directory is expected"));
    }
    let log_directory = match values.text("dataLogDir") {
        "" => data_directory.clone(),
        directory => PathBuf::from(directory),
    };
    let heartbeat_interval_ms: u64 = values.number("sillon.heartbeatIntervalMs");
    let election_timeout_ms: u64 = values.number("sillon.electionTimeoutMs");
    if election_timeout_ms < heartbeat_interval_ms * HEARTBEATS_PER_ELECTION_TIMEOUT {
        let least = heartbeat_interval_ms * HEARTBEATS_PER_ELECTION_TIMEOUT;
        let expected = format!("at least three times sillon.heartbeatIntervalMs is expected: {least}");
        return Err(values.error("sillon.electionTimeoutMs", &expected));
    }
    Ok(CoordinatorConfig {
        tick_time_ms,
        init_limit_ticks: values.number("initLimit"),
        sync_limit_ticks: values.number("syncLimit"),
        data_directory,
        log_directory,
        client_addresses: vec![values.client_address(clients.get(&member))?],
        members,
        member,
        connections_per_address: Some(values.number("maxClientCnxns")).filter(|limit| *limit > 0),
        min_session_timeout_ms,
        max_session_timeout_ms,
        snapshots_retained: values.snapshots_retained(warnings),
        purge_interval_hours: Some(values.number("autopurge.purgeInterval")).filter(|hours| *hours > 0),
        command_whitelist: values.command_whitelist(warnings),
        snapshot_interval_transactions: values.number("snapCount"),
        request_max_bytes: values.size("jute.maxbuffer"),
        extended_types_enabled: values.boolean("extendedTypesEnabled"),
        super_digest: values.super_digest()?,
        metrics_address: values.metrics_address(warnings),
        container_check_interval_ms: values.number("znode.container.checkIntervalMs"),
        election_timeout_ms,
        heartbeat_interval_ms,
        log_memory_bytes: values.size("sillon.logMemoryBytes"),
        set: settings.values.iter().map(|(name, (_, value))| (*name, value.clone())).collect(),
    })
}

type Members = BTreeMap<MemberId, MemberAddress>;

/// Reads checked values out of what was set, else the defaults.
struct Values<'a> {
    settings: &'a Settings,
    source_name: &'a str,
}

impl Values<'_> {
    fn is_set(&self, name: &str) -> bool {
        self.settings.values.contains_key(name)
    }

    fn text(&self, name: &str) -> &str {
        match self.settings.values.get(name) {
            Some((_, value)) => value,
            None => default_of(name),
        }
    }

    fn number<T: FromStr>(&self, name: &str) -> T {
        self.text(name).parse().ok().expect("the table's range fits the field's type")
    }

    fn size(&self, name: &str) -> usize {
        let size = keys::parse_size(self.text(name)).and_then(|size| usize::try_from(size).ok());
        size.expect("the table's range fits the field's type")
    }

    fn boolean(&self, name: &str) -> bool {
        keys::parse_boolean(self.text(name)).expect("values are checked before they are stored")
    }

    fn place(&self, name: &str) -> Place {
        match self.settings.values.get(name) {
            Some((place, _)) => place.clone(),
            None => Place { source: self.source_name.to_owned(), line: 0 },
        }
    }

    fn error(&self, name: &str, expected: &str) -> ConfigError {
        ConfigError {
            place: self.place(name),
            key: name.to_owned(),
            value: self.text(name).to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// The members' addresses, and where the clients of each connect, for those whose line says so.
    fn members(
        &self,
        warnings: &mut Vec<Warning>,
    ) -> Result<(Members, BTreeMap<MemberId, HostPort>), ConfigError> {
        let (mut members, mut clients) = (Members::new(), BTreeMap::new());
        for (member, (place, value)) in &self.settings.servers {
            let error = |expected: String| ConfigError {
                place: place.clone(),
                key: format!("server.{member}"),
                value: value.clone(),
                expected,
            };
            let (address, client) = members::parse(value).map_err(error)?;
            let same =
                |other: &MemberAddress| other.host == address.host && other.peer_port == address.peer_port;
            if let Some((other, _)) = members.iter().find(|(_, other)| same(other)) {
                return Err(error(format!("an address of its own is expected; server.{other} has the same")));
            }
            members.insert(*member, address);
            clients.extend(client.map(|client| (*member, client)));
        }
        if let (Some((place, _)), 0) = (self.settings.servers.values().next_back(), members.len() % 2) {
            let (all, one_less) = (members.len(), members.len() - 1);
            let text = format!("{all} members endure the loss of no more of them than {one_less} do");
            warnings.push(Warning { place: place.clone(), text });
        }
        Ok((members, clients))
    }

    /// Who this is.
    fn member(
        &self,
        members: &Members,
        myid: Option<&str>,
        warnings: &mut Vec<Warning>,
    ) -> Result<MemberId, ConfigError> {
        let (place, text) = match myid {
            Some(text) => (Place { source: "myid".to_owned(), line: 0 }, text),
            None => (self.place("myid"), self.text("myid")),
        };
        let text = text.trim();
        let error = |expected| ConfigError {
            place: place.clone(),
            key: "myid".to_owned(),
            value: text.to_owned(),
            expected,
        };
        let known: Vec<String> = members.keys().map(MemberId::to_string).collect();
        let known = known.join(", ");
        if text.is_empty() {
            return match members.len() {
                0 => Ok(STANDALONE_MEMBER),
                1 => Ok(*members.keys().next().expect("there is one")),
                _ => Err(error(format!(
                    "the number of this member's server.N line is expected, one of {known}"
                ))),
            };
        }
        let number: Option<u64> = text.parse().ok().filter(|number| (1..=MEMBER_MAX).contains(number));
        let member =
            MemberId(number.ok_or_else(|| error(format!("a number from 1 to {MEMBER_MAX} is expected")))?);
        if members.is_empty() {
            if member != STANDALONE_MEMBER {
                let text = format!(
                    "there are no server.N lines: this is a standalone server, myid {member} is ignored"
                );
                warnings.push(Warning { place, text });
            }
            return Ok(STANDALONE_MEMBER);
        }
        if !members.contains_key(&member) {
            return Err(error(format!("the number of a server.N line is expected, one of {known}")));
        }
        Ok(member)
    }

    /// Where clients connect: what the keys say, or the member's own line. Where both say something, they must agree.
    fn client_address(&self, of_member: Option<&HostPort>) -> Result<HostPort, ConfigError> {
        let host = members::all_addresses(self.text("clientPortAddress").to_owned());
        let by_keys = HostPort { host, port: self.number("clientPort") };
        let Some(of_member) = of_member else { return Ok(by_keys) };
        if self.is_set("clientPort") && by_keys.port != of_member.port {
            let expected =
                format!("{} is expected, as in this member's server.N line, or no such key", of_member.port);
            return Err(self.error("clientPort", &expected));
        }
        if self.is_set("clientPortAddress") && by_keys.host != of_member.host {
            let expected = format!(
                "the address of this member's server.N line ({of_member}) is expected, or no such key"
            );
            return Err(self.error("clientPortAddress", &expected));
        }
        Ok(of_member.clone())
    }

    fn session_timeouts(&self, tick_time_ms: u64) -> Result<(i32, i32), ConfigError> {
        let value = |name: &str, ticks: u64| match self.number::<i32>(name) {
            -1 => i32::try_from(tick_time_ms * ticks).expect("the longest tick is short enough"),
            timeout_ms => timeout_ms,
        };
        let (min, max) = (value("minSessionTimeout", 2), value("maxSessionTimeout", 20));
        for (name, timeout_ms) in [("minSessionTimeout", min), ("maxSessionTimeout", max)] {
            if timeout_ms == 0 {
                return Err(self.error(name, "at least 1 is expected, or -1"));
            }
        }
        if min > max {
            let name =
                if self.is_set("minSessionTimeout") { "minSessionTimeout" } else { "maxSessionTimeout" };
            let expected = format!("minSessionTimeout ({min}) may not be above maxSessionTimeout ({max})");
            return Err(self.error(name, &expected));
        }
        Ok((min, max))
    }

    fn snapshots_retained(&self, warnings: &mut Vec<Warning>) -> usize {
        let retained: usize = self.number("autopurge.snapRetainCount");
        if retained < SNAPSHOTS_RETAINED_MIN {
            let text = format!("autopurge.snapRetainCount is raised to {SNAPSHOTS_RETAINED_MIN}");
            warnings.push(Warning { place: self.place("autopurge.snapRetainCount"), text });
        }
        retained.max(SNAPSHOTS_RETAINED_MIN)
    }

    fn command_whitelist(&self, warnings: &mut Vec<Warning>) -> CommandWhitelist {
        let words =
            self.text("4lw.commands.whitelist").split(',').map(str::trim).filter(|word| !word.is_empty());
        let words: Vec<&str> = words.collect();
        if words.contains(&"*") {
            return CommandWhitelist::All;
        }
        for word in words.iter().filter(|word| !COMMANDS.contains(word)) {
            let text = format!("4lw.commands.whitelist: {word} is none of {}", COMMANDS.join(", "));
            warnings.push(Warning { place: self.place("4lw.commands.whitelist"), text });
        }
        CommandWhitelist::Only(words.into_iter().map(str::to_owned).collect())
    }

    fn super_digest(&self) -> Result<Option<String>, ConfigError> {
        const NAME: &str = "DigestAuthenticationProvider.superDigest";
        let digest = self.text(NAME);
        if digest.is_empty() {
            return Ok(None);
        }
        if digest.split_once(':').is_none_or(|(user, proof)| user.is_empty() || proof.is_empty()) {
            let mut error = self.error(NAME, "super:BASE64(SHA1(super:PASSWORD)) is expected");
            error.value = "(hidden)".to_owned();
            return Err(error);
        }
        Ok(Some(digest.to_owned()))
    }

    fn metrics_address(&self, warnings: &mut Vec<Warning>) -> Option<HostPort> {
        const CLASS: &str = "metricsProvider.className";
        let class = self.text(CLASS).rsplit('.').next().unwrap_or_default();
        let known = ["", PROMETHEUS, "DefaultMetricsProvider", "NullMetricsProvider"].contains(&class);
        if !known {
            let text = format!("{CLASS}: {} is not available; only {PROMETHEUS} is", self.text(CLASS));
            warnings.push(Warning { place: self.place(CLASS), text });
        }
        if class != PROMETHEUS && !self.is_set("metricsProvider.httpPort") {
            return None;
        }
        let host = members::all_addresses(self.text("metricsProvider.httpHost").to_owned());
        Some(HostPort { host, port: self.number("metricsProvider.httpPort") })
    }
}
