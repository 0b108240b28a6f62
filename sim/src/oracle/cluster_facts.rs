//! Takes the facts by which brokers become a cluster: who leads, who is in sync, what the coordinator holds. Hands each to
//! the invariants that it concerns, then moves the ghost state. Decides nothing by itself.

use super::{
    ghost::{Leading, Report},
    i01_acknowledged_survives as i01, i03_min_insync as i03, i04_isr_members as i04, i05_strong_isr as i05,
    i07_maximal_isr as i07, i08_never_below_committed as i08, i09_watermarks as i09,
    i11_leader_completeness as i11, i13_epoch_cache as i13, i18_committed_reads as i18,
    i22_one_leader as i22, i23_leader_epochs as i23, i24_lineage_signals as i24, i33_state_writes as i33,
    i36b_convergence as i36b, i48_liveness as i48, i52_visibility as i52, i66_isr_changes as i66,
    invariant::Invariant,
    state::State,
    truth::{Change, StateWrite},
};
use sillon_broker::{
    observe::{Observation, ReplicaRole},
    types::{BrokerId, TopicId, TopicPartition},
};
use sillon_coordinator::observe::Observation as MemberObservation;
use std::collections::BTreeSet;

fn nodes_of(brokers: &[BrokerId]) -> Vec<u32> {
    brokers.iter().filter_map(|broker| u32::try_from(broker.0).ok()).collect()
}

impl State {
    pub(super) fn on_leader(
        &mut self,
        now_ns: u64,
        node: u32,
        name: &TopicPartition,
        observation: &Observation<'_>,
    ) {
        let Observation::BecameLeader {
            leader_epoch,
            start_offset,
            latest_epoch,
            high_watermark,
            partition_epoch,
            isr,
            ..
        } = observation
        else {
            unreachable!("the caller looked")
        };
        let State { judge, partitions, contract, truth, out_of_contract, history, .. } = self;
        let lineage = partitions.get_mut(name).expect("the caller looked");
        let epoch = leader_epoch.0;
        let isr = nodes_of(isr);
        let replica = &lineage.replicas[&node];
        i23::on_leader(judge, contract, replica, epoch, start_offset.0);
        let latest = latest_epoch.map(|entry| (entry.epoch.0, entry.start_offset.0));
        i13::on_leader(judge, latest, epoch, start_offset.0);
        i22::on_epoch(judge, replica, epoch);
        let is_current = lineage.is_current(node);
        if is_current {
            i22::on_leader(judge, truth, lineage, name, (node, epoch));
        }
        if is_current && lineage.leader.is_none_or(|(_, known)| known <= epoch) {
            let power_was_lost = lineage.replicas.values().any(|replica| replica.short_since.is_some());
            let label = i11::on_elected(judge, contract, lineage, node, power_was_lost);
            let committed = lineage.log.committed_end;
            let readers: Vec<_> = i24::stands(lineage, history.positions_in(name)).collect();
            let common = lineage.switch_to(node);
            lineage.leader = Some((node, epoch));
            if common < committed && label.is_some() {
                i24::on_cut(lineage, common, &readers);
                history.forget_latest(name);
            }
            i24::on_switch(lineage);
            out_of_contract.extend(label);
        }
        truth.learn(now_ns, name, (node, epoch), partition_epoch.0, &isr);
        let replicas = contract.replication_factor;
        let replica = lineage.replicas.get_mut(&node).expect("the caller looked");
        let known = replica.high_watermark.unwrap_or(0);
        let mut leading =
            Leading { epoch, start: start_offset.0, isr, state: partition_epoch.0, ..Leading::default() };
        i03::on_isr(contract, &mut leading, replicas, known);
        replica.leader_epoch = Some(epoch);
        replica.told_high_watermark = Some(high_watermark.0);
        replica.leading = Some(leading);
    }

