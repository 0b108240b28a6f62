//! Reading at the coordinator what a controller has to know, many nodes at a time. Owns which nodes are read; what they
//! mean is the controller's.

use super::{
    election::{ElectionError, Term},
    session::insist,
    shared::Shared,
};
use crate::{
    controller::{LoadedNode, LoadedState, LoadedTopic, layout},
    metadata::BrokerImage,
    types::{BrokerId, TopicId, Uuid},
};
use sillon_coordinator::client::{Client, ClientError, DataAndStat, Notice, Pending, PersistentWatch, Watch};
use sillon_protocol::zookeeper::{AddWatchMode, ErrorCode, EventType};
use std::{collections::BTreeMap, sync::Arc};

/// So many reads are on their way at a time.
const AT_A_TIME: usize = 1000;

/// The controller's watches at the coordinator.
pub(super) struct Watches {
    pub(super) brokers: Watch,
    pub(super) topics: Watch,
    pub(super) written: Written,
    pub(super) deletions: Watch,
}

/// A watch for writes to topics' own nodes: Kafka's tools with `--zookeeper` add partitions there.
pub(super) struct Written {
    /// None where the coordinator has no watches that stay: then such partitions are found by the next controller.
    watch: Option<PersistentWatch>,
}

impl Written {
    async fn set(shared: &Shared, client: &Client) -> Result<Written, ClientError> {
        let set = || client.add_watch(layout::TOPICS, AddWatchMode::PersistentRecursive);
        match insist(&shared.runtime, set).await {
            Ok(reply) => Ok(Written { watch: Some(reply.value) }),
            Err(error) if error.code().is_some() => {
                tracing::debug!(%error, "writes to topics' nodes are not watched");
                Ok(Written { watch: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The topic whose node is written to next; none where it may have been any. Nothing is lost when this is cancelled.
    pub(super) async fn next(&mut self) -> Option<String> {
        let Some(watch) = &mut self.watch else { return std::future::pending().await };
        loop {
            match watch.next().await {
                Ok(Notice::Gap) => return None,
                Ok(Notice::Changed(event)) if event.event_type == EventType::NodeDataChanged => {
                    let name =
                        event.path.strip_prefix(layout::TOPICS).and_then(|rest| rest.strip_prefix('/'));
                    if let Some(name) = name.filter(|name| !name.contains('/')) {
                        return Some(name.to_owned());
                    }
                }
                Ok(Notice::Changed(_)) => {}
                // The session is over, and with it the term.
                Err(_) => return std::future::pending().await,
            }
        }
    }
}

/// Reads for one session, which remember the last transaction that an answer has seen.
pub(super) struct Reader<'a> {
    shared: &'a Shared,
    client: &'a Client,
    term: Term,
    version: i64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(shared: &'a Shared, client: &'a Client, term: Term) -> Reader<'a> {
        Reader { shared, client, term, version: 0 }
    }

    /// Reads many nodes; none for those that do not exist.
    async fn many<T: Unpin + 'static>(
        &mut self,
        paths: &[String],
        read: impl Fn(&Client, &str) -> Pending<T>,
    ) -> Result<Vec<Option<T>>, ClientError> {
        let mut found = Vec::with_capacity(paths.len());
        for paths in paths.chunks(AT_A_TIME) {
            let pending: Vec<_> = paths.iter().map(|path| read(self.client, path)).collect();
            for (path, pending) in paths.iter().zip(pending) {
                let answer = match pending.await {
                    Err(error) if error.code().is_none() => {
                        insist(&self.shared.runtime, || read(self.client, path)).await
                    }
                    answer => answer,
                };
                found.push(match answer {
                    Ok(reply) => {
                        self.version = self.version.max(reply.zxid.0);
                        Some(reply.value)
                    }
                    Err(error) if error.code() == Some(ErrorCode::NoNode) => None,
                    Err(error) => return Err(error),
                });
            }
        }
        Ok(found)
    }

    /// Reads the nodes of these paths, as far as they exist.
    async fn nodes(&mut self, paths: &[String]) -> Result<Vec<LoadedNode>, ClientError> {
        let found = self.many(paths, |client, path| client.get_data(path)).await?;
        let nodes = paths.iter().zip(found).filter_map(|(path, node)| Some(loaded(path, node?)));
        Ok(nodes.collect())
    }

    /// The names below a node, sorted, and a watch for the next that comes or goes.
    async fn names_watched(&mut self, parent: &str) -> Result<(Vec<String>, Watch), ClientError> {
        let reply = insist(&self.shared.runtime, || self.client.get_children_watched(parent)).await?;
        self.version = self.version.max(reply.zxid.0);
        let (children, watch) = reply.value;
        Ok((sorted(children.names), watch))
    }

    /// The paths of the nodes below a node, sorted.
    async fn below(&mut self, parent: &str) -> Result<Vec<String>, ClientError> {
        let names = self.many(&[parent.to_owned()], |client, path| client.get_children(path)).await?;
        let names = sorted(names.into_iter().flatten().flatten().collect());
        Ok(paths(parent, &names))
    }

    fn assemble(&self, nodes: Vec<LoadedNode>) -> LoadedState {
        let runtime = &self.shared.runtime;
        let mut fresh_id = || {
            let mut bytes = [0; 16];
            runtime.fill_random(&mut bytes);
            TopicId(Uuid::from_bytes(bytes))
        };
        let (broker, epoch) = (self.shared.broker_id(), self.term.epoch);
        let state = LoadedState::assemble(broker, epoch, self.version, nodes, &mut fresh_id);
        for error in &state.damaged {
            tracing::error!(%error, "a node at the coordinator makes no sense");
        }
        state
    }

    async fn broker_nodes(&mut self) -> Result<(Vec<LoadedNode>, Watch), ClientError> {
        let (names, watch) = self.names_watched(layout::BROKER_IDS).await?;
        Ok((self.nodes(&paths(layout::BROKER_IDS, &names)).await?, watch))
    }

    async fn topic_nodes(&mut self, names: &[String]) -> Result<Vec<LoadedNode>, ClientError> {
        let topics = paths(layout::TOPICS, names);
        let mut nodes = self.nodes(&topics).await?;
        let parents: Vec<String> = names.iter().map(|name| layout::partitions_path(name)).collect();
        let children = self.many(&parents, |client, path| client.get_children(path)).await?;
        let mut states = Vec::new();
        for (parent, children) in parents.into_iter().zip(children) {
            let Some(children) = children else { continue };
            for partition in paths(&parent, &sorted(children)) {
                states.push(format!("{partition}/state"));
                nodes.push(bare(partition));
            }
            nodes.push(bare(parent));
        }
        nodes.extend(self.nodes(&states).await?);
        Ok(nodes)
    }

    /// The registered brokers, and a watch for the next that comes or goes.
    pub(super) async fn brokers(
        &mut self,
    ) -> Result<(BTreeMap<BrokerId, Arc<BrokerImage>>, Watch), ClientError> {
        let (nodes, watch) = self.broker_nodes().await?;
        Ok((self.assemble(nodes).brokers, watch))
    }

    /// The names of the topics, and a watch for the next that comes or goes.
    pub(super) async fn topic_names(&mut self) -> Result<(Vec<String>, Watch), ClientError> {
        self.names_watched(layout::TOPICS).await
    }

    /// The topics that somebody asked to delete, and a watch for the next.
    pub(super) async fn deletions(&mut self) -> Result<(Vec<String>, Watch), ClientError> {
        self.names_watched(layout::DELETE_TOPICS).await
    }

    /// The versions of these topics' nodes, as far as they exist.
    pub(super) async fn topic_versions(
        &mut self,
        names: &[String],
    ) -> Result<Vec<(String, i32)>, ClientError> {
        let topics = paths(layout::TOPICS, names);
        let found = self.many(&topics, |client, path| client.exists(path)).await?;
        let found = names.iter().zip(found).filter_map(|(name, stat)| Some((name.clone(), stat??.version)));
        Ok(found.collect())
    }

    /// The topics of these names, as far as they exist.
    pub(super) async fn topics(&mut self, names: &[String]) -> Result<Vec<LoadedTopic>, ClientError> {
        let mut nodes = self.topic_nodes(names).await?;
        nodes.extend(self.nodes(&paths(layout::TOPIC_CONFIGS, names)).await?);
        Ok(self.assemble(nodes).topics)
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn paths(parent: &str, names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("{parent}/{name}")).collect()
}

fn loaded(path: &str, node: DataAndStat) -> LoadedNode {
    let DataAndStat { data, stat } = node;
    let data = data.unwrap_or_default();
    LoadedNode { path: path.to_owned(), data, version: stat.version, czxid: stat.czxid }
}

/// A node of which only its being there counts.
fn bare(path: String) -> LoadedNode {
    LoadedNode { path, data: Vec::new(), version: 0, czxid: 0 }
}

/// Reads everything. What changes afterwards fires a watch.
pub(super) async fn everything(
    shared: &Shared,
    client: &Client,
    term: Term,
) -> Result<(LoadedState, Watches), ElectionError> {
    let mut reader = Reader::new(shared, client, term);
    let written = Written::set(shared, client).await?;
    let (mut nodes, brokers) = reader.broker_nodes().await?;
    let (names, topics) = reader.topic_names().await?;
    let (deletions_asked, deletions) = reader.deletions().await?;
    nodes.extend(paths(layout::DELETE_TOPICS, &deletions_asked).into_iter().map(bare));
    nodes.extend(reader.topic_nodes(&names).await?);
    for parent in [layout::TOPIC_CONFIGS, layout::BROKER_CONFIGS, layout::PROCESSED] {
        let below = reader.below(parent).await?;
        nodes.extend(reader.nodes(&below).await?);
    }
    nodes.extend(reader.nodes(&[layout::CLUSTER_ID.to_owned()]).await?);
    Ok((reader.assemble(nodes), Watches { brokers, topics, written, deletions }))
}
