//! Several operations that are done all or not at all: conditional writes, transfers between registers, numbered nodes,
//! and such as cannot succeed.

use super::{
    super::client::{Client, Lost, ROOT},
    named, registers,
};
use crate::oracle::coordinator::{Request, Response};
use sillon_protocol::zookeeper::CreateMode;

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    let (one, other) = (registers::path(client.pick("register")), registers::path(client.pick("register")));
    let set = |client: &Client, path: &str, version| Request::SetData {
        path: path.into(),
        data: client.value(),
        version,
    };
    let seen = client.versions.get(&one).copied().unwrap_or(0);
    let check = Request::Check { path: one.clone(), version: seen };
    let own = format!("{ROOT}/multis/c{}", client.id.0);
    let requests = match client.chance.draw("kind of multi", 0, 9) {
        // Writes on condition of what was seen.
        0..=2 => vec![check, set(client, &other, -1)],
        // Both or none.
        3 | 4 => vec![set(client, &one, -1), set(client, &other, -1)],
        // Conditions alone.
        5 => vec![check],
        // A node that is there only inside of the multi.
        6 => vec![
            client.new_node(&own, CreateMode::Persistent),
            set(client, &own, 0),
            Request::Delete { path: own.clone(), version: 1 },
        ],
        // A number is given, and taken back where the last operation fails.
        7 | 8 => {
            let parent = named::sequence(client.pick("sequence"));
            let numbered = client.new_node(&format!("{parent}/t-"), CreateMode::PersistentSequential);
            vec![numbered, check]
        }
        // The last operation fails.
        _ => vec![set(client, &one, -1), Request::Delete { path: format!("{own}/nobody"), version: -1 }],
    };
    if let Ok(Response::Multi(results)) = client.ask(Request::Multi(requests)).await? {
        for result in results {
            if let Ok(Response::PathStat(path, _)) = result
                && path.contains("/t-")
            {
                client.numbered.push(path);
            }
        }
    }
    let answer = client.ask(Request::GetData { path: one.clone(), watch: false }).await?;
    client.saw(&one, &answer);
    Ok(())
}
