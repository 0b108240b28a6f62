//! Every configuration key that the coordinator honours, as one table: name, values, default, meaning; and those of
//! ZooKeeper that it knows and does not honour. Owns the tables and the checking of a single value; never holds a
//! configuration.

/// What values a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number in a range.
    Number(i64, i64),
    /// The same, which may also be written as `0x…`.
    Size(i64, i64),
    /// Any text.
    Text,
    /// Any text, which is not shown.
    Secret,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// ZooKeeper's name for it, or `sillon.…` where ZooKeeper has no such key.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value where nobody sets it.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub documentation: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, documentation: &'static str) -> Key {
    Key { name, kind, default, documentation }
}

const PORT: Kind = Kind::Number(0, 65535);
const INT_MAX: i64 = i32::MAX as i64;
/// The longest tick: twenty of them still are a 32-bit number of milliseconds.
const TICK_MAX_MS: i64 = INT_MAX / 20;

/// The keys. Defaults are ZooKeeper's unless the documentation says otherwise.
pub const KEYS: &[Key] = &[
    key(
        "4lw.commands.whitelist",
        Kind::Text,
        "srvr",
        "Which four-letter commands are answered, comma-separated; * for all.",
    ),
    key(
        "DigestAuthenticationProvider.superDigest",
        Kind::Secret,
        "",
        "Who may do everything, as super:BASE64(SHA1(super:PASSWORD)).",
    ),
    key(
        "autopurge.purgeInterval",
        Kind::Number(0, INT_MAX),
        "0",
        "How often old snapshots and logs are deleted, in hours; 0 for only as needed.",
    ),
    key(
        "autopurge.snapRetainCount",
        Kind::Number(1, INT_MAX),
        "3",
        "How many snapshots are kept; at least 3.",
    ),
    key("clientPort", PORT, "2181", "The port that clients connect to; 0 for a free one."),
    key(
        "clientPortAddress",
        Kind::Text,
        "",
        "The address that clients connect to; empty for all of the machine.",
    ),
    key("dataDir", Kind::Text, "data/coordinator", "Where the snapshots and the file myid are."),
    key("dataLogDir", Kind::Text, "", "Where the log is; empty for dataDir."),
    key("extendedTypesEnabled", Kind::Boolean, "false", "Whether nodes with a time to live can be created."),
    key(
        "initLimit",
        Kind::Number(1, INT_MAX),
        "10",
        "How many ticks a member may take to catch up with the leader.",
    ),
    key(
        "jute.maxbuffer",
        Kind::Size(1024, 1 << 30),
        "0xfffff",
        "The largest request that is read, in bytes; a larger one closes the connection.",
    ),
    key(
        "maxClientCnxns",
        Kind::Number(0, INT_MAX),
        "60",
        "How many connections one address may have; 0 for any number.",
    ),
    key(
        "maxSessionTimeout",
        Kind::Number(-1, INT_MAX),
        "-1",
        "The longest timeout of a session, in milliseconds; -1 for twenty ticks.",
    ),
    key(
        "metricsProvider.className",
        Kind::Text,
        "",
        "ZooKeeper's Prometheus provider, or any other for no metrics over HTTP. A port alone is enough here.",
    ),
    key("metricsProvider.httpHost", Kind::Text, "0.0.0.0", "The address that metrics are served on."),
    key("metricsProvider.httpPort", PORT, "7000", "The port that metrics are served on."),
    key(
        "minSessionTimeout",
        Kind::Number(-1, INT_MAX),
        "-1",
        "The shortest timeout of a session, in milliseconds; -1 for two ticks.",
    ),
    key("myid", Kind::Text, "", "This member's number, where there is no file myid in dataDir."),
    key(
        "sillon.electionTimeoutMs",
        Kind::Number(10, 600_000),
        "500",
        "How long a member waits for the leader before it asks for an election, in milliseconds: up to twice this.",
    ),
    key(
        "sillon.heartbeatIntervalMs",
        Kind::Number(1, 100_000),
        "50",
        "How often the leader tells the others that it is there, in milliseconds.",
    ),
    key(
        "sillon.logMemoryBytes",
        Kind::Size(16 * 1024, 1 << 40),
        "6291456",
        "How much of the log is kept in memory for members that lag, in bytes; one that lags more gets a snapshot.",
    ),
    key("snapCount", Kind::Number(2, INT_MAX), "100000", "After how many transactions a snapshot is taken."),
    key("syncLimit", Kind::Number(1, INT_MAX), "5", "How many ticks a member may stay behind the leader."),
    key(
        "tickTime",
        Kind::Number(1, TICK_MAX_MS),
        "2000",
        "The length of a tick in milliseconds (ZooKeeper's own default is 3000, its sample file says 2000).",
    ),
    key(
        "znode.container.checkIntervalMs",
        Kind::Number(1, INT_MAX),
        "60000",
        "How often empty containers and nodes whose time is over are looked for, in milliseconds.",
    ),
];

