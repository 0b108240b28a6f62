//! All that the oracle knows in one place, and what starts, stops and faults of the machines do to it.

use super::{
    Contract,
    disk::{Disks, LogImage, parse_checkpoint},
    events::{DiskFault, Healing, Stop},
    ghost::{Boot, Node, Partition},
    groups::Groups,
    history::History,
    i01_acknowledged_survives as i01,
    i04_isr_members::Leaving,
    i13_epoch_cache as i13, i15_contiguous as i15, i20_recovery as i20, i21_checkpoints as i21,
    i36b_convergence::{Convergence, View},
    judge::Judge,
    lineage::{Former, Lineage},
    truth::Truth,
};
use serde::{Deserialize, Serialize};
use sillon_broker::types::TopicPartition;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Where a broker keeps its proven recovery points.
const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// Where a log keeps its epoch cache.
const EPOCHS: &str = "leader-epoch-checkpoint";
const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// The file that says where each log of a directory starts.
const LOG_STARTS: &str = "log-start-offset-checkpoint";

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Records that producers began to send.
    pub records_sent: u64,
    /// Records confirmed to their producers.
    pub records_confirmed: u64,
    /// Records whose sending definitely failed.
    pub records_failed: u64,
    /// Records of which the producer does not know.
    pub records_unknown: u64,
    /// Records that consumers received, each as often as it was received.
    pub records_read: u64,
    /// Records that power failures and damaged disks took, as they may.
    pub records_lost: u64,
    /// Starts of brokers.
    pub starts: u64,
}

pub(super) struct State {
    pub contract: Contract,
    pub disks: Arc<dyn Disks>,
    pub judge: Judge,
    pub nodes: BTreeMap<u32, Node>,
    /// Damage on any machine's disk.
    pub all_disks: Node,
    pub partitions: BTreeMap<TopicPartition, Lineage>,
    /// Earlier lives of topics, by name.
    pub former: Former,
    pub truth: Truth,
    /// Who was controller in each epoch.
    pub controllers: BTreeMap<i32, u32>,
    pub leaving: Leaving,
    pub convergence: Convergence,
    pub history: History,
    pub groups: Groups,
    pub out_of_contract: Vec<String>,
    pub statistics: Statistics,
    /// No fault is on since then.
    pub calm_since_ns: Option<u64>,
}

impl State {
    pub fn new(disks: Arc<dyn Disks>, contract: Contract) -> State {
        State {
            groups: Groups::new(contract.groups.clone().unwrap_or_default()),
            contract,
            disks,
            judge: Judge::new(),
            nodes: BTreeMap::new(),
            all_disks: Node::default(),
            partitions: BTreeMap::new(),
            former: BTreeMap::new(),
            truth: Truth::default(),
            controllers: BTreeMap::new(),
            leaving: Leaving::default(),
            convergence: Convergence::default(),
            history: History::default(),
            out_of_contract: Vec::new(),
            statistics: Statistics::default(),
            calm_since_ns: None,
        }
    }

    pub fn on_stopped(&mut self, node: u32, stop: Stop) {
        self.convergence.on_end(self.judge.now_ns());
        let machine = self.nodes.entry(node).or_default();
        machine.stopped_cleanly |= stop == Stop::Controlled;
        machine.alive = false;
        (machine.broker_epoch, machine.metadata, machine.controls) = (None, None, None);
        for partition in replicas_of(&mut self.partitions, node) {
            if !stop.keeps_page_cache() {
                partition.power_was_lost = true;
            }
            if stop == Stop::Controlled && partition.open && !partition.offline {
                // A controlled stop leaves nothing unsynced: that is what its marker says.
                partition.durable = partition.log_end;
            }
            partition.open = false;
            partition.leading = None;
        }
    }

