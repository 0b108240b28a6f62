//! What members of groups do and see, as they tell it to the oracle. Owns the words.

use crate::oracle::RecordId;
use serde::{Deserialize, Serialize};
use sillon_broker::types::TopicPartition;

/// When a member commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// After it has processed: nothing is left out, some is processed twice.
    #[default]
    AtLeastOnce,
    /// Before it processes, and only what was confirmed: nothing is processed twice, some is left out.
    AtMostOnce,
}

/// One thing.
#[derive(Clone, Debug)]
pub enum GroupEvent {
    /// A member begins.
    Started {
        /// The group.
        group: String,
        /// The client's number.
        member: u32,
        /// What the user named it.
        instance: Option<String>,
    },
    /// A member is gone, with or without a word to its group.
    Ended {
        /// The group.
        group: String,
        /// The client's number.
        member: u32,
    },
    /// A member gives up what it had, because the group went on without it.
    Lost {
        /// The group.
        group: String,
        /// How the group knew it: its member id and the generation.
        identity: (String, i32),
        /// It has itself taken longer between two polls than it may.
        was_slow: bool,
    },
    /// The run is over: members go, and the group comes to no rest any more.
    Closing {
        /// The group.
        group: String,
    },
    /// Offsets are about to be committed.
    Committing {
        /// The group.
        group: String,
        /// Which.
        offsets: Vec<(TopicPartition, i64)>,
    },
    /// The member was told that they are.
    Confirmed {
        /// The group.
        group: String,
        /// Which.
        offsets: Vec<(TopicPartition, i64)>,
    },
    /// A member was told what is committed for a partition.
    Fetched {
        /// The group.
        group: String,
        /// The partition.
        partition: TopicPartition,
        /// The offset; none where there is none.
        offset: Option<i64>,
        /// When it asked, on the one true clock.
        asked_ns: u64,
    },
    /// A record is processed.
    Processed {
        /// The group.
        group: String,
        /// The client's number.
        member: u32,
        /// Where it was read.
        partition: TopicPartition,
        /// Its offset.
        offset: i64,
        /// Which it is.
        record: RecordId,
    },
}
