//! The watches that a session client has set and not heard of, so that they can be set again on its next connection.
//! Owns the book; sends nothing.

use crate::oracle::coordinator::{Request, Response};
use sillon_protocol::zookeeper::{ErrorCode, EventType, SetWatches2Request};
use std::collections::BTreeSet;

/// What a client waits for.
#[derive(Debug, Default)]
pub(super) struct WatchBook {
    data: BTreeSet<String>,
    exist: BTreeSet<String>,
    child: BTreeSet<String>,
    persistent: BTreeSet<String>,
    recursive: BTreeSet<String>,
}

impl WatchBook {
    /// A request was answered: its watch is set, where it asked for one.
    pub fn answered(&mut self, request: &Request, answer: Result<&Response, ErrorCode>) {
        let (book, path) = match (request, answer) {
            (Request::Exists { path, watch: true }, Err(ErrorCode::NoNode)) => (&mut self.exist, path),
            (Request::Exists { path, watch: true } | Request::GetData { path, watch: true }, Ok(_)) => {
                (&mut self.data, path)
            }
            (Request::GetChildren { path, watch: true }, Ok(_)) => (&mut self.child, path),
            // A server of this version keeps one mode for a path: the last.
            (Request::AddWatch { path, recursive: false }, Ok(_)) => {
                self.recursive.remove(path);
                (&mut self.persistent, path)
            }
            (Request::AddWatch { path, recursive: true }, Ok(_)) => {
                self.persistent.remove(path);
                (&mut self.recursive, path)
            }
            _ => return,
        };
        book.insert(path.clone());
    }

    /// A watch fired.
    pub fn fired(&mut self, event: EventType, path: &str) {
        if event != EventType::NodeChildrenChanged {
            self.data.remove(path);
            self.exist.remove(path);
        }
        if matches!(event, EventType::NodeChildrenChanged | EventType::NodeDeleted) {
            self.child.remove(path);
        }
    }

    /// The request that sets all of them again; nothing where there are none.
    pub fn again(&self, relative_zxid: i64) -> Option<SetWatches2Request<'_>> {
        let all = [&self.data, &self.exist, &self.child, &self.persistent, &self.recursive];
        let is_empty = all.into_iter().all(BTreeSet::is_empty);
        (!is_empty).then(|| SetWatches2Request {
            relative_zxid,
            data_watches: names(&self.data),
            exist_watches: names(&self.exist),
            child_watches: names(&self.child),
            persistent_watches: names(&self.persistent),
            persistent_recursive_watches: names(&self.recursive),
        })
    }
}

fn names(book: &BTreeSet<String>) -> Vec<&str> {
    book.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_in_the_book_from_its_answer_until_it_fires() {
        let mut book = WatchBook::default();
        assert_eq!(book.again(1), None);
        let exists = Request::Exists { path: "/a".into(), watch: true };
        book.answered(&exists, Err(ErrorCode::NoNode));
        book.answered(&Request::AddWatch { path: "/b".into(), recursive: true }, Ok(&Response::Nothing));
        let again = book.again(7).expect("there are two");
        assert_eq!((again.relative_zxid, again.exist_watches), (7, vec!["/a"]));
        assert_eq!(again.persistent_recursive_watches, ["/b"]);
        book.fired(EventType::NodeCreated, "/a");
        book.fired(EventType::NodeCreated, "/b");
        let again = book.again(7).expect("the one that stays");
        assert!(again.exist_watches.is_empty() && again.persistent_recursive_watches == ["/b"]);
    }
}
