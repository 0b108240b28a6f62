//! The parts of a scenario that are about a coordinator ensemble: their shape, their rules, and what a seed draws.
//!
//! Owns `[ensemble]`, `[sessions]` and the swarm's choices for them, and what a member's configuration file says.

use super::{
    check::{Checked, Checker},
    draw::{choose, count, override_properties, plain},
    error::nearest,
    model::{Choices, Properties, PropertyValue, SECOND, unwritten},
    units::{Count, Nanos},
};
use crate::{
    faults::{Draws, Machines},
    workload::coordinator::{Activity, SessionsConfig},
};
use serde::{Deserialize, Serialize};
use sillon_coordinator::config::{CoordinatorConfig, keys::KEYS};
use std::{collections::BTreeMap, fmt::Write, ops::Range};
use toml::Spanned;

/// Where a member keeps its log and its snapshots.
pub const DATA_DIRECTORY: &str = "/data";
/// Where a member takes clients.
pub const CLIENT_PORT: u16 = 2181;
/// Where members talk to each other; the second is unused by ours, but the file's form has both.
const PEER_PORTS: (u16, u16) = (2888, 3888);

/// `[ensemble]`: how many members, and with what configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Ensemble {
    pub members: Spanned<Count>,
    pub properties: Properties,
}

/// `[sessions]`: who opens sessions and does what in them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sessions {
    /// Where nothing is written: some, or none in a cluster of brokers.
    pub clients: Option<Spanned<Count>>,
    pub operations_per_second: Spanned<f64>,
    pub timeout: Spanned<Nanos>,
    pub nodes: Spanned<Count>,
    pub activities: Spanned<Vec<Activity>>,
}

/// `[swarm.ensemble]`: choices for the keys of `[ensemble]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmEnsemble {
    pub members: Option<Spanned<Vec<Count>>>,
}

/// `[swarm.sessions]`: choices for the keys of `[sessions]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmSessions {
    pub clients: Option<Spanned<Vec<Count>>>,
    pub operations_per_second: Option<Spanned<Vec<f64>>>,
    pub timeout: Option<Spanned<Vec<Nanos>>>,
    pub nodes: Option<Spanned<Vec<Count>>>,
    pub activities: Option<Spanned<Vec<Vec<Activity>>>>,
}

impl Default for Ensemble {
    fn default() -> Self {
        Ensemble { members: unwritten(Count(3)), properties: Properties::new() }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        let config = SessionsConfig::default();
        Sessions {
            clients: None,
            operations_per_second: unwritten(config.operations_per_second),
            timeout: unwritten(Nanos(config.timeout_ns)),
            nodes: unwritten(Count(config.nodes.into())),
            activities: unwritten(config.activities),
        }
    }
}

/// The ensemble of one run, and its clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnEnsemble {
    /// How many members, each on a machine of its own.
    pub members: u32,
    /// `zoo.cfg`, but for what names machines.
    pub properties: BTreeMap<String, String>,
    /// The clients.
    pub sessions: SessionsConfig,
}

impl DrawnEnsemble {
    /// A member's `zoo.cfg`: that of all members.
    pub fn zoo_cfg(&self) -> String {
        zoo_cfg(self.members, self.properties.iter().map(|(name, value)| (&**name, &**value)))
    }
}

fn zoo_cfg<'a>(members: u32, properties: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    let mut set =
        |name: &str, value: &str| writeln!(text, "{name}={value}").expect("a string takes everything");
    for (name, value) in properties {
        set(name, value);
    }
    set("dataDir", DATA_DIRECTORY);
    set("clientPort", &CLIENT_PORT.to_string());
    let machines = Machines { brokers: 0, members };
    for node in 0..members {
        let (peer, election) = PEER_PORTS;
        let address = format!("{}:{peer}:{election}", machines.name(node));
        set(&format!("server.{}", machines.member_id(node)), &address);
    }
    text
}

/// Keys of `zoo.cfg` that the simulator sets itself, and what to use instead.
const RESERVED: &[(&str, &str)] = &[
    ("dataDir", "it is /data on the member's simulated disk"),
    ("dataLogDir", "logs and snapshots are in /data on the member's simulated disk"),
    ("clientPort", "member N takes clients at cN:2181"),
    ("clientPortAddress", "member N takes clients at cN:2181"),
    ("secureClientPort", "member N takes clients at cN:2181"),
];

