//! What the leader of a group watches: that every partition of the group's topics is given to somebody, and stays so. Pure:
//! partition counts and the time in, whether the group has to form anew out. Never talks to anybody.
//!
//! A cooperative assignment holds back what somebody still has, until that member has given it up and joined again
//! (KIP-429). A static member that dies before it does comes back without a rebalance (KIP-345) and has nothing to give up:
//! nobody would ask for what was held back. So the leader asks, once a session timeout has passed.
//!
//! A leader that comes back under its own name is given no say either (KIP-814). What it once gave out stands in the user
//! data of its own assignment, which the coordinator keeps; members of other make pass over it.

use super::assignor::{Assignment, PartitionCounts};
use bytes::Bytes;
use sillon_protocol::{
    messages::{decode_versioned, encode_versioned},
    schema,
    wire::{EncodeError, Message},
};
use sillon_runtime::Monotonic;
use std::{collections::BTreeSet, sync::Arc};

schema! {
    /// How much of each topic a leader gave out.
    pub struct GivenOut (versions 0..=0, flexible ..0) {
        /// The topics.
        topics: Vec<GivenOutTopic>;
    }

    /// How much of one topic.
    pub struct GivenOutTopic {
        /// Topic name.
        topic: String;
        /// How many of its partitions.
        partitions: i32;
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    /// The topics of all members.
    topics: BTreeSet<Arc<str>>,
    /// How many partitions each had when they were assigned.
    counts: PartitionCounts,
    /// How many of them were given to somebody.
    given: PartitionCounts,
    /// When everything has to be given.
    given_by: Monotonic,
}

impl Watch {
    /// Of a leader that has just assigned partitions of these topics, and may have held some back until `given_by`.
    pub(super) fn assigned(
        topics: BTreeSet<Arc<str>>,
        counts: PartitionCounts,
        assignment: &Assignment,
        given_by: Monotonic,
    ) -> Watch {
        let mut given = PartitionCounts::new();
        for partition in assignment.values().flatten() {
            *given.entry(partition.topic.clone()).or_default() += 1;
        }
        Watch { topics, counts, given, given_by }
    }

    /// Of a leader that is back under its name, and was given this user data, its own of before. Where a client of other
    /// make led under that name and left nothing, all that there is now counts as given.
    pub(super) fn inherited(topics: BTreeSet<Arc<str>>, counts: PartitionCounts, user_data: &Bytes) -> Watch {
        let given = read(user_data).unwrap_or(counts);
        // Whoever has to give something up may be about to join: nobody is any the worse if the leader does too.
        Watch { topics, counts: given.clone(), given, given_by: Monotonic::default() }
    }

    /// What the leader writes to itself.
    pub(super) fn user_data(&self) -> Result<Bytes, EncodeError> {
        let topics = self
            .given
            .iter()
            .map(|(topic, partitions)| GivenOutTopic { topic: topic.to_string(), partitions: *partitions })
            .collect();
        encode_versioned(&GivenOut { topics }, *GivenOut::VERSIONS.end())
    }

    /// The topics of all members.
    pub(super) fn topics(&self) -> &BTreeSet<Arc<str>> {
        &self.topics
    }

    /// When to look again, even if nothing has been heard of the topics.
    pub(super) fn look_at(&self, now: Monotonic) -> Option<Monotonic> {
        (self.given != self.counts && self.given_by > now).then_some(self.given_by)
    }

    /// Whether the group has to form anew, where its topics have this many partitions now.
    pub(super) fn is_outdated(&self, counts: &PartitionCounts, now: Monotonic) -> bool {
        let expected = if self.given_by > now { &self.counts } else { &self.given };
        counts != expected
    }
}

fn read(user_data: &Bytes) -> Option<PartitionCounts> {
    let found: GivenOut = decode_versioned(user_data).ok()?;
    // What a leader like this one would not have written is none of its own.
    encode_versioned(&found, *GivenOut::VERSIONS.end()).ok().filter(|own| own == user_data)?;
    Some(found.topics.iter().map(|topic| (Arc::from(topic.topic.as_str()), topic.partitions)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::TopicPartition;
    use std::collections::BTreeMap;

    const DUE: Monotonic = Monotonic(10);

    fn counts(count: i32) -> PartitionCounts {
        [(Arc::from("t"), count)].into()
    }

    /// Of a leader that gave out so many of three partitions.
    fn watch(given: i32) -> Watch {
        let assignment = BTreeMap::from([
            ("a".to_owned(), (0..1).map(|number| TopicPartition::new("t", number)).collect()),
            ("b".to_owned(), (1..given).map(|number| TopicPartition::new("t", number)).collect()),
        ]);
        Watch::assigned([Arc::from("t"), Arc::from("u")].into(), counts(3), &assignment, DUE)
    }

    #[test]
    fn what_is_held_back_is_asked_for_when_its_time_is_over() {
        let watch = watch(2);
        assert_eq!(
            (watch.look_at(Monotonic(9)), watch.is_outdated(&counts(3), Monotonic(9))),
            (Some(DUE), false)
        );
        assert_eq!((watch.look_at(DUE), watch.is_outdated(&counts(3), DUE)), (None, true));
    }

    #[test]
    fn where_everything_is_given_time_changes_nothing() {
        let watch = watch(3);
        assert_eq!((watch.look_at(Monotonic(9)), watch.is_outdated(&counts(3), DUE)), (None, false));
    }

    #[test]
    fn a_change_of_the_topics_is_seen_at_once() {
        for watch in [watch(2), watch(3)] {
            assert!(watch.is_outdated(&counts(4), Monotonic(1)));
            let mut one_more = counts(3);
            one_more.insert(Arc::from("u"), 1);
            assert!(watch.is_outdated(&one_more, Monotonic(1)));
            assert!(watch.is_outdated(&PartitionCounts::new(), Monotonic(1)));
        }
    }

    #[test]
    fn a_leader_that_comes_back_knows_what_it_gave() {
        let back = |given, count| {
            let user_data = watch(given).user_data().expect("it fits");
            let back = Watch::inherited(watch(given).topics, counts(count), &user_data);
            back.is_outdated(&counts(count), Monotonic(1))
        };
        assert!(back(2, 3), "one was held back");
        assert!(!back(3, 3));
        assert!(back(3, 4), "the topic has grown meanwhile");
    }

    #[test]
    fn what_others_wrote_says_nothing() {
        let whole = watch(2).user_data().expect("it fits");
        let other_version = [&[0, 1], &whole[2..]].concat().into();
        let cases =
            [Bytes::new(), whole.slice(..whole.len() - 1), [&whole[..], &[0]].concat().into(), other_version];
        for user_data in cases {
            let back = Watch::inherited(watch(2).topics, counts(3), &user_data);
            assert!(!back.is_outdated(&counts(3), Monotonic(1)), "{user_data:?}");
            assert!(back.is_outdated(&counts(4), Monotonic(1)), "it watches all the same");
        }
    }
}
