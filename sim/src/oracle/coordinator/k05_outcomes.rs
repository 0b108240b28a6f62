//! K05, K06 and K07: every write comes to what ZooKeeper's rules give, every read shows the tree as it was at the
//! transaction that its reply names, and nothing is written twice or without being asked for.

use super::{
    entries::{AppliedFact, Entries, WriteEntry},
    events::{Request, Response},
    model::{Done, Effect, Kind, Model, Node, Operation, Outcome},
};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_protocol::zookeeper::{ErrorCode, path::validate};
use std::collections::BTreeMap;

/// Errors by which a member refuses a request before it becomes an entry of the log.
const WITHOUT_ENTRY: [ErrorCode; 9] = [
    ErrorCode::SystemError,
    ErrorCode::ConnectionLoss,
    ErrorCode::MarshallingError,
    ErrorCode::Unimplemented,
    ErrorCode::OperationTimeout,
    ErrorCode::SessionExpired,
    ErrorCode::SessionMoved,
    ErrorCode::RequestTimeout,
    ErrorCode::Throttled,
];
/// Nodes whose content the ensemble itself decides.
const NOT_MODELLED: [&str; 2] = ["/zookeeper/config", "/zookeeper/quota"];

/// How often each write was asked for and done, of the sessions whose clients tell everything.
#[derive(Debug, Default)]
pub(super) struct Asked(BTreeMap<i64, BTreeMap<u64, (u32, u32)>>);

impl Asked {
    /// A client that tells everything has this session.
    pub fn on_session(&mut self, session: i64) {
        self.0.entry(session).or_default();
    }

    pub fn on_invoked(&mut self, session: i64, content: u64) {
        self.0.entry(session).or_default().entry(content).or_default().0 += 1;
    }

    /// A write is in the log.
    pub fn on_applied(
        &mut self,
        judge: &mut Judge,
        (session, content): (i64, u64),
        text: impl FnOnce() -> String,
    ) {
        let Some(of_session) = self.0.get_mut(&session) else { return };
        let (asked, applied) = of_session.entry(content).or_default();
        *applied += 1;
        judge.demand(Invariant::K07, applied <= asked, || {
            format!("{} was asked for {asked} times and is in the log {applied} times", text())
        });
    }

    /// Whether the client of a session tells everything.
    pub fn knows(&self, session: i64) -> bool {
        self.0.contains_key(&session)
    }
}

/// A command was applied for the first time, and the model says what it comes to.
pub(super) fn on_applied(judge: &mut Judge, effect: &Effect, fact: AppliedFact) {
    let AppliedFact { zxid, error, .. } = fact;
    let holds = match effect {
        Effect::Write { outcome: Outcome::Refused(_), .. } | Effect::Refused { .. } => error != 0,
        // The header of a failed multi tells no error.
        Effect::Write { outcome: outcome @ Outcome::None(_), .. } => error == 0 || error == outcome.error(),
        Effect::Write { outcome, .. } => error == outcome.error(),
        Effect::Opened { .. } | Effect::Attached { .. } | Effect::Ended { .. } | Effect::Swept => error == 0,
        Effect::Nothing => true,
    };
    let of_dead_session =
        matches!(effect, Effect::Write { outcome: Outcome::Refused(_), .. } | Effect::Refused { .. });
    judge.demand(if of_dead_session { Invariant::I62 } else { Invariant::K05 }, holds, || {
        let due = match effect {
            Effect::Write { operation, outcome, .. } => {
                format!("{operation} must give {}", outcome.error())
            }
            Effect::Refused { why } => format!("it must be refused, {why}"),
            _ => "it must succeed".to_owned(),
        };
        format!("transaction {zxid} gives {error}, but {due}")
    });
}

/// The entry of a session's write, if that is what the transaction is.
fn entry_of<'a>(
    entries: &'a mut Entries,
    session: i64,
    zxid: i64,
    operation: &Operation,
) -> Option<&'a mut WriteEntry> {
    let entry = entries.get_mut(zxid)?.write.as_deref_mut()?;
    (entry.session == session && entry.content == operation.content()).then_some(entry)
}

/// A transaction in words.
fn what_is(entries: &Entries, zxid: i64) -> String {
    match entries.get(zxid) {
        None => "not known to any member".to_owned(),
        Some(entry) => entry.write.as_ref().map_or_else(
            || "no write of a client".to_owned(),
            |write| format!("{} of session 0x{:x}", write.text, write.session),
        ),
    }
}

/// A client is told that its write is done.
pub(super) fn on_done(
    judge: &mut Judge,
    entries: &mut Entries,
    (session, zxid): (i64, i64),
    operation: &Operation,
    response: &Response,
) {
    let Some(entry) = entry_of(entries, session, zxid, operation) else {
        let is = what_is(entries, zxid);
        let text = format!("{operation} is told to be transaction {zxid}, which is {is}");
        return judge.violated(Invariant::I76, text);
    };
    judge.demand(Invariant::K07, !entry.told, || {
        format!("{operation} is told to be transaction {zxid}, which was told to another request")
    });
    entry.told = true;
    let outcome = &entry.outcome;
    judge.demand(Invariant::K05, answers(outcome, response), || {
        format!("{operation} in transaction {zxid} comes to {outcome:?}, its client is told {response:?}")
    });
}

