//! What a member tells about itself: the four-letter words, and what the metrics are made of.
//!
//! Owns the texts, which have ZooKeeper's form: tools read them. Never changes anything but counts that are to be reset.

use super::{
    Member,
    connection::{Connection, ConnectionReport, Phase},
};
use crate::{
    config::CommandWhitelist,
    four_letter_word::FourLetterWord,
    metrics::{Kind, Measurement},
    observe::Role,
    types::SessionId,
};
use sillon_protocol::zookeeper::OpCode;
use std::{collections::BTreeMap, fmt::Write};

/// The version that clients are told: that of the protocol, and whose server this is.
pub const VERSION: &str =
    concat!("3.8.4-sillon-", env!("CARGO_PKG_VERSION"), ", built on 2026-11-30 00:00 UTC");
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

macro_rules! line {
    ($text:expr, $($arguments:tt)*) => {
        writeln!($text, $($arguments)*).expect("a string takes everything")
    };
}

impl Member {
    pub(super) fn on_four_letter_word(&mut self, number: u64, word: FourLetterWord) {
        if !self.connections.contains_key(&number) {
            return;
        }
        let allowed = match &self.config.command_whitelist {
            CommandWhitelist::All => true,
            whitelist @ CommandWhitelist::Only(_) => whitelist.allows(word.text()),
        };
        let text = if allowed {
            self.answer_word(word)
        } else {
            format!("{} is not executed because it is not in the whitelist.\n", word.text())
        };
        let connection = self.connections.get_mut(&number).expect("it was there before");
        connection.tell(&text);
        self.dirty.insert(number);
    }

    fn answer_word(&mut self, word: FourLetterWord) -> String {
        match word {
            FourLetterWord::Ruok => "imok".to_owned(),
            FourLetterWord::Envi => environment(),
            FourLetterWord::Conf => self.configuration(),
            _ if !self.roles.is_serving() => NOT_SERVING.to_owned(),
            FourLetterWord::Cons => self.connection_lines(true),
            FourLetterWord::Crst => {
                for connection in self.connections.values_mut() {
                    connection.report =
                        ConnectionReport { minimum_latency_ms: u64::MAX, ..ConnectionReport::default() };
                }
                "Connection stats reset.\n".to_owned()
            }
            FourLetterWord::Dump => self.dump(),
            FourLetterWord::Isro => "rw".to_owned(),
            FourLetterWord::Mntr => self.monitored(),
            FourLetterWord::Srst => {
                self.statistics.reset();
                "Server stats reset.\n".to_owned()
            }
            FourLetterWord::Srvr => format!("Zookeeper version: {VERSION}\n{}", self.summary()),
            FourLetterWord::Stat => {
                let connections = self.connection_lines(false);
                format!("Zookeeper version: {VERSION}\nClients:\n{connections}\n{}", self.summary())
            }
            FourLetterWord::Wchs => {
                let counts = self.watches.counts();
                format!(
                    "{} connections watching {} paths\nTotal watches:{}\n",
                    counts.connections, counts.paths, counts.data
                )
            }
            FourLetterWord::Wchc => self.watches_by_session(),
            FourLetterWord::Wchp => self.watches_by_path(),
        }
    }

