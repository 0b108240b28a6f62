//! The controller at work: one task that plans commands, writes them, and publishes what came of it. Owns the order: one
//! write at a time, each checked against the controller's epoch.
//!
//! A write that failed, or of which nobody knows whether it happened, ends the term: the next one, of this broker or of
//! another, loads what is true. Its new epoch fences whatever is still on its way.

use super::{
    ActiveController,
    compare::{self, ASK_AGAIN},
    election::Term,
    load::{self, Reader, Watches},
    metadata_log::{MetadataLog, News},
    polls::{Poll, Polls, SILENCE},
    session::insist,
    shared::Shared,
};
use crate::{
    controller::{Command, Controller, ControllerError, LogQuestion, Outcome, Plan, Write, layout},
    metadata::{MetadataImage, MetadataPosition},
    observe::Observation,
    types::{BrokerEpoch, BrokerId, ControllerEpoch},
};
use sillon_coordinator::client::{Client, ClientError, Multi, NewNode};
use sillon_protocol::{
    ErrorCode,
    messages::{FetchMetadataRequest, FetchMetadataResponse},
};
use sillon_runtime::BoxFuture;
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::{Notify, mpsc, oneshot};

/// How long a broker's poll may wait at most, whatever it asks for.
const LONGEST_POLL: Duration = Duration::from_secs(10);
/// So often the controller's own work is planned again before others have their turn.
const CHORE_ROUNDS: usize = 100;

/// So often a command is planned again because a broker that it counts on is not registered any more.
const STALE_ROUNDS: usize = 10;

type Answer = Result<(Outcome, MetadataPosition), ControllerError>;

/// A command that waits for its turn.
struct Submitted {
    command: Command,
    answer: oneshot::Sender<Answer>,
}

/// The office as others see it, while it is held and a little longer.
pub(super) struct Office {
    shared: Arc<Shared>,
    epoch: ControllerEpoch,
    commands: mpsc::UnboundedSender<Submitted>,
    state: Mutex<State>,
    /// Rung when the metadata has changed, and at the end.
    changed: Notify,
    polls: Arc<Polls>,
}

struct State {
    log: MetadataLog,
    ended: bool,
}

impl Office {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn publish(&self, plan: &Plan, image: Arc<MetadataImage>) {
        self.state().log.append(plan.deltas.clone().into(), image);
        self.changed.notify_waiters();
    }

    fn end(&self) {
        self.state().ended = true;
        self.changed.notify_waiters();
    }

    /// What a broker at `position` is told, as soon as there is something; none at the end of the term.
    async fn news(&self, position: MetadataPosition) -> Option<News> {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            {
                let state = self.state();
                if state.ended {
                    return None;
                }
                match state.log.news_since(position) {
                    News::Nothing => {}
                    news => return Some(news),
                }
            }
            changed.await;
        }
    }

    /// The newest metadata that is certain.
    pub(super) fn newest(&self) -> Arc<MetadataImage> {
        self.state().log.image().clone()
    }

    async fn answer_poll(&self, request: FetchMetadataRequest) -> FetchMetadataResponse {
        let poll = Poll::begin(
            &self.polls,
            self.shared.runtime.now(),
            BrokerId(request.broker_id),
            BrokerEpoch(request.broker_epoch),
        );
        let position = MetadataPosition {
            controller_epoch: ControllerEpoch(request.controller_epoch),
            version: request.version,
        };
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(LONGEST_POLL);
        let news = self.shared.runtime.timeout(wait, self.news(position)).await;
        Poll::answered(poll, self.shared.runtime.now());
        match news {
            Err(_elapsed) => super::serve::news(position, &News::Nothing),
            Ok(Some(news)) => super::serve::news(position, &news),
            Ok(None) => super::serve::metadata_error(ErrorCode::NOT_CONTROLLER),
        }
    }
}

