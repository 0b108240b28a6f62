//! The phases of a run: safety, heal, liveness, final check. Owns their order and their ends.

use super::{
    Failure,
    act::{carry_out, heal},
    agenda::{Agenda, Due},
    clients::Clients,
    cluster::{Cluster, Exit},
};
use crate::{
    faults::{FaultKind, PlannedFault, Step},
    oracle::Oracle,
    scenario::DrawnConfig,
    world::{self, NodeId, Status, World, now_ns, sleep_until_ns},
};
use std::{collections::BTreeMap, sync::Arc};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
/// How often the run is looked at where nothing calls for it.
const TICK_NS: u64 = 100 * MILLISECOND;
/// After how long a broker that failed is started again, as a service manager does.
const RESTART_DELAY_NS: u64 = SECOND;
/// The shortest liveness phase, so that there is some work without faults.
const LIVENESS_LEAST_NS: u64 = 2 * SECOND;
/// How long a controlled stop may take.
const STOP_LIMIT_NS: u64 = 30 * SECOND;
/// How long the scan at the end may take.
const SCAN_LIMIT_NS: u64 = 60 * SECOND;

/// What the phases have come to.
pub(super) struct Finished {
    pub oracle: Arc<Oracle>,
    pub faults: BTreeMap<FaultKind, u64>,
    pub failure: Option<Failure>,
}

/// Runs all phases, or up to the first failure.
pub(super) async fn run(world: &Arc<World>, config: &DrawnConfig, plan: &[PlannedFault]) -> Finished {
    let cluster = Cluster::new(world, config);
    let clients = Clients::new(world, &cluster);
    let mut director = Director { world, cluster, agenda: Agenda::default(), faults: BTreeMap::new(), stopping: false };
    let failure = director.all_phases(&clients, plan).await.err();
    if let Some(failure) = &failure {
        // Part of the trace, so that a replay compares it too.
        world.event_with_detail(NodeId::WORLD, "failure", &[], || failure.to_string());
    }
    Finished { oracle: director.cluster.oracle.clone(), faults: director.faults, failure }
}

struct Director<'a> {
    world: &'a Arc<World>,
    cluster: Arc<Cluster>,
    agenda: Agenda,
    faults: BTreeMap<FaultKind, u64>,
    /// All faults are over, and brokers have been asked to stop for good.
    stopping: bool,
}

type Passed<T = ()> = Result<T, Failure>;

impl Director<'_> {
    async fn all_phases(&mut self, clients: &Clients, plan: &[PlannedFault]) -> Passed {
        let config = self.cluster.config.clone();
        self.enter("safety");
        for node in 0..config.brokers {
            self.cluster.start(self.world, node);
        }
        clients.start();
        let start_ns = now_ns();
        self.agenda = Agenda::of_plan(plan, start_ns);
        self.until(start_ns + config.safety_ns, |_| false).await?;

        self.enter("heal");
        self.agenda.clear();
        self.world.network().mend_all();
        for node in 0..config.brokers {
            heal(self.world, &self.cluster, node);
        }
        self.until(now_ns() + config.heal_ns, |_| false).await?;

        self.enter("liveness");
        let oracle = self.cluster.oracle.clone();
        oracle.healed();
        let (least_ns, most_ns) = (now_ns() + LIVENESS_LEAST_NS, now_ns() + config.liveness_ns + SECOND);
        let converged = |oracle: &Oracle| {
            oracle.check_liveness();
            now_ns() >= least_ns && oracle.converged()
        };
        self.until(most_ns, converged).await?;

        self.enter("final");
        self.final_check(clients).await
    }

    /// Everything is read once more, and the brokers stop as they should.
    async fn final_check(&mut self, clients: &Clients) -> Passed {
        let scan = clients.begin_final_scan();
        let done = scan.clone();
        self.until(now_ns() + SCAN_LIMIT_NS, move |_| done.is_done()).await?;
        if !scan.is_done() {
            let text = format!("the final scan is not done after {} s", SCAN_LIMIT_NS / SECOND);
            return Err(Failure::Simulator { text });
        }
        self.stopping = true;
        for node in 0..self.cluster.config.brokers {
            carry_out(self.world, &self.cluster, node, Step::Stop);
        }
        let (world, brokers) = (self.world.clone(), self.cluster.config.brokers);
        let stopped = move |_: &Oracle| (0..brokers).all(|node| !world.status(NodeId(node)).is_alive());
        self.until(now_ns() + STOP_LIMIT_NS, stopped).await?;
        for node in 0..brokers {
            if self.world.status(NodeId(node)) != Status::Exited {
                let text = format!("has not stopped {} s after it was asked to", STOP_LIMIT_NS / SECOND);
                return Err(Failure::Broker { at_ns: now_ns(), node, text });
            }
        }
        self.cluster.oracle.finish();
        self.look()
    }

    /// A mark in the trace.
    fn enter(&self, phase: &'static str) {
        self.world.event_with_detail(NodeId::WORLD, "phase", &[("length", phase.len() as u64)], || phase.to_string());
    }

    /// Lets the run go on until `end_ns`, or until `done`; carries out what is due meanwhile.
    async fn until(&mut self, end_ns: u64, mut done: impl FnMut(&Oracle) -> bool) -> Passed {
        let news = self.cluster.news.clone();
        loop {
            while let Some(due) = self.agenda.take_due(now_ns()) {
                self.carry_out(due);
            }
            self.look()?;
            if now_ns() >= end_ns || done(&self.cluster.oracle) {
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

    fn carry_out(&mut self, due: Due) {
        let struck = carry_out(self.world, &self.cluster, due.node, due.step);
        if let Some(kind) = due.strikes.filter(|_| struck) {
            *self.faults.entry(kind).or_default() += 1;
        }
    }

    /// Looks whether anything has failed, and has failed brokers started again.
    fn look(&mut self) -> Passed {
        for exit in self.cluster.take_exits() {
            self.exited(exit)?;
        }
        if self.world.fault_count(world::FaultKind::Panic) > 0
            && let Some(panic) = self.world.panics().into_iter().next()
        {
            let text = format!("task \"{}\" {}", panic.task, panic.panic);
            return Err(Failure::Panic { at_ns: panic.time_ns, node: panic.node.0, text });
        }
        match self.cluster.oracle.first_violation() {
            Some(violation) => Err(Failure::Violation(violation)),
            None => Ok(()),
        }
    }

    fn exited(&mut self, exit: Exit) -> Passed {
        let Exit { node, at_ns, asked, error } = exit;
        match error {
            Some(error) if self.stopping => {
                Err(Failure::Broker { at_ns, node, text: format!("could not stop cleanly: {error}") })
            }
            // Whether a broker may fail for long is judged by what clients see once all is healed.
            Some(_) => {
                let due = Due { node, step: Step::Start, strikes: None };
                self.agenda.add(at_ns + RESTART_DELAY_NS, due);
                Ok(())
            }
            None if asked => Ok(()),
            None => Err(Failure::Broker { at_ns, node, text: "stopped although nobody had asked it to".to_string() }),
        }
    }
}
