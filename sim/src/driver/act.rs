//! Carries out the steps of faults: on the world, and with the oracle told what really happened.
//! Owns what each step means; the order is in `agenda`.

use super::{
    cluster::{Cluster, disk_without_faults},
    file_faults,
    split::blocked_ways,
};
use crate::{
    faults::{Direction, DiskChange, Draws, Step},
    oracle::Stop,
    world::{LinkProfile, NodeId, Status, World},
};
use std::sync::Arc;

/// How many places bit rot looks at for each bit that it changes.
const ROT_ATTEMPTS: u64 = 32;

/// Carries out one step. False where it changes nothing: the machine is already so.
pub(super) fn carry_out(world: &Arc<World>, cluster: &Cluster, node: u32, step: Step) -> bool {
    let changed = change(world, cluster, node, step);
    cluster.judges.conditions_changed();
    changed
}

fn change(world: &Arc<World>, cluster: &Cluster, node: u32, step: Step) -> bool {
    let id = NodeId(node);
    // Before the step: a power loss takes names away that explain what has been.
    file_faults::tell(world, &cluster.judges);
    match step {
        Step::Kill => kill(world, cluster, node),
        Step::PowerFail => power_fail(world, cluster, node),
        Step::Stop => stop(world, cluster, node),
        Step::Start => start(world, cluster, node),
        Step::Pause => pause(world, cluster, node),
        Step::Resume => {
            world.resume(id);
            cluster.judges.node_paused(node, false);
            true
        }
        Step::Disk(change) => {
            change_disk(world, cluster, id, change);
            true
        }
        Step::FlipBits { bits, pick } => {
            let of_member = cluster.machines.is_member(node);
            flip_bits(world, node, of_member, bits, pick)
        }
        Step::JumpWallClock { by_ns } => {
            world.jump_wall_clock(id, by_ns / 1_000_000);
            true
        }
        Step::Drift { parts_per_million } => {
            let own = cluster.config.clocks[node as usize].drift_parts_per_million;
            world.set_drift(id, (own + parts_per_million).clamp(-500_000, 500_000));
            true
        }
        Step::Cut(direction) => {
            cut(world, id, direction);
            true
        }
        Step::Mend => {
            for other in others(world, id) {
                world.network().mend(id, other);
                world.network().mend(other, id);
            }
            true
        }
        Step::Split { shape, pick, direction, cut } => {
            let nodes = world.nodes();
            let ways = blocked_ways(&nodes, cluster.machines, node, (shape, pick), direction);
            for (from, to) in &ways {
                match cut {
                    true => world.network().cut(*from, *to),
                    false => world.network().mend(*from, *to),
                }
            }
            !ways.is_empty()
        }
        Step::ResetConnections { parts_per_million } => {
            reset_connections(world, id, parts_per_million);
            true
        }
    }
}

/// Ends every fault on a machine, and has its server run.
pub(super) fn heal(world: &Arc<World>, cluster: &Cluster, node: u32) {
    let id = NodeId(node);
    world.resume(id);
    cluster.judges.node_paused(node, false);
    world.disk(id).set_faults(disk_without_faults(&cluster.config));
    reset_connections(world, id, 0);
    let drift = cluster.config.clocks[node as usize].drift_parts_per_million;
    if world.clock(id).drift_ppm() != drift {
        world.set_drift(id, drift);
    }
    start(world, cluster, node);
    cluster.judges.conditions_changed();
}

fn kill(world: &World, cluster: &Cluster, node: u32) -> bool {
    let alive = world.status(NodeId(node)).is_alive();
    if alive {
        world.kill(NodeId(node));
        cluster.forget(node);
        cluster.judges.node_stopped(node, Stop::Killed);
    }
    alive
}

fn power_fail(world: &World, cluster: &Cluster, node: u32) -> bool {
    let on = world.status(NodeId(node)) != Status::PoweredOff;
    if on {
        world.power_fail(NodeId(node));
        cluster.forget(node);
        // Told also where no process ran any more: what an earlier one had written is lost all the same.
        cluster.judges.node_stopped(node, Stop::PowerLost);
    }
    on
}