/// A client is told that its write was refused.
pub(super) fn on_refused(
    judge: &mut Judge,
    entries: &mut Entries,
    (session, zxid): (i64, i64),
    operation: &Operation,
    error: i32,
) {
    let Some(entry) = entry_of(entries, session, zxid, operation).filter(|entry| !entry.told) else {
        let known = WITHOUT_ENTRY.iter().any(|code| code.number() == error);
        return judge.demand(Invariant::K05, known, || {
            let is = what_is(entries, zxid);
            format!("{operation} is refused with {error} in transaction {zxid}, which is {is}")
        });
    };
    entry.told = true;
    let due = entry.outcome.error();
    judge.demand(Invariant::K05, due == error, || {
        format!("{operation} in transaction {zxid} comes to {due}, its client is told {error}")
    });
}

fn answers(outcome: &Outcome, response: &Response) -> bool {
    match (outcome, response) {
        (Outcome::Single(Ok(done)), response) => answers_one(done, response),
        (Outcome::All(all), Response::Multi(told)) => {
            let one = |(done, told): (&Done, &Result<Response, i32>)| {
                told.as_ref().is_ok_and(|response| answers_one(done, response))
            };
            all.len() == told.len() && all.iter().zip(told).all(one)
        }
        (Outcome::None(errors), Response::Multi(told)) => {
            let one = |(error, told): (&i32, &Result<Response, i32>)| match told {
                Err(told) => told == error,
                Ok(response) => *error == 0 && *response == Response::Nothing,
            };
            errors.len() == told.len() && errors.iter().zip(told).all(one)
        }
        _ => false,
    }
}

fn answers_one(done: &Done, response: &Response) -> bool {
    match (done, response) {
        (Done::Created(path, _), Response::Path(told)) => path == told,
        (Done::Created(path, stat), Response::PathStat(told, told_stat)) => path == told && stat == told_stat,
        (Done::Written(stat), Response::Stat(told)) => stat == told,
        (Done::Nothing, Response::Nothing) => true,
        _ => false,
    }
}

/// A client is told what it asked to read: a response, or an error.
pub(super) fn on_read(
    judge: &mut Judge,
    model: &Model,
    zxid: i64,
    request: &Request,
    told: Result<&Response, i32>,
) {
    let Some(path) = request.path() else { return };
    if NOT_MODELLED.iter().any(|own| path.starts_with(own)) {
        return;
    }
    let last = model.tree.zxid();
    if zxid > last {
        let text = format!("a read of {path} shows transaction {zxid}, the last that was applied is {last}");
        return judge.violated(Invariant::K06, text);
    }
    let node = model.tree.get_at(path, zxid);
    let holds = match (told, node) {
        (Ok(response), Some(node)) => shows(model, request, response, (path, zxid, node)),
        (Ok(_), None) => false,
        (Err(error), None) => {
            error == ErrorCode::NoNode.number()
                || (error == ErrorCode::BadArguments.number() && validate(path).is_err())
        }
        (Err(error), Some(node)) => error == ErrorCode::NoAuth.number() && !node.is_public(),
    };
    let before = model.tree.last_node_at(path, zxid);
    let is_ephemeral = before.is_some_and(|node| matches!(node.kind, Kind::Ephemeral { .. }));
    let invariant = match is_ephemeral && told.is_ok() != node.is_some() {
        true => Invariant::I62,
        false => Invariant::K06,
    };
    judge.demand(invariant, holds, || {
        let is = node.map(|node| (node.stat(), model.tree.children_at(path, zxid)));
        format!("{path} at transaction {zxid} is {is:?}, a client reads {told:?}")
    });
    if is_ephemeral && invariant != Invariant::I62 {
        judge.evaluated(Invariant::I62);
    }
}

