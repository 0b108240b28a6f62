//! The one hash of the state machine: the same on every member and every machine, for the index and the digests.
//!
//! Owns the function. It is no protection against somebody who looks for collisions: where two values could be taken
//! for each other, they are compared.

/// Odd constants without a pattern.
const KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0xd6e8_feb8_6659_fd93];

/// Both halves of the product, mixed.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Mixes two numbers into a hash.
#[inline]
pub(super) fn mix(hash: u64, first: u64, second: u64) -> u64 {
    fold(hash ^ first ^ KEYS[2], second ^ KEYS[3] ^ hash.rotate_left(32))
}

/// The hash of bytes behind what `seed` is the hash of.
#[inline]
pub(super) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let word = |eight: &[u8]| u64::from_le_bytes(eight.try_into().expect("eight bytes"));
    let mut hash = fold(seed ^ KEYS[0], bytes.len() as u64 ^ KEYS[1]);
    let mut chunks = bytes.chunks_exact(16);
    for chunk in &mut chunks {
        hash = mix(hash, word(&chunk[..8]), word(&chunk[8..]));
    }
    let tail = chunks.remainder();
    if !tail.is_empty() {
        let mut padded = [0; 16];
        padded[..tail.len()].copy_from_slice(tail);
        hash = mix(hash, word(&padded[..8]), word(&padded[8..]));
    }
    fold(hash ^ KEYS[1], KEYS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_zeros_make_a_difference() {
        let mut seen = std::collections::BTreeSet::new();
        for length in 0..64 {
            assert!(seen.insert(hash_bytes(0, &vec![0; length])), "{length} zeros");
        }
        assert_ne!(hash_bytes(1, b"a"), hash_bytes(2, b"a"));
        assert_ne!(hash_bytes(hash_bytes(0, b"a"), b"b"), hash_bytes(0, b"ab"));
    }

    #[test]
    fn it_never_changes() {
        assert_eq!(hash_bytes(0, b""), 0xcdab_66e4_3e71_2017);
    }
}
