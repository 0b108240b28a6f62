//! Nodes whose names get a number, and nodes that go with their session.

use super::super::client::{Client, Lost, ROOT};
use crate::oracle::coordinator::Request;
use sillon_protocol::zookeeper::CreateMode;

/// How many numbered nodes a client keeps before it deletes the oldest.
const KEPT: usize = 4;

/// The node whose children are numbered.
pub(super) fn sequence(number: u64) -> String {
    format!("{ROOT}/sequences/s{number}")
}

pub(super) async fn sequences(client: &mut Client) -> Result<(), Lost> {
    let parent = sequence(client.pick("sequence"));
    match client.chance.draw("what to do with a sequence", 0, 9) {
        0..=5 => {
            let made = client.create(&format!("{parent}/n-"), CreateMode::PersistentSequential).await?;
            match made {
                Ok(path) => client.numbered.push(path),
                // The parent is not there yet; whoever makes it at the same time is welcome.
                Err(_) => drop(client.create(&parent, CreateMode::Persistent).await?),
            }
        }
        6 => {
            // Several at once: their numbers follow in the order in which they were asked for.
            let request = client.new_node(&format!("{parent}/m-"), CreateMode::PersistentSequential);
            for answer in client.ask_all(vec![request; 3]).await? {
                use crate::oracle::coordinator::Response::PathStat;
                if let Ok(PathStat(path, _)) = answer {
                    client.numbered.push(path);
                }
            }
        }
        _ => drop(client.children(&parent, false).await?),
    }
    while client.numbered.len() > KEPT {
        let oldest = client.numbered.remove(0);
        // It may have been deleted by a try whose answer was lost.
        let _deleted = client.delete(&oldest).await?;
    }
    Ok(())
}

pub(super) async fn ephemerals(client: &mut Client) -> Result<(), Lost> {
    let parent = format!("{ROOT}/ephemerals");
    let number = client.pick("ephemeral");
    // Some names are each client's own, others are fought for.
    let path = match client.happens("a name of one's own", 60) {
        true => format!("{parent}/c{}-{number}", client.id.0),
        false => format!("{parent}/shared-{number}"),
    };
    match client.chance.draw("what to do with an ephemeral", 0, 9) {
        0..=4 => drop(client.create(&path, CreateMode::Ephemeral).await?),
        5..=6 => drop(client.delete(&path).await?),
        7 => drop(client.ask(Request::Exists { path, watch: false }).await?),
        // An ephemeral node has no children.
        8 => drop(client.create(&format!("{path}/child"), CreateMode::Persistent).await?),
        _ => drop(client.children(&parent, false).await?),
    }
    Ok(())
}