    fn mode(&self) -> &'static str {
        match self.roles.role() {
            _ if self.config.is_standalone() => "standalone",
            Role::Leader => "leader",
            _ => "follower",
        }
    }

    fn open_connections(&self) -> usize {
        self.connections.values().filter(|connection| connection.phase != Phase::Closing).count()
    }

    fn summary(&self) -> String {
        let (minimum, mean, maximum) = self.statistics.latency_ms();
        let mut text = String::new();
        line!(text, "Latency min/avg/max: {minimum}/{mean:.1}/{maximum}");
        line!(text, "Received: {}", self.statistics.packets_received);
        line!(text, "Sent: {}", self.statistics.packets_sent);
        line!(text, "Connections: {}", self.open_connections());
        line!(text, "Outstanding: {}", self.statistics.outstanding);
        line!(text, "Zxid: {}", self.last_zxid());
        line!(text, "Mode: {}", self.mode());
        line!(text, "Node count: {}", self.node_count());
        text
    }

    /// As ZooKeeper counts: the root once as `/` and once by its empty name.
    fn node_count(&self) -> u64 {
        self.state.statistics().nodes + 1
    }

    fn connection_lines(&self, full: bool) -> String {
        let mut text = String::new();
        for connection in self.connections.values() {
            line!(text, " {}", connection_line(connection, full, self.moment.now, self.moment.unix.0));
        }
        text
    }

    fn dump(&self) -> String {
        let mut text = String::from("SessionTracker dump:\n");
        line!(text, "Global Sessions({}):", self.state.statistics().sessions);
        let mut owners = Vec::new();
        for (session, state) in self.state.sessions() {
            line!(text, "{session}\t{}ms", state.timeout_ms);
            let ephemerals = self.state.ephemerals(session);
            if !ephemerals.is_empty() {
                owners.push((session, ephemerals));
            }
        }
        line!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", owners.len());
        for (session, paths) in owners {
            line!(text, "{session}:");
            for path in paths {
                line!(text, "\t{path}");
            }
        }
        line!(text, "Connections dump:\nConnections ({}):", self.open_connections());
        for connection in self.connections.values() {
            line!(text, "\t{} session {}", connection.peer, connection.session.unwrap_or_default());
        }
        text
    }

    fn configuration(&self) -> String {
        let config = &self.config;
        let port = config.client_addresses.first().map_or(0, |address| address.port);
        let mut text = String::new();
        line!(text, "clientPort={port}\nsecureClientPort=-1");
        line!(text, "dataDir={}", config.data_directory.display());
        line!(text, "dataLogDir={}", config.log_directory.display());
        line!(text, "tickTime={}", config.tick_time_ms);
        line!(text, "maxClientCnxns={}", config.connections_per_address.unwrap_or(0));
        line!(text, "minSessionTimeout={}", config.min_session_timeout_ms);
        line!(text, "maxSessionTimeout={}", config.max_session_timeout_ms);
        line!(text, "clientPortListenBacklog=-1");
        line!(text, "serverId={}", if config.is_standalone() { 0 } else { self.id.0 });
        if !config.is_standalone() {
            line!(text, "initLimit={}\nsyncLimit={}", config.init_limit_ticks, config.sync_limit_ticks);
            line!(text, "electionAlg=3\npeerType=0\nmembership: ");
            for (member, address) in &config.members {
                line!(text, "server.{member}={address}:participant");
            }
        }
        text
    }

    fn monitored(&self) -> String {
        let mut text = String::new();
        line!(text, "zk_version\t{VERSION}");
        line!(text, "zk_server_state\t{}", self.mode());
        for Measurement { name, value, .. } in self.measurements() {
            line!(text, "zk_{name}\t{value}");
        }
        text
    }

    /// Everything that is measured, by ZooKeeper's names.
    pub fn measurements(&self) -> Vec<Measurement> {
        let state = self.state.statistics();
        let (minimum, mean, maximum) = self.statistics.latency_ms();
        let status = self.consensus.status();
        let mut list = Vec::new();
        let mut add = |name, help, kind, value: f64| list.push(Measurement { name, help, kind, value });
        add("avg_latency", "Mean time of a request, in milliseconds.", Kind::Gauge, mean);
        add("max_latency", "Longest time of a request, in milliseconds.", Kind::Gauge, maximum as f64);
        add("min_latency", "Shortest time of a request, in milliseconds.", Kind::Gauge, minimum as f64);
        let counts = &self.statistics;
        add("packets_received", "Packets from clients.", Kind::Counter, counts.packets_received as f64);
        add("packets_sent", "Packets to clients.", Kind::Counter, counts.packets_sent as f64);
        add("num_alive_connections", "Open connections.", Kind::Gauge, self.open_connections() as f64);
        add("outstanding_requests", "Requests without a reply.", Kind::Gauge, counts.outstanding as f64);
        add("znode_count", "Nodes of the tree.", Kind::Gauge, self.node_count() as f64);
        add("watch_count", "Watches that are set here.", Kind::Gauge, self.watches.count() as f64);
        add("ephemerals_count", "Nodes that go with their session.", Kind::Gauge, state.ephemerals as f64);
        add("approximate_data_size", "Bytes of paths and data.", Kind::Gauge, state.data_bytes as f64);
        add("global_sessions", "Open sessions.", Kind::Gauge, state.sessions as f64);
        add("last_zxid", "The last transaction that was applied.", Kind::Counter, self.last_zxid().0 as f64);
        add("term", "The term of the consensus.", Kind::Counter, status.term.0 as f64);
        add(
            "commit_index",
            "The last entry known to be committed.",
            Kind::Counter,
            status.commit_index as f64,
        );
        add("is_leader", "1 on the leader.", Kind::Gauge, f64::from(status.role == Role::Leader));
        add("serving", "1 where clients are served.", Kind::Gauge, f64::from(self.roles.is_serving()));
        if status.role == Role::Leader && !self.config.is_standalone() {
            let members = self.config.members.len();
            let synced = status.progress.iter().filter(|peer| peer.active && peer.member != self.id).count();
            add("quorum_size", "Members of the ensemble.", Kind::Gauge, members as f64);
            add("learners", "Members that follow.", Kind::Gauge, synced as f64);
            add("synced_followers", "Members that follow and answer.", Kind::Gauge, synced as f64);
        }
        list
    }

    fn watches_by_session(&self) -> String {
        let mut sessions: BTreeMap<SessionId, Vec<&str>> = BTreeMap::new();
        for (watcher, paths) in self.watches.by_connection() {
            if let Some(session) = self.connections.get(&watcher).and_then(|connection| connection.session) {
                sessions.entry(session).or_default().extend(paths);
            }
        }
        let mut text = String::new();
        for (session, paths) in sessions {
            line!(text, "{session}");
            for path in paths {
                line!(text, "\t{path}");
            }
        }
        text
    }

    fn watches_by_path(&self) -> String {
        let mut text = String::new();
        for (path, watchers) in self.watches.by_path() {
            line!(text, "{path}");
            for watcher in watchers {
                let session = self.connections.get(&watcher).and_then(|connection| connection.session);
                line!(text, "\t{}", session.unwrap_or_default());
            }
        }
        text
    }
}