    pub(super) fn on_high_watermark(
        &mut self,
        now_ns: u64,
        node: u32,
        name: &TopicPartition,
        observation: &Observation<'_>,
    ) {
        let Observation::HighWatermarkMoved { role, leader_epoch, from, to, log_start, log_end, .. } =
            observation
        else {
            unreachable!("the caller looked")
        };
        let State { judge, partitions, contract, truth, nodes, calm_since_ns, .. } = self;
        let lineage = partitions.get_mut(name).expect("the caller looked");
        let replica = &lineage.replicas[&node];
        let (from, to) = (from.0, to.0);
        let moved = i09::Move {
            leader_epoch: leader_epoch.0,
            leads: *role == ReplicaRole::Leader,
            from,
            to,
            log_start: log_start.0,
            log_end: log_end.0,
        };
        i09::on_moved(judge, replica, moved);
        let rises = replica.high_watermark.is_none_or(|known| to > known);
        let current = lineage.is_current(node);
        match &replica.leading {
            Some(leading) if rises && current => {
                i07::on_moved(judge, node, leading, to);
                i03::on_moved(judge, contract, leading, contract.replication_factor, to);
                if lineage.leader == Some((node, leading.epoch)) {
                    lineage.commit(now_ns, to);
                } else if !lineage.beyond_budget && contract.is_replicated() {
                    i05::on_moved_by_older(judge, lineage, replica, to);
                    lineage.commit(now_ns, to);
                }
                if !lineage.beyond_budget && contract.is_replicated() {
                    i05::on_moved(judge, nodes, lineage, (node, to), &truth.isr(name));
                }
            }
            None if rises && current => {
                if !lineage.beyond_budget {
                    i18::on_follower_moved(judge, lineage, replica, to);
                }
                i52::on_follower_moved(judge, contract, lineage, from, *calm_since_ns);
            }
            _ => {}
        }
        let replica = lineage.replicas.get_mut(&node).expect("the caller looked");
        replica.high_watermark = Some(to);
        replica.told_high_watermark = Some(to);
        if let Some(leading) = &mut replica.leading {
            i48::on_moved(judge, contract, leading);
        }
    }

