//! The phases of a run: safety, heal, liveness, final check. Owns their order and their ends.

use super::{
    Failure,
    act::carry_out,
    agenda::{Agenda, Due, Entry},
    application::Program,
    clients::{Clients, Unreadable},
    cluster::{Cluster, Exit},
    core, file_faults,
    judges::Judges,
};
use crate::{
    decisions::Stream,
    faults::{FaultKind, PlannedFault, Step},
    oracle::{Healing, Invariant},
    scenario::DrawnConfig,
    world::{self, NodeId, Status, World, now_ns, sleep_until_ns},
};
use std::{collections::BTreeMap, sync::Arc};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
/// How often the run is looked at where nothing calls for it.
const TICK_NS: u64 = 100 * MILLISECOND;
/// After how long a server that failed is started again, as a service manager does.
const RESTART_DELAY_NS: u64 = SECOND;
/// The shortest liveness phase, so that there is some work without faults.
const LIVENESS_LEAST_NS: u64 = 2 * SECOND;
/// How long a controlled stop may take.
const STOP_LIMIT_NS: u64 = 30 * SECOND;
/// How long the scan at the end may take; a partition that cannot be read ends it earlier, with its name.
const SCAN_LIMIT_NS: u64 = 3_600 * SECOND;
/// What does not hold where the ensemble's tree cannot be read after healing.
const ENSEMBLE_SERVES: Invariant = Invariant::K15;
/// How long clients may take to end once they have nothing to do.
const CLIENT_LIMIT_NS: u64 = 30 * SECOND;

/// What the phases have come to.
pub(super) struct Finished {
    pub judges: Arc<Judges>,
    pub faults: BTreeMap<FaultKind, u64>,
    pub failure: Option<Failure>,
}

/// Runs all phases, or up to the first failure.
pub(super) async fn run(
    world: &Arc<World>,
    config: &DrawnConfig,
    plan: &[PlannedFault],
    application: Option<(&Program, u64)>,
) -> Finished {
    let cluster = Cluster::new(world, config, plan);
    let mut director = Director {
        world,
        cluster,
        agenda: Agenda::default(),
        faults: BTreeMap::new(),
        healing: Healing::Full,
        stopping: false,
    };
    let failure = match application {
        None => {
            let clients = Clients::new(world, &director.cluster);
            director.all_phases(&clients, plan).await.err()
        }
        Some((program, seed)) => director.application(program, plan, seed).await.err(),
    };
    if let Some(failure) = &failure {
        // Part of the trace, so that a replay compares it too.
        world.event_with_detail(NodeId::WORLD, "failure", &[], || failure.to_string());
    }
    Finished { judges: director.cluster.judges.clone(), faults: director.faults, failure }
}

pub(super) struct Director<'a> {
    pub world: &'a Arc<World>,
    pub cluster: Arc<Cluster>,
    pub agenda: Agenda,
    faults: BTreeMap<FaultKind, u64>,
    /// What is whole since the faults are over.
    pub healing: Healing,
    /// All faults are over, and servers have been asked to stop for good.
    stopping: bool,
}

pub(super) type Passed<T = ()> = Result<T, Failure>;

