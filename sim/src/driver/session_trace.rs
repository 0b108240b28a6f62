//! What session clients do and see, as events of the trace: part of its hash. Owns their words.

use crate::{
    oracle::coordinator::{CoordinatorEvent, Outcome},
    world::{NodeId, World},
};

/// Puts a client's event into the trace. Frames are left out: the network's own events show them.
pub(super) fn trace(world: &World, event: &CoordinatorEvent) {
    let add = |kind, fields: &[(&'static str, u64)], text: String| {
        world.event_with_detail(NodeId::WORLD, kind, fields, || text);
    };
    match event {
        CoordinatorEvent::Invoked { client, operation, session, request } => {
            let fields =
                [("client", client.0.into()), ("operation", operation.0), ("session", *session as u64)];
            world.event_with_detail(NodeId::WORLD, "client/asks", &fields, || format!("{request:?}"));
        }
        CoordinatorEvent::Completed { client, operation, outcome } => {
            let (kind, zxid, error) = match outcome {
                Outcome::Ok { zxid, .. } => ("client/done", *zxid, 0),
                Outcome::Failed { zxid, error } => ("client/refused", *zxid, *error),
                Outcome::Unknown => ("client/unknown", 0, 0),
            };
            let fields = [
                ("client", client.0.into()),
                ("operation", operation.0),
                ("zxid", zxid as u64),
                ("error", i64::from(error) as u64),
            ];
            world.event_with_detail(NodeId::WORLD, kind, &fields, || format!("{outcome:?}"));
        }
        CoordinatorEvent::WatchEvent { client, connection, zxid_before, event: (kind, path), .. } => {
            let fields = [
                ("client", client.0.into()),
                ("connection", *connection),
                ("zxid_before", *zxid_before as u64),
                ("type", kind.number() as u64),
            ];
            world.event_with_detail(NodeId::WORLD, "client/event", &fields, || path.clone());
        }
        CoordinatorEvent::Connected { client, session, connection, member, timeout_ms } => add(
            "client/connected",
            &[
                ("client", client.0.into()),
                ("session", *session as u64),
                ("connection", *connection),
                ("member", (*member).into()),
                ("timeout_ms", *timeout_ms as u64),
            ],
            String::new(),
        ),
        CoordinatorEvent::Refused { client, session } => add(
            "client/session-gone",
            &[("client", client.0.into()), ("session", *session as u64)],
            String::new(),
        ),
        CoordinatorEvent::Disconnected { client, connection } => add(
            "client/disconnected",
            &[("client", client.0.into()), ("connection", *connection)],
            String::new(),
        ),
        CoordinatorEvent::SessionClosed { client, session } => add(
            "client/session-closed",
            &[("client", client.0.into()), ("session", *session as u64)],
            String::new(),
        ),
        CoordinatorEvent::Sent { .. } | CoordinatorEvent::Replied { .. } => {}
    }
}
