//! What vouches for the logs at the next start: the marker of a clean stop, with the registration under which the broker
//! stopped (KIP-966), and the run of the operating system in which it served. Owns both files; never decides what follows
//! from them.
//!
//! A process that is killed loses nothing that it had written, for the page cache outlives it. Only when the machine itself
//! went down is there a doubt: then the boot id is another one.

use super::{LogError, checkpoint};
use crate::types::BrokerEpoch;
use serde::{Deserialize, Serialize};
use sillon_runtime::{FileSystem, Runtime};
use std::{io, path::Path};

/// The file's name.
pub(super) const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

/// The file with the boot id.
const BOOT_ID: &str = "boot-id";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    version: i32,
    broker_epoch: BrokerEpoch,
}

/// As stored; Kafka's own form.
pub(super) fn encode(broker_epoch: BrokerEpoch) -> Vec<u8> {
    serde_json::to_vec(&Marker { version: 0, broker_epoch }).expect("keys are strings")
}

/// The registration; none is known where the marker is of another form, as those of old versions are.
fn decode(bytes: &[u8]) -> BrokerEpoch {
    match serde_json::from_slice::<Marker>(bytes) {
        Ok(Marker { version: 0, broker_epoch }) if broker_epoch.0 >= 0 => broker_epoch,
        _ => BrokerEpoch::NONE,
    }
}

/// The registration under which the last stop was clean; none where it was not. The marker is gone for good when this
/// returns: a crash from here on is one.
pub(super) async fn take(files: &dyn FileSystem, directory: &Path) -> Result<Option<BrokerEpoch>, LogError> {
    let marker = directory.join(CLEAN_SHUTDOWN);
    let Some(content) = checkpoint::read(files, &marker).await? else { return Ok(None) };
    match files.remove(&marker).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io(marker, "removing")(error)),
    }
    files.sync_dir(directory).await.map_err(LogError::io(directory, "syncing"))?;
    Ok(Some(decode(&content)))
}

/// Whether a process that the controller knew served these logs in the present run of the operating system: then nothing
/// was lost since, however it ended.
pub(super) async fn served_in_this_boot(runtime: &Runtime, directory: &Path) -> Result<bool, LogError> {
    let Some(boot_id) = runtime.boot_id() else { return Ok(false) };
    let content = checkpoint::read(runtime.fs(), &directory.join(BOOT_ID)).await?;
    Ok(content.is_some_and(|content| content == encode_boot_id(boot_id)))
}

/// Notes that these logs are served in the present run of the operating system, by a process that the controller knows.
pub(super) async fn note_boot(runtime: &Runtime, directory: &Path) -> Result<(), LogError> {
    let Some(boot_id) = runtime.boot_id() else { return Ok(()) };
    let path = directory.join(BOOT_ID);
    let content = encode_boot_id(boot_id);
    runtime.fs().replace(&path, &content).await.map_err(LogError::io(path, "writing"))
}

fn encode_boot_id(boot_id: u128) -> Vec<u8> {
    format!("{boot_id:032x}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_kafkas() {
        assert_eq!(encode(BrokerEpoch(7)), br#"{"version":0,"brokerEpoch":7}"#);
        for epoch in [BrokerEpoch::NONE, BrokerEpoch(0), BrokerEpoch(1 << 40)] {
            assert_eq!(decode(&encode(epoch)), epoch);
        }
    }

    #[test]
    fn a_marker_of_another_form_vouches_for_no_registration() {
        for bytes in
            [&b""[..], b"{}", br#"{"version":1,"brokerEpoch":7}"#, br#"{"version":0,"brokerEpoch":-9}"#]
        {
            assert_eq!(decode(bytes), BrokerEpoch::NONE);
        }
    }
}