impl ActiveController for Office {
    fn submit(&self, command: Command) -> BoxFuture<'_, Answer> {
        let (answer, received) = oneshot::channel();
        // Where the term has ended, the command and with it the answer's end are dropped.
        let _ = self.commands.send(Submitted { command, answer });
        Box::pin(async move {
            received.await.unwrap_or_else(|_ended| {
                Err(ControllerError::new(
                    ErrorCode::NOT_CONTROLLER,
                    "this broker ceased to be controller; nobody knows whether the command was carried out",
                ))
            })
        })
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.newest()
    }

    fn follow(&self, request: FetchMetadataRequest) -> BoxFuture<'_, FetchMetadataResponse> {
        Box::pin(self.answer_poll(request))
    }
}

/// Ends the term wherever it is left.
struct Held(Arc<Office>);

impl Drop for Held {
    fn drop(&mut self) {
        let controller_epoch = self.0.epoch;
        self.0.shared.clear_office(&self.0);
        self.0.end();
        self.0.shared.observers.tell(|| Observation::ResignedController { controller_epoch });
    }
}

/// Holds the office until it is lost; gives the reason.
pub(super) async fn hold(shared: &Arc<Shared>, client: &Client, term: Term) -> String {
    match serve(shared, client, term).await {
        Ok(reason) => reason.to_owned(),
        Err(reason) => reason,
    }
}

async fn serve(shared: &Arc<Shared>, client: &Client, term: Term) -> Result<&'static str, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let node = insist(&shared.runtime, || client.exists_watched(layout::CONTROLLER)).await;
    let (stat, mut node_watch) = node.map_err(|error| told(&error))?.value;
    let czxid = shared.controller().map(|known| known.czxid);
    if stat.map(|stat| stat.czxid) != czxid {
        return Ok("the node was taken away");
    }
    let (loaded, watches) = load::everything(shared, client, term).await.map_err(|error| told(&error))?;
    let core = Controller::new(loaded, shared.settings.controller.clone());
    let (commands, submitted) = mpsc::unbounded_channel();
    let (polls, suspects) = Polls::new(shared.runtime.now());
    let office = Arc::new(Office {
        shared: shared.clone(),
        epoch: term.epoch,
        commands,
        state: Mutex::new(State { log: MetadataLog::new(core.image().clone()), ended: false }),
        changed: Notify::new(),
        polls,
    });
    let mut work = Work {
        shared,
        client,
        term,
        core,
        office: office.clone(),
        suspects,
        submitted,
        watches,
        asked: Vec::new(),
    };
    let _held = Held(office.clone());
    shared.set_office(office);
    shared.observers.tell(|| Observation::BecameController { controller_epoch: term.epoch });
    tokio::select! {
        biased;
        _ = node_watch.changed() => Ok("the node was taken away"),
        error = work.go_on() => Err(error.to_string()),
    }
}

/// Why a term ends by itself.
#[derive(Debug, thiserror::Error)]
enum Doubt {
    #[error("a write failed: {0}")]
    Write(ClientError),
    #[error("brokers come and go faster than they are read: {0}")]
    Registrations(ClientError),
    #[error("a read failed: {0}")]
    Read(#[from] ClientError),
    #[error("commands come no more")]
    Closed,
}

struct Work<'a> {
    shared: &'a Arc<Shared>,
    client: &'a Client,
    term: Term,
    core: Controller,
    office: Arc<Office>,
    suspects: mpsc::UnboundedReceiver<BrokerId>,
    submitted: mpsc::UnboundedReceiver<Submitted>,
    watches: Watches,
    /// What brokers were asked last about their logs.
    asked: Vec<LogQuestion>,
}

/// What there is to do.
enum Task {
    Submitted(Submitted),
    Brokers,
    Topics,
    /// Somebody wrote to this topic's node, or to any; most often it was the controller itself.
    TopicWritten(Option<String>),
    Deletions,
    Dial,
    Suspect(BrokerId),
    Balance,
    /// Brokers were asked for their logs, and this is what they said.
    Compared(Command),
}

