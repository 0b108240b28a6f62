//! The codecs of record batches. Owns their ids and the rule that output grows with what is really
//! produced, up to a limit, whatever the input claims. One file per codec; each only adapts a library to
//! the form Kafka's clients write and read.
//!
//! | codec | written as | read besides |
//! |---|---|---|
//! | gzip | one member, level 6 | several members |
//! | snappy | framing of snappy-java (xerial), blocks of 32 KiB | raw, as librdkafka writes |
//! | lz4 | frame of independent blocks of 64 KiB, correct header checksum (KIP-57) | any valid frame |
//! | zstd | one frame with its content size, level 3 | several frames |

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::fmt;
use std::io::{self, Read};

/// Codec of the records of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Compression {
    /// Records are plain bytes.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy, in the framing of snappy-java or raw.
    Snappy,
    /// LZ4 frame format.
    Lz4,
    /// RFC 8878 (KIP-110).
    Zstd,
}

/// Why records cannot be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// The bytes are not what the codec writes.
    #[error("{compression} data is corrupt: {reason}")]
    Corrupt {
        /// The codec.
        compression: Compression,
        /// What the codec says.
        reason: String,
    },
    /// The decompressed records are larger than the limit.
    #[error("decompressed records are larger than {limit_bytes} bytes")]
    LimitExceeded {
        /// The limit given.
        limit_bytes: usize,
    },
}

impl Compression {
    /// All codecs, plain included.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The value in the attributes of a batch.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec with that value in the attributes.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.id() == id)
    }

    /// Name as in Kafka's configuration (`compression.type`).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Compresses `input` in the form Kafka's Java client writes.
    #[must_use]
    pub fn compress(self, input: &[u8]) -> Vec<u8> {
        match self {
            Self::None => input.to_vec(),
            Self::Gzip => gzip::compress(input),
            Self::Snappy => snappy::compress(input),
            Self::Lz4 => lz4::compress(input),
            Self::Zstd => zstd::compress(input),
        }
    }

    /// Decompresses `input` to at most `limit_bytes`.
    ///
    /// # Errors
    /// [`CompressionError`].
    pub fn decompress(self, input: &[u8], limit_bytes: usize) -> Result<Vec<u8>, CompressionError> {
        match self {
            Self::None if input.len() > limit_bytes => Err(CompressionError::LimitExceeded { limit_bytes }),
            Self::None => Ok(input.to_vec()),
            Self::Gzip => gzip::decompress(input, limit_bytes),
            Self::Snappy => snappy::decompress(input, limit_bytes),
            Self::Lz4 => lz4::decompress(input, limit_bytes),
            Self::Zstd => zstd::decompress(input, limit_bytes),
        }
    }

    fn corrupt(self, reason: impl fmt::Display) -> CompressionError {
        CompressionError::Corrupt { compression: self, reason: reason.to_string() }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Room to start with for the output of `input_bytes`: enough for most batches in one go, and of no use to
/// an attacker.
fn first_capacity(input_bytes: usize, limit_bytes: usize) -> usize {
    const FACTOR: usize = 4;
    const LEAST: usize = 4 << 10;
    input_bytes.saturating_mul(FACTOR).max(LEAST).min(limit_bytes)
}

/// Reads all of `decoder`, whose input is `input_bytes` long. `Read::read_to_end` at most doubles its
/// buffer when it is full.
fn read_to_limit(
    compression: Compression,
    decoder: impl Read,
    input_bytes: usize,
    limit_bytes: usize,
) -> Result<Vec<u8>, CompressionError> {
    let mut output = Vec::with_capacity(first_capacity(input_bytes, limit_bytes));
    let one_more = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let read: io::Result<usize> = decoder.take(one_more).read_to_end(&mut output);
    read.map_err(|error| compression.corrupt(error))?;
    if output.len() > limit_bytes {
        return Err(CompressionError::LimitExceeded { limit_bytes });
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODECS: [Compression; 4] =
        [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// Bytes with repetitions, so that codecs find something to do.
    fn compressible() -> impl Strategy<Value = Vec<u8>> {
        let run = (proptest::collection::vec(any::<u8>(), 0..40), 1..200usize);
        proptest::collection::vec(run, 0..20)
            .prop_map(|runs| runs.into_iter().flat_map(|(bytes, times)| bytes.repeat(times)).collect())
    }

    #[test]
    fn ids_and_names_are_those_of_kafka() {
        for (id, name) in (0u8..).zip(["none", "gzip", "snappy", "lz4", "zstd"]) {
            let codec = Compression::from_id(id).unwrap();
            assert_eq!((codec.id(), codec.name()), (id, name));
            assert_eq!(Compression::from_name(name), Some(codec));
        }
        assert_eq!(Compression::from_id(5), None);
        assert_eq!(Compression::from_name("brotli"), None);
    }

    #[test]
    fn the_limit_is_exact() {
        let input = vec![7u8; 300_000];
        for codec in Compression::ALL {
            let compressed = codec.compress(&input);
            assert_eq!(codec.decompress(&compressed, input.len()).as_ref(), Ok(&input), "{codec}");
            assert_eq!(
                codec.decompress(&compressed, input.len() - 1),
                Err(CompressionError::LimitExceeded { limit_bytes: input.len() - 1 }),
                "{codec}"
            );
            assert_eq!(codec.decompress(&codec.compress(&[]), 0), Ok(Vec::new()), "{codec}");
        }
    }

    #[test]
    fn no_codec_takes_a_cut_or_empty_input() {
        let input: Vec<u8> = (0..50_000u32).flat_map(|number| (number * number).to_be_bytes()).collect();
        for codec in CODECS {
            let compressed = codec.compress(&input);
            for cut in [0, 1, 5, compressed.len() / 2, compressed.len() - 1] {
                // Framed snappy has no end mark: a cut between blocks cannot be seen here, but the record
                // count gives it away.
                let result = codec.decompress(&compressed[..cut], 1 << 20);
                assert!(result.is_err(), "{codec} cut at {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip(input in compressible()) {
            for codec in Compression::ALL {
                prop_assert_eq!(codec.decompress(&codec.compress(&input), input.len()).unwrap(), &input[..]);
            }
        }

        #[test]
        fn garbage_never_panics_nor_passes_the_limit(
            mut input in compressible(),
            damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
            start_valid in any::<bool>(),
        ) {
            for codec in CODECS {
                let mut bytes = if start_valid { codec.compress(&input) } else { std::mem::take(&mut input) };
                for (place, value) in &damage {
                    if !bytes.is_empty() {
                        let place = place.index(bytes.len());
                        bytes[place] = *value;
                    }
                }
                if let Ok(output) = codec.decompress(&bytes, 100_000) {
                    prop_assert!(output.len() <= 100_000);
                }
            }
        }
    }
}
