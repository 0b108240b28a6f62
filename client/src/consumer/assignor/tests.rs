//! What holds for every assignor, and what each is known for.

use super::*;

fn members(subscriptions: &[(&str, &[&str])]) -> Members {
    let member = |topics: &[&str]| MemberSubscription {
        topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
        ..MemberSubscription::default()
    };
    subscriptions.iter().map(|(id, topics)| ((*id).to_owned(), member(topics))).collect()
}

fn counts(topics: &[(&str, i32)]) -> PartitionCounts {
    topics.iter().map(|(topic, count)| (Arc::from(*topic), *count)).collect()
}

fn told(assignment: &Assignment) -> String {
    let part = |parts: &BTreeSet<TopicPartition>| {
        parts.iter().map(TopicPartition::to_string).collect::<Vec<_>>().join(" ")
    };
    assignment.iter().map(|(id, parts)| format!("{id}: {}", part(parts))).collect::<Vec<_>>().join("; ")
}

/// The same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn random_group(numbers: &mut Numbers, same: bool) -> (Members, PartitionCounts) {
    let topics: Vec<Arc<str>> = (0..=numbers.below(5)).map(|topic| format!("t{topic}").into()).collect();
    let counts = topics.iter().map(|topic| (topic.clone(), numbers.below(9) as i32)).collect();
    let mut members = Members::new();
    for member in 0..=numbers.below(6) {
        let wanted = topics.iter().filter(|_| same || numbers.below(3) > 0).cloned().collect();
        let static_member = numbers.below(3) == 0;
        let group_instance_id = static_member.then(|| format!("i{}", 9 - member));
        let subscription =
            MemberSubscription { topics: wanted, group_instance_id, ..MemberSubscription::default() };
        members.insert(format!("m{member}"), subscription);
    }
    (members, counts)
}

fn all() -> [&'static dyn Assignor; 4] {
    [&RangeAssignor, &RoundRobinAssignor, &StickyAssignor, &CooperativeStickyAssignor]
}

/// I54 and I55.
fn check(name: &str, members: &Members, counts: &PartitionCounts, assignment: &Assignment) {
    assert!(assignment.keys().eq(members.keys()), "{name}: every member hears of its part");
    let mut owners: BTreeMap<&TopicPartition, &String> = BTreeMap::new();
    for (id, parts) in assignment {
        for partition in parts {
            assert!(members[id].topics.contains(&partition.topic), "{name}: {id} does not want {partition}");
            assert!((0..counts[&partition.topic]).contains(&partition.partition), "{name}: {partition}");
            let other = owners.insert(partition, id);
            assert!(other.is_none(), "{name}: {partition} is {id}'s and {other:?}'s");
        }
    }
    for (topic, count) in counts {
        let wanted = members.values().any(|member| member.topics.contains(topic));
        for partition in 0..if wanted { *count } else { 0 } {
            let partition = TopicPartition { topic: topic.clone(), partition };
            assert!(owners.contains_key(&partition), "{name}: {partition} is nobody's");
        }
    }
}

fn spread(sizes: impl Iterator<Item = usize> + Clone) -> usize {
    sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0)
}

#[test]
fn each_partition_goes_to_exactly_one_member_that_wants_it() {
    for seed in 0..150 {
        for same in [true, false] {
            let (members, counts) = random_group(&mut Numbers(seed), same);
            for assignor in all() {
                check(assignor.name(), &members, &counts, &assignor.assign(&members, &counts));
            }
        }
    }
}

#[test]
fn with_the_same_subscriptions_nobody_has_two_more_than_another() {
    for seed in 0..150 {
        let (members, counts) = random_group(&mut Numbers(seed), true);
        for assignor in [&RoundRobinAssignor as &dyn Assignor, &StickyAssignor, &CooperativeStickyAssignor] {
            let assignment = assignor.assign(&members, &counts);
            assert!(
                spread(assignment.values().map(BTreeSet::len)) <= 1,
                "{}: {}",
                assignor.name(),
                told(&assignment)
            );
        }
        let assignment = RangeAssignor.assign(&members, &counts);
        for topic in counts.keys() {
            let of_topic =
                |parts: &BTreeSet<TopicPartition>| parts.iter().filter(|part| part.topic == *topic).count();
            assert!(spread(assignment.values().map(of_topic)) <= 1, "{}", told(&assignment));
        }
    }
}

#[test]
fn range_and_round_robin_give_what_javas_give() {
    let two = members(&[("c0", &["t0", "t1"]), ("c1", &["t0", "t1"])]);
    let topics = counts(&[("t0", 3), ("t1", 3)]);
    assert_eq!(told(&RangeAssignor.assign(&two, &topics)), "c0: t0-0 t0-1 t1-0 t1-1; c1: t0-2 t1-2");
    assert_eq!(told(&RoundRobinAssignor.assign(&two, &topics)), "c0: t0-0 t0-2 t1-1; c1: t0-1 t1-0 t1-2");
    let different = members(&[("c0", &["t0"]), ("c1", &["t0", "t1"]), ("c2", &["t0", "t1", "t2"])]);
    let topics = counts(&[("t0", 1), ("t1", 2), ("t2", 3)]);
    let expected = "c0: t0-0; c1: t1-0; c2: t1-1 t2-0 t2-1 t2-2";
    assert_eq!(told(&RoundRobinAssignor.assign(&different, &topics)), expected);
}

