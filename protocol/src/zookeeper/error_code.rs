//! What went wrong. Owns the numbers, from `KeeperException.Code` of ZooKeeper 3.8.

use std::fmt;

macro_rules! error_codes {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The error in a reply's header. Success is no error: it is the number 0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = $text] $name,)*
            /// One that this list does not know.
            Other(i32),
        }

        impl ErrorCode {
            /// The number on the wire.
            pub const fn number(self) -> i32 {
                match self { $(ErrorCode::$name => $number,)* ErrorCode::Other(number) => number }
            }

            /// The error of a number, `None` for 0.
            pub const fn from_number(number: i32) -> Option<ErrorCode> {
                match number { 0 => None, $($number => Some(ErrorCode::$name),)* other => Some(ErrorCode::Other(other)) }
            }

            /// What it says.
            pub const fn text(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* ErrorCode::Other(_) => "an error of an unknown number" }
            }
        }
    };
}

error_codes! {
    SystemError = -1, "the server failed";
    RuntimeInconsistency = -2, "an operation beside this one in a multi failed";
    DataInconsistency = -3, "data is inconsistent";
    ConnectionLoss = -4, "the connection was lost";
    MarshallingError = -5, "the request cannot be read, or is not allowed here";
    Unimplemented = -6, "the operation is not offered";
    OperationTimeout = -7, "the operation took too long";
    BadArguments = -8, "an argument is not allowed";
    NewConfigNoQuorum = -13, "the new configuration has no quorum";
    ReconfigInProgress = -14, "another reconfiguration is in progress";
    UnknownSession = -12, "the session is not known";
    NoNode = -101, "no such node";
    NoAuth = -102, "not permitted";
    BadVersion = -103, "the version differs";
    NoChildrenForEphemerals = -108, "an ephemeral node has no children";
    NodeExists = -110, "the node exists";
    NotEmpty = -111, "the node has children";
    SessionExpired = -112, "the session has expired";
    InvalidCallback = -113, "the callback is not valid";
    InvalidAcl = -114, "the access list is not valid";
    AuthFailed = -115, "the identity was not proven";
    SessionMoved = -118, "the session has moved to another server";
    NotReadOnly = -119, "the server is read-only";
    EphemeralOnLocalSession = -120, "a local session has no ephemeral nodes";
    NoWatcher = -121, "no such watch";
    RequestTimeout = -122, "the request took too long";
    ReconfigDisabled = -123, "reconfiguration is disabled";
    SessionClosedRequireSaslAuth = -124, "the session must authenticate with SASL";
    QuotaExceeded = -125, "a quota would be exceeded";
    Throttled = -127, "the request was throttled";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.number())
    }
}

impl std::error::Error for ErrorCode {}