fn shows(
    model: &Model,
    request: &Request,
    response: &Response,
    (path, zxid, node): (&str, i64, &Node),
) -> bool {
    // Old servers tell anybody whether a node exists.
    let may = node.is_public() || matches!(request, Request::Exists { .. });
    may && match response {
        Response::Stat(stat) => *stat == node.stat(),
        Response::Data(data, stat) => data.as_deref() == node.data.as_deref() && *stat == node.stat(),
        Response::Children(names, stat) => {
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.sort_unstable();
            let known = model.tree.children_at(path, zxid);
            *stat == node.stat() && known.iter().map(|name| &**name).eq(names)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        coordinator::{
            Outcome, Request, Response,
            testing::{Run, create, create_mode, delete, get, set},
        },
    };
    use sillon_protocol::zookeeper::{Acl, CreateMode, Identity, acl::permission};

    fn joined() -> Run {
        let run = Run::new();
        run.join(7);
        run.join(8);
        run
    }

    #[test]
    fn writes_and_reads_of_all_kinds() {
        let run = joined();
        run.write(7, &create("/a"));
        run.write(7, &create("/a"));
        run.write(7, &create_mode("/a/s-", CreateMode::PersistentSequential));
        run.write(8, &create_mode("/a/e", CreateMode::Ephemeral));
        run.write(7, &set("/a", "1"));
        run.write(7, &Request::Multi(vec![set("/a", "2"), delete("/a/e")]));
        run.write(7, &Request::Multi(vec![set("/a", "3"), delete("/a")]));
        run.write(7, &Request::Check { path: "/a".into(), version: 2 });
        run.read(8, &get("/a"));
        run.read(8, &get("/none"));
        run.read(8, &get("/a/e"));
        run.read(8, &Request::Exists { path: "/a/s-0000000000".into(), watch: false });
        run.read(8, &Request::GetChildren { path: "/a".into(), watch: false });
        run.assert_legal(&[Invariant::K05, Invariant::K06, Invariant::K07, Invariant::I61, Invariant::I62]);
    }

    #[test]
    fn a_member_says_what_the_rules_do_not() {
        let run = joined();
        run.wrong_error.set(Some(-101));
        run.log(7, &create("/a"));
        assert_eq!(run.oracle.violations()[0].invariant, Invariant::K05);
    }

    #[test]
    fn a_client_is_told_a_wrong_number() {
        let run = joined();
        let request = create_mode("/s-", CreateMode::PersistentSequential);
        let invoked = run.invoke(7, &request);
        let Outcome::Ok { zxid, response: Response::PathStat(_, stat) } = run.log(7, &request) else {
            panic!()
        };
        let response = Response::PathStat("/s-0000000007".into(), stat);
        run.complete(invoked, Outcome::Ok { zxid, response });
        run.assert_violated(Invariant::K05);
    }

    #[test]
    fn a_client_is_told_a_wrong_error() {
        let run = joined();
        let invoked = run.invoke(7, &delete("/none"));
        run.log(7, &delete("/none"));
        run.complete(invoked, Outcome::Failed { zxid: run.zxid.get(), error: -103 });
        run.assert_violated(Invariant::K05);
    }

    #[test]
    fn a_confirmed_write_is_not_in_the_log() {
        let run = joined();
        let invoked = run.invoke(7, &delete("/none"));
        run.complete(invoked, Outcome::Ok { zxid: run.zxid.get(), response: Response::Nothing });
        run.assert_violated(Invariant::I76);
    }

    #[test]
    fn a_write_is_in_the_log_twice() {
        let run = joined();
        let invoked = run.invoke(7, &set("/", "1"));
        let outcome = run.log(7, &set("/", "1"));
        run.complete(invoked, outcome);
        run.log(7, &set("/", "1"));
        run.assert_violated(Invariant::K07);
    }

    #[test]
    fn a_write_of_a_dead_session() {
        let run = joined();
        run.later(60 * super::super::testing::SECOND);
        run.found_silent(1, 7);
        run.expire(7);
        let invoked = run.invoke(7, &create("/late"));
        run.wrong_error.set(Some(0));
        run.log(7, &create("/late"));
        run.complete(invoked, Outcome::Unknown);
        run.assert_violated(Invariant::I62);
    }

    #[test]
    fn a_read_of_something_else() {
        let run = joined();
        run.write(7, &create("/a"));
        run.write(7, &set("/a", "new"));
        let invoked = run.invoke(8, &get("/a"));
        let Outcome::Ok { response, .. } = run.shown(&get("/a"), run.zxid.get() - 1) else { panic!() };
        run.complete(invoked, Outcome::Ok { zxid: run.zxid.get(), response });
        run.assert_violated(Invariant::K06);
    }

    #[test]
    fn an_ephemeral_outlives_its_session() {
        let run = joined();
        run.write(7, &create_mode("/e", CreateMode::Ephemeral));
        let before = run.shown(&get("/e"), run.zxid.get());
        run.later(60 * super::super::testing::SECOND);
        run.found_silent(1, 7);
        run.expire(7);
        let invoked = run.invoke(8, &get("/e"));
        let Outcome::Ok { response, .. } = before else { panic!() };
        run.complete(invoked, Outcome::Ok { zxid: run.zxid.get(), response });
        run.assert_violated(Invariant::I62);
    }

    #[test]
    fn who_may_not_read() {
        let run = joined();
        run.write(7, &create("/a"));
        let acl =
            vec![Acl { permissions: permission::ALL & !permission::READ, identity: Identity::anyone() }];
        run.write(7, &Request::SetAcl { path: "/a".into(), acl, version: -1 });
        let invoked = run.invoke(8, &get("/a"));
        run.complete(invoked, Outcome::Failed { zxid: run.zxid.get(), error: -102 });
        run.assert_legal(&[Invariant::K06]);
        run.read(8, &get("/a"));
        run.assert_violated(Invariant::K06);
    }
}
