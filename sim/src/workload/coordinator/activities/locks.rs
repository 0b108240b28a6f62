//! Locks, as ZooKeeper's recipe has them: an ephemeral node with a number for each who wants it; the lowest holds it, each
//! other watches the one before its own.

use super::super::client::{Client, Lost, ROOT};
use crate::oracle::coordinator::{Request, Response};
use sillon_protocol::zookeeper::CreateMode;
use std::time::Duration;

/// How often a client looks again before it gives up.
const ROUNDS: u32 = 4;

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    let number = client.pick("lock");
    let parent = format!("{ROOT}/locks/l{number}");
    if client.untidy_locks.contains(&number) {
        tidy(client, &parent).await?;
        client.untidy_locks.retain(|untidy| *untidy != number);
    }
    // Until it is known that the node is gone again.
    client.untidy_locks.push(number);
    let made = client.create(&prefix(client, &parent), CreateMode::EphemeralSequential).await?;
    let Ok(own) = made else {
        client.untidy_locks.retain(|untidy| *untidy != number);
        return client.create(&parent, CreateMode::Persistent).await.map(drop);
    };
    if wait(client, &parent, &own).await? {
        hold(client, number).await?;
    }
    let _deleted = client.delete(&own).await?;
    client.untidy_locks.retain(|untidy| *untidy != number);
    Ok(())
}

/// Says whose a node is, so that its owner finds it where the answer to the create was lost.
fn prefix(client: &Client, parent: &str) -> String {
    format!("{parent}/c{}-", client.id.0)
}

/// Deletes what an earlier try has left.
async fn tidy(client: &mut Client, parent: &str) -> Result<(), Lost> {
    let prefix = format!("c{}-", client.id.0);
    for name in client.children(parent, false).await? {
        if name.starts_with(&prefix) {
            let _deleted = client.delete(&format!("{parent}/{name}")).await?;
        }
    }
    Ok(())
}

/// The ten digits at the end of a name.
fn number_of(name: &str) -> &str {
    &name[name.len().saturating_sub(10)..]
}

/// Waits until its own node is the lowest. False where that takes too long.
async fn wait(client: &mut Client, parent: &str, own: &str) -> Result<bool, Lost> {
    let own_number = number_of(own).to_string();
    for _ in 0..ROUNDS {
        let names = client.children(parent, false).await?;
        let before = names.iter().filter(|name| *number_of(name) < *own_number);
        let Some(before) = before.max_by(|one, other| number_of(one).cmp(number_of(other))) else {
            return Ok(true);
        };
        let path = format!("{parent}/{before}");
        client.skip_events();
        if client.ask(Request::Exists { path: path.clone(), watch: true }).await?.is_err() {
            continue;
        }
        let patience = Duration::from_millis(client.chance.draw("patience for a lock", 100, 2_000));
        while let Some((_, happened_to)) = client.next_event(patience).await {
            if happened_to == path {
                break;
            }
        }
        if client.shared.is_stopped() {
            return Ok(false);
        }
    }
    Ok(false)
}

/// Does what only the holder may: a read, and a write on condition of it.
async fn hold(client: &mut Client, number: u64) -> Result<(), Lost> {
    let path = format!("{ROOT}/locks/guarded-{number}");
    let answer = client.ask(Request::GetData { path: path.clone(), watch: false }).await?;
    let Ok(Response::Data(_, stat)) = answer else {
        return client.create(&path, CreateMode::Persistent).await.map(drop);
    };
    let held = Duration::from_millis(client.chance.draw("holding a lock", 0, 300));
    client.runtime.sleep(held).await;
    let (data, version) = (client.value(), stat.version);
    client.ask(Request::SetData { path, data, version }).await.map(drop)
}