fn stop(world: &World, cluster: &Cluster, node: u32) -> bool {
    let asked = world.status(NodeId(node)) == Status::Running && cluster.ask_to_stop(node);
    if asked {
        cluster.judges.node_asked_to_stop(node);
    }
    asked
}

fn pause(world: &World, cluster: &Cluster, node: u32) -> bool {
    let runs = world.status(NodeId(node)) == Status::Running;
    world.pause(NodeId(node));
    if runs {
        cluster.judges.node_paused(node, true);
    }
    runs
}

/// Starts a server where none runs. One that was asked to stop and still runs is killed first, as a service manager
/// does.
fn start(world: &Arc<World>, cluster: &Cluster, node: u32) -> bool {
    if world.status(NodeId(node)).is_alive() {
        if !cluster.was_asked_to_stop(node) {
            return false;
        }
        kill(world, cluster, node);
    }
    cluster.start(world, node);
    true
}

fn change_disk(world: &World, cluster: &Cluster, id: NodeId, change: DiskChange) {
    let disk = world.disk(id);
    let own = disk_without_faults(&cluster.config);
    let used = disk.used_bytes();
    disk.change_faults(|faults| match change {
        DiskChange::FreeBytes(None) => faults.capacity_bytes = own.capacity_bytes,
        DiskChange::FreeBytes(Some(free)) => faults.capacity_bytes = Some(used + free),
        DiskChange::AddedLatency { latency_ns, reads } => {
            let add = |(from, to): (u64, u64)| (from + latency_ns / 1_000, to + latency_ns / 1_000);
            faults.write_latency_us = add(own.write_latency_us);
            faults.sync_latency_us = add(own.sync_latency_us);
            faults.read_latency_us = if reads { add(own.read_latency_us) } else { own.read_latency_us };
        }
        DiskChange::ReadErrors(parts_per_million) => faults.read_error_ppm = parts_per_million,
        DiskChange::WriteErrors(parts_per_million) => {
            faults.write_error_ppm = parts_per_million / 2;
            faults.short_write_ppm = parts_per_million / 2;
        }
        DiskChange::SyncErrors(parts_per_million) => {
            faults.sync_error_ppm = parts_per_million;
            faults.sync_dir_error_ppm = parts_per_million / 4;
        }
        DiskChange::MisdirectedWrites(parts_per_million) => faults.misdirected_write_ppm = parts_per_million,
    });
}

/// Changes stored bits of a broker's segment files, or of any file of a member. Which is decided by `pick` and by what is on the disk, and by nothing else.
fn flip_bits(world: &World, node: u32, of_member: bool, bits: u64, pick: u64) -> bool {
    let disk = world.disk(NodeId(node));
    let files: Vec<(String, u64)> = disk
        .files()
        .into_iter()
        .filter(|path| of_member || path.ends_with(".log"))
        .filter_map(|path| {
            disk.durable_length(&path).filter(|length| *length > 0).map(|length| (path, length))
        })
        .collect();
    if files.is_empty() {
        return false;
    }
    let mut draws = Draws::new(pick, "bit-rot");
    let mut flipped = 0;
    for _ in 0..bits * ROT_ATTEMPTS {
        let (path, length) = draws.choose(&files);
        let (position, bit) = (draws.below(*length), draws.below(8) as u8);
        if disk.flip_bit(path, position, bit) {
            flipped += 1;
            if flipped == bits {
                break;
            }
        }
    }
    flipped > 0
}

fn others(world: &World, id: NodeId) -> Vec<NodeId> {
    world.nodes().into_iter().filter(|other| *other != id).collect()
}

fn cut(world: &World, id: NodeId, direction: Direction) {
    for other in others(world, id) {
        if direction != Direction::Out {
            world.network().cut(other, id);
        }
        if direction != Direction::In {
            world.network().cut(id, other);
        }
    }
}

fn reset_connections(world: &World, id: NodeId, parts_per_million: u32) {
    let own = world.network().config().link;
    let profile = (parts_per_million > 0).then_some(LinkProfile { reset_ppm: parts_per_million, ..own });
    for other in others(world, id) {
        world.network().set_link(id, other, profile);
        world.network().set_link(other, id, profile);
    }
}
