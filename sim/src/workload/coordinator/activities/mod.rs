//! What session clients do, one file for each kind of thing or family. Owns one step of each; a step is a few operations
//! that belong together, and ends early where the connection is lost.

mod access;
mod churn;
mod locks;
mod moves;
mod multis;
mod named;
mod registers;
mod watches;

use super::{
    Activity,
    client::{Client, Lost},
};

/// One step.
pub(super) async fn step(client: &mut Client, activity: Activity) -> Result<(), Lost> {
    match activity {
        Activity::Registers => registers::step(client).await,
        Activity::Sequences => named::sequences(client).await,
        Activity::Ephemerals => named::ephemerals(client).await,
        Activity::Locks => locks::step(client).await,
        Activity::Watches => watches::step(client).await,
        Activity::Multis => multis::step(client).await,
        Activity::Churn => churn::step(client).await,
        Activity::Access => access::step(client).await,
        Activity::Moves => moves::step(client).await,
    }
}
