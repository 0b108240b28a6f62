//! Access lists in the model: which are legal, and what they permit to whom.

use sillon_protocol::zookeeper::{Acl, ErrorCode, Identity};

/// The access list that is kept of one that a client sends: without what is there twice, and with the client's own
/// identities for `auth`.
pub fn fix(acl: &[Acl], identities: &[(String, String)]) -> Result<Vec<Acl>, i32> {
    let invalid = ErrorCode::InvalidAcl.number();
    let mut unique: Vec<&Acl> = Vec::new();
    for entry in acl {
        if !unique.contains(&entry) {
            unique.push(entry);
        }
    }
    let mut fixed = Vec::new();
    for entry in unique {
        let Identity { scheme, id } = &entry.identity;
        match scheme.as_str() {
            "world" if id == "anyone" => fixed.push(entry.clone()),
            "auth" => {
                let proven = identities.iter().filter(|(scheme, _)| scheme == "digest");
                let before = fixed.len();
                fixed.extend(proven.map(|(scheme, id)| Acl {
                    permissions: entry.permissions,
                    identity: Identity::new(scheme.clone(), id.clone()),
                }));
                if fixed.len() == before {
                    return Err(invalid);
                }
            }
            "digest" if id.split(':').count() == 2 => fixed.push(entry.clone()),
            "ip" if network(id).is_some() => fixed.push(entry.clone()),
            _ => return Err(invalid),
        }
    }
    if fixed.is_empty() { Err(invalid) } else { Ok(fixed) }
}

/// Whether somebody with these identities may do this.
pub fn permits(acl: &[Acl], permission: i32, identities: &[(String, String)]) -> bool {
    let granted = |entry: &Acl| {
        let Identity { scheme, id } = &entry.identity;
        entry.permissions & permission != 0
            && ((scheme == "world" && id == "anyone")
                || identities.iter().any(|(proven, who)| proven == scheme && matches(scheme, who, id)))
    };
    acl.is_empty() || identities.iter().any(|(scheme, _)| scheme == "super") || acl.iter().any(granted)
}

fn matches(scheme: &str, who: &str, id: &str) -> bool {
    if scheme != "ip" {
        return who == id;
    }
    let (Some((address, _)), Some((network, bits))) = (network(who), network(id)) else { return false };
    bits == 0 || (u32::from_be_bytes(address) ^ u32::from_be_bytes(network)) >> (32 - bits) == 0
}

/// An address or `address/bits`.
fn network(text: &str) -> Option<([u8; 4], u32)> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let bits = bits.parse().ok().filter(|bits| *bits <= 32)?;
    let address: std::net::Ipv4Addr = address.parse().ok()?;
    Some((address.octets(), bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::zookeeper::{acl::permission, records::open_acl};

    fn acl(permissions: i32, scheme: &str, id: &str) -> Acl {
        Acl { permissions, identity: Identity::new(scheme, id) }
    }

    fn who(scheme: &str, id: &str) -> Vec<(String, String)> {
        vec![(scheme.to_owned(), id.to_owned())]
    }

    #[test]
    fn lists_that_are_not_legal() {
        for bad in
            [vec![], vec![acl(31, "auth", "")], vec![acl(31, "world", "you")], vec![acl(31, "ip", "1.2.3")]]
        {
            assert_eq!(fix(&bad, &who("ip", "1.2.3.4")), Err(-114), "{bad:?}");
        }
        assert_eq!(fix(&[open_acl(), open_acl()].concat(), &[]), Ok(open_acl()));
        assert_eq!(
            fix(&[acl(1, "auth", "")], &who("digest", "u:h")),
            Ok(vec![acl(1, "digest", "u:h")]),
            "auth stands for who one is"
        );
    }

    #[test]
    fn what_a_list_permits() {
        let list = [acl(permission::READ, "world", "anyone"), acl(permission::ALL, "ip", "10.0.0.0/8")];
        assert!(permits(&list, permission::READ, &[]));
        assert!(!permits(&list, permission::WRITE, &who("ip", "11.0.0.1")));
        assert!(permits(&list, permission::WRITE, &who("ip", "10.9.0.1")));
        assert!(permits(&list, permission::WRITE, &who("super", "x")));
    }
}
