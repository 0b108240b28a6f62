//! A session client: one session at a time, on one connection at a time, moved to another member when it is lost. Owns
//! the session's life; what is done in it is `activities`.

use super::{
    Activity, Chance, Shared, activities,
    library::LibraryLink,
    link::{Accepted, Connecting, Ends, Handshake, Link},
    watch_book::WatchBook,
};
use crate::oracle::coordinator::{ClientId, CoordinatorEvent, Outcome, Request, Response};
use sillon_protocol::zookeeper::{CreateMode, ErrorCode, EventType, Stat, records::open_acl};
use sillon_runtime::Runtime;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::oneshot;

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);
/// How often a client's own weights are compared: one step of moving sessions for so many of anything else.
const MOVES_ARE_RARER: u64 = 12;
/// Above everything that clients make.
pub(super) const ROOT: &str = "/sim";

/// The connection was lost, so that nothing more can be done on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// What came of an operation that was answered.
pub(super) type Answer = Result<Response, ErrorCode>;

/// A session, as its client knows it.
struct Session {
    id: i64,
    password: Vec<u8>,
    last_zxid: i64,
    watches: Arc<Mutex<WatchBook>>,
}

/// The way to the members.
enum AnyLink {
    /// One connection.
    Bare(Link),
    /// A session of the library's, with or without a connection.
    Library(LibraryLink),
}

impl AnyLink {
    fn is_open(&self) -> bool {
        match self {
            AnyLink::Bare(link) => link.is_open(),
            AnyLink::Library(link) => link.is_open(),
        }
    }

    fn begin(&self, request: Request) -> oneshot::Receiver<Outcome> {
        match self {
            AnyLink::Bare(link) => link.begin(request),
            AnyLink::Library(link) => link.begin(request),
        }
    }
}

/// A session client.
pub(super) struct Client {
    pub id: ClientId,
    pub runtime: Runtime,
    pub shared: Arc<Shared>,
    pub chance: Chance,
    session: Option<Session>,
    /// It speaks through the product's client library.
    uses_library: bool,
    link: Option<AnyLink>,
    backoff: Duration,
    /// The directories are known to be there.
    is_prepared: bool,
    /// How often it does what.
    weights: Vec<(Activity, u64)>,
    /// The versions that it has last seen, by path.
    pub versions: BTreeMap<String, i32>,
    /// Nodes with a number that it made and has not deleted.
    pub numbered: Vec<String>,
    /// Locks where a node of its own may still lie.
    pub untidy_locks: Vec<u64>,
}

impl Client {
    pub fn new(runtime: Runtime, id: ClientId, shared: Arc<Shared>, chance: Chance) -> Client {
        Client {
            id,
            runtime,
            shared,
            chance,
            session: None,
            uses_library: false,
            link: None,
            backoff: FIRST_BACKOFF,
            is_prepared: false,
            weights: Vec::new(),
            versions: BTreeMap::new(),
            numbered: Vec::new(),
            untidy_locks: Vec::new(),
        }
    }

    /// Works until the run is over, and then closes its session.
    pub async fn run(mut self) {
        self.uses_library = self.chance.draw("through the library", 0, 1) == 1;
        let activities = self.shared.config.activities.clone();
        for activity in activities {
            let rarer = if activity == Activity::Moves { 1 } else { MOVES_ARE_RARER };
            let weight = self.chance.draw("weight", 0, 4) * rarer;
            self.weights.push((activity, weight));
        }
        if self.weights.iter().all(|(_, weight)| *weight == 0) {
            self.weights[0].1 = 1;
        }
        while !self.shared.is_stopped() {
            if !self.is_connected() {
                self.connect(None).await;
                continue;
            }
            let _lost_is_seen_above = self.work().await;
        }
        self.close_session().await;
    }

