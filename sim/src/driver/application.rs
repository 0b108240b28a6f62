//! A run in which a user's own program is the client: servers start, faults strike, the program works; when it asks for peace,
//! or when the time of faults is over, everything is healed; it ends when the program does. Owns that order, and the stage that
//! the program and the director of the run share.

use super::{
    Failure,
    agenda::Agenda,
    core,
    judges::Judges,
    phases::{Director, Passed},
};
use crate::{
    app::Simulation,
    faults::PlannedFault,
    world::{NodeId, World, boot, now_ns},
};
use sillon_runtime::BoxFuture;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// How long a cluster has to get up before the program and the faults begin.
const WARM_UP_NS: u64 = 5_000_000_000;

/// What a user's program comes to.
pub type Verdict = Result<(), String>;

/// A user's program.
#[derive(Clone)]
pub struct Program(pub Arc<dyn Fn(Simulation) -> BoxFuture<'static, Verdict> + Send + Sync>);

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

/// What the program and the director tell each other.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    state: Mutex<State>,
    /// The director has something to look at.
    news: Arc<Notify>,
    /// Faults are over.
    peace: Notify,
}

#[derive(Debug, Default)]
struct State {
    wants_peace: bool,
    is_peace: bool,
    verdict: Option<Verdict>,
    /// The user's own machines.
    machines: Vec<NodeId>,
}

impl Stage {
    fn new(news: Arc<Notify>) -> Arc<Stage> {
        Arc::new(Stage { news, ..Stage::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Faults end, and everything is whole.
    pub(crate) async fn peace(&self) {
        let at_peace = self.peace.notified();
        tokio::pin!(at_peace);
        at_peace.as_mut().enable();
        if self.is_peace() {
            return;
        }
        self.lock().wants_peace = true;
        self.news.notify_one();
        at_peace.await;
    }

    /// Whether faults are over.
    pub(crate) fn is_peace(&self) -> bool {
        self.lock().is_peace
    }

    /// A machine of the user's.
    pub(crate) fn add_machine(&self, node: NodeId) {
        self.lock().machines.push(node);
    }

    fn end(&self, verdict: Verdict) {
        self.lock().verdict = Some(verdict);
        self.news.notify_one();
    }

    fn is_over(&self) -> bool {
        self.lock().verdict.is_some()
    }
}

impl Director<'_> {
    /// Runs a user's program from its start to its end.
    pub(super) async fn application(
        &mut self,
        program: &Program,
        plan: &[PlannedFault],
        seed: u64,
    ) -> Passed {
        let config = self.cluster.config.clone();
        let servers = self.cluster.machines.count();
        let stage = Stage::new(self.cluster.news.clone());
        let test = self.test_machine(program, &stage, seed);
        self.enter("safety");
        for node in 0..servers {
            self.cluster.start(self.world, node);
        }
        // A program may expect the cluster that it is told of to be there.
        self.until(now_ns() + WARM_UP_NS, |_| false).await?;
        self.cluster.judges.calm(plan.is_empty());
        let start_ns = now_ns();
        self.agenda = Agenda::of_plan(plan, start_ns);
        self.world.start(test);
        let over = stage.clone();
        let until = move |_: &Judges| over.is_over() || over.lock().wants_peace;
        self.until(start_ns + config.safety_ns, until).await?;

        self.enter("heal");
        self.agenda.clear();
        self.healing = core::heal(self.world, &self.cluster);
        self.cluster.judges.calm(true);
        stage.lock().is_peace = true;
        stage.peace.notify_waiters();
        let over = stage.clone();
        self.until(now_ns() + config.liveness_ns, move |_| over.is_over()).await?;
        let verdict = stage.lock().verdict.take();
        match verdict {
            Some(Ok(())) => {}
            Some(Err(text)) => return Err(Failure::Application { at_ns: now_ns(), text }),
            None => {
                let text = format!(
                    "has not ended {} s after all faults were over",
                    config.liveness_ns / 1_000_000_000
                );
                return Err(Failure::Application { at_ns: now_ns(), text });
            }
        }
        self.enter("final");
        let machines = stage.lock().machines.clone();
        machines.into_iter().for_each(|node| self.world.kill(node));
        self.stop_servers().await?;
        self.cluster.judges.finish();
        self.look()
    }

    /// The machine that the program itself runs on: no fault strikes it.
    fn test_machine(&self, program: &Program, stage: &Arc<Stage>, seed: u64) -> NodeId {
        let (stage, program) = (stage.clone(), program.clone());
        let world: Arc<World> = self.world.clone();
        let machines = self.cluster.machines;
        self.world.clone().add_node(
            "test",
            boot(move |runtime| {
                let simulation = Simulation::new(&world, &stage, runtime, machines, seed);
                let (stage, verdict) = (stage.clone(), program.0(simulation));
                async move { stage.end(verdict.await) }
            }),
        )
    }
}
