//! The audit at the end: everything that is left is read once more, through each member in turn. Owns the walk; what is
//! read is told to the oracle as everything else.

use super::{
    Chance, Shared,
    client::{Client, Lost, ROOT},
};
use crate::{
    decisions::{Decisions, Stream},
    oracle::coordinator::{ClientId, Request},
};
use sillon_runtime::Runtime;
use std::{sync::Arc, time::Duration};

/// How often the audit of one member begins anew before it fails: each time, a connection was lost.
const TRIES: u32 = 40;
/// From one try to the next.
const PAUSE: Duration = Duration::from_millis(500);

/// Reads the tree through each member.
///
/// # Errors
/// Which member does not serve a session.
pub async fn audit(runtime: Runtime, shared: Arc<Shared>, decisions: Arc<Decisions>) -> Result<(), String> {
    let clients = shared.config.clients;
    for (member, host, _) in &shared.members {
        let stream = Stream::Workload(shared.first_stream + clients);
        let chance = Chance { decisions: decisions.clone(), stream };
        let id = ClientId(clients + member);
        let mut client = Client::new(runtime.clone(), id, shared.clone(), chance);
        let mut is_done = false;
        for _ in 0..TRIES {
            client.connect(Some(*member)).await;
            if client.is_connected() && walk(&mut client).await.is_ok() {
                is_done = true;
                break;
            }
            runtime.sleep(PAUSE).await;
        }
        if !is_done {
            return Err(format!("{host} does not serve a session to its end, {TRIES} times in a row"));
        }
        client.close_session().await;
    }
    Ok(())
}

async fn walk(client: &mut Client) -> Result<(), Lost> {
    let _ = client.ask(Request::Sync { path: ROOT.into() }).await?;
    let mut to_visit = vec![ROOT.to_string()];
    while let Some(path) = to_visit.pop() {
        let _ = client.ask(Request::GetData { path: path.clone(), watch: false }).await?;
        for name in client.children(&path, false).await? {
            to_visit.push(format!("{path}/{name}"));
        }
    }
    Ok(())
}
