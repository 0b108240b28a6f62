//! The controller beside a coordinator that is only a map: what it writes is checked as a coordinator checks it, and after
//! each write the controller knows exactly what a new one would read.

mod alter;
mod brokers;
mod configs;
mod elections;
mod loading;
mod property;
mod reassignment;
mod topics;
mod unproven;

use super::{
    Command, Controller, ControllerError, ControllerSettings, LoadedNode, LoadedState, Outcome, Plan, Write,
    layout, load,
};
use crate::{
    config::BrokerConfig,
    metadata::{BrokerImage, Endpoint, PartitionImage},
    types::{BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition, Uuid},
};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone)]
struct Node {
    data: Vec<u8>,
    version: i32,
    czxid: i64,
}

/// The coordinator's tree.
#[derive(Clone, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    zxid: i64,
}

impl Tree {
    fn new() -> Tree {
        let mut tree = Tree::default();
        for path in ["/config/topics", "/brokers/topics"].iter().chain(layout::PERSISTENT_PATHS) {
            tree.nodes.insert((*path).to_owned(), Node { data: Vec::new(), version: 0, czxid: 0 });
        }
        tree.put(layout::CLUSTER_ID, layout::encode_cluster_id("cluster"));
        tree
    }

    /// Writes a node as somebody else does.
    pub fn put(&mut self, path: &str, data: Vec<u8>) {
        self.zxid += 1;
        let czxid = self.zxid;
        let node = self.nodes.entry(path.to_owned()).or_insert(Node { data: Vec::new(), version: -1, czxid });
        node.version += 1;
        node.data = data;
    }

    /// One multi: all of it, or nothing and the reason.
    pub fn apply(&mut self, writes: &[Write]) -> Result<i64, String> {
        let mut next = self.clone();
        next.zxid += 1;
        for write in writes {
            next.apply_one(write).map_err(|reason| format!("{write:?}: {reason}"))?;
        }
        *self = next;
        Ok(self.zxid)
    }

    fn apply_one(&mut self, write: &Write) -> Result<(), &'static str> {
        let fits = |node: Option<&Node>, version: Option<i32>| match node {
            None => Err("no node"),
            Some(node) if version.is_some_and(|version| version != node.version) => Err("bad version"),
            Some(_) => Ok(()),
        };
        match write {
            Write::Create { path, data } => {
                let parent = &path[..path.rfind('/').expect("a path")];
                if self.nodes.contains_key(path) {
                    return Err("node exists");
                }
                if !parent.is_empty() && !self.nodes.contains_key(parent) {
                    return Err("no parent");
                }
                let node = Node { data: data.clone(), version: 0, czxid: self.zxid };
                self.nodes.insert(path.clone(), node);
            }
            Write::Set { path, data, version } => {
                fits(self.nodes.get(path), Some(*version))?;
                let node = self.nodes.get_mut(path).expect("checked");
                node.version += 1;
                node.data.clone_from(data);
            }
            Write::Delete { path, version } => {
                fits(self.nodes.get(path), *version)?;
                let below = format!("{path}/");
                if self.nodes.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below))
                {
                    return Err("not empty");
                }
                self.nodes.remove(path);
            }
            Write::Check { path, version } => fits(self.nodes.get(path), *version)?,
        }
        Ok(())
    }

    pub fn load(&self, epoch: i32) -> LoadedState {
        let nodes = self.nodes.iter().map(|(path, node)| LoadedNode {
            path: path.clone(),
            data: node.data.clone(),
            version: node.version,
            czxid: node.czxid,
        });
        let mut count = 1000;
        let mut fresh = || {
            count += 1;
            TopicId(Uuid::from_u128(count))
        };
        LoadedState::assemble(BrokerId(1), ControllerEpoch(epoch), self.zxid, nodes, &mut fresh)
    }

    pub fn has(&self, path: &str) -> bool {
        self.nodes.contains_key(path)
    }
}

pub(super) struct World {
    pub tree: Tree,
    pub controller: Controller,
    settings: ControllerSettings,
    epoch: i32,
    ids: u128,
}

