//! Registers: a few nodes that everybody reads and writes, also on condition of their version. Every value is unique, so
//! that what is read says which write it comes from.

use super::super::client::{Client, Lost, ROOT};
use crate::oracle::coordinator::Request;
use sillon_protocol::zookeeper::{CreateMode, ErrorCode};

/// A register's path.
pub(super) fn path(number: u64) -> String {
    format!("{ROOT}/registers/r{number}")
}

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    let path = path(client.pick("register"));
    let get = Request::GetData { path: path.clone(), watch: false };
    let answer = match client.chance.draw("what to do with a register", 0, 99) {
        0..=34 => client.ask(get).await?,
        35..=59 => {
            let (data, version) = (client.value(), -1);
            client.ask(Request::SetData { path: path.clone(), data, version }).await?
        }
        60..=74 => {
            let (data, version) = (client.value(), client.versions.get(&path).copied().unwrap_or(0));
            client.ask(Request::SetData { path: path.clone(), data, version }).await?
        }
        75..=79 => client.ask(Request::Exists { path: path.clone(), watch: false }).await?,
        80..=89 => {
            // What is read after a sync is at least as new as what was there when it was asked for.
            let sync = Request::Sync { path: path.clone() };
            client.ask_all(vec![sync, get]).await?.remove(1)
        }
        _ => return burst(client, &path).await,
    };
    client.saw(&path, &answer);
    if answer == Err(ErrorCode::NoNode) {
        // Whoever else makes it at the same time is welcome.
        let _made_by_somebody = client.create(&path, CreateMode::Persistent).await?;
    }
    Ok(())
}

/// Several requests on their way at the same time: they take effect and are answered in order.
async fn burst(client: &mut Client, path: &str) -> Result<(), Lost> {
    let count = client.chance.draw("burst", 2, 6);
    let requests = (0..count).map(|_| match client.happens("a burst writes", 50) {
        true => Request::SetData { path: path.into(), data: client.value(), version: -1 },
        false => Request::GetData { path: path.into(), watch: false },
    });
    let requests = requests.collect();
    for answer in client.ask_all(requests).await? {
        client.saw(path, &answer);
    }
    Ok(())
}
