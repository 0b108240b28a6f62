//! The value of a record says who made it. Owns that encoding.

use crate::oracle::RecordId;

/// Client and counter.
pub(super) const LEAST_BYTES: usize = 12;

/// The value of this record, of `length` bytes (or the least possible).
pub(super) fn encode(id: RecordId, length: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(length.max(LEAST_BYTES));
    value.extend(id.client.to_be_bytes());
    value.extend(id.counter.to_be_bytes());
    // The rest repeats it.
    while value.len() < length {
        value.extend_from_within(..value.len().min(length - value.len()));
    }
    value
}

/// Whose value this is, where it is one that [`encode`] made.
pub(super) fn decode(value: &[u8]) -> Option<RecordId> {
    let (client, rest) = value.split_first_chunk::<4>()?;
    let counter = rest.first_chunk::<8>()?;
    let id = RecordId { client: u32::from_be_bytes(*client), counter: u64::from_be_bytes(*counter) };
    (value[LEAST_BYTES..] == value[..value.len() - LEAST_BYTES]).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_their_makers_and_nothing_else_does() {
        let id = RecordId { client: 3, counter: 1 << 40 };
        for length in [0, 12, 13, 37, 500] {
            assert_eq!(decode(&encode(id, length)), Some(id));
        }
        assert_eq!(decode(b"short"), None);
        let mut value = encode(id, 20);
        value[15] ^= 1;
        assert_eq!(decode(&value), None);
    }
}