    async fn work(&mut self) -> Result<(), Lost> {
        if !self.is_prepared {
            self.prepare().await?;
        }
        self.pause().await;
        let sum: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut left = self.chance.draw("activity", 0, sum - 1);
        let activity = self.weights.iter().find(|(_, weight)| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        });
        let activity = activity.map_or(Activity::Registers, |(activity, _)| *activity);
        activities::step(self, activity).await
    }

    /// Makes the directories in which activities work.
    async fn prepare(&mut self) -> Result<(), Lost> {
        let root = [ROOT.to_string()].into_iter();
        for path in root.chain(Activity::ALL.iter().map(|activity| format!("{ROOT}/{activity}"))) {
            self.create(&path, CreateMode::Persistent).await?.ok();
        }
        self.is_prepared = true;
        Ok(())
    }

    async fn pause(&mut self) {
        let config = &self.shared.config;
        let mean_us = f64::from(config.clients) * 1e6 / config.operations_per_second;
        let pause_us = self.chance.draw("pause", 0, (2.0 * mean_us) as u64);
        self.runtime.sleep(Duration::from_micros(pause_us)).await;
    }

    /// Tries once to get a connection with a session: to a member, or to any. The session goes on where it can.
    pub async fn connect(&mut self, wanted: Option<u32>) {
        if self.uses_library {
            return self.connect_library().await;
        }
        self.drop_connection();
        let members = self.shared.members.clone();
        let index = self.chance.draw("member", 0, members.len() as u64 - 1) as usize;
        let drawn = members[index].clone();
        let (member, host, port) =
            members.into_iter().find(|(member, ..)| Some(*member) == wanted).unwrap_or(drawn);
        let handshake = Handshake {
            session: self.session.as_ref().map_or(0, |session| session.id),
            password: self.session.as_ref().map_or_else(|| vec![0; 16], |session| session.password.clone()),
            timeout: self.shared.timeout(),
            last_zxid: self.session.as_ref().map_or(0, |session| session.last_zxid),
            watches: self.session.as_ref().map(|session| session.watches.clone()).unwrap_or_default(),
        };
        let ends = Ends { client: self.id, member, host, port };
        match Link::connect(&self.runtime, &self.shared, &ends, &handshake).await {
            Connecting::Connected((link, Accepted { session, password, .. })) => {
                self.backoff = FIRST_BACKOFF;
                let Handshake { last_zxid, watches, .. } = handshake;
                self.session = Some(Session { id: session, password, last_zxid, watches });
                self.link = Some(AnyLink::Bare(link));
            }
            Connecting::Refused => self.session = None,
            Connecting::Failed => {
                self.runtime.sleep(self.backoff).await;
                self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
            }
        }
    }

    /// The library connects by itself, to a member of its choice: waits for it, and for its new session where the old one
    /// has gone.
    async fn connect_library(&mut self) {
        let begin = || LibraryLink::begin_session(&self.runtime, &self.shared, self.id);
        let link = self.link.get_or_insert_with(|| AnyLink::Library(begin()));
        let AnyLink::Library(link) = link else { panic!("a client of the library has no bare connection") };
        match link.wait(self.shared.timeout()).await {
            Connecting::Connected(()) | Connecting::Failed => {}
            Connecting::Refused => self.link = None,
        }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.link.as_ref().is_some_and(AnyLink::is_open)
    }

    /// The connection ends; the session stays. The library decides for itself when to give a connection up.
    fn drop_connection(&mut self) {
        if let Some(AnyLink::Bare(link)) = self.link.take_if(|link| matches!(link, AnyLink::Bare(_)))
            && let Some(session) = &mut self.session
        {
            session.last_zxid = session.last_zxid.max(link.last_zxid());
        }
    }

    /// Has no use for its session any more, and leaves it to expire.
    pub fn abandon_session(&mut self) {
        self.drop_connection();
        let of_library = match self.link.take() {
            Some(AnyLink::Library(link)) => Some(link.session()).filter(|session| *session != 0),
            Some(AnyLink::Bare(_)) | None => None,
        };
        if let Some(session) = self.session.take().map(|session| session.id).or(of_library) {
            let client = self.id;
            (self.shared.events)(CoordinatorEvent::SessionClosed { client, session });
        }
    }

    /// Asks for the end of its session, and forgets it in any case.
    pub async fn close_session(&mut self) {
        if self.is_connected() {
            // Where nobody knows what came of it, it is over for this client all the same.
            let _closed_or_left = self.ask(Request::CloseSession).await;
        }
        self.abandon_session();
    }

    /// Says nothing for a while, on a connection that stands.
    pub async fn be_silent(&mut self, length: Duration) {
        match &self.link {
            Some(AnyLink::Bare(link)) => {
                link.set_silent(true);
                self.runtime.sleep(length).await;
                link.set_silent(false);
            }
            // The library goes on with its pings, however long its user has nothing to say.
            Some(AnyLink::Library(_)) => self.runtime.sleep(length).await,
            None => {}
        }
    }

    /// Asks, and waits for the answer: for as long as nobody would wait longer.
    pub async fn ask(&mut self, request: Request) -> Result<Answer, Lost> {
        self.ask_all(vec![request]).await.map(|mut answers| answers.remove(0))
    }

    /// Asks for several things at once, and waits for all answers.
    pub async fn ask_all(&mut self, requests: Vec<Request>) -> Result<Vec<Answer>, Lost> {
        let Some(link) = &self.link else { return Err(Lost) };
        let outcomes: Vec<_> = requests.into_iter().map(|request| link.begin(request)).collect();
        let all = async {
            let mut answers = Vec::with_capacity(outcomes.len());
            for outcome in outcomes {
                match outcome.await {
                    Ok(Outcome::Ok { response, .. }) => answers.push(Ok(response)),
                    Ok(Outcome::Failed { error, .. }) => {
                        answers.push(Err(ErrorCode::from_number(error).unwrap_or(ErrorCode::Other(error))));
                    }
                    Ok(Outcome::Unknown) | Err(_) => return None,
                }
            }
            Some(answers)
        };
        let patience = self.shared.timeout() * 2;
        let answers = self.runtime.timeout(patience, all).await.ok().flatten();
        if answers.is_none() {
            self.drop_connection();
        }
        answers.ok_or(Lost)
    }

    /// The next event of a watch that has arrived, or that arrives within `patience`.
    pub async fn next_event(&mut self, patience: Duration) -> Option<(EventType, String)> {
        match &mut self.link {
            Some(AnyLink::Bare(link)) => link.next_event(patience).await,
            Some(AnyLink::Library(link)) => link.next_event(patience).await,
            None => None,
        }
    }

    /// Forgets the events that have arrived.
    pub fn skip_events(&mut self) {
        match &mut self.link {
            Some(AnyLink::Bare(link)) => link.skip_events(),
            Some(AnyLink::Library(link)) => link.skip_events(),
            None => {}
        }
    }

    /// Data that nobody else writes.
    pub fn value(&self) -> Option<Vec<u8>> {
        Some(self.shared.next_value(self.id))
    }

    /// A node that everybody may do everything with.
    pub fn new_node(&self, path: &str, mode: CreateMode) -> Request {
        Request::Create { path: path.into(), data: self.value(), acl: open_acl(), mode, ttl_ms: None }
    }

    /// Makes a node; gives its path.
    pub async fn create(&mut self, path: &str, mode: CreateMode) -> Result<Result<String, ErrorCode>, Lost> {
        let answer = self.ask(self.new_node(path, mode)).await?;
        Ok(answer.map(|response| match response {
            Response::PathStat(path, _) | Response::Path(path) => path,
            other => panic!("a create answers a path, and not {other:?}"),
        }))
    }

    /// Lists a node's children, sorted.
    pub async fn children(&mut self, path: &str, watch: bool) -> Result<Vec<String>, Lost> {
        match self.ask(Request::GetChildren { path: path.into(), watch }).await? {
            Ok(Response::Children(mut children, _)) => {
                children.sort();
                Ok(children)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Deletes a node, whatever its version.
    pub async fn delete(&mut self, path: &str) -> Result<Answer, Lost> {
        self.ask(Request::Delete { path: path.into(), version: -1 }).await
    }

    /// Takes note of a node's version.
    pub fn saw(&mut self, path: &str, answer: &Answer) {
        if let Ok(Response::Stat(stat) | Response::Data(_, stat) | Response::PathStat(_, stat)) = answer {
            let Stat { version, .. } = stat;
            self.versions.insert(path.to_string(), *version);
        }
    }

    /// One of so many nodes.
    pub fn pick(&self, what: &'static str) -> u64 {
        self.chance.draw(what, 0, u64::from(self.shared.config.nodes) - 1)
    }

    /// Whether something happens, so often of a hundred times.
    pub fn happens(&self, what: &'static str, percent: u64) -> bool {
        self.chance.draw(what, 0, 99) < percent
    }
}
