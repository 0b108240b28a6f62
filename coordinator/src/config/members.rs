//! One `server.N` line: `host:peerPort[:electionPort][:role][;[address:]clientPort]`. Owns its syntax; never opens a
//! socket.

use std::fmt;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// A host name or address; empty for every address of the machine.
    pub host: String,
    /// The port; 0 for a free one, where something listens.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Where a member of the ensemble is found by the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAddress {
    /// Its host name or address.
    pub host: String,
    /// The port that peers connect to.
    pub peer_port: u16,
    /// The port that ZooKeeper would elect on. Accepted, so that files can stay as they are; elections here go over
    /// the peer port.
    pub election_port: Option<u16>,
}

impl fmt::Display for MemberAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HostPort { host: self.host.clone(), port: self.peer_port }.fmt(f)?;
        self.election_port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

const EXPECTED: &str = "host:peerPort[:electionPort][:participant][;[address:]clientPort] is expected";

/// Reads the value of a `server.N` line: the member's address, and where its clients connect, if the line says so.
///
/// # Errors
/// What is expected instead.
pub fn parse(text: &str) -> Result<(MemberAddress, Option<HostPort>), String> {
    if text.contains('|') {
        return Err(format!("{EXPECTED}, with one address (several with | are not available)"));
    }
    let (peer, client) = match text.split_once(';') {
        Some((peer, client)) => (peer.trim(), Some(parse_client(client.trim())?)),
        None => (text, None),
    };
    let (host, rest) = split_host(peer).ok_or(EXPECTED)?;
    let mut words = rest.split(':').map(str::trim);
    let peer_port = words.next().and_then(parse_port).ok_or(EXPECTED)?;
    let mut next = words.next();
    let election_port = next.and_then(parse_port);
    if election_port.is_some() {
        next = words.next();
    }
    match next {
        None => {}
        Some(role) if role.eq_ignore_ascii_case("participant") => {}
        Some(role) if role.eq_ignore_ascii_case("observer") => {
            return Err("participant is expected: observers are not available".to_owned());
        }
        Some(_) => return Err(EXPECTED.to_owned()),
    }
    if words.next().is_some() {
        return Err(EXPECTED.to_owned());
    }
    Ok((MemberAddress { host, peer_port, election_port }, client))
}

/// `[address:]port`.
fn parse_client(text: &str) -> Result<HostPort, String> {
    if let Some(port) = parse_port(text) {
        return Ok(HostPort { host: String::new(), port });
    }
    let (host, port) = split_host(text).ok_or(EXPECTED)?;
    let port = parse_port(&port).ok_or(EXPECTED)?;
    Ok(HostPort { host: all_addresses(host), port })
}

/// The host, without the brackets of an IPv6 address, and what follows its colon.
fn split_host(text: &str) -> Option<(String, String)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once("]:")?,
        None => text.split_once(':')?,
    };
    let host = host.trim();
    (!host.is_empty()).then(|| (host.to_owned(), rest.to_owned()))
}

/// A port that something can connect to.
fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

/// The empty host where an address means all of them.
pub(super) fn all_addresses(host: String) -> String {
    if host == "0.0.0.0" || host == "::" { String::new() } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_zookeeper_writes_them() {
        let member = |host: &str, peer_port, election_port| MemberAddress {
            host: host.to_owned(),
            peer_port,
            election_port,
        };
        let client = |host: &str, port| Some(HostPort { host: host.to_owned(), port });
        for (text, expected) in [
            ("n1:2888:3888", (member("n1", 2888, Some(3888)), None)),
            ("n1:2888", (member("n1", 2888, None), None)),
            ("n1:2888:participant", (member("n1", 2888, None), None)),
            ("n1:2888:3888:participant;2181", (member("n1", 2888, Some(3888)), client("", 2181))),
            ("n1:2888:3888;0.0.0.0:2181", (member("n1", 2888, Some(3888)), client("", 2181))),
            ("[::1]:2888:3888;[::1]:2181", (member("::1", 2888, Some(3888)), client("::1", 2181))),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn lines_that_are_refused() {
        for text in [
            "",
            "n1",
            ":2888",
            "n1:0:3888",
            "n1:2888:3888:leader",
            "n1:2888:3888;x",
            "n1:2888:3888:participant:1",
            "[::1]",
        ] {
            assert_eq!(parse(text), Err(EXPECTED.to_owned()), "{text}");
        }
        assert!(parse("n1:2888:3888:observer").unwrap_err().contains("observers are not available"));
        assert!(parse("n1:2888:3888|n2:2888:3888").unwrap_err().contains("one address"));
    }
}
