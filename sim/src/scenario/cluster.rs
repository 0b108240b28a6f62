//! The parts of a scenario that are about several brokers: their shape, their rules, and what a seed draws.
//!
//! Owns `[cluster]`, `[admin]`, the ways to heal, and the swarm's choices for brokers and replicas.

use super::{
    check::{Checked, Checker},
    draw::{choose, count},
    model::{File, Properties, unwritten},
    properties::Keys,
    units::Count,
};
use crate::{faults::Draws, workload::AdminConfig};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{fmt, ops::Range};
use toml::Spanned;

/// The most brokers.
const BROKERS_MAX: u64 = 6;

/// `[cluster]`: which machines run a broker, and with what configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Cluster {
    pub brokers: Spanned<Count>,
    pub racks: Option<Spanned<Racks>>,
    pub properties: Properties,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster { brokers: unwritten(Count(1)), racks: None, properties: Properties::new() }
    }
}

/// Where brokers stand: so many racks in turn, or the rack of each broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Racks {
    Number(u64),
    Names(Vec<String>),
}

struct RacksVisitor;

impl<'de> de::Visitor<'de> for RacksVisitor {
    type Value = Racks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of racks, or a list with the rack of each broker")
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Racks, E> {
        u64::try_from(number).map(Racks::Number).map_err(|_| E::custom("there are no negative racks"))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Racks, E> {
        Ok(Racks::Number(number))
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Racks, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element::<String>()? {
            names.push(name);
        }
        Ok(Racks::Names(names))
    }
}

impl<'de> Deserialize<'de> for Racks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RacksVisitor)
    }
}

/// `[admin]`: what an operator does to the cluster while clients work, and how often.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Admin {
    /// Topics beside the others that are deleted and made again, and grow.
    pub topics: Option<Spanned<Count>>,
    pub deletions_per_minute: Option<Spanned<f64>>,
    pub growths_per_minute: Option<Spanned<f64>>,
    pub reassignments_per_minute: Option<Spanned<f64>>,
    pub elections_per_minute: Option<Spanned<f64>>,
    pub config_changes_per_minute: Option<Spanned<f64>>,
}

/// `[swarm.cluster]`: choices for the keys of `[cluster]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmCluster {
    pub brokers: Option<Spanned<Vec<Count>>>,
}

/// `[swarm.topics]`: choices for the keys of `[topics]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmTopics {
    pub count: Option<Spanned<Vec<Count>>>,
    pub partitions: Option<Spanned<Vec<Count>>>,
    pub replication_factor: Option<Spanned<Vec<Count>>>,
    pub min_insync_replicas: Option<Spanned<Vec<Count>>>,
}

/// What is whole again when faults end, as a scenario writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HealChoice {
    /// Everything.
    Full,
    /// As much as is needed; the rest stays dead or cut off for ever.
    Core,
    /// One of both, as each seed draws.
    Either,
}

/// What is whole again when the faults of a run end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawnHeal {
    /// Only as much as is needed.
    pub core: bool,
    /// Decides which machines that are, and what becomes of the others.
    pub pick: u64,
}

/// The brokers of one run.
pub(super) struct DrawnBrokers {
    pub count: u32,
    pub racks: Vec<String>,
    pub heal: DrawnHeal,
}

/// How many brokers, their racks, and how they heal, from a stream of their own: scenarios of one broker draw as before there
/// were more.
pub(super) fn draw(file: &File, seed: u64) -> DrawnBrokers {
    let mut draws = Draws::new(seed, "cluster");
    let brokers = match &file.cluster {
        Some(cluster) => count(choose(&cluster.brokers, &file.swarm.cluster.brokers, &mut draws).0),
        None => count(file.brokers()),
    };
    let racks = match file.cluster.as_ref().and_then(|cluster| cluster.racks.as_ref()).map(Spanned::get_ref) {
        None => Vec::new(),
        Some(Racks::Number(number)) => {
            (0..brokers).map(|broker| format!("rack-{}", u64::from(broker) % number)).collect()
        }
        Some(Racks::Names(names)) => names.iter().cycle().take(brokers as usize).cloned().collect(),
    };
    let pick = draws.bits();
    let core = match file.phases.healing.get_ref() {
        HealChoice::Full => false,
        HealChoice::Core => true,
        HealChoice::Either => draws.chance(0.5),
    };
    DrawnBrokers { count: brokers, racks, heal: DrawnHeal { core, pick } }
}