    pub fn on_starting(&mut self, now_ns: u64, node: u32) {
        self.statistics.starts += 1;
        let State { contract, disks, judge, nodes, partitions, .. } = self;
        let machine = nodes.entry(node).or_default();
        // It was asked to stop, and killed between its last word, the marker, and its end: it stopped all the same.
        let marker = contract.log_directory.join(CLEAN_SHUTDOWN);
        machine.stopped_cleanly |= machine.asked_to_stop && disks.read(node, &marker).is_some();
        (machine.alive, machine.paused, machine.asked_to_stop) = (true, false, false);
        machine.starts += 1;
        let after_clean_stop = machine.stopped_cleanly;
        for partition in replicas_of(partitions, node) {
            judge.at(now_ns, Some(node), Some(&partition.name));
            let image = LogImage::read(&**disks, node, &partition.directory, partition.log_start);
            // A process that died in the middle of a cut that its leader had ordered leaves the log short of it.
            if let Some((to, anew)) = partition.ordered_cut.take()
                && image.sound_end(partition.log_start) < partition.log_end
            {
                partition.lose_from(if anew { partition.log_start } else { to });
            }
            i01::on_starting(judge, contract, machine, partition, &image);
            let file = partition.directory.join(EPOCHS);
            if let Some(bytes) = disks.read(node, &file) {
                i21::on_file(judge, machine, &file, &bytes, 2);
            }
            partition.boot = Some(Boot { image, after_clean_stop });
            partition.open = false;
            partition.offline = false;
            partition.disk_failed_ns = None;
            partition.sync_failed = false;
            partition.high_watermark = None;
        }
        self.check_checkpoints(now_ns, node);
    }

    fn check_checkpoints(&mut self, now_ns: u64, node: u32) {
        let State { contract, disks, judge, nodes, partitions, .. } = self;
        let machine = &nodes[&node];
        for entry in disks.list(node, &contract.log_directory) {
            if entry.is_directory || !entry.name.ends_with("-checkpoint") {
                continue;
            }
            let file = contract.log_directory.join(&entry.name);
            let Some(bytes) = disks.read(node, &file) else { continue };
            judge.at(now_ns, Some(node), None);
            let entries = i21::on_file(judge, machine, &file, &bytes, 3);
            if entry.name != RECOVERY_POINTS {
                continue;
            }
            for words in entries {
                let named = words[1].parse().map(|number| TopicPartition::new(&words[0], number));
                let lineage = named.ok().and_then(|name| partitions.get(&name));
                let partition = lineage.and_then(|lineage| lineage.replicas.get(&node));
                let Some((partition, offset)) = partition.zip(words[2].parse().ok()) else { continue };
                if !partition.wiped {
                    judge.at(now_ns, Some(node), Some(&partition.name));
                    i20::on_checkpoint(judge, partition, offset);
                }
            }
        }
    }

    pub fn on_disk_fault(&mut self, now_ns: u64, node: u32, fault: &DiskFault) {
        self.nodes.entry(node).or_default().note(fault);
        self.all_disks.note(fault);
        for partition in replicas_of(&mut self.partitions, node) {
            match fault {
                DiskFault::Wiped => {
                    partition.wiped = true;
                    partition.power_was_lost = true;
                }
                DiskFault::SyncFailed { file } if is_segment_of(file, partition) => {
                    partition.disk_failed_ns.get_or_insert(now_ns);
                    partition.sync_failed = true;
                }
                DiskFault::WriteFailed { file } if is_segment_of(file, partition) => {
                    partition.disk_failed_ns.get_or_insert(now_ns);
                }
                DiskFault::Corrupted { .. }
                | DiskFault::SyncFailed { .. }
                | DiskFault::WriteFailed { .. } => {}
            }
        }
    }

    pub fn on_paused(&mut self, node: u32, paused: bool) {
        self.nodes.entry(node).or_default().paused = paused;
    }

    pub fn on_asked_to_stop(&mut self, now_ns: u64, node: u32) {
        self.convergence.on_end(now_ns);
        self.nodes.entry(node).or_default().asked_to_stop = true;
    }

    pub fn on_calm(&mut self, now_ns: u64, calm: bool) {
        self.calm_since_ns = calm.then(|| self.calm_since_ns.unwrap_or(now_ns));
    }