impl Work<'_> {
    async fn go_on(&mut self) -> Doubt {
        loop {
            if let Err(doubt) = self.work().await {
                return doubt;
            }
        }
    }

    async fn work(&mut self) -> Result<(), Doubt> {
        let runtime = self.shared.runtime.clone();
        let interval = self.shared.settings.balance_interval;
        let mut next_balance = interval.map(|interval| runtime.now() + interval);
        // Where the controller before is gone, so is a broker: it is found out at once.
        let mut next_dial = runtime.now();
        // Brokers that are asked for their logs; commands go on meanwhile.
        let mut comparison: Option<BoxFuture<'static, Command>> = None;
        self.do_chores().await?;
        loop {
            if comparison.is_none() {
                comparison = self.ask_for_logs();
            }
            let compared = async {
                match &mut comparison {
                    Some(comparison) => comparison.await,
                    None => std::future::pending().await,
                }
            };
            let balance = async {
                match next_balance {
                    Some(deadline) => runtime.sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            let task = tokio::select! {
                biased;
                Some(suspect) = self.suspects.recv() => Task::Suspect(suspect),
                _ = self.watches.brokers.changed() => Task::Brokers,
                _ = self.watches.topics.changed() => Task::Topics,
                name = self.watches.written.next() => Task::TopicWritten(name),
                _ = self.watches.deletions.changed() => Task::Deletions,
                submitted = self.submitted.recv() => Task::Submitted(submitted.ok_or(Doubt::Closed)?),
                () = runtime.sleep_until(next_dial) => Task::Dial,
                compared = compared => Task::Compared(compared),
                () = balance => Task::Balance,
            };
            match task {
                Task::Balance => next_balance = interval.map(|interval| runtime.now() + interval),
                Task::Dial => next_dial = runtime.now() + SILENCE,
                Task::Compared(_) => comparison = None,
                _ => {}
            }
            self.perform(task).await?;
        }
    }

    async fn perform(&mut self, task: Task) -> Result<(), Doubt> {
        let mut reader = Reader::new(self.shared, self.client, self.term);
        let command = match task {
            Task::Submitted(Submitted { command, answer }) => {
                let outcome = self.carry_out(&command).await?;
                // Whoever asked may have gone.
                let _ = answer.send(outcome);
                return self.do_chores().await;
            }
            Task::Suspect(broker) => {
                self.office.polls.dial(self.shared, &self.office, broker);
                return Ok(());
            }
            Task::Dial => {
                self.office.polls.dial_silent(self.shared, &self.office);
                return Ok(());
            }
            Task::Brokers => self.read_brokers().await?,
            Task::Topics => {
                let (names, watch) = reader.topic_names().await?;
                self.watches.topics = watch;
                let image = self.core.image();
                let unknown: Vec<String> =
                    names.into_iter().filter(|name| image.topic(name).is_none()).collect();
                if unknown.is_empty() {
                    return Ok(());
                }
                Command::TopicsFound(reader.topics(&unknown).await?)
            }
            Task::TopicWritten(name) => {
                let names = name.map_or_else(|| self.core.topic_names(), |name| vec![name]);
                let versions = reader.topic_versions(&names).await?;
                let newer = versions.into_iter().filter(|(name, version)| self.core.is_newer(name, *version));
                let newer: Vec<String> = newer.map(|(name, _)| name).collect();
                if newer.is_empty() {
                    return Ok(());
                }
                Command::TopicsFound(reader.topics(&newer).await?)
            }
            Task::Deletions => {
                let (names, watch) = reader.deletions().await?;
                self.watches.deletions = watch;
                Command::DeletionsFound(names.into_iter().map(Arc::from).collect())
            }
            Task::Balance => match self.core.balance() {
                Some(command) => command,
                None => return Ok(()),
            },
            Task::Compared(command) => command,
        };
        self.do_own(&command).await?;
        self.do_chores().await
    }

    /// Asks brokers for their logs where the controller needs them.
    fn ask_for_logs(&mut self) -> Option<BoxFuture<'static, Command>> {
        let questions = self.core.questions();
        let is_repeated = !questions.is_empty() && questions == self.asked;
        self.asked.clone_from(&questions);
        if questions.is_empty() {
            return None;
        }
        let pause = if is_repeated { ASK_AGAIN } else { Duration::ZERO };
        Some(Box::pin(compare::compare(self.shared.clone(), questions, pause)))
    }

    /// Does what the controller has to do by itself, until all is in order.
    async fn do_chores(&mut self) -> Result<(), Doubt> {
        for _ in 0..CHORE_ROUNDS {
            let before = self.core.image().position;
            for chore in self.core.chores() {
                self.do_own(&chore).await?;
            }
            if self.core.image().position == before {
                break;
            }
        }
        Ok(())
    }

    async fn do_own(&mut self, command: &Command) -> Result<(), Doubt> {
        tell_refusal(command, self.carry_out(command).await?);
        Ok(())
    }

    async fn read_brokers(&mut self) -> Result<Command, Doubt> {
        let (brokers, watch) = Reader::new(self.shared, self.client, self.term).brokers().await?;
        self.watches.brokers = watch;
        Ok(Command::BrokersChanged(brokers))
    }

    /// Carries a command out. Where it counts on a broker whose registration has ended meanwhile, that is dealt with first.
    async fn carry_out(&mut self, command: &Command) -> Result<Answer, Doubt> {
        let mut rounds = 0;
        loop {
            match self.try_out(command).await {
                Err(Doubt::Registrations(error)) if rounds < STALE_ROUNDS => {
                    tracing::debug!(%error, "brokers have come or gone unseen");
                    rounds += 1;
                }
                done => return done,
            }
            let changed = self.read_brokers().await?;
            match self.try_out(&changed).await {
                // They changed again: they are read again.
                Err(Doubt::Registrations(_)) => {}
                done => tell_refusal(&changed, done?),
            }
        }
    }

    /// Plans a command and writes it, part by part where it is large.
    async fn try_out(&mut self, command: &Command) -> Result<Answer, Doubt> {
        loop {
            let plan = match self.core.plan(command) {
                Ok(plan) => plan,
                Err(error) => return Ok(Err(error)),
            };
            if plan.writes.is_empty() {
                assert!(!plan.unfinished, "a part of a command writes something");
                return Ok(Ok((plan.outcome, self.core.image().position)));
            }
            let zxid = self.write(&plan.writes).await?;
            self.core.commit(&plan, zxid);
            let image = self.core.image().clone();
            self.office.publish(&plan, image.clone());
            if !plan.unfinished {
                return Ok(Ok((plan.outcome, image.position)));
            }
        }
    }

    async fn write(&self, writes: &[Write]) -> Result<i64, Doubt> {
        let mut multi = Multi::new().check(layout::CONTROLLER_EPOCH, Some(self.term.epoch_version));
        for write in writes {
            multi = match write {
                Write::Create { path, data } => multi.create(NewNode::persistent(path).data(data)),
                Write::Set { path, data, version } => multi.set_data(path, Some(data), Some(*version)),
                Write::Delete { path, version } => multi.delete(path, *version),
                Write::Check { path, version } => multi.check(path, *version),
            };
        }
        match self.client.multi(&multi).await {
            Ok(reply) => Ok(reply.zxid.0),
            Err(error) => {
                if let ClientError::MultiFailed { index, code, .. } = &error {
                    let write = index.checked_sub(1).and_then(|index| writes.get(index));
                    if let Some(Write::Check { path, .. }) = write
                        && layout::is_of_registrations(path)
                    {
                        return Err(Doubt::Registrations(error));
                    }
                    tracing::warn!(%code, ?write, "a write of the controller was refused");
                }
                Err(Doubt::Write(error))
            }
        }
    }
}

/// The controller's own commands have nobody else who would hear of a refusal.
fn tell_refusal(command: &Command, answer: Answer) {
    if let Err(error) = answer {
        tracing::error!(%error, ?command, "the controller cannot do what it has to");
    }
}
