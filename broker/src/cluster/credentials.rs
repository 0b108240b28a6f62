//! The session's number and password beside `meta.properties`, so that a process that starts again within the old
//! session can end it. Owns the file; never opens a session.

use serde::{Deserialize, Serialize};
use sillon_coordinator::{client::SessionCredentials, types::SessionId};
use sillon_runtime::Runtime;
use std::{io, path::Path};

/// The file's name, in the first log directory.
pub const FILE_NAME: &str = "coordinator-session";
const MAX_FILE_BYTES: usize = 4096;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: i32,
    session: i64,
    password: Vec<u8>,
}

/// Writes the file. It is worth less than a sync costs: where it is lost, the old session is waited for.
///
/// # Errors
/// Those of the disk.
pub(super) async fn store(
    runtime: &Runtime,
    path: &Path,
    credentials: &SessionCredentials,
) -> io::Result<()> {
    let stored = Stored { version: 1, session: credentials.id.0, password: credentials.password.clone() };
    runtime.fs().replace(path, &serde_json::to_vec(&stored).expect("keys are strings")).await
}

/// Reads the file. One that is missing or damaged holds nothing.
pub(super) async fn load(runtime: &Runtime, path: &Path) -> Option<SessionCredentials> {
    match runtime.fs().read_small(path, MAX_FILE_BYTES).await {
        Ok(bytes) => decode(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot be read; an old session is waited for");
            None
        }
    }
}

fn decode(bytes: &[u8]) -> Option<SessionCredentials> {
    let stored = serde_json::from_slice::<Stored>(bytes).ok().filter(|stored| stored.version == 1)?;
    Some(SessionCredentials { id: SessionId(stored.session), password: stored.password })
}

/// Removes the file: the session has ended.
pub(super) async fn remove(runtime: &Runtime, path: &Path) {
    if let Err(error) = runtime.fs().remove(path).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(path = %path.display(), %error, "cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_bytes_hold_nothing() {
        let good = br#"{"version":1,"session":9,"password":[1,2]}"#;
        let expected = SessionCredentials { id: SessionId(9), password: vec![1, 2] };
        assert_eq!(decode(good), Some(expected));
        for end in 0..good.len() {
            assert_eq!(decode(&good[..end]), None);
        }
        assert_eq!(decode(br#"{"version":2,"session":9,"password":[1,2]}"#), None);
    }
}
