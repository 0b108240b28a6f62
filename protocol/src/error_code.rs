//! Kafka's error codes: names, meaning, and whether trying again can help.

use std::fmt;

/// An error code as it stands in responses. Codes that are not known are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ErrorCode(i16);

/// Whether a client may repeat the request unchanged and hope (Kafka's RetriableException).
const RETRY: bool = true;
const FATAL: bool = false;

macro_rules! error_codes {
    ($($name:ident = $code:literal, $retriable:ident, $message:literal;)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!($message, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every known code in ascending order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Kafka's name of the code, or `None` if it is not known.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// What the code says, in a few words of English.
            pub const fn message(self) -> &'static str {
                match self.0 {
                    $($code => $message,)*
                    _ => "Error of an unknown kind",
                }
            }

            /// Whether a client may repeat the request unchanged and hope. False for unknown codes.
            pub const fn is_retriable(self) -> bool {
                match self.0 {
                    $($code => $retriable,)*
                    _ => FATAL,
                }
            }
        }
    };
}

error_codes! {
    UNKNOWN_SERVER_ERROR = -1, FATAL, "The server failed in a way it did not expect";
    NONE = 0, FATAL, "No error";
    OFFSET_OUT_OF_RANGE = 1, FATAL, "The offset is not within the range that the log holds";
    CORRUPT_MESSAGE = 2, RETRY, "The batch fails its checksum, has no valid size, or lacks a key that compaction needs";
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRY, "This broker does not host the topic or partition";
    INVALID_FETCH_SIZE = 4, FATAL, "The fetch size is not valid";
    LEADER_NOT_AVAILABLE = 5, RETRY, "The partition has no leader at the moment";
    NOT_LEADER_OR_FOLLOWER = 6, RETRY, "This broker is not the leader of the partition, or holds no replica of it";
    REQUEST_TIMED_OUT = 7, RETRY, "The request was not done in time";
    BROKER_NOT_AVAILABLE = 8, FATAL, "The broker is not available";
    REPLICA_NOT_AVAILABLE = 9, RETRY, "The replica is not available on this broker";
    MESSAGE_TOO_LARGE = 10, FATAL, "The batch is larger than the topic permits";
    STALE_CONTROLLER_EPOCH = 11, FATAL, "A newer controller has taken over";
    OFFSET_METADATA_TOO_LARGE = 12, FATAL, "The metadata that goes with the offset is too long";
    NETWORK_EXCEPTION = 13, RETRY, "The connection was lost before the response came";
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRY, "The coordinator is still loading its state";
    COORDINATOR_NOT_AVAILABLE = 15, RETRY, "The coordinator is not available";
    NOT_COORDINATOR = 16, RETRY, "This broker is not the coordinator";
    INVALID_TOPIC_EXCEPTION = 17, FATAL, "The topic's name is not valid, or the topic may not be written to";
    RECORD_LIST_TOO_LARGE = 18, FATAL, "The batch is larger than a segment of the log";
    NOT_ENOUGH_REPLICAS = 19, RETRY, "Fewer replicas are in sync than the topic demands; nothing was written";
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRY, "The batch was written, but then fewer replicas were in sync than the topic demands";
    INVALID_REQUIRED_ACKS = 21, FATAL, "The number of required acknowledgements is not valid";
    ILLEGAL_GENERATION = 22, FATAL, "The generation is not the group's current one";
    INCONSISTENT_GROUP_PROTOCOL = 23, FATAL, "The member's protocols do not match those of the group";
    INVALID_GROUP_ID = 24, FATAL, "The group id is not valid";
    UNKNOWN_MEMBER_ID = 25, FATAL, "The coordinator does not know this member";
    INVALID_SESSION_TIMEOUT = 26, FATAL, "The session timeout is not within the range that the broker permits";
    REBALANCE_IN_PROGRESS = 27, FATAL, "The group is rebalancing: join again";
    INVALID_COMMIT_OFFSET_SIZE = 28, FATAL, "The offset commit is too large";
    TOPIC_AUTHORIZATION_FAILED = 29, FATAL, "Not permitted on the topic";
    GROUP_AUTHORIZATION_FAILED = 30, FATAL, "Not permitted on the group";
    CLUSTER_AUTHORIZATION_FAILED = 31, FATAL, "Not permitted on the cluster";
    INVALID_TIMESTAMP = 32, FATAL, "The record's timestamp is out of the permitted range";
    UNSUPPORTED_SASL_MECHANISM = 33, FATAL, "The broker does not offer the SASL mechanism";
    ILLEGAL_SASL_STATE = 34, FATAL, "The request does not fit the state of the SASL handshake";
    UNSUPPORTED_VERSION = 35, FATAL, "The broker does not support this version of the API";
    TOPIC_ALREADY_EXISTS = 36, FATAL, "A topic of this name exists already";
    INVALID_PARTITIONS = 37, FATAL, "The number of partitions is not valid";
    INVALID_REPLICATION_FACTOR = 38, FATAL, "The replication factor is below 1 or above the number of available brokers";
    INVALID_REPLICA_ASSIGNMENT = 39, FATAL, "The assignment of replicas is not valid";
    INVALID_CONFIG = 40, FATAL, "The configuration is not valid";
    NOT_CONTROLLER = 41, RETRY, "This broker is not the controller";
    INVALID_REQUEST = 42, FATAL, "The request is malformed or contradicts itself";
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FATAL, "The format of the stored batches does not support the request";
    POLICY_VIOLATION = 44, FATAL, "The request violates a policy of the cluster";
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FATAL, "The batch's sequence number does not follow the producer's last one";
    DUPLICATE_SEQUENCE_NUMBER = 46, FATAL, "A batch with this sequence number was written already";
    INVALID_PRODUCER_EPOCH = 47, FATAL, "The producer's epoch is outdated";
    INVALID_TXN_STATE = 48, FATAL, "The transaction's state does not permit the operation";
    INVALID_PRODUCER_ID_MAPPING = 49, FATAL, "The producer id does not belong to the transactional id";
    INVALID_TRANSACTION_TIMEOUT = 50, FATAL, "The transaction timeout is above the broker's limit";
    CONCURRENT_TRANSACTIONS = 51, RETRY, "An earlier operation on the transaction is still going on";
    TRANSACTION_COORDINATOR_FENCED = 52, FATAL, "The transaction coordinator is no longer the current one";
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FATAL, "Not permitted on the transactional id";
    SECURITY_DISABLED = 54, FATAL, "Security features are switched off";
    OPERATION_NOT_ATTEMPTED = 55, FATAL, "The operation was not attempted because another part of the request failed";
    KAFKA_STORAGE_ERROR = 56, RETRY, "The broker failed to reach the log on its disk";
    LOG_DIR_NOT_FOUND = 57, FATAL, "The broker has no such log directory";
    SASL_AUTHENTICATION_FAILED = 58, FATAL, "SASL authentication failed";
    UNKNOWN_PRODUCER_ID = 59, FATAL, "The broker knows nothing of this producer id, perhaps because its records are gone";
    REASSIGNMENT_IN_PROGRESS = 60, FATAL, "The partition is being reassigned";
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FATAL, "Delegation tokens are switched off";
    DELEGATION_TOKEN_NOT_FOUND = 62, FATAL, "The broker knows no such delegation token";
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FATAL, "The principal neither owns nor may renew the delegation token";
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FATAL, "Delegation tokens cannot be asked for on this kind of connection";
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FATAL, "Not permitted on the delegation token";
    DELEGATION_TOKEN_EXPIRED = 66, FATAL, "The delegation token has expired";
    INVALID_PRINCIPAL_TYPE = 67, FATAL, "Principals of this type are not supported";
    NON_EMPTY_GROUP = 68, FATAL, "The group has members";
    GROUP_ID_NOT_FOUND = 69, FATAL, "The group does not exist";
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRY, "The fetch session does not exist";
    INVALID_FETCH_SESSION_EPOCH = 71, RETRY, "The epoch is not the fetch session's next one";
    LISTENER_NOT_FOUND = 72, RETRY, "The leader does not listen where this broker does";
    TOPIC_DELETION_DISABLED = 73, FATAL, "Deleting topics is switched off";
    FENCED_LEADER_EPOCH = 74, RETRY, "The request's leader epoch is older than the broker's";
    UNKNOWN_LEADER_EPOCH = 75, RETRY, "The request's leader epoch is newer than the broker's";
    UNSUPPORTED_COMPRESSION_TYPE = 76, FATAL, "The client's version does not support the compression in use";
    STALE_BROKER_EPOCH = 77, FATAL, "The broker has registered anew since";
    OFFSET_NOT_AVAILABLE = 78, RETRY, "The new leader's high watermark has not caught up yet";
    MEMBER_ID_REQUIRED = 79, FATAL, "Join again with the member id given";
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRY, "The preferred leader is not available";
    GROUP_MAX_SIZE_REACHED = 81, FATAL, "The group has as many members as it may";
    FENCED_INSTANCE_ID = 82, FATAL, "Another member has taken over the group instance id";
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRY, "No replica that may lead is available";
    ELECTION_NOT_NEEDED = 84, RETRY, "The partition has the right leader already";
    NO_REASSIGNMENT_IN_PROGRESS = 85, FATAL, "The partition is not being reassigned";
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FATAL, "The group still subscribes to the topic, so its offsets cannot be deleted";
    INVALID_RECORD = 87, FATAL, "A record was found not valid";
    UNSTABLE_OFFSET_COMMIT = 88, RETRY, "A transaction on the offset is not decided yet";
    THROTTLING_QUOTA_EXCEEDED = 89, RETRY, "The quota is used up";
    PRODUCER_FENCED = 90, FATAL, "A newer producer uses the same transactional id";
    RESOURCE_NOT_FOUND = 91, FATAL, "The request names something that does not exist";
    DUPLICATE_RESOURCE = 92, FATAL, "The request names the same thing twice";
    UNACCEPTABLE_CREDENTIAL = 93, FATAL, "The credential does not meet the rules";
    INCONSISTENT_VOTER_SET = 94, FATAL, "Sender and receiver do not agree on who votes";
    INVALID_UPDATE_VERSION = 95, FATAL, "The version to update to is not valid";
    FEATURE_UPDATE_FAILED = 96, FATAL, "The finalized features could not be updated";
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FATAL, "The principal of a forwarded request could not be read";
    SNAPSHOT_NOT_FOUND = 98, FATAL, "The snapshot does not exist";
    POSITION_OUT_OF_RANGE = 99, FATAL, "The position is not within the snapshot";
    UNKNOWN_TOPIC_ID = 100, RETRY, "This broker does not host a topic of this id";
    DUPLICATE_BROKER_REGISTRATION = 101, FATAL, "The broker id is in use";
    BROKER_ID_NOT_REGISTERED = 102, FATAL, "The broker id is not registered";
    INCONSISTENT_TOPIC_ID = 103, RETRY, "The log belongs to another topic id than the request";
    INCONSISTENT_CLUSTER_ID = 104, FATAL, "The request is meant for another cluster";
    TRANSACTIONAL_ID_NOT_FOUND = 105, FATAL, "The transactional id does not exist";
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRY, "The fetch session mixes topic ids and names";
    INELIGIBLE_REPLICA = 107, FATAL, "The new in-sync set names a replica that may not be in it";
    NEW_LEADER_ELECTED = 108, FATAL, "The partition's state was changed, and with it the leader";
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FATAL, "The offset has moved to tiered storage";
    FENCED_MEMBER_EPOCH = 110, FATAL, "The coordinator has fenced the member's epoch: give up all partitions and join again";
    UNRELEASED_INSTANCE_ID = 111, FATAL, "Another member still holds the instance id";
    UNSUPPORTED_ASSIGNOR = 112, FATAL, "The group does not support the assignor in this version";
    STALE_MEMBER_EPOCH = 113, FATAL, "The member's epoch is outdated: wait for the next heartbeat's";
    MISMATCHED_ENDPOINT_TYPE = 114, FATAL, "The request went to an endpoint of the wrong type";
    UNSUPPORTED_ENDPOINT_TYPE = 115, FATAL, "Endpoints of this type are not supported";
    UNKNOWN_CONTROLLER_ID = 116, FATAL, "The controller id is not known";
    UNKNOWN_SUBSCRIPTION_ID = 117, FATAL, "The telemetry subscription is not valid or outdated";
    TELEMETRY_TOO_LARGE = 118, FATAL, "The telemetry is larger than the broker accepts";
    INVALID_REGISTRATION = 119, FATAL, "The controller refuses the broker's registration";
    TRANSACTION_ABORTABLE = 120, FATAL, "The transaction failed and must be aborted; the transactional id remains usable";
    INVALID_RECORD_STATE = 121, FATAL, "The record's state does not permit the acknowledgement";
    SHARE_SESSION_NOT_FOUND = 122, RETRY, "The share session does not exist";
    INVALID_SHARE_SESSION_EPOCH = 123, RETRY, "The epoch is not the share session's next one";
    FENCED_STATE_EPOCH = 124, FATAL, "The epoch of the share group's state does not match";
    INVALID_VOTER_KEY = 125, FATAL, "The voter's key is not the receiver's";
    DUPLICATE_VOTER = 126, FATAL, "The voter is in the set already";
    VOTER_NOT_FOUND = 127, FATAL, "The voter is not in the set";
    INVALID_REGULAR_EXPRESSION = 128, FATAL, "The regular expression is not valid";
    REBOOTSTRAP_REQUIRED = 129, FATAL, "The client's metadata is outdated: begin again from the bootstrap servers";
    STREAMS_INVALID_TOPOLOGY = 130, FATAL, "The topology is not valid";
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FATAL, "The topology's epoch is not valid";
    STREAMS_TOPOLOGY_FENCED = 132, FATAL, "The topology's epoch is outdated";
    SHARE_SESSION_LIMIT_REACHED = 133, RETRY, "There are as many share sessions as there may be";
}

