//! Nodes that come and go, with children: deleted in the wrong order, made twice, made without a parent; containers that
//! go with their last child, nodes with a time to live.

use super::super::client::{Client, Lost, ROOT};
use crate::oracle::coordinator::Request;
use sillon_protocol::zookeeper::{CreateMode, records::open_acl};

/// A node that comes and goes.
pub(super) fn path(number: u64) -> String {
    format!("{ROOT}/churn/x{number}")
}

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    let path = path(client.pick("node"));
    let child = format!("{path}/y{}", client.pick("child"));
    match client.chance.draw("what to do with a node", 0, 19) {
        0..=3 => drop(client.create(&path, CreateMode::Persistent).await?),
        4..=7 => drop(client.create(&child, CreateMode::Persistent).await?),
        8 => drop(client.create(&child, CreateMode::Ephemeral).await?),
        9 => drop(client.create(&format!("{child}/z"), CreateMode::Persistent).await?),
        10..=12 => drop(client.delete(&child).await?),
        13 => {
            let version = client.versions.get(&path).copied().unwrap_or(0);
            drop(client.ask(Request::Delete { path, version }).await?);
        }
        14 => drop(client.delete(&path).await?),
        15 => {
            let set = Request::SetData { path: path.clone(), data: None, version: -1 };
            let answer = client.ask(set).await?;
            client.saw(&path, &answer);
        }
        16 => drop(client.children(&path, false).await?),
        17 => container(client).await?,
        18 => with_ttl(client).await?,
        _ => {
            // A node that is deleted and made again while requests are on their way.
            let delete = Request::Delete { path: child.clone(), version: -1 };
            let create = client.new_node(&child, CreateMode::Persistent);
            let read = Request::GetData { path: child, watch: false };
            drop(client.ask_all(vec![delete, create, read]).await?);
        }
    }
    Ok(())
}

async fn container(client: &mut Client) -> Result<(), Lost> {
    let path = format!("{ROOT}/churn/container-{}", client.pick("container"));
    let _made_or_there = client.create(&path, CreateMode::Container).await?;
    let child = format!("{path}/c{}", client.id.0);
    let _made_or_there = client.create(&child, CreateMode::Persistent).await?;
    client.delete(&child).await.map(drop)
}

async fn with_ttl(client: &mut Client) -> Result<(), Lost> {
    let path = format!("{ROOT}/churn/ttl-{}", client.pick("node with a time to live"));
    let ttl_ms = Some(client.chance.draw("time to live", 500, 20_000) as i64);
    let (data, acl, mode) = (client.value(), open_acl(), CreateMode::PersistentWithTtl);
    client.ask(Request::Create { path, data, acl, mode, ttl_ms }).await.map(drop)
}
