//! Why bytes could not be read or a value could not be written. Never panics, never does IO.

/// Why bytes from outside are not what the schema says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ends before the value does.
    #[error("input ends early: {needed} bytes needed, {remaining} remain")]
    Truncated {
        /// How many bytes the value needs.
        needed: usize,
        /// How many bytes are left.
        remaining: usize,
    },
    /// A length or an element count that no remaining input could hold. Found before anything is allocated.
    #[error("length {length} exceeds what {remaining} remaining bytes can hold")]
    LengthExceedsInput {
        /// The length or count that was read.
        length: usize,
        /// How many bytes are left.
        remaining: usize,
    },
    /// A length below -1, or a string longer than the protocol permits.
    #[error("invalid length {length}")]
    InvalidLength {
        /// The length that was read.
        length: i64,
    },
    /// An array whose elements would take far more memory than the input that carries them.
    #[error(
        "array of {count} elements needs {bytes} bytes of memory, too much for an input of {input} bytes"
    )]
    Amplification {
        /// How many elements were announced.
        count: usize,
        /// How much memory they take.
        bytes: usize,
        /// The size of the whole input.
        input: usize,
    },
    /// A variable-length integer that does not fit into 32 bits.
    #[error("variable-length integer does not fit into 32 bits")]
    VarintOverflow,
    /// A string that is not UTF-8.
    #[error("string is not valid UTF-8")]
    InvalidUtf8,
    /// Null where the schema does not permit it.
    #[error("{field} must not be null")]
    UnexpectedNull {
        /// The field, or the type where the field is not known.
        field: &'static str,
    },
    /// A tagged field whose announced size is not what its value takes.
    #[error("tagged field leaves {unread} of its bytes unread")]
    TaggedFieldSize {
        /// How many bytes were left over.
        unread: usize,
    },
    /// A version that this codec does not know.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The message.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// An API for which this codec has no messages.
    #[error("no messages are known for api key {api_key}")]
    UnsupportedApi {
        /// The API key as on the wire.
        api_key: i16,
    },
}

/// Why a value cannot be written in the version asked for. The fault is the caller's, not the peer's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field with a meaning that the version cannot carry and the receiver must not miss.
    #[error("{message}.{field} is set but version {version} cannot carry it")]
    NotExpressible {
        /// The structure.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// Null where the version does not permit it.
    #[error("{message}.{field} must not be null in version {version}")]
    UnexpectedNull {
        /// The structure.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A string, array or frame beyond what its length prefix can say.
    #[error("length {length} does not fit its length prefix")]
    TooLong {
        /// The length.
        length: usize,
    },
    /// A version that this codec does not know.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The message.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
}
