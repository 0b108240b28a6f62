//! Dialling a broker to learn whether its process lives. A refusal proves that the machine is there and nobody listens;
//! everything else proves nothing.

use sillon_runtime::Runtime;
use std::{io, time::Duration};

/// How long a dial may take.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// What a dial came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialled {
    /// Somebody listens.
    Answered,
    /// Nobody listens: the process is gone.
    Refused,
    /// Neither.
    Nothing,
}

/// Dials, and hangs up.
pub(super) async fn dial(runtime: &Runtime, host: &str, port: u16) -> Dialled {
    match runtime.timeout(DIAL_TIMEOUT, runtime.connect(host, port)).await {
        Ok(Ok(_stream)) => Dialled::Answered,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Dialled::Refused,
        Ok(Err(_)) | Err(_) => Dialled::Nothing,
    }
}