    pub fn on_healed(&mut self, now_ns: u64, healing: Healing) {
        let mut goals = self.history.goals(&self.partitions);
        // Of a topic that is gone nobody reads any more, whoever still holds a replica.
        goals.retain(|(_, name), _| {
            let lineage = self.partitions.get(name);
            lineage.is_some_and(|lineage| !self.truth.is_over(name, lineage.log.topic_id))
        });
        self.history.liveness.on_healed(now_ns, goals);
        self.groups.healed(now_ns);
        if self.contract.is_replicated() {
            let mut convergence = std::mem::take(&mut self.convergence);
            convergence.on_healed(now_ns, healing, self.view());
            self.convergence = convergence;
        }
    }

    pub fn check_liveness(&mut self, now_ns: u64) {
        self.judge.at(now_ns, None, None);
        let State { judge, history, contract, truth, nodes, partitions, convergence, groups, .. } = self;
        history.liveness.check(judge, contract);
        if contract.groups.is_some() {
            groups.check_liveness(judge, partitions);
        }
        convergence.check(judge, View { contract, truth, nodes, partitions });
    }

    pub fn finish(&mut self, now_ns: u64) {
        self.check_scans(now_ns);
        let State { disks, judge, nodes, partitions, contract, convergence, .. } = self;
        judge.at(now_ns, None, None);
        convergence.finish(judge, contract);
        for partition in partitions.values().flat_map(|lineage| lineage.replicas.values()) {
            judge.at(now_ns, Some(partition.node), Some(&partition.name));
            let machine = nodes.entry(partition.node).or_default();
            if contract.is_replicated() && !machine.stopped_cleanly {
                continue;
            }
            let image = LogImage::read(&**disks, partition.node, &partition.directory, partition.log_start);
            i01::at_end(judge, machine, partition, &image);
            i15::on_disk(judge, machine, partition, &image, partition.log_end);
            let file = partition.directory.join(EPOCHS);
            let Some(bytes) = disks.read(partition.node, &file) else { continue };
            let entries = i21::on_file(judge, machine, &file, &bytes, 2);
            if !machine.has_damage_in(&partition.directory) {
                // A stop may come between the moment in which the start was noted and that in which it was told.
                let noted = noted_log_start(&**disks, &contract.log_directory, partition);
                let log_start = partition.log_start.max(noted);
                i13::check(judge, &epoch_cache(&entries), &image, log_start, partition.log_end);
            }
        }
    }
}

/// What one broker holds.
fn replicas_of(
    partitions: &mut BTreeMap<TopicPartition, Lineage>,
    node: u32,
) -> impl Iterator<Item = &mut Partition> {
    partitions.values_mut().filter_map(move |lineage| lineage.replicas.get_mut(&node))
}

fn is_segment_of(file: &Path, partition: &Partition) -> bool {
    file.parent() == Some(&*partition.directory)
        && file.extension().is_some_and(|extension| extension == "log")
}

/// Where a log starts by the file that says so; 0 where it says nothing.
fn noted_log_start(disks: &dyn Disks, log_directory: &Path, partition: &Partition) -> i64 {
    let bytes = disks.read(partition.node, &log_directory.join(LOG_STARTS));
    let entries = bytes.and_then(|bytes| parse_checkpoint(&bytes, 3).ok()).unwrap_or_default();
    let its_own = |words: &&Vec<String>| format!("{}-{}", words[0], words[1]) == *partition.name;
    entries.iter().find(its_own).and_then(|words| words[2].parse().ok()).unwrap_or(0)
}

/// An epoch cache from the words of its file. What is no number makes it one that fits nothing.
fn epoch_cache(entries: &[Vec<String>]) -> Vec<(i32, i64)> {
    entries
        .iter()
        .map(|words| (words[0].parse().unwrap_or(i32::MIN), words[1].parse().unwrap_or(i64::MAX)))
        .collect()
}
