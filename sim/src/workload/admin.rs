//! The operator: deletes topics of its own and makes them again, has them grow, moves partitions, has leaders elected, changes
//! configuration; and tells the oracle what it was told. Owns when it does what; all that it asks may fail, and then it is
//! content.

use super::{AdminConfig, Chance, Shared, TopicPlan, directory::Directory, topics};
use crate::oracle::ClientEvent;
use sillon_broker::types::TopicPartition;
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterPartitionReassignmentsRequest, CreatePartitionsRequest, CreatePartitionsTopic, DeleteTopicState,
        DeleteTopicsRequest, ElectLeadersRequest, IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResource, IncrementalAlterableConfig, ReassignablePartition,
        ReassignableTopic,
    },
};
use sillon_runtime::{Monotonic, Runtime};
use std::{sync::Arc, time::Duration};

/// How often the flags that end the run are looked at, in case nothing else is to be done.
const LOOK: Duration = Duration::from_millis(200);
/// By so much a topic grows beyond the partitions that it is made with, at most.
const GROWTH_MAX: usize = 3;
/// Kafka's number for topics among the kinds of resources with a configuration.
const RESOURCE_TOPIC: i8 = 2;
/// In an ElectLeaders request: the preferred replica of each partition.
const ELECT_PREFERRED: i8 = 0;
/// In an IncrementalAlterConfigs request.
const CONFIG_SET: i8 = 0;
/// What is changed: it decides nothing that a client would notice.
const HARMLESS_KEY: &str = "index.interval.bytes";

/// What an operator does, in the order of [`AdminConfig::rates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Delete,
    Grow,
    Reassign,
    Elect,
    Configure,
}

const TASKS: [Task; 5] = [Task::Delete, Task::Grow, Task::Reassign, Task::Elect, Task::Configure];

struct Admin {
    shared: Arc<Shared>,
    chance: Chance,
    directory: Directory,
    /// When each task is due; never for those that are not asked for.
    due: [Option<Monotonic>; 5],
}

/// Works until faults are over; all of its topics are there then.
pub(super) async fn run(runtime: Runtime, client: u32, shared: Arc<Shared>, chance: Chance) {
    let mut directory = Directory::new(runtime, shared.clone(), format!("admin-{client}"));
    if !topics::create(&mut directory, &shared).await {
        return;
    }
    directory.refresh().await;
    let mut admin = Admin { shared, chance, directory, due: [None; 5] };
    for place in 0..TASKS.len() {
        admin.plan(place);
    }
    while !admin.shared.is_administering_over() && !admin.shared.is_stopped() {
        admin.directory.keep_fresh().await;
        match admin.next_due() {
            Some(place) => {
                admin.carry_out(TASKS[place]).await;
                admin.plan(place);
            }
            None => admin.directory.runtime.sleep(LOOK).await,
        }
    }
    topics::create(&mut admin.directory, &admin.shared).await;
}

impl Admin {
    fn now(&self) -> Monotonic {
        self.directory.runtime.now()
    }

    /// Draws when a task is due the next time.
    fn plan(&mut self, place: usize) {
        let per_minute = self.shared.admin.rates()[place];
        self.due[place] = (per_minute > 0.0).then(|| {
            let share = self.chance.draw("pause", 200, 1_800);
            let pause_ns = 60e9 / per_minute * share as f64 / 1e3;
            self.now() + Duration::from_nanos(pause_ns as u64)
        });
    }

    /// The task that has been due for longest.
    fn next_due(&self) -> Option<usize> {
        let now = self.now();
        let due = self.due.iter().enumerate().filter_map(|(place, due)| due.map(|due| (due, place)));
        due.filter(|(due, _)| *due <= now).min().map(|(_, place)| place)
    }

