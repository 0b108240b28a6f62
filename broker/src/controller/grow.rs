//! CreatePartitions: more partitions for a topic, laid where they would lie had the topic been created with them.

use super::{
    ControllerError, Outcome, Plan, Write,
    core::{Controller, unknown_topic},
    draft::Draft,
    layout,
    placement::{self, Start},
    topics::{MAX_PARTITIONS, check_size},
};
use crate::{metadata::TopicImage, types::BrokerId};
use sillon_protocol::ErrorCode;
use std::sync::Arc;

impl Controller {
    pub(super) fn create_partitions(
        &self,
        name: &Arc<str>,
        total: i32,
        assignment: Option<&[Vec<BrokerId>]>,
        validate_only: bool,
    ) -> Result<Plan, ControllerError> {
        let topic = self.image().topic(name).ok_or_else(|| unknown_topic(name))?;
        let record = self.record(name).expect("a topic in the image has its record");
        let mut draft = Draft::new(self);
        let announced = i32::try_from(record.node.0.replicas.len()).expect("bounded at creation");
        if announced == total && self.unfinished().contains(name) {
            let whole = validate_only || self.finish_topic(&mut draft, record.as_ref().clone());
            return Ok(draft.finish(Outcome::Done, !whole));
        }
        let refuse = |text: String| Err(ControllerError::new(ErrorCode::INVALID_PARTITIONS, text));
        if total < announced {
            return refuse(format!(
                "The topic {name} currently has {announced} partition(s); {total} would not be an increase."
            ));
        }
        if total == announced {
            return refuse(format!("Topic already has {announced} partition(s)."));
        }
        if total > MAX_PARTITIONS {
            return refuse(format!("Number of partitions must not be larger than {MAX_PARTITIONS}."));
        }
        let more = self.more_replicas(topic, announced, total, assignment)?;
        let mut record = record.as_ref().clone();
        record.node.0.replicas.extend((announced..).zip(more));
        let data = check_size(&record.node.0)?;
        if validate_only {
            return Ok(draft.finish(Outcome::Done, false));
        }
        draft.writes.push(Write::Set { path: layout::topic_path(name), data, version: record.node.1 });
        record.node.1 += 1;
        let whole = self.finish_topic(&mut draft, record);
        Ok(draft.finish(Outcome::Done, !whole))
    }

    fn more_replicas(
        &self,
        topic: &TopicImage,
        present: i32,
        total: i32,
        assignment: Option<&[Vec<BrokerId>]>,
    ) -> Result<Vec<Vec<BrokerId>>, ControllerError> {
        let brokers = &self.image().brokers;
        let count = |number: i32| usize::try_from(number).expect("not negative");
        let (present, more) = (count(present), count(total - present));
        let first: Vec<BrokerId> = topic.partitions[0].target_replicas().collect();
        if let Some(assignment) = assignment {
            if assignment.len() != more {
                let text = format!(
                    "Attempted to add {more} additional partition(s), but only {} assignment(s) were specified.",
                    assignment.len()
                );
                return Err(ControllerError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
            }
            placement::check_assignment(brokers, assignment, Some(first.len()), present)?;
            return Ok(assignment.to_vec());
        }
        // Goes on where the first partition says that the topic began.
        let began = brokers.keys().position(|id| *id >= first[0]).unwrap_or(0);
        let start = Start { first: began, shift: began, partition: present };
        placement::place(brokers, more, first.len(), start)
    }
}