/// Other names of a key: how it is called where ZooKeeper takes it as a Java property of its own.
pub const SYNONYMS: &[(&str, &str)] = &[("superDigest", "DigestAuthenticationProvider.superDigest")];

/// What becomes of a key of ZooKeeper's that is not honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// It is ignored, and that is said.
    Warn,
    /// The coordinator does not start: to go on without it would be unsafe.
    Refuse,
}

/// A key of ZooKeeper's that is not honoured.
#[derive(Clone, Copy, Debug)]
pub struct Unsupported {
    /// Its name; a prefix where it ends with a dot.
    pub name: &'static str,
    /// Values that ask for nothing but what happens anyway.
    pub harmless: &'static [&'static str],
    /// What becomes of other values.
    pub otherwise: Otherwise,
    /// What to know, in words that follow the key's name.
    pub text: &'static str,
}

const fn warned(name: &'static str, harmless: &'static [&'static str], text: &'static str) -> Unsupported {
    Unsupported { name, harmless, otherwise: Otherwise::Warn, text }
}

const fn refused(name: &'static str, harmless: &'static [&'static str], text: &'static str) -> Unsupported {
    Unsupported { name, harmless, otherwise: Otherwise::Refuse, text }
}

const FALSE: &[&str] = &["false", "no"];
const TRUE: &[&str] = &["true", "yes"];

/// The keys of ZooKeeper's that are known and not honoured.
pub const UNSUPPORTED: &[Unsupported] = &[
    warned("admin.enableServer", FALSE, "is ignored: there is no admin server"),
    warned("admin.", &[], "is ignored: there is no admin server"),
    refused("authProvider.", &[], "the providers digest and ip are built in, others are not available"),
    warned("cnxTimeout", &[], "is ignored: elections go by sillon.electionTimeoutMs"),
    refused("dynamicConfigFile", &[], "server.N lines in this very file: they are not read from another"),
    warned("electionAlg", &["3"], "is ignored: there is one way to elect"),
    warned("fsync.warningthresholdms", &[], "is ignored: each sync is measured, see the metrics"),
    warned("globalOutstandingLimit", &[], "is ignored: each connection is limited by itself"),
    refused("group.", &[], "no hierarchical quorums: each member has one vote"),
    warned("jvm.", &[], "is ignored: there is no Java machine"),
    warned("leaderServes", TRUE, "is ignored: the leader serves clients"),
    warned("localSessionsEnabled", FALSE, "is ignored: there are only global sessions"),
    warned("localSessionsUpgradingEnabled", FALSE, "is ignored: there are only global sessions"),
    warned("metricsProvider.", &[], "is ignored: metrics have no such setting"),
    warned("multiAddress.", FALSE, "is ignored: each member has one address"),
    refused("peerType", &["participant"], "participant (observers are not available)"),
    warned("portUnification", FALSE, "is ignored: TLS is not available"),
    warned("preAllocSize", &[], "is ignored: the log allocates as it grows"),
    refused("quorum.auth.enableSasl", FALSE, "false (members cannot prove who they are by SASL)"),
    refused("quorum.auth.learnerRequireSasl", FALSE, "false (members cannot prove who they are by SASL)"),
    refused("quorum.auth.serverRequireSasl", FALSE, "false (members cannot prove who they are by SASL)"),
    warned("quorum.", &[], "is ignored: members do not use SASL"),
    warned(
        "quorumListenOnAllIPs",
        FALSE,
        "is ignored: a member listens for its peers on the address of its server.N line",
    ),
    warned("readonlymode.enabled", FALSE, "is ignored: a member without a quorum serves nobody"),
    warned("reconfigEnabled", FALSE, "is ignored: the members are those of this file"),
    warned("secureClientPort", &[], "is ignored: TLS is not available, and nothing listens on that port"),
    warned("secureClientPortAddress", &[], "is ignored: TLS is not available"),
    refused("sessionRequireClientSASLAuth", FALSE, "false (clients cannot prove who they are by SASL)"),
    warned("skipACL", FALSE, "is ignored: access lists always count"),
    warned("snapSizeLimitInKb", &[], "is ignored: snapCount decides when a snapshot is taken"),
    refused("sslQuorum", FALSE, "false (members cannot speak TLS with each other)"),
    warned("ssl.", &[], "is ignored: TLS is not available"),
    warned("standaloneEnabled", TRUE, "is ignored: without server.N lines this is a standalone server"),
    warned("syncEnabled", TRUE, "is ignored: there are no observers"),
    refused("weight.", &["1"], "1 (each member has one vote)"),
];

impl Key {
    /// Checks a value. The text of an error says what is allowed.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self.kind {
            Kind::Boolean => {
                parse_boolean(value).map(|_| ()).ok_or_else(|| "true or false is expected".to_owned())
            }
            Kind::Number(low, high) => check_number(value.parse().ok(), low, high),
            Kind::Size(low, high) => check_number(parse_size(value), low, high),
            Kind::Text | Kind::Secret => Ok(()),
        }
    }
}

