//! The task that owns the log: everything that must be durable goes through it, in order.
//!
//! Owns the group commit: what has come in while one sync was under way goes into the next, with one sync for all.

use crate::{
    consensus::{Persist, SnapshotMark},
    observe::{Observation, Observers},
    storage::{Storage, StorageError},
    types::{EnsembleId, Term},
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
    let mut hard = Hard::default();
    let mut held = None;
    loop {
        let request = match held.take() {
            Some(request) => request,
            None => match requests.recv().await {
                Some(request) => request,
                None => return,
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
                persist(&mut storage, &batch, &observers, &mut hard, &answers).await
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

/// Term and vote as they are on the disk.
#[derive(Default)]
struct Hard {
    term: Term,
    vote: Option<crate::types::MemberId>,
}

async fn persist(
    storage: &mut Storage,
    batch: &[Persist],
    observers: &Observers,
    hard: &mut Hard,
    answers: &mpsc::UnboundedSender<Answer>,
) -> Result<(), StorageError> {
    storage.append(batch).await?;
    if let Some(state) = batch.iter().rev().find_map(|persist| persist.hard_state) {
        *hard = Hard { term: state.term, vote: state.vote };
    }
    if observers.is_listening() {
        let entries =
            batch.iter().flat_map(|persist| &persist.entries).map(|entry| (entry.index, entry.term));
        let entries: Vec<(u64, u64)> = entries.collect();
        observers.tell(|| Observation::Durable { term: hard.term, vote: hard.vote, entries: &entries });
    }
    let ticket = batch.last().expect("a batch has at least one").ticket;
    let _ = answers.send(Answer::Durable { ticket });
    Ok(())
}
