//! Quotas: `/zookeeper/quota/PATH/zookeeper_limits` says that a subtree has one, `zookeeper_stats` beside it what the
//! subtree holds.
//!
//! Owns keeping the latter up to date, as ZooKeeper's servers do: without a new version, time stamp or event. Limits are
//! not enforced: clients read them.

use super::{arena::NodeId, tree::Tree, undo::Undo};
use std::collections::BTreeMap;

const QUOTAS: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// The path that a node in this directory is about.
fn about(directory: &str) -> Option<&str> {
    directory.strip_prefix(QUOTAS).filter(|path| path.starts_with('/'))
}

impl Tree {
    /// A node was created.
    pub(super) fn quota_after_create(&mut self, path: &str, data_bytes: usize) {
        if let Some((directory, name)) = path.rsplit_once('/') {
            match (about(directory), name) {
                (Some(subject), LIMITS) if self.quotas.insert(subject.to_owned()) => {
                    self.note(|| Undo::QuotaAdded(subject.to_owned()));
                }
                (Some(subject), STATS) => self.recount(subject),
                _ => {}
            }
        }
        self.add_to_quota(path, data_bytes as i64, 1);
    }

    /// A node was deleted.
    pub(super) fn quota_after_delete(&mut self, path: &str, data_bytes: usize) {
        if let Some((directory, LIMITS)) = path.rsplit_once('/')
            && let Some(subject) = about(directory)
            && self.quotas.remove(subject)
        {
            self.note(|| Undo::QuotaRemoved(subject.to_owned()));
        }
        self.add_to_quota(path, -(data_bytes as i64), -1);
    }

    /// A node's data was written.
    pub(super) fn quota_after_write(&mut self, path: &str, bytes_before: usize, bytes_after: usize) {
        self.add_to_quota(path, bytes_after as i64 - bytes_before as i64, 0);
    }

    /// Notes a quota that a snapshot brought.
    pub(super) fn quota_after_restore(&mut self, id: NodeId) {
        let node = self.arena.node(id);
        if node.name.as_bytes() == LIMITS.as_bytes()
            && let Some(subject) = about(&self.path(node.parent))
        {
            self.quotas.insert(subject.to_owned());
        }
    }

    /// The deepest path at or above this one that has a quota.
    fn quota_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.quotas.is_empty() {
            return None;
        }
        let mut prefix = path;
        while !self.quotas.contains(prefix) {
            prefix = prefix.rsplit_once('/')?.0;
        }
        Some(prefix)
    }

    fn add_to_quota(&mut self, path: &str, bytes: i64, count: i64) {
        let Some(subject) = self.quota_of(path) else { return };
        let Some(stats) = self.find(&format!("{QUOTAS}{subject}/{STATS}")) else { return };
        let mut track = Track::parse(self.arena.node(stats).data.as_deref());
        track.add(bytes, count);
        self.replace_data(stats, Some(track.text().into_bytes().into()));
    }

    /// Counts a subtree for the node that was just created to hold its numbers.
    fn recount(&mut self, subject: &str) {
        let (mut bytes, mut count) = (0, 0);
        if let Some(top) = self.find(subject) {
            let size = |data: &Option<Box<[u8]>>| data.as_ref().map_or(0, |data| data.len() as i64);
            (bytes, count) = (size(&self.arena.node(top).data), 1);
            self.for_each_below(top, |node| {
                bytes += size(&node.data);
                count += 1;
            });
        }
        let stats = self.find(&format!("{QUOTAS}{subject}/{STATS}")).expect("it was just created");
        let track = Track { count, bytes, others: BTreeMap::new() };
        self.replace_data(stats, Some(track.text().into_bytes().into()));
    }
}

/// The numbers of a subtree, as text: `count=6,bytes=13`, and `=;KEY=NUMBER` for each other key.
struct Track<'a> {
    count: i64,
    bytes: i64,
    others: BTreeMap<&'a str, i64>,
}

impl<'a> Track<'a> {
    /// What is not there is -1. Data that cannot be read says nothing.
    fn parse(data: Option<&'a [u8]>) -> Track<'a> {
        let mut numbers = BTreeMap::new();
        let text = std::str::from_utf8(data.unwrap_or_default()).unwrap_or_default();
        for pair in text.split([',', ';']) {
            let mut parts = pair.split('=');
            if let (Some(key), Some(number)) = (parts.next(), parts.next())
                && !key.is_empty()
                && let Ok(number) = if number.is_empty() { Ok(-1) } else { number.parse() }
            {
                numbers.insert(key, number);
            }
        }
        let mut take = |key| numbers.remove(key).unwrap_or(-1);
        Track { count: take("count"), bytes: take("bytes"), others: numbers }
    }

    fn add(&mut self, bytes: i64, count: i64) {
        self.bytes = self.bytes.wrapping_add(bytes);
        self.count = self.count.wrapping_add(count);
    }

    fn text(&self) -> String {
        let mut text = format!("count={},bytes={}", self.count, self.bytes);
        if !self.others.is_empty() {
            text.push('=');
            for (key, number) in &self.others {
                text.push_str(&format!(";{key}={number}"));
            }
        }
        text
    }
}
