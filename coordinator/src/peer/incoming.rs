//! The links on which a member hears from others. Owns accepting them and who is let in.

use super::{
    Links,
    framed::{FrameReader, FrameWriter, GREETING_LIMIT_BYTES, LIMIT_BYTES, PeerError},
    hello::{Identity, Purpose, Said, objection},
    snapshots,
};
use crate::{member::Event, types::MemberId};
use sillon_runtime::{BoxStream, JoinHandle, Listener};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The connections that were accepted; they end with the accepting task.
#[derive(Default)]
struct Accepted {
    next_number: u64,
    tasks: BTreeMap<u64, JoinHandle<()>>,
    /// Which member's link each connection is, and from which data directory.
    links: BTreeMap<u64, (MemberId, u64)>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Accepted>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Accepted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data directory behind a member's link at the moment.
    fn directory_of(&self, member: MemberId) -> Option<u64> {
        self.lock().links.values().find(|(linked, _)| *linked == member).map(|(_, directory)| *directory)
    }
}

/// Ends what was accepted.
struct EndAll(Shared);

impl Drop for EndAll {
    fn drop(&mut self) {
        for task in self.0.lock().tasks.values() {
            task.abort();
        }
    }
}

/// Accepts members for as long as this task runs.
pub(super) async fn accept(links: Arc<Links>, listener: Box<dyn Listener>) {
    let shared = Shared::default();
    let _end = EndAll(shared.clone());
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(address = %listener.local_addr(), %error, "cannot accept a member's connection");
                links.runtime.sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let mut accepted = shared.lock();
        accepted.next_number += 1;
        let number = accepted.next_number;
        let (task_links, task_shared) = (links.clone(), shared.clone());
        let task = links.runtime.spawn("incoming link", async move {
            let address = stream.peer_addr();
            if let Err(problem) = serve(&task_links, &task_shared, number, stream).await {
                match problem {
                    PeerError::Refused(reason) => {
                        tracing::error!(%address, reason, "a member was turned away")
                    }
                    problem => tracing::debug!(%address, %problem, "incoming link closed"),
                }
            }
            let mut accepted = task_shared.lock();
            accepted.links.remove(&number);
            accepted.tasks.remove(&number);
        });
        accepted.tasks.insert(number, task);
    }
}

async fn serve(links: &Links, shared: &Shared, number: u64, stream: BoxStream) -> Result<(), PeerError> {
    let (reader, writer) = stream.into_split();
    let (mut reader, mut writer) = (FrameReader::new(reader), FrameWriter::new(writer));
    let greeting = reader.next::<Said>(GREETING_LIMIT_BYTES);
    let said = links.runtime.timeout(links.silence * 4, greeting).await.map_err(|_| PeerError::Silent)??;
    let Said::Hello { version, from, to, purpose } = said else { return Err(PeerError::Unexpected) };
    let own = links.identity();
    let connected = shared.directory_of(from.member);
    if let Some(reason) = objection(&own, &links.members, connected, version, &from, to) {
        writer.put(&Said::Refused { reason: reason.clone() })?;
        writer.send().await?;
        return Err(PeerError::Refused(reason));
    }
    writer.put(&Said::Welcome { identity: own })?;
    writer.send().await?;
    match purpose {
        Purpose::Snapshot { mark } => snapshots::receive(links, from.member, mark, reader, writer).await,
        Purpose::Link => {
            replace_link(shared, number, &from);
            let greeted = links.events.send(Event::Greeted { ensemble: from.ensemble }).await;
            greeted.map_err(|_| PeerError::MemberEnded)?;
            hear(links, from.member, reader, writer).await
        }
    }
}

/// A member has one link: an older one of its is over, whether it knows it or not.
fn replace_link(shared: &Shared, number: u64, from: &Identity) {
    let mut accepted = shared.lock();
    let old: Vec<u64> = accepted
        .links
        .iter()
        .filter(|(_, (member, _))| *member == from.member)
        .map(|(old, _)| *old)
        .collect();
    for old in old {
        accepted.links.remove(&old);
        if let Some(task) = accepted.tasks.remove(&old) {
            task.abort();
        }
    }
    accepted.links.insert(number, (from.member, from.directory));
}

async fn hear(
    links: &Links,
    from: MemberId,
    mut reader: FrameReader,
    mut writer: FrameWriter,
) -> Result<(), PeerError> {
    loop {
        // Whoever sends pings four times as often.
        let said = links.runtime.timeout(links.silence * 2, reader.next::<Said>(LIMIT_BYTES)).await;
        match said.map_err(|_| PeerError::Silent)?? {
            Said::Ping => {
                writer.put(&Said::Pong)?;
                writer.send().await?;
            }
            Said::Message(message) => {
                let told = links.events.send(Event::Peer { from, message }).await;
                told.map_err(|_| PeerError::MemberEnded)?;
            }
            _ => return Err(PeerError::Unexpected),
        }
    }
}
