//! One entry of `listeners` or `advertised.listeners`. Owns its syntax; never opens a socket.

use std::{fmt, str::FromStr};

/// A listener: where to listen, or what address to tell clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name, which is also its security protocol as long as only PLAINTEXT exists.
    pub name: String,
    /// A host name or address; empty for every address of the machine.
    pub host: String,
    /// The port; 0 for a free one.
    pub port: u16,
}

const EXPECTED: &str = "PLAINTEXT://host:port is expected (TLS and SASL are not available in this version)";

impl FromStr for Listener {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Listener, &'static str> {
        let (name, address) = text.split_once("://").ok_or(EXPECTED)?;
        let (host, port) = address.rsplit_once(':').ok_or(EXPECTED)?;
        if name != "PLAINTEXT" {
            return Err(EXPECTED);
        }
        let port = port.parse().map_err(|_| EXPECTED)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(Listener { name: name.to_owned(), host: host.to_owned(), port })
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints() {
        for text in
            ["PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092", "PLAINTEXT://[::1]:0", "PLAINTEXT://n0:9092"]
        {
            assert_eq!(text.parse::<Listener>().unwrap().to_string(), text);
        }
        for text in ["", "9092", "PLAINTEXT://x", "SSL://x:1", "PLAINTEXT://x:99999"] {
            assert_eq!(text.parse::<Listener>(), Err(EXPECTED), "{text}");
        }
    }
}
