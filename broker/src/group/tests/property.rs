//! Any sequence of events: what must hold of groups holds, and another coordinator finds in the log what was answered.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Event {
    Join { who: usize, is_known: bool, version: i16 },
    JoinStatic { instance: usize },
    Sync { who: usize, is_stale: bool },
    Heartbeat { who: usize },
    Leave { who: usize },
    Commit { who: usize, offset: i64 },
    Pass { seconds: u64 },
    CommitOne,
    RefuseOne,
    FailOver,
    DeleteGroup,
    DeleteTopic,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let who = 0..6usize;
    let event = prop_oneof![
        4 => (who.clone(), any::<bool>(), 3..6i16)
            .prop_map(|(who, is_known, version)| Event::Join { who, is_known, version }),
        2 => (0..2usize).prop_map(|instance| Event::JoinStatic { instance }),
        5 => (who.clone(), prop::bool::weighted(0.1))
            .prop_map(|(who, is_stale)| Event::Sync { who, is_stale }),
        3 => who.clone().prop_map(|who| Event::Heartbeat { who }),
        1 => who.clone().prop_map(|who| Event::Leave { who }),
        3 => (who, 0..100i64).prop_map(|(who, offset)| Event::Commit { who, offset }),
        3 => (0..15u64).prop_map(|seconds| Event::Pass { seconds }),
        6 => Just(Event::CommitOne),
        1 => Just(Event::RefuseOne),
        1 => Just(Event::FailOver),
        1 => Just(Event::DeleteGroup),
        1 => Just(Event::DeleteTopic),
    ];
    prop::collection::vec(event, 1..120)
}

/// What clients know, and what was promised to them.
#[derive(Default)]
struct Clients {
    ids: Vec<String>,
    generation: i32,
    waiting: Vec<Token>,
    /// Offset commits that wait.
    commits: Vec<(Token, i64)>,
    /// The last generation that was given its assignment.
    formed: i32,
}

impl Clients {
    fn id(&self, who: usize) -> String {
        self.ids.get(who % self.ids.len().max(1)).cloned().unwrap_or_default()
    }

    fn learn(&mut self, scene: &mut Scene) {
        for token in std::mem::take(&mut self.waiting) {
            match scene.answers.remove(&token) {
                None => self.waiting.push(token),
                Some(Answer::Joined(joined)) => {
                    if !joined.member_id.is_empty() && !self.ids.contains(&joined.member_id) {
                        self.ids.push(joined.member_id);
                    }
                    self.generation = self.generation.max(joined.generation_id);
                }
                Some(Answer::Synced(_)) => {}
                Some(Answer::Written(_)) => panic!("nobody asked for that"),
            }
        }
        let mut newest = None;
        for (token, offset) in std::mem::take(&mut self.commits) {
            match scene.answers.remove(&token) {
                None => self.commits.push((token, offset)),
                Some(Answer::Written(ErrorCode::NONE)) => newest = Some(offset),
                Some(Answer::Written(_)) => {}
                Some(other) => panic!("{other:?}"),
            }
        }
        let is_removed = scene.facts.iter().any(|fact| matches!(fact, GroupFact::OffsetRemoved { .. }));
        let shows = newest.is_none() || is_removed || scene.offset("t") == newest;
        assert!(shows, "what is acknowledged shows");
        for fact in std::mem::take(&mut scene.facts) {
            if matches!(fact, GroupFact::GroupRemoved { .. }) {
                self.formed = 0;
            }
            if let GroupFact::GenerationFormed { generation, .. } = &fact {
                assert!(generation.generation > self.formed, "I57: generations rise");
                self.formed = generation.generation;
                let members: BTreeSet<_> = generation.members.iter().map(|member| &member.member).collect();
                let instances: Vec<_> =
                    generation.members.iter().filter_map(|member| member.instance.as_ref()).collect();
                let distinct: BTreeSet<_> = instances.iter().collect();
                assert_eq!(members.len(), generation.members.len());
                assert_eq!(distinct.len(), instances.len(), "I59: one member for each instance");
                assert!(members.contains(&generation.leader));
            }
        }
    }
}

fn step(scene: &mut Scene, clients: &mut Clients, event: Event) {
    match event {
        Event::Join { who, is_known, version } => {
            let member = if is_known { clients.id(who) } else { String::new() };
            let token = scene.join(&Who { member, version, ..anybody() });
            clients.waiting.push(token);
        }
        Event::JoinStatic { instance: number } => {
            let token = scene.join(&instance(["one", "two"][number]));
            clients.waiting.push(token);
        }
        Event::Sync { who, is_stale } => {
            let ids = clients.ids.clone();
            let names: Vec<&str> = ids.iter().map(String::as_str).collect();
            let generation = clients.generation - i32::from(is_stale);
            let token = scene.sync(&clients.id(who), generation, &names);
            clients.waiting.push(token);
        }
        Event::Heartbeat { who } => {
            scene.heartbeat(&clients.id(who), None, clients.generation);
        }
        Event::Leave { who } => {
            scene.leave(&[(&clients.id(who), None)]);
        }
        Event::Commit { who, offset } => {
            let token = scene.commit(&clients.id(who), clients.generation, offset);
            clients.commits.push((token, offset));
        }
        Event::Pass { seconds } => scene.pass(Duration::from_secs(seconds)),
        Event::CommitOne if !scene.under_way.is_empty() => {
            scene.commit_one();
            scene.collect();
        }
        Event::RefuseOne => {
            if let Some((id, _)) = scene.under_way.pop_front() {
                let verdict = Verdict::Refused(ErrorCode::NOT_ENOUGH_REPLICAS);
                scene.shard.on_written(id, verdict, scene.now);
                scene.collect();
            }
        }
        Event::FailOver => {
            let before = scene.offset("t");
            scene.fail_over();
            assert_eq!(scene.offset("t"), before, "I38: what was answered is committed");
            clients.waiting.clear();
            clients.commits.clear();
        }
        Event::CommitOne => {}
        Event::DeleteGroup => {
            let token = scene.token();
            scene.shard.delete(GROUP, token, scene.now);
            scene.collect();
        }
        Event::DeleteTopic => {
            scene.shard.on_topic_deleted("t", scene.now);
            scene.collect();
        }
    }
    clients.learn(scene);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn groups_keep_their_promises(events in events()) {
        let mut scene = Scene::new();
        scene.commits_at_once = false;
        let mut clients = Clients::default();
        for event in events {
            step(&mut scene, &mut clients, event);
        }
        // Everybody is silent from here on: everything that waits comes to its end (I49).
        scene.commits_at_once = true;
        scene.commit_all();
        scene.pass(Duration::from_secs(1000));
        clients.learn(&mut scene);
        prop_assert!(clients.waiting.is_empty(), "somebody waits for ever");
        prop_assert!(clients.commits.is_empty());
        prop_assert_eq!(scene.size(), 0);
        let before = scene.offset("t");
        scene.fail_over();
        prop_assert_eq!(scene.offset("t"), before);
    }
}