impl Director<'_> {
    async fn all_phases(&mut self, clients: &Clients, plan: &[PlannedFault]) -> Passed {
        let config = self.cluster.config.clone();
        let servers = self.cluster.machines.count();
        self.enter("safety");
        for node in 0..servers {
            self.cluster.start(self.world, node);
        }
        clients.start();
        self.cluster.judges.calm(plan.is_empty());
        let start_ns = now_ns();
        self.agenda = Agenda::of_plan(plan, start_ns);
        self.until(start_ns + config.safety_ns, |_| false).await?;

        self.enter("heal");
        self.agenda.clear();
        clients.stop_administering();
        self.healing = core::heal(self.world, &self.cluster);
        self.until(now_ns() + config.heal_ns, |_| false).await?;

        self.enter("liveness");
        self.cluster.judges.calm(true);
        self.cluster.judges.healed(&self.healing);
        // Whether an ensemble comes to rest shows only in the long run.
        let least_ns = if config.ensemble.is_some() { config.liveness_ns } else { LIVENESS_LEAST_NS };
        let (least_ns, most_ns) = (now_ns() + least_ns, now_ns() + config.liveness_ns + SECOND);
        let converged = |judges: &Judges| {
            judges.check_liveness();
            now_ns() >= least_ns && judges.converged()
        };
        self.until(most_ns, converged).await?;

        self.enter("final");
        self.final_check(clients).await
    }

    /// Everything is read once more, and clients and brokers stop as they should.
    async fn final_check(&mut self, clients: &Clients) -> Passed {
        clients.stop_producing();
        let config = &self.cluster.config;
        let delivery_ns = if config.brokers > 0 { config.workload.delivery_timeout_ns } else { 0 };
        let session_ns = config.ensemble.as_ref().map_or(0, |ensemble| ensemble.sessions.timeout_ns);
        let has_groups = config.groups.count > 0;
        let patience_ns = delivery_ns.max(2 * session_ns) + CLIENT_LIMIT_NS;
        self.until(now_ns() + patience_ns, |_| clients.busy_producer().is_none()).await?;
        if let Some(producer) = clients.busy_producer() {
            return Err(self.simulator(format!("{} does not end", self.world.name(producer))));
        }
        clients.begin_final_scan();
        self.until(now_ns() + SCAN_LIMIT_NS, |_| clients.final_scan().is_some()).await?;
        if let Err(unreadable) = clients.final_scan().unwrap_or_else(|| Err(clients.endless_scan())) {
            return Err(self.unreadable(unreadable));
        }
        if has_groups {
            self.until(now_ns() + CLIENT_LIMIT_NS, Judges::groups_caught_up).await?;
            self.cluster.judges.judge_processing();
        }
        clients.stop();
        self.until(now_ns() + CLIENT_LIMIT_NS, |_| clients.busy_client().is_none()).await?;
        if let Some(client) = clients.busy_client() {
            return Err(self.simulator(format!("{} does not end", self.world.name(client))));
        }
        self.stop_servers().await?;
        self.cluster.judges.finish();
        self.look()
    }

    /// What was left broken is killed; the rest stops as it should, the brokers first: they still need the ensemble.
    pub async fn stop_servers(&mut self) -> Passed {
        self.stopping = true;
        let machines = self.cluster.machines;
        for node in (0..machines.count()).filter(|node| !self.healing.holds(*node)) {
            carry_out(self.world, &self.cluster, node, Step::Kill);
        }
        self.stop_all(0..machines.brokers).await?;
        self.stop_all(machines.brokers..machines.count()).await
    }

    async fn stop_all(&mut self, nodes: std::ops::Range<u32>) -> Passed {
        let nodes: Vec<u32> = nodes.filter(|node| self.healing.holds(*node)).collect();
        for node in &nodes {
            carry_out(self.world, &self.cluster, *node, Step::Stop);
        }
        let (world, all) = (self.world.clone(), nodes.clone());
        let stopped = move |_: &Judges| all.iter().all(|node| !world.status(NodeId(*node)).is_alive());
        self.until(now_ns() + STOP_LIMIT_NS, stopped).await?;
        match nodes.into_iter().find(|node| self.world.status(NodeId(*node)) != Status::Exited) {
            None => Ok(()),
            Some(node) => {
                let text = format!("has not stopped {} s after it was asked to", STOP_LIMIT_NS / SECOND);
                Err(self.server_failed(node, now_ns(), text))
            }
        }
    }

    fn server_failed(&self, node: u32, at_ns: u64, text: String) -> Failure {
        let machine = self.cluster.machines.name(node);
        match self.cluster.machines.is_member(node) {
            true => Failure::Member { at_ns, machine, text },
            false => Failure::Broker { at_ns, machine, text },
        }
    }

    fn simulator(&self, text: String) -> Failure {
        Failure::Simulator { text: format!("at {:.3} s: {text}", now_ns() as f64 / 1e9) }
    }

    /// All is healed, and yet not everything can be read: no consumer could reach the end, no session is served.
    fn unreadable(&self, unreadable: Unreadable) -> Failure {
        let judges = &self.cluster.judges;
        let text = match unreadable {
            Unreadable::Partitions(text) => {
                if let Some(oracle) = &judges.brokers {
                    oracle.report(Invariant::I50, format!("the scan at the end: {text}"));
                }
                text
            }
            Unreadable::Tree(text) => {
                if let Some(oracle) = &judges.ensemble {
                    oracle.report(ENSEMBLE_SERVES, format!("the scan at the end: {text}"));
                }
                text
            }
        };
        match judges.first_violation() {
            Some(violation) => Failure::Violation(violation),
            None => self.simulator(text),
        }
    }

    /// A mark in the trace.
    pub fn enter(&self, phase: &'static str) {
        self.world.event_with_detail(NodeId::WORLD, "phase", &[("length", phase.len() as u64)], || {
            phase.to_string()
        });
    }

    /// Lets the run go on until `end_ns`, or until `done`; carries out what is due meanwhile.
    pub async fn until(&mut self, end_ns: u64, mut done: impl FnMut(&Judges) -> bool) -> Passed {
        let news = self.cluster.news.clone();
        loop {
            self.cluster.judges.look();
            while let Some(entry) = self.agenda.take_due(now_ns()) {
                match entry {
                    Entry::Act(due) => self.carry_out(due),
                    Entry::Find(planned) => self.find(&planned),
                }
            }
            self.look()?;
            if now_ns() >= end_ns || done(&self.cluster.judges) {
                return self.look();
            }
            let wake_ns = self.agenda.next_ns().unwrap_or(u64::MAX).min(now_ns() + TICK_NS).min(end_ns);
            tokio::select! {
                biased;
                () = sleep_until_ns(wake_ns) => {}
                () = news.notified() => {}
            }
        }
    }

    /// A fault finds its machine. Which it is goes onto the tape, so that a recording says it by itself.
    fn find(&mut self, planned: &PlannedFault) {
        let Some(aim) = planned.aim else { return };
        let (judges, servers) = (&self.cluster.judges, self.cluster.machines.count());
        let found = judges.roles.find(self.world, aim, judges.members_world.leader(), servers);
        // Nobody is the number after the last.
        let (nobody, range) = (u64::from(servers), (0, u64::from(servers)));
        let settled = found.map_or(nobody, u64::from);
        let node = self.world.decisions().settle(Stream::FaultPlan, aim.role.name(), range, settled);
        if node < nobody {
            self.agenda.add_fault(now_ns(), node as u32, planned);
        }
    }

    fn carry_out(&mut self, due: Due) {
        let struck = carry_out(self.world, &self.cluster, due.node, due.step);
        if let Some(kind) = due.strikes.filter(|_| struck) {
            *self.faults.entry(kind).or_default() += 1;
        }
    }

    /// Looks whether anything has failed, and has failed servers started again.
    pub fn look(&mut self) -> Passed {
        file_faults::tell(self.world, &self.cluster.judges);
        for exit in self.cluster.take_exits() {
            self.exited(exit)?;
        }
        if self.world.fault_count(world::FaultKind::Panic) > 0
            && let Some(panic) = self.world.panics().into_iter().next()
        {
            let text = format!("task \"{}\" {}", panic.task, panic.panic);
            let machine = self.world.name(panic.node);
            return Err(Failure::Panic { at_ns: panic.time_ns, machine, text });
        }
        match self.cluster.judges.first_violation() {
            Some(violation) => Err(Failure::Violation(violation)),
            None => Ok(()),
        }
    }

    fn exited(&mut self, exit: Exit) -> Passed {
        let Exit { node, at_ns, asked, error } = exit;
        let is_member = self.cluster.machines.is_member(node);
        match error {
            Some(error) if self.stopping => {
                Err(self.server_failed(node, at_ns, format!("could not stop cleanly: {error}")))
            }
            // A member gives up only where its disk does.
            Some(error) if is_member && !self.cluster.judges.disk_explains_an_end(node) => {
                let text = format!("ended by itself, and no fault of its disk explains it: {error}");
                Err(self.server_failed(node, at_ns, text))
            }
            // Whether a server may fail for long is judged by what clients see once all is healed.
            Some(_) if !self.healing.holds(node) => Ok(()),
            Some(_) => {
                let due = Due { node, step: Step::Start, strikes: None };
                self.agenda.add(at_ns + RESTART_DELAY_NS, due);
                Ok(())
            }
            None if asked => Ok(()),
            None => {
                let text = "stopped although nobody had asked it to".to_string();
                Err(self.server_failed(node, at_ns, text))
            }
        }
    }
}
