//! `host:port,host:port/chroot`. Owns its syntax; never resolves a name.

use crate::config::members::HostPort;
use sillon_protocol::zookeeper::path::{self, PathError};

/// The port where none is given.
pub const DEFAULT_PORT: u16 = 2181;

/// Text that is no connect string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectStringError {
    /// There is no server in it.
    #[error("\"{0}\" names no server: host:port,host:port/chroot is expected")]
    NoServer(String),
    /// A server that cannot be one.
    #[error("\"{0}\" is no server: host:port is expected, [address]:port for IPv6")]
    Server(String),
    /// A chroot that is no path.
    #[error("the chroot \"{chroot}\" is no path: {source}")]
    Chroot {
        /// What was given.
        chroot: String,
        /// What is wrong with it.
        source: PathError,
    },
}

/// The servers and the chroot, which is empty where there is none.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<(Vec<HostPort>, String), ConnectStringError> {
    let (servers, chroot) = match text.find('/') {
        Some(position) => text.split_at(position),
        None => (text, ""),
    };
    let chroot = if chroot == "/" { "" } else { chroot };
    if !chroot.is_empty() {
        let error = |source| ConnectStringError::Chroot { chroot: chroot.to_owned(), source };
        path::validate(chroot).map_err(error)?;
    }
    let words = servers.split(',').map(str::trim).filter(|word| !word.is_empty());
    let servers: Vec<HostPort> = words.map(parse_server).collect::<Result<_, _>>()?;
    if servers.is_empty() {
        return Err(ConnectStringError::NoServer(text.to_owned()));
    }
    Ok((servers, chroot.to_owned()))
}

fn parse_server(text: &str) -> Result<HostPort, ConnectStringError> {
    let error = || ConnectStringError::Server(text.to_owned());
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or_else(error)?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(error)?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(error)?,
    };
    if host.is_empty() {
        return Err(error());
    }
    Ok(HostPort { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_chroot() {
        let shown = |text: &str| {
            let (servers, chroot) = parse(text).unwrap();
            (servers.iter().map(HostPort::to_string).collect::<Vec<_>>().join(","), chroot)
        };
        assert_eq!(shown("a:1,b:2/kafka/x"), ("a:1,b:2".into(), "/kafka/x".into()));
        assert_eq!(shown("a, b:2/"), ("a:2181,b:2".into(), String::new()));
        assert_eq!(shown("[::1]:5,[::2]"), ("[::1]:5,[::2]:2181".into(), String::new()));
    }

    #[test]
    fn what_is_refused() {
        for text in ["", "/a", ",", "a:x", "a:0", ":1", "[::1", "[::1]x", "a:1/b/", "a:1//b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
