//! Access lists: nodes that may only be read, or everything but read; who may not is told so, and nothing happens.

use super::super::client::{Client, Lost, ROOT};
use crate::oracle::coordinator::Request;
use sillon_protocol::zookeeper::{Acl, CreateMode, Identity, acl::permission};

fn list(permissions: i32) -> Vec<Acl> {
    vec![Acl { permissions, identity: Identity::anyone() }]
}

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    let path = format!("{ROOT}/access/a{}", client.pick("guarded node"));
    let permissions = match client.chance.draw("what is permitted", 0, 4) {
        0 => permission::READ,
        1 => permission::ALL & !permission::READ,
        2 => permission::ALL & !permission::WRITE,
        3 => permission::READ | permission::ADMIN,
        _ => permission::ALL,
    };
    let (data, acl, version) = (client.value(), list(permissions), -1);
    let request = match client.chance.draw("what to do with a guarded node", 0, 9) {
        0 | 1 => Request::Create { path, data, acl, mode: CreateMode::Persistent, ttl_ms: None },
        2 | 3 => Request::GetData { path, watch: client.happens("watch", 30) },
        4 | 5 => Request::SetData { path, data, version },
        6 => Request::SetAcl { path, acl, version },
        7 => Request::Create {
            path: format!("{path}/below"),
            data,
            acl,
            mode: CreateMode::Ephemeral,
            ttl_ms: None,
        },
        8 => Request::Exists { path, watch: false },
        // Deleting is permitted by the parent.
        _ => Request::Delete { path, version },
    };
    client.ask(request).await.map(drop)
}