impl Checker<'_> {
    pub(super) fn ensemble(&self) -> Checked {
        let Some(ensemble) = &self.file.ensemble else {
            return self.no_ensemble();
        };
        self.members(ensemble.members.span(), ensemble.members.get_ref().0)?;
        let swarm = &self.file.swarm;
        for (span, members) in self.choices(&swarm.ensemble.members)? {
            self.members(span, members.0)?;
        }
        for (name, value) in &ensemble.properties {
            self.zoo_property(name, value.span(), value.get_ref())?;
        }
        for (name, values) in &swarm.ensemble_properties {
            if values.get_ref().is_empty() {
                return self.fail(values.span(), "there is nothing to choose from: the list is empty", None);
            }
            for value in values.get_ref() {
                self.zoo_property(name, values.span(), value)?;
            }
        }
        let all = plain(&ensemble.properties);
        let members = count(ensemble.members.get_ref().0);
        let text = zoo_cfg(members, all.iter().map(|(name, value)| (&**name, &**value)));
        if let Err(error) = CoordinatorConfig::from_text(&text, "[ensemble.properties]", Some("1")) {
            return self.fail(ensemble.members.span(), error.to_string(), None);
        }
        self.sessions()
    }

    /// Tables that mean something only to an ensemble.
    fn no_ensemble(&self) -> Checked {
        for table in ["sessions", "swarm.sessions", "swarm.ensemble", "swarm.ensemble_properties"] {
            if let Some(span) = self.source.header(table) {
                let hint = "add [ensemble], or remove this".to_string();
                return self.fail(span, format!("[{table}] means nothing without an ensemble"), Some(hint));
            }
        }
        Ok(())
    }

    /// The most session clients that a seed draws.
    pub(super) fn session_clients(&self) -> u64 {
        let own = vec![*session_clients(self.file).get_ref()];
        let drawn = self.file.swarm.sessions.clients.as_ref().map_or(own, |list| list.get_ref().clone());
        if self.file.ensemble.is_none() { 0 } else { drawn.iter().map(|count| count.0).max().unwrap_or(0) }
    }

    fn members(&self, span: Range<usize>, members: u64) -> Checked {
        if matches!(members, 1 | 3 | 5) {
            return Ok(());
        }
        let hint =
            "write 1, 3 or 5: an even number survives no more failures than one member less".to_string();
        self.fail(span, format!("an ensemble of {members} members is not simulated"), Some(hint))
    }

    fn zoo_property(&self, name: &Spanned<String>, span: Range<usize>, value: &PropertyValue) -> Checked {
        let key = name.get_ref();
        let is_server = key.starts_with("server.").then_some("member N is cN, with `members` of them");
        let reserved = RESERVED.iter().find(|(reserved, _)| reserved == key).map(|(_, owner)| *owner);
        if let Some(owner) = reserved.or(is_server) {
            return self.fail(name.span(), format!("`{key}` is set by the simulator"), Some(owner.into()));
        }
        let read = |properties: &[(&str, &str)]| {
            let text = zoo_cfg(3, properties.iter().copied());
            CoordinatorConfig::from_text(&text, "[ensemble.properties]", Some("1"))
        };
        let usual = read(&[]).map_or(0, |(_, warnings)| warnings.len());
        match read(&[(key, &value.0)]) {
            Err(error) => self.fail(span, error.to_string(), None),
            Ok((_, warnings)) if warnings.len() > usual => {
                let hint = nearest(key, KEYS.iter().map(|key| key.name))
                    .map(|near| format!("did you mean `{near}`?"));
                self.fail(name.span(), format!("`{key}`: {}", warnings[0]), hint)
            }
            Ok(_) => Ok(()),
        }
    }

    fn sessions(&self) -> Checked {
        let (sessions, swarm) = (&self.file.sessions, &self.file.swarm.sessions);
        let least = u64::from(self.file.cluster.is_none());
        let clients = sessions.clients.iter().map(|clients| (clients.span(), *clients.get_ref()));
        for (span, clients) in self.choices(&swarm.clients)?.into_iter().chain(clients) {
            self.number(span, clients.0, least, 32, "`clients`")?;
        }
        let nodes = (sessions.nodes.span(), *sessions.nodes.get_ref());
        for (span, nodes) in self.choices(&swarm.nodes)?.into_iter().chain([nodes]) {
            self.number(span, nodes.0, 1, 16, "`nodes`")?;
        }
        let rate = (sessions.operations_per_second.span(), *sessions.operations_per_second.get_ref());
        for (span, rate) in self.choices(&swarm.operations_per_second)?.into_iter().chain([rate]) {
            if !(rate.is_finite() && (0.1..=10_000.0).contains(&rate)) {
                let message = format!("{rate} operations per second are out of range: 0.1 to 10000");
                return self.fail(span, message, None);
            }
        }
        let timeout = (sessions.timeout.span(), *sessions.timeout.get_ref());
        for (span, timeout) in self.choices(&swarm.timeout)?.into_iter().chain([timeout]) {
            if !(SECOND / 10..=3600 * SECOND).contains(&timeout.0) {
                return self.fail(span, "a session timeout is from 100ms to 1h", None);
            }
        }
        let activities = (sessions.activities.span(), sessions.activities.get_ref().clone());
        for (span, activities) in self.choices(&swarm.activities)?.into_iter().chain([activities]) {
            if activities.is_empty() {
                return self.fail(span, "clients that do nothing show nothing: the list is empty", None);
            }
        }
        Ok(())
    }
}

/// How many session clients a file asks for. Brokers are clients enough, where nothing else is written.
fn session_clients(file: &super::model::File) -> Spanned<Count> {
    let usual = if file.cluster.is_some() { 0 } else { SessionsConfig::default().clients };
    file.sessions.clients.clone().unwrap_or_else(|| unwritten(Count(usual.into())))
}

