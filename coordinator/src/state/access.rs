//! Who may do what: access lists, and the identities that clients have proven.
//!
//! Owns the rules of the schemes `world`, `auth`, `digest` and `ip`, and that `super` may do everything. Never proves an
//! identity: that happened where the client is connected.

use super::operation::AclEntry;
use sillon_protocol::zookeeper::{Acl, ErrorCode, Identity};
use std::{borrow::Cow, collections::BTreeSet};

/// The identities of who asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Caller<'a> {
    /// As a command carries them.
    Pairs(&'a [(String, String)]),
    /// As a connection knows them.
    Identities(&'a [Identity]),
}

impl<'a> Caller<'a> {
    /// Scheme and id of each.
    fn each(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (pairs, identities) = match self {
            Caller::Pairs(pairs) => (pairs, [].as_slice()),
            Caller::Identities(identities) => ([].as_slice(), identities),
        };
        let pairs = pairs.iter().map(|(scheme, id)| (scheme.as_str(), id.as_str()));
        pairs.chain(identities.iter().map(|identity| (identity.scheme.as_str(), identity.id.as_str())))
    }

    fn is_super(self) -> bool {
        self.each().any(|(scheme, _)| scheme == "super")
    }
}

/// Whether an access list grants one of these permissions to somebody who has proven these identities. An empty list
/// grants everything.
pub fn permits(acl: &[Acl], permissions: i32, identities: &[Identity]) -> bool {
    grants(acl, permissions, Caller::Identities(identities))
}

/// [`permits`], for identities in any form.
pub(super) fn grants(acl: &[Acl], permissions: i32, caller: Caller<'_>) -> bool {
    if acl.is_empty() || caller.is_super() {
        return true;
    }
    acl.iter().filter(|entry| entry.permissions & permissions != 0).any(|entry| {
        let Identity { scheme, id } = &entry.identity;
        match scheme.as_str() {
            "world" => id == "anyone",
            "digest" => caller.each().any(|(proven, who)| proven == "digest" && who == id),
            "ip" => caller.each().any(|(proven, who)| proven == "ip" && ip_matches(who, id)),
            _ => false,
        }
    })
}

/// What everybody may do by this list.
pub(super) fn world_permissions(acl: &[Acl]) -> i32 {
    let world = |entry: &&Acl| entry.identity.scheme == "world" && entry.identity.id == "anyone";
    acl.iter().filter(world).fold(0, |sum, entry| sum | entry.permissions)
}

/// The access list that a request asks for, as the node gets it: without what it says twice, `auth` replaced by the
/// caller's own identities.
///
/// # Errors
/// InvalidAcl where the list is empty or an entry is not valid; MarshallingError where an id is missing.
pub(super) fn settle(requested: &[AclEntry<'_>], caller: Caller<'_>) -> Result<Vec<Acl>, ErrorCode> {
    if requested.is_empty() {
        return Err(ErrorCode::InvalidAcl);
    }
    let mut seen = BTreeSet::new();
    let mut settled = Vec::with_capacity(requested.len());
    for entry in requested {
        if requested.len() > 1 && !seen.insert(entry) {
            continue;
        }
        let scheme = entry.scheme.as_deref().ok_or(ErrorCode::InvalidAcl)?;
        if scheme == "auth" {
            let before = settled.len();
            let own = caller.each().filter(|(scheme, _)| *scheme == "digest");
            settled.extend(own.map(|(scheme, id)| acl(entry.permissions, scheme, id)));
            if settled.len() == before {
                return Err(ErrorCode::InvalidAcl);
            }
            continue;
        }
        let id = match (scheme, entry.id.as_deref()) {
            ("world" | "digest" | "ip", None) => return Err(ErrorCode::MarshallingError),
            ("world", Some(id)) if id == "anyone" => id,
            ("digest", Some(id)) if is_digest(id) => id,
            ("ip", Some(id)) if parse_ip_range(id).is_some() => id,
            _ => return Err(ErrorCode::InvalidAcl),
        };
        settled.push(acl(entry.permissions, scheme, id));
    }
    Ok(settled)
}

fn acl(permissions: i32, scheme: &str, id: &str) -> Acl {
    Acl { permissions, identity: Identity::new(scheme, id) }
}

/// A list as it is shown to somebody who may not change it: without what proves identities.
pub(super) fn redacted(list: &[Acl]) -> Vec<Acl> {
    let hide = |entry: &Acl| {
        let Identity { scheme, id } = &entry.identity;
        let id = match id.split_once(':') {
            Some((user, _)) if scheme == "digest" => Cow::Owned(format!("{user}:x")),
            _ => Cow::Borrowed(id.as_str()),
        };
        acl(entry.permissions, scheme, &id)
    };
    list.iter().map(hide).collect()
}

/// `user:digest`, with nothing but colons behind.
fn is_digest(id: &str) -> bool {
    match id.trim_end_matches(':').split_once(':') {
        Some((_, digest)) => !digest.contains(':'),
        None => false,
    }
}

/// The address and how many of its bits count. Addresses have four bytes: ZooKeeper 3.8 knows no others in access lists.
fn parse_ip_range(text: &str) -> Option<(u32, u32)> {
    match text.split_once('/') {
        None => Some((parse_ip(text)?, 32)),
        Some((address, bits)) => {
            let bits = bits.parse::<i32>().ok().filter(|bits| (0..=32).contains(bits))?;
            Some((parse_ip(address)?, bits.unsigned_abs()))
        }
    }
}

fn parse_ip(text: &str) -> Option<u32> {
    let mut address = 0;
    let mut parts = 0;
    for part in text.split('.') {
        let byte = part.parse::<i32>().ok().and_then(|value| u8::try_from(value).ok())?;
        address = (address << 8) | u32::from(byte);
        parts += 1;
        if parts > 4 {
            return None;
        }
    }
    (parts == 4).then_some(address)
}

fn ip_matches(proven: &str, range: &str) -> bool {
    let (Some(proven), Some((address, bits))) = (parse_ip(proven), parse_ip_range(range)) else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    proven & mask == address & mask
}
