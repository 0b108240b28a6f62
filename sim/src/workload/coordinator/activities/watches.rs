//! Watches: one-shot ones set by reads, and those that stay. What they see is told to the oracle by the connection.

use super::{
    super::client::{Client, Lost, ROOT},
    churn, named, registers,
};
use crate::oracle::coordinator::Request;

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    let number = client.pick("watched node");
    let path = match client.chance.draw("what to watch", 0, 5) {
        0 | 1 => registers::path(number),
        2 => named::sequence(number),
        3 => format!("{ROOT}/ephemerals"),
        4 => format!("{ROOT}/ephemerals/shared-{number}"),
        _ => churn::path(number),
    };
    let (watch, persistent) = (true, Request::AddWatch { path: path.clone(), recursive: false });
    let request = match client.chance.draw("kind of watch", 0, 19) {
        0..=6 => Request::GetData { path: path.clone(), watch },
        7..=11 => Request::Exists { path: path.clone(), watch },
        12..=16 => Request::GetChildren { path: path.clone(), watch },
        17 | 18 => persistent,
        _ => {
            let above = client.chance.draw("how far above", 0, 1);
            let path = if above == 0 { path.clone() } else { parent(&path).to_string() };
            Request::AddWatch { path, recursive: true }
        }
    };
    let answer = client.ask(request).await?;
    client.saw(&path, &answer);
    client.skip_events();
    Ok(())
}

fn parent(path: &str) -> &str {
    sillon_protocol::zookeeper::path::split(path).map_or("/", |(parent, _)| parent)
}
