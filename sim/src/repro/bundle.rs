//! A bundle: all that determined a failing run, and all that happened in it. One file, readable by the build that
//! wrote it.
//!
//! ```text
//!   "SILLONRB"  version u32  length u32  crc32 u32  zstd(bincode(Bundle))        numbers little-endian
//! ```
//! Owns the file format: the only place that knows bincode. A file may come from anywhere: every length is checked
//! against a bound before memory is taken for it, and a damaged file is an error, never a panic.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Bundles lie on the real disk.

use crate::{
    decisions::Tape,
    driver::{DecisionSource, Failure, RunInput},
    faults::PlannedFault,
    scenario::DrawnConfig,
    world::Event,
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 8] = b"SILLONRB";
/// Changes with every change of what a bundle holds.
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 20;
/// The longest file that is read.
const FILE_MAX_BYTES: usize = 64 << 20;
/// The most that its content unpacks to.
const CONTENT_MAX_BYTES: usize = 256 << 20;
/// Small: bundles are written while somebody waits.
const ZSTD_LEVEL: i32 = 3;

/// All about a failing run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// The commit of the tree that wrote it, with `-dirty` where the tree had changes; empty where there is none.
    pub commit: String,
    /// The scenario's name.
    pub scenario_name: String,
    /// The scenario's text.
    pub scenario_text: String,
    /// The seed that everything was drawn from. Only a name here.
    pub seed: u64,
    /// Seeds the executor.
    pub scheduler_seed: u64,
    /// The drawn configuration.
    pub config: DrawnConfig,
    /// Every fault with its time.
    pub plan: Vec<PlannedFault>,
    /// Every decision of the world: deliveries, latencies, what a power loss spared.
    pub tape: Tape,
    /// Every event with the hash up to it.
    pub events: Vec<Event>,
    /// The hash over all events.
    pub hash: u64,
    /// What failed.
    pub failure: Failure,
}

/// Why bytes are no bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Something else.
    #[error("this is not a bundle: it does not begin with SILLONRB")]
    NotABundle,
    /// A bundle of another build.
    #[error(
        "the bundle has format {found}, this build reads format {VERSION}: replay it with the commit that wrote it"
    )]
    OtherVersion {
        /// Its version.
        found: u32,
    },
    /// It is cut off, or has something behind it.
    #[error("the bundle says that it has {expected} bytes, but the file has {found}")]
    WrongLength {
        /// What its header says.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// It is longer than any bundle.
    #[error("{length} bytes are too many: the longest bundle has {FILE_MAX_BYTES}")]
    TooLong {
        /// How long.
        length: u64,
    },
    /// Its bytes have changed.
    #[error("the bundle is damaged: its checksum is {found:08x}, {expected:08x} is expected")]
    Damaged {
        /// What its header says.
        expected: u32,
        /// What its bytes give.
        found: u32,
    },
    /// The checksum is right and yet the content makes no sense.
    #[error("the bundle's content makes no sense: {0}")]
    Nonsense(String),
}

/// Why a bundle's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is no bundle.
    #[error("{path}: {error}", path = path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// Why.
        error: DecodeError,
    },
}

fn configuration() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<CONTENT_MAX_BYTES>()
}

impl Bundle {
    /// What determined the run, to run it again: decisions from the tape.
    pub fn input(&self) -> RunInput {
        RunInput {
            seed: self.seed,
            scheduler_seed: self.scheduler_seed,
            config: self.config.clone(),
            plan: self.plan.clone(),
            decisions: DecisionSource::Tape(self.tape.clone()),
        }
    }

    /// Its file's name: `SCENARIO-SEED.sillon`.
    pub fn file_name(&self) -> String {
        format!("{}-{}.sillon", self.scenario_name, self.seed)
    }

    /// Packs it.
    ///
    /// # Errors
    /// It is larger than a bundle may be.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let content = bincode::serde::encode_to_vec(self, configuration()).map_err(io::Error::other)?;
        let packed = zstd::bulk::compress(&content, ZSTD_LEVEL)?;
        if content.len() > CONTENT_MAX_BYTES || packed.len() > FILE_MAX_BYTES - HEADER_BYTES {
            return Err(io::Error::other(format!("{} bytes are too many for a bundle", content.len())));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + packed.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
        bytes.extend_from_slice(&packed);
        Ok(bytes)
    }