pub(super) fn brokers(list: &[i32]) -> Vec<BrokerId> {
    list.iter().copied().map(BrokerId).collect()
}

impl World {
    pub fn with_file(file: &str) -> World {
        let (file, warnings) = BrokerConfig::from_properties(file, "server.properties").unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let settings = ControllerSettings { file: Arc::new(file) };
        let tree = Tree::new();
        let controller = Controller::new(tree.load(1), settings.clone());
        World { tree, controller, settings, epoch: 1, ids: 0 }
    }

    /// A world with brokers 1 to `count`.
    pub fn new(count: i32) -> World {
        let mut world = World::with_file("");
        for id in 1..=count {
            world.register(id, false);
        }
        world
    }

    /// A broker registers; the controller hears of it.
    pub fn register(&mut self, id: i32, unclean: bool) {
        self.write_registration(id, unclean, None);
        self.hear();
    }

    pub fn write_registration(&mut self, id: i32, unclean: bool, rack: Option<&str>) {
        let counter = layout::registration_path(BrokerId(id));
        self.tree.put(&counter, Vec::new());
        let endpoint = Endpoint { listener: "PLAINTEXT".to_owned(), host: "h".to_owned(), port: 9092 };
        let broker = BrokerImage {
            broker_epoch: BrokerEpoch::NONE,
            endpoints: vec![endpoint],
            rack: rack.map(Arc::from),
            unclean,
            registration: self.tree.nodes[&counter].version,
            shutting_down: false,
        };
        self.tree.nodes.remove(&layout::broker_path(BrokerId(id)));
        self.tree.put(&layout::broker_path(BrokerId(id)), layout::encode_broker(&broker, 0));
    }

    /// A broker's registration ends; the controller hears of it.
    pub fn leave(&mut self, id: i32) {
        self.tree.nodes.remove(&layout::broker_path(BrokerId(id)));
        self.hear();
    }

    /// The controller hears which brokers are registered.
    pub fn hear(&mut self) {
        let brokers = self.registered();
        self.run(Command::BrokersChanged(brokers)).unwrap();
        self.do_chores();
    }

    pub fn registered(&self) -> BTreeMap<BrokerId, Arc<BrokerImage>> {
        self.tree.load(0).brokers
    }

    pub fn epoch_of(&self, id: i32) -> BrokerEpoch {
        self.controller.image().brokers[&BrokerId(id)].broker_epoch
    }

    /// One plan of the command, written.
    pub fn step(&mut self, command: &Command) -> Result<Plan, ControllerError> {
        let plan = self.controller.plan(command)?;
        if !plan.writes.is_empty() {
            let zxid = self.tree.apply(&plan.writes).unwrap_or_else(|reason| panic!("{command:?}: {reason}"));
            self.controller.commit(&plan, zxid);
        }
        self.check();
        Ok(plan)
    }

    /// The whole command.
    pub fn run(&mut self, command: Command) -> Result<Outcome, ControllerError> {
        for _ in 0..1000 {
            let plan = self.step(&command)?;
            if !plan.unfinished {
                return Ok(plan.outcome);
            }
        }
        panic!("{command:?} does not come to an end");
    }

    pub fn do_chores(&mut self) {
        for _ in 0..1000 {
            let Some(chore) = self.controller.chores().into_iter().next() else { return };
            self.run(chore).unwrap();
        }
        panic!("chores do not come to an end: {:?}", self.controller.chores());
    }

    /// Another controller takes over, and knows only what was written.
    pub fn take_over(&mut self) {
        self.epoch += 1;
        self.controller = Controller::new(self.tree.load(self.epoch), self.settings.clone());
        self.check();
    }

    pub fn create_command(&mut self, name: &str, partitions: i32, factor: i16) -> Command {
        self.ids += 1;
        Command::CreateTopic {
            name: name.into(),
            id: TopicId(Uuid::from_u128(self.ids)),
            partitions: Some(partitions),
            replication_factor: Some(factor),
            assignment: None,
            configs: Vec::new(),
            validate_only: false,
            placement_seed: 0,
        }
    }

