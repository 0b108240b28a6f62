//! What the schema and the primitive values promise, beyond what the cross-check shows.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

crate::schema! {
    /// A message with one field of every kind.
    pub struct Sample (versions 1..=4, flexible 3..) {
        /// Only in old versions, and it must not be lost.
        old: i32 = -1, versions ..=2;
        /// Only in new versions, and it may be lost.
        new: String, versions 3.., ignorable true;
        /// Null only in new versions.
        name: Option<String>, nullable 2..;
        /// Tagged, and it must not be lost.
        epoch: i64 = -1, versions 3.., tag 0;
        /// Tagged later than flexible, and it may be lost.
        rack: Option<String>, versions 4.., tag 5, ignorable true;
        /// Nested.
        parts: Vec<Part>;
    }

    /// A nested structure with every primitive type.
    pub struct Part {
        /// A truth value.
        truth: bool;
        /// Two bytes, unsigned.
        port: u16;
        /// A double.
        ratio: f64 = 1.0;
        /// Bytes that are never null.
        blob: Bytes;
        /// A structure or null.
        inner: Option<Inner>;
    }

    /// May be null.
    pub struct Inner {
        /// One byte.
        small: i8;
    }
}

crate::nullable_structures!(Inner);

fn encode(message: &Sample, version: i16) -> Result<Bytes, EncodeError> {
    let mut encoder = Encoder::new();
    Message::encode(message, version, &mut encoder)?;
    Ok(encoder.buffer.freeze())
}

fn decode(bytes: &[u8], version: i16) -> Result<Sample, DecodeError> {
    Message::decode(version, &mut Decoder::new(&Bytes::copy_from_slice(bytes)))
}

fn named() -> Sample {
    Sample { name: Some("n".to_owned()), ..Default::default() }
}

#[test]
fn a_message_lies_on_the_wire_as_its_schema_reads() {
    let part = Part { truth: true, port: 0xff01, blob: Bytes::from_static(b"b"), ..Default::default() };
    let inner = Part { inner: Some(Inner { small: -2 }), ..part.clone() };
    let message = Sample { old: 7, parts: vec![part.clone()], ..named() };
    let one = 1.0f64.to_be_bytes();
    let expected = [
        &[0, 0, 0, 7, 0, 1, b'n', 0, 0, 0, 1][..], // old, name, one part
        &[1, 0xff, 1],                             // truth, port
        &one,                                      // ratio
        &[0, 0, 0, 1, b'b', 0xff],                 // blob, no inner
    ]
    .concat();
    assert_eq!(encode(&message, 1), Ok(expected.into()));

    let message = Sample {
        new: "é".to_owned(),
        name: None,
        epoch: 2,
        rack: Some("r".to_owned()),
        parts: vec![inner],
        ..Default::default()
    };
    let expected = [
        &[3, 0xc3, 0xa9, 0, 2][..],         // new, null, one part
        &[1, 0xff, 1],                      // truth, port
        &one,                               // ratio
        &[2, b'b', 1, 0xfe, 0, 0],          // blob, inner and its tags, the part's tags
        &[2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2], // two tagged fields: epoch ...
        &[5, 2, 2, b'r'],                   // ... and rack
    ]
    .concat();
    assert_eq!(encode(&message, 4), Ok(expected.into()));
}

#[test]
fn a_field_that_the_version_lacks_is_lost_only_if_ignorable() {
    let (message, version) = ("Sample", 4);
    let sample = Sample { old: 5, ..named() };
    assert_eq!(encode(&sample, version), Err(EncodeError::NotExpressible { message, field: "old", version }));
    let version = 2;
    let sample = Sample { epoch: 5, ..named() };
    assert_eq!(
        encode(&sample, version),
        Err(EncodeError::NotExpressible { message, field: "epoch", version })
    );
    let sample = Sample { new: "x".to_owned(), rack: Some("r".to_owned()), ..named() };
    for version in [1, 2] {
        let bytes = encode(&sample, version).expect("both are ignorable");
        assert_eq!(decode(&bytes, version), Ok(named()));
    }
    let bytes = encode(&sample, 3).expect("the rack is ignorable");
    assert_eq!(decode(&bytes, 3), Ok(Sample { rack: None, ..sample }));
}