/// What the operator does.
pub(super) fn admin(file: &File) -> AdminConfig {
    let rate = |rate: &Option<Spanned<f64>>| rate.as_ref().map_or(0.0, |rate| *rate.get_ref());
    let admin = &file.admin;
    AdminConfig {
        topics: admin.topics.as_ref().map_or(0, |topics| count(topics.get_ref().0)),
        deletions_per_minute: rate(&admin.deletions_per_minute),
        growths_per_minute: rate(&admin.growths_per_minute),
        reassignments_per_minute: rate(&admin.reassignments_per_minute),
        elections_per_minute: rate(&admin.elections_per_minute),
        config_changes_per_minute: rate(&admin.config_changes_per_minute),
    }
}

impl Checker<'_> {
    pub(super) fn cluster(&self) -> Checked {
        let Some(cluster) = &self.file.cluster else { return self.no_brokers() };
        let own = (cluster.brokers.span(), *cluster.brokers.get_ref());
        for (span, brokers) in self.choices(&self.file.swarm.cluster.brokers)?.into_iter().chain([own]) {
            self.brokers(span, brokers.0)?;
        }
        if let Some(racks) = &cluster.racks {
            let is_empty = match racks.get_ref() {
                Racks::Number(number) => *number == 0,
                Racks::Names(names) => names.is_empty() || names.iter().any(String::is_empty),
            };
            if is_empty {
                let hint = "write racks = 3, or racks = [\"a\", \"b\"]".to_string();
                return self.fail(racks.span(), "brokers stand in racks that have names", Some(hint));
            }
        }
        self.properties(&cluster.properties, Keys::Broker)
    }

    fn brokers(&self, span: Range<usize>, brokers: u64) -> Checked {
        match brokers {
            0 => self.fail(span, "a cluster of 0 brokers cannot run", Some("write brokers = 1".into())),
            1 => Ok(()),
            2..=BROKERS_MAX if self.file.ensemble.is_none() => {
                let hint = "add [ensemble]: brokers find each other through a coordinator that all reach"
                    .to_string();
                self.fail(span, format!("{brokers} brokers need an ensemble"), Some(hint))
            }
            2..=BROKERS_MAX => Ok(()),
            _ => self.fail(span, format!("{brokers} brokers are too many: {BROKERS_MAX} is the most"), None),
        }
    }

    /// The least and the most brokers that a seed draws.
    pub(super) fn brokers_range(&self) -> (u64, u64) {
        let own = vec![Count(self.file.brokers())];
        let drawn = self.file.swarm.cluster.brokers.as_ref().map_or(own, |list| list.get_ref().clone());
        let counts = drawn.iter().map(|brokers| brokers.0);
        (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0))
    }

    pub(super) fn topics(&self) -> Checked {
        let (topics, swarm) = (&self.file.topics, &self.file.swarm.topics);
        for (value, choices, most, what) in [
            (&topics.count, &swarm.count, 64, "`count`"),
            (&topics.partitions, &swarm.partitions, 64, "`partitions`"),
            (&topics.replication_factor, &swarm.replication_factor, 9, "`replication_factor`"),
            (&topics.min_insync_replicas, &swarm.min_insync_replicas, 9, "`min_insync_replicas`"),
        ] {
            let own = (value.span(), *value.get_ref());
            for (span, number) in self.choices(choices)?.into_iter().chain([own]) {
                self.number(span, number.0, 1, most, what)?;
            }
        }
        if self.file.brokers() == 0 {
            return Ok(());
        }
        self.replicas()?;
        self.admin()?;
        self.groups()?;
        self.properties(&topics.properties, Keys::Topic)
    }

    /// Whatever a seed draws, there are enough brokers, and enough replicas. The larger values are cut down to what a seed
    /// has where the swarm draws both, so that only the least have to fit.
    fn replicas(&self) -> Checked {
        let (topics, swarm) = (&self.file.topics, &self.file.swarm.topics);
        let least = |value: &Spanned<Count>, choices: &Option<Spanned<Vec<Count>>>| match choices {
            None => (value.span(), value.get_ref().0),
            Some(list) => (list.span(), list.get_ref().iter().map(|choice| choice.0).min().unwrap_or(0)),
        };
        let (brokers, _) = self.brokers_range();
        let (span, replicas) = least(&topics.replication_factor, &swarm.replication_factor);
        if replicas > brokers {
            let message =
                format!("replication_factor {replicas} needs more brokers than the cluster has ({brokers})");
            return self.fail(span, message, None);
        }
        let (span, minimum) = least(&topics.min_insync_replicas, &swarm.min_insync_replicas);
        if minimum > replicas {
            let message = format!("min_insync_replicas {minimum} is above the replication factor {replicas}");
            let hint = "no produce with acks=all could ever succeed".to_string();
            return self.fail(span, message, Some(hint));
        }
        Ok(())
    }

    fn admin(&self) -> Checked {
        let admin = &self.file.admin;
        let topics = admin.topics.as_ref().map_or(0, |topics| topics.get_ref().0);
        if let Some(written) = admin.topics.as_ref().filter(|_| topics > 8) {
            return self.fail(written.span(), "an operator has at most 8 topics of its own", None);
        }
        for (rate, needs_topics) in [
            (&admin.deletions_per_minute, true),
            (&admin.growths_per_minute, true),
            (&admin.reassignments_per_minute, false),
            (&admin.elections_per_minute, false),
            (&admin.config_changes_per_minute, false),
        ] {
            let Some(rate) = rate else { continue };
            let per_minute = *rate.get_ref();
            if !(per_minute.is_finite() && (0.0..=600.0).contains(&per_minute)) {
                return self.fail(rate.span(), format!("{per_minute} is out of range: 0 to 600"), None);
            }
            if needs_topics && topics == 0 {
                let hint =
                    "write topics = 1: only topics of the operator's own are deleted and grow".to_string();
                return self.fail(rate.span(), "there is no topic to do this to", Some(hint));
            }
        }
        Ok(())
    }

    /// A core needs something that can be left out, and somebody who knows.
    pub(super) fn healing(&self) -> Checked {
        let healing = &self.file.phases.healing;
        if *healing.get_ref() == HealChoice::Full {
            return Ok(());
        }
        if self.brokers_range().0 < 2 {
            let hint = "write healing = \"full\"".to_string();
            return self.fail(healing.span(), "one broker has no core to heal", Some(hint));
        }
        if self.session_clients() > 0 {
            let hint =
                "write clients = 0 in [sessions]: they look through every member at the end".to_string();
            return self.fail(healing.span(), "session clients need every member to heal", Some(hint));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DrawnConfig, Scenario, ScenarioError};
    use std::collections::BTreeSet;

    const CLUSTER: &str = "[cluster]\nbrokers = 3\n[ensemble]\nmembers = 3\n";

    fn parse(rest: &str) -> Result<Scenario, ScenarioError> {
        let head = "name = \"example\"\ndescription = \"An example.\"\n";
        Scenario::parse("scenarios/example.toml", &format!("{head}{rest}"))
    }

    fn draw(rest: &str, seed: u64) -> DrawnConfig {
        parse(rest).expect("it is right").draw(seed).0
    }

    fn message(rest: &str) -> String {
        parse(rest).expect_err("it has a mistake").message
    }

    #[test]
    fn brokers_and_members_in_one_world() {
        let config =
            draw(&format!("{CLUSTER}[topics]\nreplication_factor = 3\nmin_insync_replicas = 2\n"), 1);
        let machines = config.machines();
        let names: Vec<String> = (0..machines.count()).map(|node| machines.name(node)).collect();
        assert_eq!(names, ["n0", "n1", "n2", "c1", "c2", "c3"]);
        assert_eq!(config.ensemble.expect("it has one").sessions.clients, 0, "brokers are clients enough");
        assert_eq!(config.clocks.len(), 6);
        let alone = draw("[ensemble]\nmembers = 3\n", 1);
        assert_eq!(alone.ensemble.expect("it has one").sessions.clients, 5);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(message("[cluster]\nbrokers = 2\n"), "2 brokers need an ensemble");
        assert_eq!(message("[cluster]\nbrokers = 7\n[ensemble]\n"), "7 brokers are too many: 6 is the most");
        assert_eq!(message("[phases]\nhealing = \"core\"\n"), "one broker has no core to heal");
        let sessions = format!("{CLUSTER}[sessions]\nclients = 2\n[phases]\nhealing = \"either\"\n");
        assert_eq!(message(&sessions), "session clients need every member to heal");
        let deletions = format!("{CLUSTER}[admin]\ndeletions_per_minute = 1\n");
        assert_eq!(message(&deletions), "there is no topic to do this to");
        let replicas = "[swarm.topics]\nreplication_factor = [4, 5]\n";
        let expected = "replication_factor 4 needs more brokers than the cluster has (3)";
        assert_eq!(message(&format!("{CLUSTER}{replicas}")), expected);
        assert_eq!(
            message(&format!("{CLUSTER}[cluster.properties]\n\"broker.rack\" = \"a\"\n")),
            "`broker.rack` is set by the simulator"
        );
    }

    #[test]
    fn racks_by_number_or_by_name() {
        let config =
            |racks: &str| draw(&CLUSTER.replace("3\n[e", &format!("3\nracks = {racks}\n[e")), 1).racks;
        assert_eq!(config("2"), ["rack-0", "rack-1", "rack-0"]);
        assert_eq!(config("[\"a\", \"b\", \"c\"]"), ["a", "b", "c"]);
        assert!(parse(&CLUSTER.replace("3\n[e", "3\nracks = 0\n[e")).is_err());
    }

    #[test]
    fn a_seed_draws_brokers_replicas_and_how_they_heal() {
        let rest = format!(
            "{CLUSTER}[phases]\nhealing = \"either\"\n[swarm.cluster]\nbrokers = [3, 4, 6]\n[swarm.topics]\n\
             replication_factor = [2, 3, 5]\nmin_insync_replicas = [1, 2, 3]\n"
        );
        let scenario = parse(&rest).expect("it is right");
        let drawn: Vec<DrawnConfig> = (0..80).map(|seed| scenario.draw(seed).0).collect();
        let brokers: BTreeSet<u32> = drawn.iter().map(|config| config.brokers).collect();
        assert_eq!(brokers.into_iter().collect::<Vec<_>>(), [3, 4, 6]);
        for config in &drawn {
            assert!(config.topics.replication_factor <= config.brokers);
            assert!(config.topics.min_insync_replicas <= config.topics.replication_factor);
            assert_eq!(config.clocks.len(), config.machines().count() as usize);
        }
        assert!(drawn.iter().any(|config| config.heal.core) && drawn.iter().any(|config| !config.heal.core));
    }

    #[test]
    fn scripts_and_rates_name_roles() {
        let step = |node: &str| format!("{CLUSTER}[[script]]\nat = \"3s\"\nfault = \"crash\"\n{node}\n");
        let (config, plan) = parse(&step("node = \"leader\"")).expect("it is right").draw(1);
        assert!(plan[0].line(config.machines()).contains("some leader  crash"));
        let (_, plan) = parse(&step("machines = \"brokers\"")).expect("it is right").draw(1);
        assert_eq!(plan.iter().map(|planned| planned.node).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(message(&step("")), "nothing says where this step strikes");
        assert_eq!(message(&step("node = \"leadre\"")), "there is no node leadre");
        let alone = "[[script]]\nat = \"3s\"\nfault = \"crash\"\nnode = \"coordinator-leader\"\n";
        assert_eq!(message(alone), "no machine of this scenario is ever coordinator-leader");
        let rolling = "[faults.rolling-restart]\nper_minute = 1\ntarget = \"leader\"\n";
        assert_eq!(message(&format!("{CLUSTER}{rolling}")), "`rolling-restart` cannot be aimed");
        let twice = "[faults.crash]\nper_minute = 1\ntarget = \"leader\"\non = \"brokers\"\n";
        assert_eq!(message(&format!("{CLUSTER}{twice}")), "the machine is given twice");
        let aimed = "[faults.crash]\nper_minute = 60\ntarget = \"controller\"\n";
        let (_, plan) = parse(&format!("{CLUSTER}{aimed}")).expect("it is right").draw(1);
        assert!(!plan.is_empty() && plan.iter().all(|planned| planned.aim.is_some()));
    }
}
