//! Snapshots: what is refused, and what goes on meanwhile.

use super::*;

fn lab() -> Lab {
    let mut lab = Lab::new();
    for number in 0..200 {
        lab.ok(create(&format!("/n{number}"), &[b'x'; 50], number % 2));
    }
    lab.ok(delete("/n7", -1));
    lab
}

#[test]
fn nothing_is_begun_nothing_is_taken() {
    let mut lab = lab();
    assert_eq!(lab.machine.snapshot_chunk(1000), None);
    lab.machine.begin_snapshot();
    assert!(lab.machine.snapshot_chunk(1000).is_some());
    lab.machine.abandon_snapshot();
    assert_eq!(lab.machine.snapshot_chunk(1000), None);
}

#[test]
fn a_second_snapshot_replaces_the_first() {
    let mut lab = lab();
    lab.machine.begin_snapshot();
    lab.machine.snapshot_chunk(1000);
    lab.ok(create("/late", b"", 0));
    let start = lab.machine.begin_snapshot();
    let mut bytes = vec![];
    while let Some(chunk) = lab.machine.snapshot_chunk(usize::MAX / 2) {
        bytes.extend(chunk);
    }
    let copy = restored(&bytes);
    assert_eq!((copy.applied(), copy.digest()), (start.zxid, start.digest));
    assert!(copy.node("/late").is_some());
}

#[test]
fn everything_may_change_while_it_is_taken() {
    let mut lab = lab();
    let start = lab.machine.begin_snapshot();
    let mut bytes = lab.machine.snapshot_chunk(2000).unwrap();
    for number in 8..200 {
        let _ = lab.write(delete(&format!("/n{number}"), -1));
        lab.ok(create(&format!("/other-{number}"), b"", 0));
    }
    lab.close(ANN);
    lab.open(SessionId(1));
    lab.act(Action::NameEnsemble { ensemble: 3 });
    while let Some(chunk) = lab.machine.snapshot_chunk(500) {
        bytes.extend(chunk);
    }
    let copy = restored(&bytes);
    assert_eq!((copy.applied(), copy.digest()), (start.zxid, start.digest));
    assert_eq!(copy.node("/n9").unwrap().stat.ephemeral_owner, ANN.0);
    assert_eq!(copy.ensemble(), None);
}

#[test]
fn a_name_for_the_ensemble_and_long_names_come_back() {
    let mut lab = lab();
    lab.act(Action::NameEnsemble { ensemble: u128::MAX - 5 });
    let path = format!("/{}", "a-long-name-".repeat(20));
    lab.ok(create(&path, b"", 0));
    let copy = restored(&snapshot_of(&mut lab.machine));
    assert_eq!(copy.ensemble(), Some(u128::MAX - 5));
    assert!(copy.node(&path).is_some());
    assert_eq!(copy.digest(), lab.machine.digest());
}

#[test]
fn what_is_not_complete_is_refused() {
    let mut lab = lab();
    let bytes = snapshot_of(&mut lab.machine);
    for length in [0, 3, 10, bytes.len() / 2, bytes.len() - 1] {
        let mut restorer = StateMachine::restore();
        restorer.chunk(&bytes[..length]).unwrap();
        assert_eq!(restorer.finish().unwrap_err(), StateError::Short { offset: length as u64 });
    }
    let mut restorer = StateMachine::restore();
    restorer.chunk(&bytes).unwrap();
    let error = restorer.chunk(&bytes).unwrap_err();
    assert!(matches!(error, StateError::Record { offset, .. } if offset == bytes.len() as u64), "{error}");
}

#[test]
fn what_was_changed_is_refused_with_a_reason() {
    let mut lab = lab();
    let bytes = snapshot_of(&mut lab.machine);
    let refused = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        let mut restorer = StateMachine::restore();
        restorer.chunk(&bytes).and_then(|()| restorer.finish().map(drop)).unwrap_err()
    };
    assert_eq!(refused(8, 2), StateError::Format { found: 2 });
    assert!(matches!(refused(4, b'?'), StateError::Record { offset: 0, .. }));
    let data = bytes.windows(50).position(|window| window == [b'x'; 50]).unwrap();
    let error = refused(data, b'y');
    assert!(matches!(error, StateError::Digest { .. }), "{error}");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut lab = Lab::new();
    lab.ok(create("/e", b"x", 1));
    lab.ok(create("/d", b"", 0));
    lab.ok(delete("/d", 0));
    let bytes = snapshot_of(&mut lab.machine);
    // The transaction is in no digest: whoever stores snapshots protects the bytes.
    let transaction = 9..17;
    for at in (0..bytes.len()).filter(|at| !transaction.contains(at)) {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            let mut restorer = StateMachine::restore();
            let result = restorer.chunk(&bytes).and_then(|()| restorer.finish());
            let is_the_same = result.as_ref().is_ok_and(|machine| machine.digest() == lab.machine.digest());
            assert!(result.is_err() || is_the_same, "byte {at}, bit {bit}");
        }
    }
}