/// `true` and `false`, as ZooKeeper's files write them.
pub fn parse_boolean(value: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
    if is(TRUE) {
        return Some(true);
    }
    is(FALSE).then_some(false)
}

/// A whole number, decimal or `0x…`.
pub fn parse_size(value: &str) -> Option<i64> {
    match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            i64::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => value.parse().ok(),
    }
}

fn check_number(number: Option<i64>, low: i64, high: i64) -> Result<(), String> {
    match number {
        Some(number) if (low..=high).contains(&number) => Ok(()),
        Some(_) if high == INT_MAX => Err(format!("at least {low} is expected (and at most {high})")),
        Some(_) => Err(format!("a number from {low} to {high} is expected")),
        None => Err(format!("a whole number from {low} to {high} is expected")),
    }
}

/// The key of that name, which may be a synonym or carry the prefix `zookeeper.`.
pub fn find(name: &str) -> Option<&'static Key> {
    let exact = |name: &str| KEYS.iter().find(|key| key.name == name);
    let plain = name.strip_prefix("zookeeper.").unwrap_or(name);
    let synonym = || SYNONYMS.iter().find(|(synonym, _)| *synonym == plain).and_then(|(_, name)| exact(name));
    exact(plain).or_else(synonym)
}

/// What is known of a key that is not honoured: the longest name or prefix that fits.
pub fn find_unsupported(name: &str) -> Option<&'static Unsupported> {
    let plain = name.strip_prefix("zookeeper.").unwrap_or(name);
    let fits = |entry: &&Unsupported| {
        entry.name == plain || (entry.name.ends_with('.') && plain.starts_with(entry.name))
    };
    UNSUPPORTED.iter().filter(fits).max_by_key(|entry| entry.name.len())
}

/// The known key that a person most likely meant, where one is near.
pub fn nearest(name: &str) -> Option<&'static str> {
    let wanted = name.strip_prefix("zookeeper.").unwrap_or(name).to_lowercase();
    let distances = KEYS.iter().map(|key| (edit_distance(&wanted, &key.name.to_lowercase()), key.name));
    let (distance, name) = distances.min()?;
    (distance <= 1 + wanted.chars().count() / 6).then_some(name)
}

/// How many characters have to be changed, added or removed to come from one word to the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, character) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(character != *other);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_legal_value() {
        for key in KEYS {
            assert_eq!(key.check(key.default), Ok(()), "{}", key.name);
        }
    }

    #[test]
    fn tables_are_sorted_and_names_are_unique() {
        assert!(KEYS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(UNSUPPORTED.iter().all(|entry| find(entry.name).is_none()));
        assert!(SYNONYMS.iter().all(|(synonym, name)| find(synonym).is_some_and(|key| key.name == *name)));
    }

    #[test]
    fn names_are_found_with_and_without_the_prefix() {
        assert_eq!(find("zookeeper.extendedTypesEnabled").unwrap().name, "extendedTypesEnabled");
        assert_eq!(find("zookeeper.superDigest").unwrap().name, "DigestAuthenticationProvider.superDigest");
        assert_eq!(find_unsupported("zookeeper.admin.enableServer").unwrap().name, "admin.enableServer");
        assert_eq!(find_unsupported("admin.serverPort").unwrap().name, "admin.");
        assert!(find_unsupported("administrator").is_none());
    }

    #[test]
    fn near_misses_are_found() {
        assert_eq!(nearest("ticktime"), Some("tickTime"));
        assert_eq!(nearest("clientport"), Some("clientPort"));
        assert_eq!(nearest("autopurge.snapRetainCounts"), Some("autopurge.snapRetainCount"));
        assert_eq!(nearest("completely.other"), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "ab"), 2);
    }

    #[test]
    fn sizes_may_be_hexadecimal() {
        assert_eq!(parse_size("0xfffff"), Some(0xfffff));
        assert_eq!(parse_size("1000"), Some(1000));
        assert_eq!(parse_size("0x-1"), None);
    }
}
