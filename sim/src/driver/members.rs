//! A member of the ensemble: its configuration, its program, and what it tells: into the trace and to the oracle, as
//! long as its process lives. Owns the words of the trace.

use super::{cluster::Cluster, conditions::MembersWorld, file_faults, judges::Judges};
use crate::{
    faults::{Fault, PlannedFault},
    oracle::coordinator::{CoordinatorContract, CoordinatorOracle},
    profile::{self, Part},
    scenario::{DrawnConfig, DrawnEnsemble},
    world::{Boot, NodeId, World, boot, now_ns},
};
use sillon_coordinator::{
    command::Action,
    config::CoordinatorConfig,
    observe::{Observation, Observer, Observers, Promise, Role},
    types::MemberId,
};
use sillon_runtime::Runtime;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// The judge of an ensemble.
pub(super) fn oracle(
    members_world: &Arc<MembersWorld>,
    config: &DrawnConfig,
    ensemble: &DrawnEnsemble,
    plan: &[PlannedFault],
) -> Arc<CoordinatorOracle> {
    let contract = contract(config, ensemble, plan);
    CoordinatorOracle::new(Arc::new(now_ns), members_world.clone(), contract)
}

fn read(ensemble: &DrawnEnsemble, id: u32) -> CoordinatorConfig {
    let read = CoordinatorConfig::from_text(&ensemble.zoo_cfg(), "scenario", Some(&id.to_string()));
    read.expect("the scenario's properties were checked when it was read").0
}

/// How fast the clocks of a run may go wrong.
pub(super) fn drift_ppm(config: &DrawnConfig, plan: &[PlannedFault]) -> u64 {
    let own = config.clocks.iter().map(|clock| clock.drift_parts_per_million.unsigned_abs()).max();
    let drawn = plan.iter().filter_map(|planned| match planned.fault {
        Fault::ClockDrift(drift) => Some(drift.parts_per_million.unsigned_abs()),
        _ => None,
    });
    (own.unwrap_or(0) + drawn.max().unwrap_or(0)).min(500_000)
}

/// How long healthy members need for a leader: some elections fail, because votes are split or a clock runs slow.
pub(super) fn leader_within_ns(ensemble: &DrawnEnsemble) -> u64 {
    read(ensemble, 1).election_timeout_ms * 1_000_000 * 10
}

/// What the members of a configuration promise.
fn contract(config: &DrawnConfig, ensemble: &DrawnEnsemble, plan: &[PlannedFault]) -> CoordinatorContract {
    const MILLISECOND: u64 = 1_000_000;
    let of_member = read(ensemble, 1);
    let drift_ppm = drift_ppm(config, plan);
    let election_ns = leader_within_ns(ensemble);
    CoordinatorContract {
        members: ensemble.members as usize,
        ttl_nodes: of_member.extended_types_enabled,
        election_ns,
        tick_ns: of_member.tick_time_ms * MILLISECOND,
        clock_drift_ppm: drift_ppm,
        leader_within_ns: election_ns,
        write_within_ns: election_ns + config.liveness_ns / 4,
        quiet_after_ns: config.liveness_ns / 2,
        ..CoordinatorContract::default()
    }
}

/// What runs on a member's machine.
pub(super) fn program(cluster: &Arc<Cluster>, ensemble: &DrawnEnsemble, node: u32) -> Boot {
    let config = read(ensemble, cluster.machines.member_id(node));
    let cluster = Arc::downgrade(cluster);
    boot(move |runtime| {
        let (cluster, config) = (cluster.clone(), config.clone());
        async move {
            if let Some(cluster) = cluster.upgrade() {
                serve(&cluster, node, runtime, config).await;
            }
        }
    })
}

async fn serve(cluster: &Cluster, node: u32, runtime: Runtime, config: CoordinatorConfig) {
    let Some(world) = cluster.world.upgrade() else { return };
    let asked = cluster.begin(node);
    let ear = Ear {
        world: cluster.world.clone(),
        node: NodeId(node),
        incarnation: world.incarnations(NodeId(node)),
        judges: cluster.judges.clone(),
        violated: cluster.news.clone(),
    };
    drop(world);
    let result = sillon_coordinator::run(runtime, config, Observers::new(Arc::new(ear)), asked).await;
    cluster.exited(node, result.err().map(|error| error.to_string()));
}

/// Listens to one process of a member.
struct Ear {
    world: Weak<World>,
    node: NodeId,
    incarnation: u64,
    judges: Arc<Judges>,
    /// Told when the oracle has found something.
    violated: Arc<Notify>,
}

