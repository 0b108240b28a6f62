//! What happens to sessions themselves: they move to another member, end, fall silent for longer or shorter than their
//! timeout, or are left to expire.

use super::super::client::{Client, Lost};
use std::time::Duration;

pub(super) async fn step(client: &mut Client) -> Result<(), Lost> {
    match client.chance.draw("what to do with a session", 0, 9) {
        // To any member, the same one included.
        0..=4 => client.connect(None).await,
        5 | 6 => client.close_session().await,
        7 | 8 => {
            let timeout = client.shared.timeout();
            let tenths = client.chance.draw("silence", 3, 25);
            let silence = timeout * u32::try_from(tenths).unwrap_or(1) / 10;
            client.be_silent(silence.min(Duration::from_secs(30))).await;
        }
        _ => client.abandon_session(),
    }
    Ok(())
}
