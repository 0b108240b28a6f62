//! A node's name, which mostly needs no memory of its own.
//!
//! Owns where the bytes are: up to 22 of them in the node itself.

const SHORT: usize = 22;

/// A name.
#[derive(Debug)]
pub(super) enum Name {
    /// A short one.
    Short {
        /// How many of the bytes are the name.
        length: u8,
        /// The name, and zeros.
        bytes: [u8; SHORT],
    },
    /// A long one.
    Long(Box<str>),
}

impl Name {
    pub(super) fn new(name: &str) -> Name {
        if name.len() > SHORT {
            return Name::Long(name.into());
        }
        let mut bytes = [0; SHORT];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Name::Short { length: name.len() as u8, bytes }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Name::Short { length, bytes } => &bytes[..usize::from(*length)],
            Name::Long(name) => name.as_bytes(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Name::Short { .. } => {
                std::str::from_utf8(self.as_bytes()).expect("a name was text when it was made")
            }
            Name::Long(name) => name,
        }
    }

    /// How many characters it has.
    #[inline]
    pub(super) fn characters(&self) -> u64 {
        self.as_bytes().iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_are_kept() {
        for length in 0..60 {
            let name = "ä".repeat(length / 2) + &"x".repeat(length % 2);
            assert_eq!(Name::new(&name).as_str(), name);
            assert_eq!(Name::new(&name).characters(), name.chars().count() as u64);
        }
        assert_eq!(size_of::<Name>(), 24);
    }
}
