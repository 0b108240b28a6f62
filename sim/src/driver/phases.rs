//! The phases of a run: safety, heal, liveness, final check. Owns their order and their ends.

use super::{
    Failure,
    act::{carry_out, heal},
    agenda::{Agenda, Due},
    clients::Clients,
    cluster::{Cluster, Exit},
    file_faults,
};
use crate::{
    faults::{FaultKind, PlannedFault, Step},
    oracle::{Invariant, Oracle},
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
/// How long the scan at the end may take; a partition that cannot be read ends it earlier, with its name.
const SCAN_LIMIT_NS: u64 = 3_600 * SECOND;
/// How long clients may take to end once they have nothing to do.
const CLIENT_LIMIT_NS: u64 = 30 * SECOND;

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
    let mut director =
        Director { world, cluster, agenda: Agenda::default(), faults: BTreeMap::new(), stopping: false };
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

    /// Everything is read once more, and clients and brokers stop as they should.
    async fn final_check(&mut self, clients: &Clients) -> Passed {
        clients.stop_producing();
        let patience_ns = self.cluster.config.workload.delivery_timeout_ns + CLIENT_LIMIT_NS;
        self.until(now_ns() + patience_ns, |_| clients.busy_producer().is_none()).await?;
        if let Some(producer) = clients.busy_producer() {
            return Err(self.simulator(format!("{} does not end", self.world.name(producer))));
        }
        let scan = clients.begin_final_scan();
        self.until(now_ns() + SCAN_LIMIT_NS, |_| scan.result().is_some()).await?;
        match scan.result() {
            Some(Ok(())) => {}
            Some(Err(text)) => return Err(self.unreadable(text)),
            None => return Err(self.unreadable("the scan does not end")),
        }
        clients.stop();
        self.until(now_ns() + CLIENT_LIMIT_NS, |_| clients.busy_client().is_none()).await?;
        if let Some(client) = clients.busy_client() {
            return Err(self.simulator(format!("{} does not end", self.world.name(client))));
        }
        self.stop_brokers().await?;
        self.cluster.oracle.finish();
        self.look()
    }

    async fn stop_brokers(&mut self) -> Passed {
        self.stopping = true;
        let brokers = self.cluster.config.brokers;
        for node in 0..brokers {
            carry_out(self.world, &self.cluster, node, Step::Stop);
        }
        let world = self.world.clone();
        let stopped = move |_: &Oracle| (0..brokers).all(|node| !world.status(NodeId(node)).is_alive());
        self.until(now_ns() + STOP_LIMIT_NS, stopped).await?;
        match (0..brokers).find(|node| self.world.status(NodeId(*node)) != Status::Exited) {
            None => Ok(()),
            Some(node) => {
                let text = format!("has not stopped {} s after it was asked to", STOP_LIMIT_NS / SECOND);
                Err(Failure::Broker { at_ns: now_ns(), node, text })
            }
        }
    }

    fn simulator(&self, text: String) -> Failure {
        Failure::Simulator { text: format!("at {:.3} s: {text}", now_ns() as f64 / 1e9) }
    }

    /// All is healed, and yet not everything can be read: no consumer could reach the end.
    fn unreadable(&self, text: &str) -> Failure {
        let oracle = &self.cluster.oracle;
        oracle.report(Invariant::I50, format!("the scan at the end: {text}"));
        match oracle.first_violation() {
            Some(violation) => Failure::Violation(violation),
            None => self.simulator(text.to_string()),
        }
    }

    /// A mark in the trace.
    fn enter(&self, phase: &'static str) {
        self.world.event_with_detail(NodeId::WORLD, "phase", &[("length", phase.len() as u64)], || {
            phase.to_string()
        });
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
        file_faults::tell(self.world, &self.cluster.oracle);
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
            None => Err(Failure::Broker {
                at_ns,
                node,
                text: "stopped although nobody had asked it to".to_string(),
            }),
        }
    }
}
