//! Several operations at once.

use super::*;
use sillon_protocol::zookeeper::multi::next_header;

/// The error of each result in a multi's reply. Panics at a result of any other operation than create and check.
pub(super) fn errors(body: &[u8]) -> Vec<i32> {
    let reader = &mut Reader::new(body);
    let mut errors = Vec::new();
    while let Some(header) = next_header(reader).unwrap() {
        errors.push(header.error);
        match OpCode::from_number(header.operation) {
            Some(OpCode::Error) => assert_eq!(i32::read(reader), Ok(header.error)),
            Some(OpCode::Create) => drop(<&str>::read(reader).unwrap()),
            Some(OpCode::Create2) => drop((<&str>::read(reader).unwrap(), Stat::read(reader).unwrap())),
            Some(OpCode::SetData) => drop(Stat::read(reader).unwrap()),
            Some(OpCode::Delete | OpCode::Check) => {}
            other => panic!("a result of {other:?}"),
        }
    }
    assert!(reader.is_empty());
    errors
}
