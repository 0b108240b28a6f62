//! The task that owns the log: everything that must be durable goes through it, in order.
//!
//! Owns the group commit: what has come in while one sync was under way goes into the next, with one sync for all.

use crate::{
    consensus::{HardState, Persist, SnapshotMark},
    observe::{Observation, Observers},
    storage::{Storage, StorageError},
    types::{EnsembleId, MemberId, Term},
};
use tokio::sync::{mpsc, oneshot};

/// How many entries go into one write.
const MAXIMUM_BATCH: usize = 4096;

/// What the disk task is asked.
pub(super) enum Request {
    /// To make this durable.
    Persist(Persist),
    /// To let the log begin behind a snapshot that a peer sent.
    Install { mark: SnapshotMark, done: oneshot::Sender<()> },
    /// To remove what no snapshot that is kept needs.
    Purge { keep_snapshots: usize },
    /// To note the ensemble's name beside the data.
    Name(EnsembleId),
}

/// What the disk task answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// All tickets up to this one are durable.
    Durable { ticket: u64 },
    /// The disk has failed: nothing more can be promised.
    Failed(StorageError),
}

/// Serves requests until there is nobody to ask, or the disk fails.
pub(super) async fn serve(
    mut storage: Storage,
    mut requests: mpsc::UnboundedReceiver<Request>,
    answers: mpsc::UnboundedSender<Answer>,
    observers: Observers,
) {
    let mut held = None;
    loop {
        let request = match held.take() {
            Some(request) => request,
            None => match requests.recv().await {
                Some(request) => request,
                None => {
                    // The member stops: what did not have to be durable is made so, to spare the next start work.
                    if let Err(error) = storage.flush().await {
                        tracing::warn!(%error, "the log's end was not made durable");
                    }
                    return;
                }
            },
        };
        let result = match request {
            Request::Persist(first) => {
                let mut batch = vec![first];
                while batch.len() < MAXIMUM_BATCH
                    && let Ok(next) = requests.try_recv()
                {
                    match next {
                        Request::Persist(persist) => batch.push(persist),
                        other => {
                            held = Some(other);
                            break;
                        }
                    }
                }
                persist(&mut storage, batch, &observers, &answers).await
            }
            Request::Install { mark, done } => {
                let installed = storage.install(mark).await;
                // Whoever asked has ended only together with this task.
                let _ = done.send(());
                installed
            }
            Request::Purge { keep_snapshots } => storage.purge(keep_snapshots).await,
            Request::Name(ensemble) => storage.set_ensemble(ensemble).await,
        };
        if let Err(error) = result {
            let _ = answers.send(Answer::Failed(error));
            return;
        }
    }
}

async fn persist(
    storage: &mut Storage,
    batch: Vec<Persist>,
    observers: &Observers,
    answers: &mpsc::UnboundedSender<Answer>,
) -> Result<(), StorageError> {
    let ticket = batch.last().expect("a batch has at least one").ticket;
    let facts = if observers.is_listening() { facts(storage.hard_state(), &batch) } else { Vec::new() };
    storage.append(batch).await?;
    for Fact { term, vote, entries } in &facts {
        observers.tell(|| Observation::Durable { term: *term, vote: *vote, entries });
    }
    // The member has ended where nobody listens.
    let _ = answers.send(Answer::Durable { ticket });
    Ok(())
}

/// What one request makes durable, for an observer.
struct Fact {
    term: Term,
    vote: Option<MemberId>,
    entries: Vec<(u64, u64)>,
}

/// One fact for each request: a vote counts as durable even where the same sync already covers a later term.
fn facts(mut hard_state: HardState, batch: &[Persist]) -> Vec<Fact> {
    let mut facts = Vec::with_capacity(batch.len());
    for persist in batch {
        hard_state = persist.hard_state.unwrap_or(hard_state);
        let entries = persist.entries.iter().map(|entry| (entry.index, entry.term)).collect();
        facts.push(Fact { term: hard_state.term, vote: hard_state.vote, entries });
    }
    facts
}
