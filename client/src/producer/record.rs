//! What is sent, and what is known of it once it is written.

pub use sillon_protocol::records::Header;
use std::sync::Arc;

/// A record to be sent. It borrows everything: what is sent is written into its batch before sending returns.
///
/// ```
/// use sillon_client::producer::ProducerRecord;
/// let record = ProducerRecord::new("orders", b"a book").key(b"customer 7");
/// assert_eq!(record.topic, "orders");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProducerRecord<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition; `None` leaves it to the partitioner.
    pub partition: Option<i32>,
    /// The key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null: a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// Create time in milliseconds; `None` takes the clock's.
    pub timestamp: Option<i64>,
    /// The headers in their order; keys may repeat.
    pub headers: &'a [Header<'a>],
}

impl<'a> ProducerRecord<'a> {
    /// A record with a value, and nothing else.
    pub fn new(topic: &'a str, value: &'a (impl AsRef<[u8]> + ?Sized)) -> ProducerRecord<'a> {
        ProducerRecord { value: Some(value.as_ref()), ..ProducerRecord::tombstone(topic) }
    }

    /// A record without a value.
    pub fn tombstone(topic: &'a str) -> ProducerRecord<'a> {
        ProducerRecord { topic, partition: None, key: None, value: None, timestamp: None, headers: &[] }
    }

    /// With a key.
    #[must_use]
    pub fn key(mut self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> ProducerRecord<'a> {
        self.key = Some(key.as_ref());
        self
    }

    /// To a partition.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> ProducerRecord<'a> {
        self.partition = Some(partition);
        self
    }

    /// With a create time, in milliseconds.
    #[must_use]
    pub fn timestamp(mut self, timestamp: i64) -> ProducerRecord<'a> {
        self.timestamp = Some(timestamp);
        self
    }

    /// With headers.
    #[must_use]
    pub fn headers(mut self, headers: &'a [Header<'a>]) -> ProducerRecord<'a> {
        self.headers = headers;
        self
    }

    /// The most bytes that it takes in a batch.
    pub(super) fn bound(&self) -> usize {
        // Lengths and deltas take at most five bytes each, the timestamp's delta ten.
        let headers: usize = self
            .headers
            .iter()
            .map(|header| 10 + header.key.len() + header.value.map_or(0, <[u8]>::len))
            .sum();
        31 + self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len) + headers
    }
}

/// A record that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset; `None` where nobody told it: with acks of none, and for a batch that had been written before.
    pub offset: Option<i64>,
    /// The time that the record has now, in milliseconds: the broker's where the topic says so.
    pub timestamp: i64,
}
