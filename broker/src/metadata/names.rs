//! Topic names: which are legal, and which would collide in metric names. Pure.

/// The longest topic name, so that `name-partition` and its suffixes fit a file name.
pub const MAX_TOPIC_NAME_LENGTH: usize = 249;

/// The topic in which groups and their offsets live.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// The topic in which transactions live.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// Whether a topic is the brokers' own.
pub fn is_internal(name: &str) -> bool {
    matches!(name, OFFSETS_TOPIC | TRANSACTIONS_TOPIC)
}

/// Checks a topic's name.
///
/// # Errors
/// What is wrong with it, as Kafka words it.
pub fn check_topic_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("Topic name is invalid: the empty string is not allowed".to_owned());
    }
    if name == "." || name == ".." {
        return Err("Topic name is invalid: '.' or '..' is not allowed".to_owned());
    }
    if name.len() > MAX_TOPIC_NAME_LENGTH {
        return Err(format!(
            "Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
        ));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}

/// Whether two different names become one where a metric name turns '.' into '_'.
pub fn collide(left: &str, right: &str) -> bool {
    left != right && left.len() == right.len() && left.replace('.', "_") == right.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_log_directory_are_refused() {
        for name in ["", ".", "..", "../x", "a/b", "a\\b", "a\0", "é", "a b", &"x".repeat(250)] {
            assert!(check_topic_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "a.b_c-D9", "...", &"x".repeat(249)] {
            assert_eq!(check_topic_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn dots_and_underscores_collide() {
        assert!(collide("a.b", "a_b"));
        assert!(!collide("a.b", "a.b"));
        assert!(!collide("a.b", "a-b"));
    }
}