    /// Unpacks it.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Bundle, DecodeError> {
        let Some((header, packed)) =
            bytes.split_at_checked(HEADER_BYTES).filter(|(header, _)| header.starts_with(MAGIC))
        else {
            return Err(DecodeError::NotABundle);
        };
        let number = |at: usize| {
            u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes of a header of twenty"))
        };
        let (version, length, expected) = (number(8), number(12), number(16));
        if version != VERSION {
            return Err(DecodeError::OtherVersion { found: version });
        }
        if bytes.len() > FILE_MAX_BYTES {
            return Err(DecodeError::TooLong { length: bytes.len() as u64 });
        }
        if packed.len() as u64 != u64::from(length) {
            let expected = u64::from(length) + HEADER_BYTES as u64;
            return Err(DecodeError::WrongLength { expected, found: bytes.len() as u64 });
        }
        let found = crc32fast::hash(packed);
        if found != expected {
            return Err(DecodeError::Damaged { expected, found });
        }
        let nonsense = |error: &dyn std::fmt::Display| DecodeError::Nonsense(error.to_string());
        let content = unpack(packed).map_err(|error| nonsense(&error))?;
        let (bundle, read) = bincode::serde::decode_from_slice::<Bundle, _>(&content, configuration())
            .map_err(|error| nonsense(&error))?;
        match read == content.len() {
            true => Ok(bundle),
            false => Err(nonsense(&format_args!("{} bytes are left over", content.len() - read))),
        }
    }

    /// Writes it into a directory, which is created where it is missing, and gives its path.
    ///
    /// # Errors
    /// The directory or file cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join(self.file_name());
        // Beside and renamed: an interrupted campaign leaves no half bundle under the name.
        let beside = path.with_extension("sillon.tmp");
        std::fs::write(&beside, self.encode()?)?;
        std::fs::rename(&beside, &path)?;
        Ok(path)
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no bundle.
    pub fn read(path: &Path) -> Result<Bundle, ReadError> {
        let io = |error| ReadError::Io { path: path.to_path_buf(), error };
        let decode = |error| ReadError::Decode { path: path.to_path_buf(), error };
        let length = std::fs::metadata(path).map_err(io)?.len();
        if length > FILE_MAX_BYTES as u64 {
            return Err(decode(DecodeError::TooLong { length }));
        }
        Bundle::decode(&std::fs::read(path).map_err(io)?).map_err(decode)
    }

    /// Whether a file is one, by its first bytes.
    pub fn is_one(path: &Path) -> bool {
        use io::Read;
        let mut first = [0; MAGIC.len()];
        std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && &first == MAGIC
    }
}

/// Unpacks in pieces, so that a small file cannot claim much memory before it has shown what it holds.
fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut content = Vec::new();
    let mut reader = zstd::stream::read::Decoder::new(packed)?.take(CONTENT_MAX_BYTES as u64 + 1);
    reader.read_to_end(&mut content)?;
    if content.len() > CONTENT_MAX_BYTES {
        return Err(io::Error::other(format!("it unpacks to more than {CONTENT_MAX_BYTES} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decisions::Decisions,
        decisions::Stream,
        oracle::{Invariant, Violation},
        scenario::Scenario,
        world::NodeId,
    };
    use proptest::prelude::*;

    pub(crate) fn example() -> Bundle {
        let text = "name = \"example\"\ndescription = \"x\"\n[faults.crash]\nper_minute = 20\n";
        let scenario = Scenario::parse("example.toml", text).expect("it is right");
        let (config, plan) = scenario.draw(7);
        let decisions = Decisions::random(7, true);
        for _ in 0..100 {
            decisions.draw(Stream::NetworkLatency, "latency", 100, 2_000);
        }
        let event = |sequence: u64| Event {
            sequence,
            time_ns: sequence * 1_000,
            node: NodeId(0),
            kind: "log/append".into(),
            fields: vec![("base".into(), sequence)],
            detail: "sim-0".into(),
            chain: sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let failure = Failure::Violation(Violation {
            invariant: Invariant::I20,
            at_ns: 5,
            node: Some(0),
            partition: None,
            text: "served what was not checked".into(),
        });
        Bundle {
            commit: "0123abc-dirty".into(),
            scenario_name: scenario.name().into(),
            scenario_text: scenario.text().into(),
            seed: 7,
            scheduler_seed: 7,
            config,
            plan,
            tape: decisions.tape(),
            events: (1..=50).map(event).collect(),
            hash: 0xdead_beef,
            failure,
        }
    }

    #[test]
    fn a_bundle_is_read_as_it_was_written() {
        let bundle = example();
        assert!(!bundle.plan.is_empty());
        let directory = tempfile::tempdir().expect("there is room");
        let path = bundle.write(&directory.path().join("new")).expect("it can be written");
        assert!(path.ends_with("new/example-7.sillon"));
        assert!(Bundle::is_one(&path));
        assert_eq!(Bundle::read(&path).expect("it is whole"), bundle);
    }

    #[test]
    fn what_is_no_bundle_is_told_apart() {
        let bytes = example().encode().expect("it is small");
        assert_eq!(Bundle::decode(b""), Err(DecodeError::NotABundle));
        assert_eq!(Bundle::decode(b"name = \"scenario\" and more"), Err(DecodeError::NotABundle));
        let mut other = bytes.clone();
        other[8] = 9;
        assert_eq!(Bundle::decode(&other), Err(DecodeError::OtherVersion { found: 9 }));
        let cut = &bytes[..bytes.len() - 1];
        let (expected, found) = (bytes.len() as u64, cut.len() as u64);
        assert_eq!(Bundle::decode(cut), Err(DecodeError::WrongLength { expected, found }));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let bytes = example().encode().expect("it is small");
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 0x40;
            assert!(Bundle::decode(&changed).is_err(), "byte {position}");
        }
    }

    fn framed(content: &[u8]) -> Vec<u8> {
        let packed = zstd::bulk::compress(content, 1).expect("memory suffices");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
        bytes.extend_from_slice(&packed);
        bytes
    }

    #[test]
    fn lengths_that_lie_take_no_memory() {
        // A string of 2^60 bytes, in bincode's variable-length numbers.
        let mut lie = vec![253];
        lie.extend_from_slice(&(1u64 << 60).to_le_bytes());
        assert!(matches!(Bundle::decode(&framed(&lie)), Err(DecodeError::Nonsense(_))));
        // A small file that unpacks to very much.
        let bomb = vec![0; CONTENT_MAX_BYTES + 1];
        assert!(matches!(Bundle::decode(&framed(&bomb)), Err(DecodeError::Nonsense(_))));
    }

    proptest! {
        #[test]
        fn arbitrary_content_is_an_error_and_no_panic(content in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(Bundle::decode(&framed(&content)).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(Bundle::decode(&bytes).is_err());
        }
    }
}
