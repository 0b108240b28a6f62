//! The link on which a member sends to another. Owns dialling, greeting, and knowing when the link is broken.

use super::{
    Links,
    framed::{FrameReader, FrameWriter, GREETING_LIMIT_BYTES, PeerError},
    hello::{Purpose, Said, WIRE_VERSION},
    message::PeerMessage,
};
use crate::{config::members::MemberAddress, member::Event, types::MemberId};
use sillon_runtime::Monotonic;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How long to wait before dialling again.
const REDIAL: Duration = Duration::from_millis(100);
/// How much is put into one write.
const BATCH_BYTES: usize = 1024 * 1024;

/// Keeps a link to a member for as long as this member runs.
pub(super) async fn run(
    links: Arc<Links>,
    to: MemberId,
    address: MemberAddress,
    mut inbox: mpsc::UnboundedReceiver<PeerMessage>,
) {
    let mut last_problem = String::new();
    loop {
        let opened =
            links.runtime.timeout(links.silence * 2, dial(&links, to, &address, Purpose::Link)).await;
        let problem = match opened {
            Err(_) => PeerError::Silent,
            Ok(Err(error)) => error,
            Ok(Ok((reader, writer))) => {
                last_problem.clear();
                while inbox.try_recv().is_ok() {}
                tracing::debug!(peer = %to, "link opened");
                if links.events.send(Event::LinkOpened { to }).await.is_err() {
                    return;
                }
                let problem = carry(&links, reader, writer, &mut inbox).await;
                if links.events.send(Event::LinkLost { to }).await.is_err() {
                    return;
                }
                problem
            }
        };
        let problem = problem.to_string();
        if problem != last_problem {
            tracing::warn!(peer = %to, host = %address.host, port = address.peer_port, %problem, "no link to a member");
            last_problem = problem;
        }
        links.runtime.sleep(REDIAL).await;
        // Nothing that was meant for the link before goes out on the next.
        while inbox.try_recv().is_ok() {}
    }
}

/// Connects to a member and greets it.
pub(super) async fn dial(
    links: &Links,
    to: MemberId,
    address: &MemberAddress,
    purpose: Purpose,
) -> Result<(FrameReader, FrameWriter), PeerError> {
    let stream = links.runtime.connect(&address.host, address.peer_port).await?;
    let (reader, writer) = stream.into_split();
    let (mut reader, mut writer) = (FrameReader::new(reader), FrameWriter::new(writer));
    writer.put(&Said::Hello { version: WIRE_VERSION, from: links.identity(), to, purpose })?;
    writer.send().await?;
    match reader.next(GREETING_LIMIT_BYTES).await? {
        Said::Welcome { identity } if identity.member == to => {
            let greeted = links.events.send(Event::Greeted { ensemble: identity.ensemble }).await;
            greeted.map_err(|_| PeerError::MemberEnded)?;
            Ok((reader, writer))
        }
        Said::Refused { reason } => Err(PeerError::Refused(reason)),
        _ => Err(PeerError::Unexpected),
    }
}

/// Sends messages until the link breaks, and says why.
async fn carry(
    links: &Links,
    mut reader: FrameReader,
    mut writer: FrameWriter,
    inbox: &mut mpsc::UnboundedReceiver<PeerMessage>,
) -> PeerError {
    let mut last_heard = links.runtime.now();
    let ping_every = links.silence / 4;
    let mut next_ping = last_heard;
    loop {
        let step = tokio::select! {
            biased;
            said = reader.next::<Said>(GREETING_LIMIT_BYTES) => match said {
                Ok(Said::Pong) => {
                    last_heard = links.runtime.now();
                    Ok(())
                }
                Ok(_) => Err(PeerError::Unexpected),
                Err(error) => Err(error),
            },
            message = inbox.recv() => match message {
                None => Err(PeerError::MemberEnded),
                Some(message) => {
                    let sending = send_batch(&mut writer, message, inbox);
                    // A peer that takes nothing for that long is as good as gone.
                    links.runtime.timeout(links.silence, sending).await.unwrap_or(Err(PeerError::Silent))
                }
            },
            () = links.runtime.sleep_until(next_ping) => {
                ping(links, &mut writer, last_heard, &mut next_ping, ping_every).await
            }
        };
        if let Err(error) = step {
            return error;
        }
    }
}

async fn send_batch(
    writer: &mut FrameWriter,
    first: PeerMessage,
    inbox: &mut mpsc::UnboundedReceiver<PeerMessage>,
) -> Result<(), PeerError> {
    writer.put(&Said::Message(first))?;
    while writer.waiting_bytes() < BATCH_BYTES
        && let Ok(message) = inbox.try_recv()
    {
        writer.put(&Said::Message(message))?;
    }
    writer.send().await
}

async fn ping(
    links: &Links,
    writer: &mut FrameWriter,
    last_heard: Monotonic,
    next_ping: &mut Monotonic,
    every: Duration,
) -> Result<(), PeerError> {
    let now = links.runtime.now();
    if now - last_heard > links.silence {
        return Err(PeerError::Silent);
    }
    *next_ping = now + every;
    writer.put(&Said::Ping)?;
    links.runtime.timeout(links.silence, writer.send()).await.unwrap_or(Err(PeerError::Silent))
}