#[test]
fn null_passes_only_where_the_schema_permits_it() {
    let unnamed = Sample::default();
    let null = EncodeError::UnexpectedNull { message: "Sample", field: "name", version: 1 };
    assert_eq!(encode(&unnamed, 1), Err(null));
    let bytes = encode(&unnamed, 2).expect("null is permitted from version 2 on");
    assert_eq!(decode(&bytes, 2), Ok(unnamed));
    assert_eq!(decode(&bytes, 1), Err(DecodeError::UnexpectedNull { field: "name" }));
}

#[test]
fn a_tagged_field_must_be_as_long_as_it_says() {
    let head = [1, 0, 1]; // empty new, null name, no parts
    let with_tags = |tags: &[u8]| decode(&[&head, tags].concat(), 4);
    let epoch = |epoch| Ok(Sample { epoch, ..Default::default() });
    assert_eq!(with_tags(&[1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9]), epoch(9));
    assert_eq!(
        with_tags(&[1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9, 0]),
        Err(DecodeError::TaggedFieldSize { unread: 1 })
    );
    // The value must not reach beyond its field into what follows.
    assert_eq!(
        with_tags(&[1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9]),
        Err(DecodeError::Truncated { needed: 8, remaining: 7 })
    );
    // Unknown tags are skipped, and so is a known one in a version that does not have it.
    assert_eq!(with_tags(&[2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 100, 3, 1, 2, 3]), epoch(9));
    assert_eq!(decode(&[1, 0, 1, 1, 5, 2, 2, b'r'], 3), Ok(Sample::default()));
}

#[test]
fn versions_that_are_not_known_are_errors() {
    for version in [0, 5, -1, i16::MAX] {
        let message = "Sample";
        assert_eq!(encode(&named(), version), Err(EncodeError::UnsupportedVersion { message, version }));
        assert_eq!(decode(&[0; 100], version), Err(DecodeError::UnsupportedVersion { message, version }));
    }
}

#[test]
fn what_does_not_fit_its_length_prefix_is_an_error() {
    for version in [1, 4] {
        let mut message = named();
        message.name = Some("x".repeat(MAXIMUM_STRING_LENGTH));
        let bytes = encode(&message, version).expect("the longest string fits");
        assert_eq!(decode(&bytes, version), Ok(message.clone()));
        message.name = Some("x".repeat(MAXIMUM_STRING_LENGTH + 1));
        assert_eq!(encode(&message, version), Err(EncodeError::TooLong { length: 32_768 }));
    }
}

#[test]
fn deferred_records_leave_a_gap_that_their_bytes_fill() {
    let records = Bytes::from_static(b"record batches");
    for format in [Format { version: 4, flexible: false }, Format { version: 12, flexible: true }] {
        let mut whole = Encoder::new();
        Records::Bytes(records.clone()).encode(format, &mut whole).expect("short enough");
        whole.put_i32(-1);

        let mut parts = Encoder::new();
        Records::Deferred(records.len()).encode(format, &mut parts).expect("short enough");
        parts.put_i32(-1);
        let [gap] = parts.deferred[..] else { panic!("one gap, not {:?}", parts.deferred) };
        let spliced = [&parts.buffer[..gap.position], &records, &parts.buffer[gap.position..]].concat();
        assert_eq!((whole.buffer, gap.length), (BytesMut::from(&spliced[..]), records.len()));
    }
}

proptest! {
    #[test]
    fn varints_return_and_are_as_short_as_can_be(value: u32) {
        let mut encoder = Encoder::new();
        encoder.put_unsigned_varint(value);
        let significant = (32 - value.leading_zeros()).max(1) as usize;
        prop_assert_eq!(encoder.buffer.len(), significant.div_ceil(7));
        let bytes = encoder.buffer.freeze();
        let mut decoder = Decoder::new(&bytes);
        prop_assert_eq!(decoder.get_unsigned_varint(), Ok(value));
        prop_assert_eq!(decoder.remaining(), 0);
    }

    #[test]
    fn samples_return(seed: u64, version in 1i16..=4) {
        let format = Format { version, flexible: version >= 3 };
        let sample: Sample =
            arbitrary::Arbitrary::arbitrary(format, false, &mut arbitrary::Random::new(seed));
        let bytes = encode(&sample, version).expect("random samples are expressible");
        prop_assert_eq!(decode(&bytes, version), Ok(sample));
    }
}
