//! The table is what it should be, and values are checked against it.

use super::*;

#[test]
fn every_default_is_a_legal_value() {
    for key in TOPIC_KEYS.iter().chain(BROKER_KEYS).chain(GROUP_KEYS).chain(CLEANER_KEYS) {
        assert_eq!(key.check(key.default), Ok(()), "{}", key.name);
    }
}

#[test]
fn tables_are_sorted_and_names_are_unique() {
    for keys in [TOPIC_KEYS, BROKER_KEYS, GROUP_KEYS, CLEANER_KEYS] {
        assert!(keys.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}

#[test]
fn throttled_replicas_are_partition_and_broker() {
    let key = topic_key("leader.replication.throttled.replicas").expect("in the table");
    for value in ["", "*", "0:1", "0:1,12:3", "0:1, 1:2"] {
        assert_eq!(key.check(value), Ok(()), "{value}");
    }
    for value in ["0", "a:b", "0:-1", "*,0:1"] {
        assert!(key.check(value).is_err(), "{value}");
    }
    assert!(key.is_list());
    // It has no default on a broker, so a broker has no such key.
    assert!(broker_key("leader.replication.throttled.replicas").is_none());
    assert!(broker_key("").is_none());
}

#[test]
fn a_bad_value_is_told_what_is_allowed() {
    let key = topic_key("flush.messages").expect("in the table");
    assert_eq!(key.check("0"), Err("at least 1 is expected".to_owned()));
    assert_eq!(key.check("many"), Err("a whole number is expected".to_owned()));
    let key = topic_key("cleanup.policy").expect("in the table");
    assert!(key.check("shrink").is_err());
    for value in ["delete", "compact", "compact,delete", "delete, compact"] {
        assert_eq!(key.check(value), Ok(()));
    }
}
