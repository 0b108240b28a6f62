//! Watches: one-shot ones set by reads, and those that stay. What they see is told to the oracle by the connection.
//!
//! A connection has one mode for a path, and what it asks for last decides, after a reconnect in an order of the server's
//! own. So that it is always known what must be told, those that stay have nodes to themselves.

use super::{
    super::client::{Client, Lost, ROOT},
    churn, named, registers,
};
use crate::oracle::coordinator::Request;
use sillon_protocol::zookeeper::CreateMode;

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    match client.chance.draw("kind of watch", 0, 9) {
        0..=5 => one_shot(client).await?,
        6 | 7 => lasting(client).await?,
        _ => stir(client).await?,
    }
    client.skip_events();
    Ok(())
}

async fn one_shot(client: &mut Client) -> Result<(), Lost> {
    let number = client.pick("watched node");
    let path = match client.chance.draw("what to watch", 0, 5) {
        0 | 1 => registers::path(number),
        2 => named::sequence(number),
        3 => format!("{ROOT}/ephemerals"),
        4 => format!("{ROOT}/ephemerals/shared-{number}"),
        _ => churn::path(number),
    };
    let watch = true;
    let request = match client.chance.draw("read that sets a watch", 0, 2) {
        0 => Request::GetData { path: path.clone(), watch },
        1 => Request::Exists { path: path.clone(), watch },
        _ => Request::GetChildren { path: path.clone(), watch },
    };
    let answer = client.ask(request).await?;
    client.saw(&path, &answer);
    Ok(())
}

/// The nodes of those that stay: `p` for one node and its children's names, `r` for all below.
fn node(kind: char, number: u64) -> String {
    format!("{ROOT}/watches/{kind}{number}")
}

async fn lasting(client: &mut Client) -> Result<(), Lost> {
    let number = client.pick("node with a watch that stays");
    let request = match client.chance.draw("kind of watch that stays", 0, 3) {
        0 | 1 => Request::AddWatch { path: node('p', number), recursive: false },
        2 => Request::AddWatch { path: node('r', number), recursive: true },
        _ => Request::AddWatch { path: format!("{ROOT}/registers"), recursive: true },
    };
    client.ask(request).await.map(drop)
}

/// Has something happen to the nodes of those that stay.
async fn stir(client: &mut Client) -> Result<(), Lost> {
    let kind = if client.happens("a node for all below", 50) { 'r' } else { 'p' };
    let path = node(kind, client.pick("node to stir"));
    let child = format!("{path}/c{}", client.id.0);
    match client.chance.draw("what happens to it", 0, 5) {
        0 | 1 => drop(client.create(&path, CreateMode::Persistent).await?),
        2 => {
            let (data, version) = (client.value(), -1);
            drop(client.ask(Request::SetData { path, data, version }).await?);
        }
        3 => drop(client.create(&child, CreateMode::Ephemeral).await?),
        4 => drop(client.delete(&child).await?),
        _ => drop(client.delete(&path).await?),
    }
    Ok(())
}
