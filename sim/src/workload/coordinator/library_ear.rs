//! Listens to the product's client library, and tells the oracle what happens on its connections, from the bytes that it
//! sends and gets. Owns that translation; never believes what the library makes of them.

use super::{Shared, wire};
use crate::oracle::coordinator::{ClientId, CoordinatorEvent, OperationId, Outcome, Request};
use sillon_coordinator::client::{ClientFact, ClientObserver, SessionEvent};
use sillon_protocol::zookeeper::{ErrorCode, EventType, Reader};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// How many answers are kept for what the library makes of them.
const KEPT_ANSWERS: usize = 1_000;

/// Listens to one session.
pub(super) struct Ear {
    client: ClientId,
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<(EventType, String)>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    session: i64,
    connection: Option<u64>,
    /// What the library was asked to send and has not.
    expected: VecDeque<Request>,
    /// What it has sent, by the number on the connection.
    sent: BTreeMap<i32, (OperationId, Request)>,
    /// What came back lately, by its bytes.
    heard: VecDeque<(Request, Outcome)>,
    last_zxid: i64,
    is_over: bool,
}

impl Ear {
    pub fn new(
        client: ClientId,
        shared: Arc<Shared>,
        events: mpsc::UnboundedSender<(EventType, String)>,
    ) -> Arc<Ear> {
        Arc::new(Ear { client, shared, events, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: CoordinatorEvent) {
        (self.shared.events)(event);
    }

    /// The library is about to be asked for this.
    pub fn expect(&self, request: Request) {
        self.lock().expected.push_back(request);
    }

    /// What the library says must be what some answer to such a request said. (To which of several that are alike does
    /// not show in the bytes.)
    pub fn assert_heard(&self, request: &Request, typed: &Outcome) {
        let mut inner = self.lock();
        let is_it = |(asked, outcome): &(Request, Outcome)| asked == request && outcome == typed;
        let place = inner.heard.iter().position(is_it);
        assert!(
            place.is_some() || inner.is_over,
            "the library makes {typed:?} of the answer to {request:?}, and these came: {:?}",
            inner.heard.iter().filter(|(asked, _)| asked == request).collect::<Vec<_>>()
        );
        place.map(|place| inner.heard.remove(place));
    }

    pub fn is_connected(&self) -> bool {
        self.lock().connection.is_some()
    }

    pub fn session(&self) -> i64 {
        self.lock().session
    }

    /// The session is given up: nothing more is told.
    pub fn end(&self) {
        self.disconnected();
        self.lock().is_over = true;
    }

    fn connected(&self, host: &str, session: i64, timeout_ms: u64) {
        let connection = self.shared.next_connection();
        {
            let mut inner = self.lock();
            inner.session = session;
            inner.connection = Some(connection);
        }
        let known = self.shared.members.iter().find(|(_, name, _)| name == host);
        let (member, ..) = known.expect("the library connects to members");
        let timeout_ms = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
        let (client, member) = (self.client, *member);
        self.tell(CoordinatorEvent::Connected { client, session, connection, member, timeout_ms });
    }

    fn disconnected(&self) {
        let (connection, sent) = {
            let mut inner = self.lock();
            (inner.connection.take(), std::mem::take(&mut inner.sent))
        };
        let client = self.client;
        if let Some(connection) = connection {
            self.tell(CoordinatorEvent::Disconnected { client, connection });
        }
        for (operation, _) in sent.into_values() {
            self.tell(CoordinatorEvent::Completed { client, operation, outcome: Outcome::Unknown });
        }
    }

    fn sent(&self, xid: i32, operation: i32, body: &[u8]) {
        let client = self.client;
        let Some(connection) = self.lock().connection else { return };
        if xid > 0 {
            let request = self.take_expected(operation, body);
            let session = self.session();
            let operation = self.shared.next_operation();
            self.lock().sent.insert(xid, (operation, request.clone()));
            self.tell(CoordinatorEvent::Invoked { client, operation, session, request });
        }
        self.tell(CoordinatorEvent::Sent { client, connection, xid });
    }

    /// Which of the requests this is: the next, unless the library has refused to send some.
    fn take_expected(&self, operation: i32, body: &[u8]) -> Request {
        let mut inner = self.lock();
        let is_it = |request: &Request| {
            wire::operation(request).number() == operation
                && wire::encode(0, request)[HEADER_BYTES..] == *body
        };
        let place = inner.expected.iter().position(is_it);
        let place = place
            .unwrap_or_else(|| panic!("the library sends operation {operation}, which nobody asked for"));
        // Those before it were refused: requests leave in the order in which they were asked for.
        inner.expected.drain(..place);
        inner.expected.pop_front().expect("it was found there")
    }

    fn replied(&self, xid: i32, zxid: i64, error: Option<ErrorCode>, body: &[u8]) {
        let client = self.client;
        let Some(connection) = self.lock().connection else { return };
        let error = error.map_or(0, ErrorCode::number);
        self.tell(CoordinatorEvent::Replied { client, connection, xid, zxid, error });
        let sent = {
            let mut inner = self.lock();
            inner.last_zxid = inner.last_zxid.max(zxid);
            inner.sent.remove(&xid)
        };
        let Some((operation, request)) = sent else { return };
        let outcome = match error {
            0 => {
                let response = wire::decode(&request, &mut Reader::new(body));
                let response = response.unwrap_or_else(|error| {
                    panic!("the reply to {request:?} cannot be read: {error}: {body:?}")
                });
                Outcome::Ok { zxid, response }
            }
            error => Outcome::Failed { zxid, error },
        };
        {
            let mut inner = self.lock();
            inner.heard.push_back((request, outcome.clone()));
            if inner.heard.len() > KEPT_ANSWERS {
                inner.heard.pop_front();
            }
        }
        self.tell(CoordinatorEvent::Completed { client, operation, outcome });
    }

    fn fired(&self, event: EventType, path: &str) {
        let (connection, session, zxid_before) = {
            let inner = self.lock();
            let Some(connection) = inner.connection else { return };
            (connection, inner.session, inner.last_zxid)
        };
        let (client, event) = (self.client, (event, path.to_string()));
        self.tell(CoordinatorEvent::WatchEvent {
            client,
            session,
            connection,
            zxid_before,
            event: event.clone(),
        });
        // Whoever waits for events may have gone.
        let _ = self.events.send(event);
    }
}

/// A request header, in front of the body.
const HEADER_BYTES: usize = 8;

impl ClientObserver for Ear {
    fn observe(&self, fact: ClientFact<'_>) {
        if self.lock().is_over {
            return;
        }
        match fact {
            ClientFact::Session(SessionEvent::Connected { server, session, timeout_ms, .. }) => {
                self.connected(&server.host, session.0, *timeout_ms);
            }
            ClientFact::Session(SessionEvent::Disconnected(_) | SessionEvent::Closed)
            | ClientFact::Lost { .. } => self.disconnected(),
            ClientFact::Session(SessionEvent::Expired) => {
                self.disconnected();
                let (client, session) = (self.client, self.session());
                if session != 0 {
                    self.tell(CoordinatorEvent::Refused { client, session });
                }
            }
            ClientFact::RequestSent { xid, operation, body } => self.sent(xid, operation, body),
            ClientFact::ReplyReceived { xid, zxid, error, body, .. } => self.replied(xid, zxid, error, body),
            ClientFact::EventReceived { event_type, path, .. } => self.fired(event_type, path),
            ClientFact::Connecting { .. } | ClientFact::Session(SessionEvent::AuthFailed) => {}
        }
    }
}
