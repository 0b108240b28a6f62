//! DeleteTopics, and deletions that were asked for at the coordinator.
//!
//! A topic is deleted by one write, or, where its nodes are too many, it is first marked and leaves the image; then its
//! nodes go in parts, its own and the mark with the last. A controller that takes over goes on.

use super::{
    ControllerError, LoadedTopic, Outcome, Plan, Write, core::Controller, draft::Draft, layout, note::Note,
};
use crate::{
    metadata::MetadataDelta,
    types::{TopicId, TopicPartition},
};
use sillon_protocol::ErrorCode;
use std::sync::Arc;

impl Controller {
    pub(super) fn delete_topic(&self, id: TopicId) -> Result<Plan, ControllerError> {
        let known = self.image().topic_by_id(id).map(|(name, _)| name.clone());
        // Planned again, it is not in the image any more.
        let marked = || self.deletions.iter().find(|name| self.has_id(name, id)).cloned();
        let Some(name) = known.or_else(marked) else {
            let text = format!("There is no topic with id {id}.");
            return Err(ControllerError::new(ErrorCode::UNKNOWN_TOPIC_ID, text));
        };
        let mut draft = Draft::new(self);
        let is_marked = self.deletions.contains(&name);
        let over = self.delete(&mut draft, &name, is_marked);
        Ok(draft.finish(Outcome::Done, !over))
    }

    fn has_id(&self, name: &str, id: TopicId) -> bool {
        self.record(name).is_some_and(|record| record.node.0.id == Some(id))
    }

    pub(super) fn deletions_found(&self, names: &[Arc<str>]) -> Plan {
        let mut draft = Draft::new(self);
        for name in names {
            let is_known = self.record(name).is_some();
            let is_marked = self.deletions.contains(name);
            if !is_known && !is_marked && self.deleted.contains(name) {
                // The mark was read before this controller took it away.
                continue;
            }
            if draft.room() < 2 {
                return draft.finish(Outcome::Done, true);
            }
            if is_known && self.settings.file.delete_topics {
                if !self.delete(&mut draft, name, true) {
                    return draft.finish(Outcome::Done, true);
                }
            } else {
                // Nothing to delete, or deletion is switched off: only the mark goes.
                self.take_mark_away(&mut draft, name);
                if let Some(record) = self.record(name) {
                    draft.notes.push(Note::Record(name.clone(), Some(record.clone())));
                }
            }
        }
        draft.finish(Outcome::Done, false)
    }

    fn take_mark_away(&self, draft: &mut Draft<'_>, name: &Arc<str>) {
        draft.writes.push(Write::Delete { path: layout::deletion_path(name), version: None });
        draft.notes.push(Note::Deletion(name.clone(), false));
    }

    /// Deletes a topic's nodes, as far as they fit. Gives whether it is over then.
    fn delete(&self, draft: &mut Draft<'_>, name: &Arc<str>, is_marked: bool) -> bool {
        let mut record = self.record(name).expect("the caller knows the topic").as_ref().clone();
        if let Some(topic) = self.image().topic(name) {
            let states = (0..).zip(&topic.partitions);
            record.states.extend(states.map(|(index, state)| (index, Some(state.clone()))));
            draft.deltas.push(MetadataDelta::TopicGone { id: topic.id });
        }
        let below: usize = record.states.values().map(|state| if state.is_some() { 2 } else { 1 }).sum();
        if draft.room() < below + 4 && !is_marked {
            draft.writes.push(Write::Create { path: layout::deletion_path(name), data: Vec::new() });
        }
        let over = delete_partitions(draft, &mut record);
        if !over && is_marked && !self.deletions.contains(name) {
            // Whoever told of the mark read it some time ago: it must be there still.
            draft.writes.push(Write::Check { path: layout::deletion_path(name), version: Some(0) });
        }
        if over {
            self.delete_rest(draft, &record, is_marked);
        } else {
            draft.notes.push(Note::Record(name.clone(), Some(Arc::new(record))));
            draft.notes.push(Note::Deletion(name.clone(), true));
        }
        over
    }

    fn delete_rest(&self, draft: &mut Draft<'_>, record: &LoadedTopic, is_marked: bool) {
        let name = &record.name;
        if record.has_partitions {
            draft.writes.push(Write::Delete { path: layout::partitions_path(name), version: None });
        }
        draft.writes.push(Write::Delete { path: layout::topic_path(name), version: Some(record.node.1) });
        if let Some((_, version)) = &record.configs {
            let path = layout::topic_config_path(name);
            draft.writes.push(Write::Delete { path, version: Some(*version) });
        }
        draft.notes.push(Note::Record(name.clone(), None));
        if is_marked {
            self.take_mark_away(draft, name);
        }
    }
}

/// Deletes the partitions' nodes, the last one first. Gives whether none is left, and there is room for the rest.
fn delete_partitions(draft: &mut Draft<'_>, record: &mut LoadedTopic) -> bool {
    while let Some((index, state)) = record.states.last_key_value() {
        if draft.room() < 3 {
            return false;
        }
        let partition = TopicPartition { topic: record.name.clone(), partition: *index };
        if let Some(state) = state {
            let version = Some(state.partition_epoch.0);
            draft.writes.push(Write::Delete { path: layout::state_path(&partition), version });
        }
        draft.writes.push(Write::Delete { path: layout::partition_path(&partition), version: None });
        record.states.pop_last();
    }
    draft.room() >= 4
}
