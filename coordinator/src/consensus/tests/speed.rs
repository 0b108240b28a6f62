//! What must stay cheap: batches, and bytes that are copied, not visited. Owns no exact figures.

use super::harness::Ensemble;
use crate::{
    consensus::{
        Consensus, ConsensusConfig, HardState, LogEntry, ProposalRefused, RaftConsensus, SnapshotMark,
    },
    frame,
    types::MemberId,
};
use bytes::Bytes;

#[test]
fn proposals_of_one_batch_are_persisted_and_sent_together() {
    let mut ensemble = Ensemble::new(3, 1 << 20, 1);
    ensemble.input(MemberId(1), |consensus| consensus.campaign());
    ensemble.stabilize();
    ensemble.input(MemberId(1), |consensus| {
        for number in 0..64_u8 {
            consensus.propose(Bytes::from(vec![number])).unwrap();
        }
        let output = consensus.output();
        assert_eq!(output.persist.unwrap().entries.len(), 64);
        assert_eq!(output.messages.len(), 2, "{:?}", output.messages);
        assert!(consensus.output().is_empty());
    });
}

#[test]
fn proposals_are_refused_when_they_cannot_be_taken() {
    let mut config = ConsensusConfig::new(MemberId(1), vec![MemberId(1)], 1);
    (config.memory_bytes, config.max_size_per_message) = (100, 100);
    let mut alone = RaftConsensus::restore(config, HardState::default(), vec![], None).unwrap();
    let proposal = |length: usize| Bytes::from(vec![1; length]);
    assert_eq!(alone.propose(proposal(1)), Err(ProposalRefused::NotLeader { leader: None }));
    alone.tick();
    assert!(matches!(alone.propose(proposal(0)), Err(ProposalRefused::Length { .. })));
    assert_eq!(alone.propose(proposal(200)), Ok(()), "a single one always fits");
    assert_eq!(alone.propose(proposal(1)), Err(ProposalRefused::Busy { limit_bytes: 100 }));
    let persist = alone.output().persist.unwrap();
    alone.persisted(persist.ticket);
    assert_eq!(alone.output().committed.len(), 2);
    assert_eq!(alone.propose(proposal(60)), Ok(()));
    assert_eq!(alone.propose(proposal(60)), Err(ProposalRefused::Busy { limit_bytes: 100 }));
    alone.snapshot_taken(SnapshotMark { index: 2, term: 1 });
}

/// Run with `cargo test --release -p sillon-coordinator speed -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a check"]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // Measures real time.
fn measure_frames_and_proposals() {
    let entry = LogEntry { index: 1, term: 1, data: vec![7; 1024].into() };
    let mut buffer = Vec::new();
    let start = std::time::Instant::now();
    let rounds = 1_000_000_u32;
    for _ in 0..rounds {
        buffer.clear();
        frame::encode(&entry, &mut buffer).unwrap();
    }
    println!("encode a 1 KiB entry: {:?}", start.elapsed() / rounds);
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        assert!(frame::decode::<LogEntry>(&buffer, 2_000).is_ok());
    }
    println!("decode a 1 KiB entry: {:?}", start.elapsed() / rounds);
    let config = ConsensusConfig::new(MemberId(1), vec![MemberId(1)], 1);
    let mut alone = RaftConsensus::restore(config, HardState::default(), vec![], None).unwrap();
    alone.tick();
    let data = Bytes::from(vec![7; 1024]);
    let start = std::time::Instant::now();
    let batches = 5_000_u32;
    for _ in 0..batches {
        for _ in 0..64 {
            alone.propose(data.clone()).unwrap();
        }
        loop {
            let output = alone.output();
            if output.is_empty() {
                break;
            }
            if let Some(persist) = output.persist {
                alone.persisted(persist.ticket);
            }
        }
    }
    println!("a proposal in a batch of 64: {:?}", start.elapsed() / (64 * batches));
}
