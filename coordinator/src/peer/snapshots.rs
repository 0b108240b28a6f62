//! Snapshots on their way between members, each on a connection of its own, so that nothing waits behind them.
//!
//! Owns the transfer. The receiver makes the snapshot durable and checks it before its member hears of it.

use super::{
    Links,
    framed::{FrameReader, FrameWriter, GREETING_LIMIT_BYTES, LIMIT_BYTES, PeerError},
    hello::{Purpose, Said},
    outgoing::dial,
};
use crate::{
    consensus::{SendSnapshot, SnapshotMark},
    member::Event,
    types::MemberId,
};
use std::sync::Arc;

/// How many times a link's silence one piece of a snapshot may take.
const PATIENCE: u32 = 10;

/// Sends a snapshot in the background, and tells the member how that ended.
pub(crate) fn send_snapshot(links: &Arc<Links>, send: SendSnapshot) {
    let (runtime, links) = (links.runtime.clone(), links.clone());
    runtime.spawn("send snapshot", async move {
        let (to, mark) = (send.to, send.mark);
        let sent = transfer(&links, send).await;
        if let Err(problem) = &sent {
            tracing::warn!(peer = %to, %mark, %problem, "a snapshot did not arrive");
        }
        // The member has ended where nobody listens.
        let _ = links.events.send(Event::SnapshotSent { to, arrived: sent.is_ok() }).await;
    });
}

async fn transfer(links: &Links, send: SendSnapshot) -> Result<(), PeerError> {
    let Some(address) = links.members.get(&send.to) else { return Err(PeerError::Unexpected) };
    let purpose = Purpose::Snapshot { mark: send.mark };
    let patience = links.silence * PATIENCE;
    let dialled = links.runtime.timeout(patience, dial(links, send.to, address, purpose)).await;
    let (mut reader, mut writer) = dialled.map_err(|_| PeerError::Silent)??;
    let mut snapshot = links.snapshots.read(send.mark.index).await?;
    while let Some(piece) = snapshot.next().await? {
        writer.put(&Said::Chunk(piece))?;
        links.runtime.timeout(patience, writer.send()).await.map_err(|_| PeerError::Silent)??;
    }
    writer.put(&Said::End { message: send.message })?;
    writer.send().await?;
    match links.runtime.timeout(patience, reader.next(GREETING_LIMIT_BYTES)).await {
        Ok(Ok(Said::Taken)) => Ok(()),
        Ok(Ok(_)) => Err(PeerError::Unexpected),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(PeerError::Silent),
    }
}

/// Takes a snapshot that a member sends.
pub(super) async fn receive(
    links: &Links,
    from: MemberId,
    mark: SnapshotMark,
    mut reader: FrameReader,
    mut writer: FrameWriter,
) -> Result<(), PeerError> {
    tracing::info!(peer = %from, %mark, "receiving a snapshot");
    let mut snapshot = links.snapshots.create().await?;
    loop {
        let said = links.runtime.timeout(links.silence * PATIENCE, reader.next::<Said>(LIMIT_BYTES)).await;
        match said.map_err(|_| PeerError::Silent)?? {
            Said::Chunk(piece) => snapshot.write(&piece).await?,
            Said::End { message } if message.snapshot() == Some(mark) => {
                snapshot.finish(mark).await?;
                let told = links.events.send(Event::SnapshotReceived { message }).await;
                told.map_err(|_| PeerError::MemberEnded)?;
                writer.put(&Said::Taken)?;
                return writer.send().await;
            }
            _ => return Err(PeerError::Unexpected),
        }
    }
}
