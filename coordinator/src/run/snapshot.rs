//! Writing a snapshot while writes go on: pieces of the state go to a task that writes them.
//!
//! Owns the pace: a piece is taken only when there is room for it, so a slow disk slows the snapshot and nothing else.

use crate::{
    consensus::SnapshotMark,
    observe::Digest,
    storage::{Snapshots, StorageError},
};
use sillon_runtime::{JoinHandle, Runtime};
use tokio::sync::mpsc;

/// How large a piece is, about.
pub(super) const PIECE_BYTES: usize = 256 * 1024;
/// How many pieces may wait to be written.
const WAITING_PIECES: usize = 4;

/// A snapshot under way.
pub(super) struct Saving {
    pub pieces: mpsc::Sender<Piece>,
    _task: JoinHandle<()>,
}

/// What the writing task is given.
pub(super) enum Piece {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// That was all. Without it the snapshot is given up.
    End,
}

/// How a snapshot ended; `None` where it was given up.
pub(super) type Saved = Result<Option<(SnapshotMark, Digest)>, StorageError>;

impl Saving {
    /// Begins to write a snapshot.
    pub fn begin(
        runtime: &Runtime,
        store: Snapshots,
        (mark, digest): (SnapshotMark, Digest),
        saved: mpsc::UnboundedSender<Saved>,
    ) -> Saving {
        let (pieces, inbox) = mpsc::channel(WAITING_PIECES);
        let task = runtime.spawn("snapshot", async move {
            let result = write(&store, mark, inbox).await;
            // The member has ended where nobody waits for it.
            let _ = saved.send(result.map(|whole| whole.then_some((mark, digest))));
        });
        Saving { pieces, _task: task }
    }
}

async fn write(
    store: &Snapshots,
    mark: SnapshotMark,
    mut pieces: mpsc::Receiver<Piece>,
) -> Result<bool, StorageError> {
    let mut writer = store.create().await?;
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Bytes(bytes) => writer.write(&bytes).await?,
            Piece::End => {
                writer.finish(mark).await?;
                return Ok(true);
            }
        }
    }
    writer.abandon().await?;
    Ok(false)
}
