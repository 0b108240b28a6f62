//! Lazy iteration over the records of a batch. Owns the layout of a record. Never allocates: keys, values
//! and headers are slices of the body. A record that is yielded is whole: its length is exact and its
//! headers are well-formed.

use super::error::{RecordError, RecordFault};
use super::header::{BatchHeader, TimestampType};
use super::varint::Cursor;
use std::borrow::Cow;

/// Least bytes of a record with its length: no key, no value, no headers.
pub(super) const LEAST_RECORD: usize = 7;
/// Least bytes of a header of a record: an empty key and a null value.
const LEAST_HEADER: usize = 2;

/// One record, borrowed from the body of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    offset: i64,
    offset_delta: i32,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    header_count: usize,
    header_bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Offset in the partition.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Distance from the base offset of the batch.
    #[must_use]
    pub fn offset_delta(&self) -> i32 {
        self.offset_delta
    }

    /// Create time, or append time where the batch says so, in ms.
    #[must_use]
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The key; `None` is null, which differs from empty.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// The value; `None` is null: a tombstone in a compacted topic.
    #[must_use]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// The headers in their order; keys may repeat.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        Headers { remaining: self.header_count, cursor: Cursor::new(self.header_bytes) }
    }
}

/// One header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key, UTF-8 by convention; nothing checks it.
    pub key: &'a [u8],
    /// The value; `None` is null.
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// A header with a value.
    #[must_use]
    pub fn new(key: &'a str, value: &'a [u8]) -> Self {
        Self { key: key.as_bytes(), value: Some(value) }
    }

    /// The key as text; what is not UTF-8 in it is replaced, as Java's client does.
    #[must_use]
    pub fn key_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }
}

/// The headers of a record: see [`Record::headers`].
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    remaining: usize,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.remaining = self.remaining.checked_sub(1)?;
        Some(read_header(&mut self.cursor).expect("checked when the record was read"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Iterates the records of a batch. Ends after the first error; otherwise yields as many records as the
/// batch states and fails if bytes are left.
#[derive(Debug, Clone)]
pub struct RecordIterator<'a> {
    cursor: Cursor<'a>,
    index: i32,
    /// 0 once an error was yielded.
    count: i32,
    base_offset: i64,
    base_timestamp: i64,
    log_append_time: Option<i64>,
}

impl<'a> RecordIterator<'a> {
    pub(super) fn new(header: &BatchHeader, body: &'a [u8]) -> Self {
        let log_append_time = match header.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(header.max_timestamp()),
        };
        Self {
            cursor: Cursor::new(body),
            index: 0,
            count: header.record_count(),
            base_offset: header.base_offset(),
            base_timestamp: header.base_timestamp(),
            log_append_time,
        }
    }

    fn read(&mut self) -> Result<Record<'a>, RecordFault> {
        let mut fields = Cursor::new(self.cursor.bytes()?);
        // The attributes of a record are reserved: Kafka writes 0 and ignores what it reads.
        fields.byte()?;
        let timestamp_delta = fields.varlong()?;
        let offset_delta = fields.varint()?;
        let key = fields.nullable_bytes()?;
        let value = fields.nullable_bytes()?;
        let header_count = header_count(&mut fields)?;
        let header_bytes = fields.rest();
        for _ in 0..header_count {
            read_header(&mut fields)?;
        }
        if fields.remaining() > 0 {
            return Err(RecordFault::TrailingBytes { bytes: fields.remaining() });
        }
        Ok(Record {
            // Wraps as in Java for fields that validation refuses.
            offset: self.base_offset.wrapping_add(i64::from(offset_delta)),
            offset_delta,
            timestamp: self.log_append_time.unwrap_or(self.base_timestamp.wrapping_add(timestamp_delta)),
            key,
            value,
            header_count,
            header_bytes,
        })
    }
}

impl<'a> Iterator for RecordIterator<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            let bytes = self.cursor.remaining();
            self.cursor = Cursor::new(&[]);
            return (bytes > 0).then_some(Err(RecordError::TrailingRecordBytes { bytes }));
        }
        let index = self.index;
        self.index += 1;
        match self.read() {
            Ok(record) => Some(Ok(record)),
            Err(fault) => {
                self.count = 0;
                self.cursor = Cursor::new(&[]);
                Some(Err(RecordError::Record { index, fault }))
            }
        }
    }
}

impl std::iter::FusedIterator for RecordIterator<'_> {}

fn header_count(fields: &mut Cursor<'_>) -> Result<usize, RecordFault> {
    let stated = fields.varint()?;
    let count = usize::try_from(stated).map_err(|_| RecordFault::Length { length: stated })?;
    let available = fields.remaining();
    if count > available / LEAST_HEADER {
        return Err(RecordFault::HeaderCount { count: stated, available });
    }
    Ok(count)
}

fn read_header<'a>(cursor: &mut Cursor<'a>) -> Result<Header<'a>, RecordFault> {
    Ok(Header { key: cursor.bytes()?, value: cursor.nullable_bytes()? })
}