/// Draws a seed's ensemble, from a stream of its own: scenarios without one draw as before there were any.
pub(super) fn draw(file: &super::model::File, seed: u64) -> Option<DrawnEnsemble> {
    let ensemble = file.ensemble.as_ref()?;
    let mut draws = Draws::new(seed, "ensemble");
    let (sessions, swarm) = (&file.sessions, &file.swarm);
    let members = count(choose(&ensemble.members, &swarm.ensemble.members, &mut draws).0);
    let mut properties = plain(&ensemble.properties);
    override_properties(&mut properties, &swarm.ensemble_properties, &mut draws);
    let sessions = SessionsConfig {
        clients: count(choose(&session_clients(file), &swarm.sessions.clients, &mut draws).0),
        operations_per_second: choose(
            &sessions.operations_per_second,
            &swarm.sessions.operations_per_second,
            &mut draws,
        ),
        timeout_ns: choose(&sessions.timeout, &swarm.sessions.timeout, &mut draws).0,
        nodes: count(choose(&sessions.nodes, &swarm.sessions.nodes, &mut draws).0),
        activities: choose(&sessions.activities, &swarm.sessions.activities, &mut draws),
    };
    Some(DrawnEnsemble { members, properties, sessions })
}

/// The swarm's choices for `zoo.cfg`.
pub(super) type ZooChoices = BTreeMap<Spanned<String>, Choices>;

#[cfg(test)]
mod tests {
    use super::super::{Scenario, ScenarioError};
    use crate::faults::Machines;
    use std::collections::BTreeSet;

    fn parse(rest: &str) -> Result<Scenario, ScenarioError> {
        let head = "name = \"example\"\ndescription = \"An example.\"\n";
        Scenario::parse("scenarios/example.toml", &format!("{head}{rest}"))
    }

    fn message(rest: &str) -> (String, Option<String>) {
        let error = parse(rest).expect_err("it has a mistake");
        (error.message, error.hint)
    }

    #[test]
    fn an_ensemble_alone_has_no_brokers() {
        let scenario = parse("[ensemble]\nmembers = 3\n").expect("it is right");
        let (config, _) = scenario.draw(1);
        assert_eq!(config.machines(), Machines { brokers: 0, members: 3 });
        assert_eq!(config.clocks.len(), 3);
        let zoo_cfg = config.ensemble.expect("it has one").zoo_cfg();
        assert!(zoo_cfg.contains("server.3=c3:2888:3888\n"), "{zoo_cfg}");
        let both = parse("[cluster]\nbrokers = 1\n[ensemble]\nmembers = 1\n").expect("it is right");
        assert_eq!(both.draw(1).0.machines(), Machines { brokers: 1, members: 1 });
    }

    #[test]
    fn what_means_nothing_here_is_refused() {
        assert_eq!(message("[ensemble]\nmembers = 2\n").0, "an ensemble of 2 members is not simulated");
        assert_eq!(message("[ensemble]\n[topics]\ncount = 1\n").0, "[topics] means nothing without brokers");
        assert_eq!(
            message("[sessions]\nclients = 3\n"),
            (
                "[sessions] means nothing without an ensemble".into(),
                Some("add [ensemble], or remove this".into())
            )
        );
        assert_eq!(
            message("[faults.crash]\nper_minute = 1\non = \"members\"\n").0,
            "this scenario has no such machines"
        );
    }

    #[test]
    fn properties_are_zookeepers_and_their_values_are_checked() {
        let of = |property: &str| message(&format!("[ensemble.properties]\n{property}\n"));
        assert_eq!(of("dataDir = \"/tmp\"").0, "`dataDir` is set by the simulator");
        assert_eq!(
            of("\"server.4\" = \"c4:1:2\"").1.as_deref(),
            Some("member N is cN, with `members` of them")
        );
        assert_eq!(of("tickTimes = 500").1.as_deref(), Some("did you mean `tickTime`?"));
        assert!(of("tickTime = \"soon\"").0.contains("tickTime"));
    }

    #[test]
    fn scripts_name_members() {
        let rest = "[ensemble]\n[[script]]\nat = \"3s\"\nfault = \"crash\"\nnode = \"c2\"\n";
        let (config, plan) = parse(rest).expect("it is right").draw(1);
        assert_eq!(plan[0].node, 1);
        assert!(plan[0].line(config.machines()).contains("  c2  crash"));
        let (message, hint) = message(&rest.replace("c2", "c4"));
        assert_eq!(message, "there is no node c4");
        assert_eq!(hint.as_deref(), Some("machines in every run: c1, c2, c3"));
    }

    #[test]
    fn a_seed_draws_the_ensembles_size() {
        let scenario = parse("[ensemble]\n[swarm.ensemble]\nmembers = [1, 3, 5]\n").expect("it is right");
        let sizes: BTreeSet<u32> = (0..50).map(|seed| scenario.draw(seed).0.machines().members).collect();
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [1, 3, 5]);
    }
}
