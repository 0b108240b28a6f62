//! Who a client is: the schemes by which identities are proven.
//!
//! Owns the proofs. What an identity may do is the state's to decide.

use super::Member;
use base64::{Engine, engine::general_purpose::STANDARD};
use sha1::{Digest, Sha1};
use sillon_protocol::zookeeper::{AuthRequest, ErrorCode, Identity, Jute, Reader};

/// The digest scheme's identity of a name and password, `name:password`.
fn digest_of(proof: &str) -> Option<String> {
    let (name, _) = proof.split_once(':')?;
    Some(format!("{name}:{}", STANDARD.encode(Sha1::digest(proof.as_bytes()))))
}

impl Member {
    /// Takes a proof, and gives the error's number, 0 for none.
    pub(super) fn prove(&mut self, number: u64, body: &[u8]) -> i32 {
        let failed = ErrorCode::AuthFailed.number();
        let Ok(request) = AuthRequest::read(&mut Reader::new(body)) else { return failed };
        let proof = std::str::from_utf8(request.proof.unwrap_or_default());
        let connection =
            self.connections.get_mut(&number).expect("requests come from connections that exist");
        let mut add = |identity: Identity| {
            if !connection.identities.contains(&identity) {
                connection.identities.push(identity);
            }
        };
        match (request.scheme, proof) {
            ("digest", Ok(proof)) => {
                let Some(digest) = digest_of(proof) else { return failed };
                if self.config.super_digest.as_ref() == Some(&digest) {
                    add(Identity::new("super", ""));
                }
                add(Identity::new("digest", digest));
                0
            }
            // The address is known already; asking for it proves nothing new.
            ("ip", _) => 0,
            _ => failed,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_is_that_of_zookeeper() {
        assert_eq!(super::digest_of("ann:pw").as_deref(), Some("ann:RYbu6l5aZwqon8VWmkcGvezdzfc="));
        assert_eq!(super::digest_of("no colon"), None);
    }
}