    pub(super) fn on_served(&mut self, node: u32, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, contract, .. } = self;
        let lineage = partitions.get_mut(name).expect("the caller looked");
        let replica = lineage.replicas.get_mut(&node).expect("the caller looked");
        match observation {
            Observation::ProduceAcknowledged { base_offset, next_offset, acks, high_watermark, .. } => {
                let (base, next) = (base_offset.0, next_offset.0);
                i01::on_acknowledged(judge, contract, replica, (base, next, *acks), high_watermark.0);
                replica.acknowledged_end = replica.acknowledged_end.max(next.min(replica.log_end));
                if *acks == -1
                    && let Some(leading) = &replica.leading
                {
                    i03::on_acknowledged(judge, leading, next);
                }
                if *acks == -1 || !contract.is_replicated() {
                    let log = &mut lineage.log;
                    log.acknowledged_end = log.acknowledged_end.max(next.min(log.log_end));
                }
            }
            Observation::FetchServed { next_offset, high_watermark, .. } => {
                i18::on_served(judge, replica, next_offset.0, high_watermark.0);
                replica.exposed_end = replica.exposed_end.max(next_offset.0.min(replica.log_end));
                lineage.log.exposed_end = lineage.log.exposed_end.max(next_offset.0.min(lineage.log.log_end));
                if contract.is_replicated() && lineage.is_current(node) && !lineage.beyond_budget {
                    i18::on_served_by_replica(judge, lineage, node, next_offset.0);
                }
            }
            _ => unreachable!("the caller looked"),
        }
    }

    /// What replicas do with each other.
    pub(super) fn on_replication(
        &mut self,
        now_ns: u64,
        node: u32,
        name: &TopicPartition,
        observation: &Observation<'_>,
    ) {
        let State { judge, partitions, .. } = self;
        let Some(lineage) = partitions.get_mut(name) else { return };
        let Some(replica) = lineage.replicas.get_mut(&node) else { return };
        judge.at(now_ns, Some(node), Some(&replica.name));
        match observation {
            Observation::ReplicaRemoved { topic_id, .. } => {
                judge.demand(Invariant::I16, replica.topic_id == *topic_id, || {
                    format!("a replica of topic {} is removed for topic {topic_id}", replica.topic_id)
                });
                if replica.topic_id != lineage.log.topic_id {
                    lineage.settled_ns = Some(now_ns);
                }
                lineage.replicas.remove(&node);
            }
            Observation::BecameFollower { leader_epoch, log_end, high_watermark, .. } => {
                i22::on_epoch(judge, replica, leader_epoch.0);
                i09::on_follower(judge, replica, log_end.0);
                replica.leader_epoch = Some(leader_epoch.0.max(replica.leader_epoch.unwrap_or(i32::MIN)));
                replica.leading = None;
                replica.told_high_watermark = Some(high_watermark.0);
            }
            Observation::TruncationOrdered { leader, leader_epoch, diverging, to, .. } => {
                let order = (to.0, diverging.is_none());
                replica.ordered_cut = Some(order);
                let source = (u32::try_from(leader.0).unwrap_or(u32::MAX), leader_epoch.0);
                i08::on_ordered(judge, lineage, node, source, order);
            }
            _ => self.on_isr(now_ns, node, name, observation),
        }
    }

    /// What a leader learns and decides about followers.
    fn on_isr(&mut self, now_ns: u64, node: u32, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, contract, truth, .. } = self;
        let lineage = partitions.get_mut(name).expect("the caller looked");
        let numbered = |broker: &BrokerId| u32::try_from(broker.0).unwrap_or(u32::MAX);
        let reporter = match observation {
            Observation::ReplicaReported { replica, .. } => lineage.replicas.get(&numbered(replica)),
            _ => None,
        };
        // A leader that stood still hears of a topic that is gone from one who has moved on to the next of its name.
        let topic_id = lineage.replicas[&node].topic_id;
        let of_the_same = reporter.filter(|reporter| reporter.topic_id == topic_id);
        let reporters_epoch = of_the_same.and_then(|reporter| reporter.leader_epoch);
        let replica = lineage.replicas.get_mut(&node).expect("the caller looked");
        let Some(mut leading) = replica.leading.take() else { return };
        match observation {
            Observation::ReplicaReported { replica: follower, broker_epoch, log_end, .. } => {
                let follower = numbered(follower);
                i07::on_reported(judge, leading.epoch, reporters_epoch);
                let report = Report { log_end: log_end.0, broker_epoch: broker_epoch.0 };
                leading.reported.insert(follower, report);
                if log_end.0 >= replica.log_end {
                    leading.caught_up_ns.insert(follower, now_ns);
                    leading.lags.remove(&follower);
                }
            }
            Observation::ReplicaLags { replica: follower, behind_for_ms, limit_ms, .. } => {
                let (follower, lag) = (numbered(follower), (*behind_for_ms, *limit_ms));
                i66::on_lags(judge, contract, &leading, follower, lag);
                leading.lags.insert(follower, lag);
            }
            Observation::IsrProposed { isr, .. } => {
                let isr = nodes_of(isr);
                i66::on_proposed(judge, replica, &leading, &isr);
                leading.proposed.push(isr);
            }
            Observation::IsrConfirmed { partition_epoch, isr, .. } => {
                let (version, isr) = (partition_epoch.0, nodes_of(isr));
                i22::on_confirmed(judge, truth, name, &leading, (version, &isr));
                truth.learn(now_ns, name, (node, leading.epoch), version, &isr);
                (leading.isr, leading.state) = (isr, version);
                leading.proposed.clear();
                let known = replica.high_watermark.unwrap_or(0);
                i03::on_isr(contract, &mut leading, contract.replication_factor, known);
                i48::on_confirmed(contract, &mut leading, replica, now_ns);
            }
            _ => {}
        }
        replica.leading = Some(leading);
    }

    /// What a broker tells of itself as a member of the cluster.
    pub(super) fn on_broker(&mut self, now_ns: u64, node: u32, observation: &Observation<'_>) {
        let State { judge, nodes, truth, controllers, .. } = self;
        judge.at(now_ns, Some(node), None);
        let machine = nodes.entry(node).or_default();
        match observation {
            Observation::Registered { broker_epoch, .. } => {
                i36b::on_registered(judge, machine, broker_epoch.0);
                machine.broker_epoch = Some(broker_epoch.0);
                machine.registered = Some((machine.starts, broker_epoch.0));
            }
            Observation::Unregistered { .. } => machine.broker_epoch = None,
            Observation::MetadataApplied { position, .. } => {
                let position = (position.controller_epoch.0, position.version);
                i22::on_metadata(judge, machine.metadata, position);
                machine.metadata = Some(position);
            }
            Observation::BecameController { controller_epoch } => {
                machine.controls = Some(controller_epoch.0);
                i33::on_controller(judge, truth, controllers, (node, controller_epoch.0));
            }
            Observation::ResignedController { .. } => machine.controls = None,
            _ => {}
        }
    }

    pub(super) fn on_topic_deleted(&mut self, now_ns: u64, node: u32, topic: &str, topic_id: TopicId) {
        let State { judge, partitions, former, history, .. } = self;
        judge.at(now_ns, Some(node), None);
        let mut gone = Vec::new();
        for (name, lineage) in partitions.iter_mut().filter(|(name, _)| *name.topic == *topic) {
            if lineage.replicas.get(&node).is_some_and(|replica| replica.topic_id == topic_id) {
                judge.evaluated(Invariant::I16);
                lineage.replicas.remove(&node);
                lineage.settled_ns = Some(now_ns);
            }
            if lineage.replicas.is_empty() {
                gone.push(name.clone());
            }
        }
        for name in gone {
            if let Some(lineage) = partitions.remove(&name) {
                history.liveness.forget(&name);
                former.entry(name).or_default().push(lineage);
            }
        }
    }

    /// A member of the coordinator has applied something.
    pub(super) fn on_member(&mut self, now_ns: u64, observation: &MemberObservation<'_>) {
        let epoch = self.truth.controller_epoch;
        for change in self.truth.on_member(now_ns, observation) {
            self.judge.at(now_ns, None, None);
            let State { judge, contract, convergence, .. } = self;
            match change {
                Change::State(write) => self.on_state_write(now_ns, &write),
                Change::ControllerEpoch { epoch: now } => {
                    i33::on_controller_epoch(judge, epoch, now);
                    convergence.on_change(judge, contract, || format!("controller epoch {now} begins"));
                }
                Change::Unregistered { node } => {
                    convergence
                        .on_change(judge, contract, || format!("broker {node} loses its registration"));
                }
                Change::Unreadable { text } => judge.violated(Invariant::I33, text),
            }
        }
    }

    fn on_state_write(&mut self, now_ns: u64, write: &StateWrite) {
        let State { judge, contract, truth, nodes, partitions, leaving, convergence, .. } = self;
        let mut lineage = partitions.get_mut(&write.partition);
        judge.at(now_ns, None, lineage.as_ref().map(|lineage| &lineage.log.name));
        i33::on_state(judge, truth, write);
        let leader = write.new.leader.and_then(|leader| lineage.as_ref()?.replicas.get(&leader));
        let proposer = leader
            .and_then(|replica| replica.leading.as_ref())
            .filter(|leading| leading.epoch == write.new.leader_epoch);
        i04::on_state(judge, contract, truth, write, proposer, leaving);
        leaving.on_state(truth, nodes, write);
        let Some(old) = &write.old else { return };
        convergence.on_change(judge, contract, || {
            format!("{}: {:?} leads with {:?} in sync", write.partition, write.new.leader, write.new.isr)
        });
        let before: BTreeSet<u32> = old.isr.iter().copied().collect();
        for member in write.new.isr.iter().filter(|member| !before.contains(member)) {
            // It has caught up, the controller says.
            if let Some(replica) = lineage.as_mut().and_then(|lineage| lineage.replicas.get_mut(member)) {
                replica.short_since = None;
            }
        }
    }

    pub(super) fn view(&self) -> i36b::View<'_> {
        i36b::View {
            contract: &self.contract,
            truth: &self.truth,
            nodes: &self.nodes,
            partitions: &self.partitions,
        }
    }
}