    /// A topic whose partitions lie as given.
    pub fn create_on(&mut self, name: &str, lists: &[&[i32]], settings: &[(&str, &str)]) {
        let mut command = self.create_command(name, 0, 0);
        if let Command::CreateTopic { partitions, replication_factor, assignment, configs, .. } = &mut command
        {
            (*partitions, *replication_factor) = (None, None);
            *assignment = Some(lists.iter().map(|list| brokers(list)).collect());
            *configs = settings.iter().map(|(k, v)| ((*k).to_owned(), Some((*v).to_owned()))).collect();
        }
        self.run(command).unwrap();
    }

    pub fn state(&self, name: &str, index: i32) -> PartitionImage {
        let partition = TopicPartition::new(name, index);
        self.controller.image().partition(&partition).expect("the partition is there").clone()
    }

    /// Leader, in-sync replicas and eligible replicas, for comparison.
    pub fn brief(&self, name: &str, index: i32) -> (i32, Vec<i32>, Vec<i32>) {
        let state = self.state(name, index);
        let plain = |list: &[BrokerId]| list.iter().map(|id| id.0).collect::<Vec<_>>();
        let leader = state.leader.unwrap_or(BrokerId::NONE).0;
        (leader, plain(&state.isr), plain(&state.eligible_leader_replicas))
    }

    /// The leader proposes in-sync replicas.
    pub fn propose(
        &mut self,
        name: &str,
        index: i32,
        isr: &[i32],
    ) -> Result<PartitionImage, ControllerError> {
        let state = self.state(name, index);
        let leader = state.leader.expect("there is a leader");
        let proposal = super::IsrProposal {
            topic_id: self.controller.image().topic(name).unwrap().id,
            partition: index,
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            isr: isr.iter().map(|id| (BrokerId(*id), BrokerEpoch::NONE)).collect(),
        };
        let command = Command::AlterPartitions {
            broker: leader,
            broker_epoch: self.epoch_of(leader.0),
            proposals: vec![proposal],
        };
        match self.run(command)? {
            Outcome::PartitionsAltered(mut results) => results.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// What the controller knows is what lies in the tree.
    pub fn check(&self) {
        let loaded = self.tree.load(self.epoch);
        let image = self.controller.image();
        let read = load::image(&loaded, true);
        for (id, broker) in &read.brokers {
            let known = image.brokers.get(id);
            let same = known.map(|known| (known.broker_epoch, known.shutting_down));
            assert_eq!(same, Some((broker.broker_epoch, broker.shutting_down)), "who was processed counts");
        }
        let unfinished = self.controller.unfinished();
        for (name, topic) in &image.topics {
            let same = read.topic(name).unwrap_or_else(|| panic!("{name} is in the tree"));
            let count = topic.partitions.len();
            assert_eq!(same.partitions[..count], topic.partitions[..], "{name}");
            assert!(same.partitions.len() == count || unfinished.contains(name), "{name}");
            assert_eq!((same.id, &same.configs), (topic.id, &topic.configs), "{name}");
        }
        for name in read.topics.keys() {
            assert!(image.topic(name).is_some() || unfinished.contains(name), "{name} is in the image");
        }
        for topic in &loaded.topics {
            let record = self.controller.record(&topic.name).expect("each topic has its record");
            assert_eq!(record.node, topic.node);
            let version = |topic: &super::LoadedTopic| topic.configs.as_ref().map(|(_, version)| *version);
            assert_eq!(version(record), version(topic));
        }
        let mut led = BTreeMap::new();
        for state in image.topics.values().flat_map(|topic| &topic.partitions) {
            if let Some(leader) = state.leader {
                *led.entry(leader).or_insert(0) += 1;
            }
        }
        for id in (0..100).map(BrokerId) {
            assert_eq!(self.controller.leads().count(id), led.get(&id).copied().unwrap_or(0), "{id} leads");
        }
    }
}