fn connection_line(
    connection: &Connection,
    full: bool,
    now: sillon_runtime::Monotonic,
    unix_ms: i64,
) -> String {
    let report = &connection.report;
    let serving = i32::from(connection.session.is_some());
    let mut text = format!(
        "/{}[{serving}](queued={},recved={},sent={}",
        connection.peer,
        connection.queue.len(),
        report.received,
        report.sent
    );
    if full && let Some(session) = connection.session {
        let last = report.last_operation.and_then(OpCode::from_number);
        let operation = last.map_or_else(|| "NA".to_owned(), |operation| format!("{operation:?}"));
        let minimum = if report.answered == 0 { 0 } else { report.minimum_latency_ms };
        let mean = report.total_latency_ms.checked_div(report.answered).unwrap_or(0);
        let since_ms = i64::try_from((now - report.last_response).as_millis()).unwrap_or(i64::MAX);
        write!(
            text,
            ",sid={session},lop={operation},est={},to={},lcxid=0x{:x},lzxid=0x{:x},lresp={},llat={},\
             minlat={minimum},avglat={mean},maxlat={}",
            connection.established_unix_ms,
            connection.timeout_ms,
            report.last_xid,
            report.last_zxid,
            unix_ms.saturating_sub(since_ms),
            report.last_latency_ms,
            report.maximum_latency_ms
        )
        .expect("a string takes everything");
    }
    text.push(')');
    text
}

fn environment() -> String {
    format!(
        "Environment:\nzookeeper.version={VERSION}\nos.name={}\nos.arch={}\n",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}
