//! Kafka's hash of keys: MurmurHash2, 32 bits, with Kafka's seed. All clients that place a key by it agree.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The hash, as Kafka's clients compute it.
pub fn murmur2(bytes: &[u8]) -> u32 {
    // The length is mixed in as 32 bits, whatever it is.
    let mut hash = SEED ^ (bytes.len() as u32);
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// The partition of a key among so many.
///
/// # Panics
/// If there is no partition.
pub fn partition_of_key(key: &[u8], partitions: usize) -> usize {
    assert!(partitions > 0, "a topic has at least one partition");
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors() {
        // Those of Kafka's own tests of its hash.
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
    }

    #[test]
    fn every_key_has_a_partition() {
        for partitions in 1..20 {
            for key in 0..200u32 {
                assert!(partition_of_key(&key.to_be_bytes(), partitions) < partitions);
            }
        }
    }
}