    async fn carry_out(&mut self, task: Task) {
        match task {
            Task::Delete => self.delete().await,
            Task::Grow => self.grow().await,
            Task::Reassign => self.reassign().await,
            Task::Elect => self.elect().await,
            Task::Configure => self.configure().await,
        }
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.shared.request_timeout().as_millis()).unwrap_or(i32::MAX)
    }

    fn tell(&self, event: ClientEvent) {
        (self.shared.events)(event);
    }

    /// One of the topics that come and go.
    fn own_topic(&self) -> Option<TopicPlan> {
        let own: Vec<&TopicPlan> = self.shared.topics.iter().filter(|plan| plan.comes_and_goes).collect();
        let last = (own.len() as u64).checked_sub(1)?;
        Some(own[self.chance.draw("topic", 0, last) as usize].clone())
    }

    fn some_partition(&self) -> TopicPartition {
        let partitions = self.directory.partitions();
        let index = self.chance.draw("partition", 0, partitions.len() as u64 - 1);
        partitions[index as usize].clone()
    }

    /// Deletes a topic, and makes it again after a while.
    async fn delete(&mut self) {
        let Some(plan) = self.own_topic() else { return };
        self.tell(ClientEvent::TopicDeleting { topic: plan.name.clone() });
        let request = DeleteTopicsRequest {
            topics: vec![DeleteTopicState { name: Some(plan.name.clone()), ..Default::default() }],
            topic_names: vec![plan.name.clone()],
            timeout_ms: self.timeout_ms(),
        };
        let response = self.directory.ask_any(&request).await;
        let is_gone = response.is_ok_and(|response| {
            response.responses.first().is_some_and(|topic| topic.error_code == ErrorCode::NONE.code())
        });
        if is_gone {
            self.tell(ClientEvent::TopicDeleted { topic: plan.name });
        }
        let pause_ms = self.chance.draw("until it is made again", 0, 2_000);
        self.directory.runtime.sleep(Duration::from_millis(pause_ms)).await;
        topics::create(&mut self.directory, &self.shared).await;
        self.directory.refresh().await;
    }

    async fn grow(&mut self) {
        let Some(plan) = self.own_topic() else { return };
        let count = self.directory.routes.partition_count(&plan.name);
        if count == 0 || count >= plan.partitions as usize + GROWTH_MAX {
            return;
        }
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic {
                name: plan.name,
                count: count as i32 + 1,
                assignments: None,
            }],
            timeout_ms: self.timeout_ms(),
            validate_only: false,
        };
        // Whoever asks for metadata next sees what has come of it.
        let _ = self.directory.ask_any(&request).await;
        self.directory.doubt();
    }

    /// Moves a partition to other brokers, or takes that back.
    async fn reassign(&mut self) {
        let partition = self.some_partition();
        let count = self.directory.routes.replicas(&partition).len();
        let mut brokers = self.directory.routes.brokers();
        if count == 0 || brokers.len() < count {
            return;
        }
        let takes_back = self.chance.draw("take back", 0, 3) == 0;
        for place in (1..brokers.len()).rev() {
            brokers.swap(place, self.chance.draw("replica", 0, place as u64) as usize);
        }
        brokers.truncate(count);
        let replicas = (!takes_back).then_some(brokers);
        let request = AlterPartitionReassignmentsRequest {
            timeout_ms: self.timeout_ms(),
            topics: vec![ReassignableTopic {
                name: partition.topic.to_string(),
                partitions: vec![ReassignablePartition {
                    partition_index: partition.partition,
                    replicas: replicas.clone(),
                }],
            }],
            ..AlterPartitionReassignmentsRequest::default()
        };
        let Ok(response) = self.directory.ask_any(&request).await else { return };
        let result = response.responses.first().and_then(|topic| topic.partitions.first());
        let has_begun = result.is_some_and(|partition| partition.error_code == ErrorCode::NONE.code());
        if response.error_code == ErrorCode::NONE.code() && has_begun {
            let replicas = replicas.map(|list| list.into_iter().map(i32::unsigned_abs).collect::<Vec<u32>>());
            self.tell(ClientEvent::Reassigning { partition, replicas });
        }
    }

    async fn elect(&mut self) {
        let request = ElectLeadersRequest {
            election_type: ELECT_PREFERRED,
            topic_partitions: None,
            timeout_ms: self.timeout_ms(),
        };
        let _ = self.directory.ask_any(&request).await;
    }

    async fn configure(&mut self) {
        let topic = self.some_partition().topic.to_string();
        let value = self.chance.draw("value", 512, 8_192);
        let request = IncrementalAlterConfigsRequest {
            resources: vec![IncrementalAlterConfigsResource {
                resource_type: RESOURCE_TOPIC,
                resource_name: topic,
                configs: vec![IncrementalAlterableConfig {
                    name: HARMLESS_KEY.into(),
                    config_operation: CONFIG_SET,
                    value: Some(value.to_string()),
                }],
            }],
            validate_only: false,
        };
        let _ = self.directory.ask_any(&request).await;
    }
}

impl AdminConfig {
    /// The topics of its own that an operator has, beside those of a plan.
    pub fn topics_beside(&self, like: &TopicPlan) -> Vec<TopicPlan> {
        let plan =
            |number| TopicPlan { name: format!("come-{number}"), comes_and_goes: true, ..like.clone() };
        (0..self.topics).map(plan).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_operator_where_something_is_to_be_done() {
        assert!(!AdminConfig { topics: 2, ..AdminConfig::default() }.is_there());
        let config = AdminConfig { elections_per_minute: 1.0, ..AdminConfig::default() };
        assert!(config.is_there());
        let place = config.rates().iter().position(|rate| *rate > 0.0);
        assert_eq!(place.map(|place| TASKS[place]), Some(Task::Elect));
    }

    #[test]
    fn its_topics_are_like_the_others_but_come_and_go() {
        let like = TopicPlan {
            name: "sim-0".into(),
            partitions: 2,
            replication_factor: 3,
            comes_and_goes: false,
            properties: Default::default(),
        };
        let own = AdminConfig { topics: 2, ..AdminConfig::default() }.topics_beside(&like);
        assert_eq!(own.iter().map(|plan| &*plan.name).collect::<Vec<_>>(), ["come-0", "come-1"]);
        assert!(own.iter().all(|plan| plan.comes_and_goes && plan.replication_factor == 3));
    }
}