impl Observer for Ear {
    fn observe(&self, observation: Observation<'_>) {
        let Some(world) = self.world.upgrade() else { return };
        let _counted = profile::within(Part::Oracle);
        // What a dead process's tasks still do while they are dropped is nothing that happened.
        if world.incarnations(self.node) != self.incarnation || !world.status(self.node).is_alive() {
            return;
        }
        trace(&world, self.node, &observation);
        self.judges.members_world.heard(self.node.0, &observation);
        file_faults::tell(&world, &self.judges);
        self.judges.member_observation(self.node.0, &observation);
        if self.judges.first_violation().is_some() {
            self.violated.notify_one();
        }
    }
}

/// Nobody, or a member's number: members are counted from 1.
fn named(member: Option<MemberId>) -> u64 {
    member.map_or(0, |member| member.0)
}

fn trace(world: &World, node: NodeId, observation: &Observation<'_>) {
    match observation {
        Observation::Started { member: _, term, vote, first_index, last_index, snapshot, digest } => world
            .event(
                node,
                "member/started",
                &[
                    ("term", term.0),
                    ("vote", named(*vote)),
                    ("first", *first_index),
                    ("last", *last_index),
                    ("snapshot", snapshot.0 as u64),
                    ("tree", digest.tree),
                    ("sessions", digest.sessions),
                ],
            ),
        Observation::RoleChanged { role, term, leader } => {
            let fields = [("role", *role as u64), ("term", term.0), ("leader", named(*leader))];
            world.event_with_detail(node, "member/role", &fields, || role_name(*role).to_string());
        }
        Observation::Durable { term, vote, entries } => {
            let (first, last) = (entries.first().copied(), entries.last().copied());
            world.event(
                node,
                "log/durable",
                &[
                    ("term", term.0),
                    ("vote", named(*vote)),
                    ("first", first.map_or(0, |(index, _)| index)),
                    ("last", last.map_or(0, |(index, _)| index)),
                    ("last_term", last.map_or(0, |(_, term)| term)),
                ],
            );
        }
        Observation::Promised { to, term, promise } => match promise {
            Promise::Vote => world.event(node, "promise/vote", &[("to", to.0), ("term", term.0)]),
            Promise::Holds { index } => {
                world.event(node, "promise/holds", &[("to", to.0), ("term", term.0), ("index", *index)]);
            }
        },
        Observation::Applied { .. } => trace_applied(world, node, observation),
        Observation::SessionHeard { session, connection } => world.event(
            node,
            "session/heard",
            &[("session", session.0 as u64), ("connection", connection.number)],
        ),
        Observation::SessionFoundSilent { session, timeout_ms } => world.event(
            node,
            "session/silent",
            &[("session", session.0 as u64), ("timeout_ms", *timeout_ms as u64)],
        ),
        Observation::SnapshotTaken { zxid, digest } => world.event(
            node,
            "snapshot/taken",
            &[("zxid", zxid.0 as u64), ("tree", digest.tree), ("sessions", digest.sessions)],
        ),
        Observation::SnapshotInstalled { zxid, digest } => world.event(
            node,
            "snapshot/installed",
            &[("zxid", zxid.0 as u64), ("tree", digest.tree), ("sessions", digest.sessions)],
        ),
    }
}

fn trace_applied(world: &World, node: NodeId, observation: &Observation<'_>) {
    let Observation::Applied { zxid, term, command, error, digest, .. } = observation else { return };
    let fields = [
        ("zxid", zxid.0 as u64),
        ("term", term.0),
        ("error", i64::from(*error) as u64),
        ("tree", digest.tree),
        ("sessions", digest.sessions),
    ];
    world.event_with_detail(node, "log/applied", &fields, || match command {
        None => "the term begins".to_string(),
        Some(command) => action_name(&command.action),
    });
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Follower => "follower",
        Role::PreCandidate => "pre-candidate",
        Role::Candidate => "candidate",
        Role::Leader => "leader",
    }
}

fn action_name(action: &Action) -> String {
    match action {
        Action::OpenSession { session, .. } => format!("open session {session}"),
        Action::AttachSession { session, .. } => format!("attach session {session}"),
        Action::CloseSession { session, .. } => format!("close session {session}"),
        Action::ExpireSession { session } => format!("expire session {session}"),
        Action::Write { session, operation, .. } => format!("operation {operation} of session {session}"),
        Action::Sweep { path, .. } => format!("sweep {path}"),
        Action::NameEnsemble { .. } => "name the ensemble".to_string(),
        Action::DescribeEnsemble { .. } => "describe the ensemble".to_string(),
    }
}