impl ErrorCode {
    /// The code on the wire.
    pub const fn code(self) -> i16 {
        self.0
    }

    /// Whether this is no error.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this is an error.
    pub const fn is_error(self) -> bool {
        self.0 != 0
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> Self {
        Self(code)
    }
}

impl From<ErrorCode> for i16 {
    fn from(error_code: ErrorCode) -> Self {
        error_code.0
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "ERROR_{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::error::ResponseError;

    fn upper_snake_case(camel_case: &str) -> String {
        let mut name = String::new();
        for (index, letter) in camel_case.char_indices() {
            if index > 0 && letter.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        name
    }

    #[test]
    fn names_and_codes_are_those_of_the_oracle() {
        assert_eq!(ErrorCode::ALL.len(), 135, "from -1 to 133 without a gap");
        assert!(ErrorCode::ALL.is_sorted());
        for &error_code in ErrorCode::ALL.iter().filter(|code| code.is_error()) {
            let theirs = ResponseError::try_from_code(error_code.code()).expect("every code is an error");
            assert_eq!(error_code.name(), Some(upper_snake_case(&format!("{theirs:?}")).as_str()));
        }
    }

    #[test]
    fn trying_again_helps_where_the_oracle_says_so() {
        for &error_code in ErrorCode::ALL.iter().filter(|code| code.is_error()) {
            let theirs = ResponseError::try_from_code(error_code.code()).expect("every code is an error");
            // Java's ConcurrentTransactionsException is retriable; the oracle has it wrong.
            let expected = theirs.is_retriable() || error_code == ErrorCode::CONCURRENT_TRANSACTIONS;
            assert_eq!(error_code.is_retriable(), expected, "{error_code}");
        }
    }

    #[test]
    fn an_unknown_code_is_kept_and_is_an_error() {
        let unknown = ErrorCode::from(1234);
        assert_eq!((unknown.code(), unknown.name(), unknown.is_retriable()), (1234, None, false));
        assert!(unknown.is_error() && !unknown.is_none());
        assert_eq!(unknown.to_string(), "ERROR_1234");
    }
}