#[test]
fn static_members_come_first_by_their_instance_ids() {
    let mut members = members(&[("a", &["t"]), ("b", &["t"]), ("c", &["t"])]);
    members.get_mut("c").expect("there").group_instance_id = Some("x".to_owned());
    members.get_mut("b").expect("there").group_instance_id = Some("y".to_owned());
    let assignment = RangeAssignor.assign(&members, &counts(&[("t", 5)]));
    assert_eq!(told(&assignment), "a: t-4; b: t-2 t-3; c: t-0 t-1");
}

/// The members, after they got this in this generation.
fn after(members: &Members, assignor: &dyn Assignor, assignment: &Assignment, generation: i32) -> Members {
    let mut members = members.clone();
    for (id, member) in &mut members {
        member.owned = assignment.get(id).cloned().unwrap_or_default();
        member.generation = Some(generation);
        member.user_data = assignor.user_data(&member.owned, Some(generation));
    }
    members
}

/// How many partitions have another owner, of those that had one before and had not to lose it.
fn moved(before: &Assignment, now: &Assignment) -> usize {
    before
        .iter()
        .map(|(id, parts)| {
            parts.iter().filter(|part| now.get(id).is_some_and(|now| !now.contains(*part))).count()
        })
        .sum()
}

#[test]
fn sticky_assignors_move_nothing_when_nothing_changes() {
    for seed in 0..150 {
        for same in [true, false] {
            let (members, counts) = random_group(&mut Numbers(seed), same);
            for assignor in [&StickyAssignor as &dyn Assignor, &CooperativeStickyAssignor] {
                let first = assignor.assign(&members, &counts);
                let second = assignor.assign(&after(&members, assignor, &first, 1), &counts);
                assert_eq!(first, second, "{} seed {seed}", assignor.name());
            }
        }
    }
}

#[test]
fn one_who_joins_or_leaves_moves_no_more_than_its_share() {
    for seed in 0..100 {
        let (members, counts) = random_group(&mut Numbers(seed), true);
        let first = StickyAssignor.assign(&members, &counts);
        let mut more = after(&members, &StickyAssignor, &first, 1);
        let topics = counts.keys().cloned().collect();
        more.insert("new".to_owned(), MemberSubscription { topics, ..MemberSubscription::default() });
        let second = StickyAssignor.assign(&more, &counts);
        check("sticky", &more, &counts, &second);
        let partitions: i32 = counts.values().sum();
        let share = usize::try_from(partitions).expect("not negative").div_ceil(more.len());
        assert!(moved(&first, &second) <= share, "seed {seed}: {} then {}", told(&first), told(&second));
        assert!(spread(second.values().map(BTreeSet::len)) <= 1);
        let mut fewer = after(&more, &StickyAssignor, &second, 2);
        fewer.remove("new");
        let third = StickyAssignor.assign(&fewer, &counts);
        assert_eq!(
            moved(&second, &third),
            0,
            "only what the one who left had: {} then {}",
            told(&second),
            told(&third)
        );
    }
}

#[test]
fn cooperative_gives_to_nobody_what_somebody_still_reads() {
    for seed in 0..100 {
        let (members, counts) = random_group(&mut Numbers(seed), true);
        let first = CooperativeStickyAssignor.assign(&members, &counts);
        let mut more = after(&members, &CooperativeStickyAssignor, &first, 1);
        let topics: BTreeSet<Arc<str>> = counts.keys().cloned().collect();
        more.insert("new".to_owned(), MemberSubscription { topics, ..MemberSubscription::default() });
        let second = CooperativeStickyAssignor.assign(&more, &counts);
        for (id, parts) in &second {
            for (other, member) in &more {
                assert!(other == id || parts.is_disjoint(&member.owned), "seed {seed}: {}", told(&second));
            }
        }
        // What was given up is given on in the next rebalance, and then all is even.
        let mut settled = more.clone();
        for (id, member) in &mut settled {
            member.owned = second[id].clone();
            member.generation = Some(2);
        }
        let third = CooperativeStickyAssignor.assign(&settled, &counts);
        check("cooperative-sticky", &settled, &counts, &third);
        assert_eq!(moved(&second, &third), 0);
        assert!(spread(third.values().map(BTreeSet::len)) <= 1);
    }
}

#[test]
fn who_missed_a_generation_is_not_believed() {
    let mut members = members(&[("late", &["t"]), ("now", &["t"])]);
    let part = |partition| TopicPartition::new("t", partition);
    let claim = |owned: &[i32], generation| {
        (owned.iter().map(|number| part(*number)).collect::<BTreeSet<_>>(), Some(generation))
    };
    for (id, owned, generation) in [("late", &[0, 1][..], 3), ("now", &[1, 2, 3][..], 4)] {
        let member = members.get_mut(id).expect("there");
        (member.owned, member.generation) = claim(owned, generation);
        member.user_data = StickyAssignor.user_data(&member.owned, member.generation);
    }
    let assignment = StickyAssignor.assign(&members, &counts(&[("t", 4)]));
    assert!(
        assignment["late"].contains(&part(0)) && assignment["now"].contains(&part(1)),
        "{}",
        told(&assignment)
    );
    let assignment = CooperativeStickyAssignor.assign(&members, &counts(&[("t", 4)]));
    assert!(!assignment["late"].contains(&part(1)), "{}", told(&assignment));
}
