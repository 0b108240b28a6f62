//! Asking brokers how far their logs go, for the controller. Owns the way there and back; who leads then, and whether an
//! answer still counts, is the controller's to say.

use super::{link, shared::Shared};
use crate::{
    controller::{Command, LogAnswer, LogEnd, LogPlace, LogQuestion},
    join::join_all,
    types::{BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId},
};
use sillon_client::{Connection, ConnectionError};
use sillon_protocol::{
    ErrorCode,
    messages::{
        DescribeReplicasPartition, DescribeReplicasRequest, DescribeReplicasResponse, DescribeReplicasTopic,
    },
};
use std::{sync::Arc, time::Duration};

/// The pause before logs are asked for again, because somebody did not say all.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long a broker may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks all, and gives what they said as a command. Ends by itself, whatever becomes of them.
pub(super) async fn compare(shared: Arc<Shared>, questions: Vec<LogQuestion>, pause: Duration) -> Command {
    shared.runtime.sleep(pause).await;
    let asked = join_all(questions.iter().map(|question| ask(&shared, question)).collect()).await;
    Command::LogsCompared(asked.into_iter().flatten().collect())
}

/// What a broker says; none where it does not answer, or where another process of it does.
async fn ask(shared: &Shared, question: &LogQuestion) -> Option<LogAnswer> {
    let broker = question.broker;
    let response = match ask_once(shared, question).await? {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(%broker, %error, "a broker does not say how far its logs go");
            return None;
        }
    };
    if response.error_code != ErrorCode::NONE.code() || response.broker_epoch != question.broker_epoch.0 {
        let code = ErrorCode::from(response.error_code);
        tracing::debug!(%broker, %code, "another process answers for a broker's logs");
        return None;
    }
    let logs = response.topics.iter().flat_map(|topic| {
        let told = topic.partitions.iter().filter(|log| log.error_code == ErrorCode::NONE.code());
        told.map(|log| {
            let place = LogPlace {
                topic_id: TopicId(topic.topic_id),
                partition: log.partition_index,
                partition_epoch: PartitionEpoch(log.partition_epoch),
            };
            (place, LogEnd { epoch: LeaderEpoch(log.latest_epoch), end: Offset(log.log_end_offset) })
        })
    });
    Some(LogAnswer { broker, broker_epoch: question.broker_epoch, logs: logs.collect() })
}

async fn ask_once(
    shared: &Shared,
    question: &LogQuestion,
) -> Option<Result<DescribeReplicasResponse, ConnectionError>> {
    let address = address(shared, question.broker)?;
    let connection: Connection = match link::connect(shared, &address).await {
        Ok(connection) => connection,
        Err(error) => return Some(Err(error)),
    };
    let answer = connection.send_version(0, &request(question), ANSWER_TIMEOUT).await;
    connection.close();
    Some(answer)
}

/// Where the office's own metadata has the broker; none where it is gone.
fn address(shared: &Shared, broker: BrokerId) -> Option<link::Address> {
    let (host, port) = if broker == shared.broker_id() {
        shared.settings.own_address.clone()
    } else {
        let image = shared.office()?.newest();
        let endpoint = image.brokers.get(&broker)?.endpoint(&shared.settings.inter_broker_listener)?;
        (endpoint.host.clone(), endpoint.port)
    };
    Some(link::Address { host, port, is_certain: false })
}

fn request(question: &LogQuestion) -> DescribeReplicasRequest {
    let mut topics: Vec<DescribeReplicasTopic> = Vec::new();
    for place in &question.places {
        if topics.last().is_none_or(|topic| topic.topic_id != place.topic_id.0) {
            let topic_id = place.topic_id.0;
            topics.push(DescribeReplicasTopic { topic_id, ..DescribeReplicasTopic::default() });
        }
        let topic = topics.last_mut().expect("one was just added");
        topic.partitions.push(DescribeReplicasPartition {
            partition_index: place.partition,
            partition_epoch: place.partition_epoch.0,
        });
    }
    DescribeReplicasRequest { broker_epoch: question.broker_epoch.0, topics }
}
