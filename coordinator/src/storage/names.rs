//! Names of files: `log.` and `snapshot.`, each with an index in 16 hexadecimal digits. Owns how they are made and read.

/// The directory within each data directory; its number is the version of the format.
pub(super) const DIRECTORY: &str = "sillon-1";
/// Who the directory belongs to.
pub(super) const META: &str = "meta";
/// Held by the process that uses the directory.
pub(super) const LOCK: &str = "lock";
const LOG: &str = "log.";
const SNAPSHOT: &str = "snapshot.";
const TEMPORARY: &str = ".tmp";
const CORRUPT: &str = ".corrupt";

/// The segment whose first entry has this index.
pub(super) fn log(first: u64) -> String {
    format!("{LOG}{first:016x}")
}

/// The snapshot of what was applied up to this index.
pub(super) fn snapshot(index: u64) -> String {
    format!("{SNAPSHOT}{index:016x}")
}

/// A snapshot that is being written.
pub(super) fn unfinished_snapshot(number: u64) -> String {
    format!("{SNAPSHOT}{number}{TEMPORARY}")
}

/// Where a snapshot goes that cannot be read any more.
pub(super) fn corrupt_snapshot(index: u64) -> String {
    format!("{}{CORRUPT}", snapshot(index))
}

/// The first index of a segment, from its name.
pub(super) fn parse_log(name: &str) -> Option<u64> {
    parse(name.strip_prefix(LOG)?)
}

/// The index of a finished snapshot, from its name.
pub(super) fn parse_snapshot(name: &str) -> Option<u64> {
    parse(name.strip_prefix(SNAPSHOT)?)
}

/// Whether a file was being written when its process died.
pub(super) fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY)
}

fn parse(digits: &str) -> Option<u64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (digits.len() == 16 && digits.bytes().all(is_digit)).then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(log(0x1f), "log.000000000000001f");
        assert_eq!(parse_log("log.000000000000001f"), Some(0x1f));
        assert_eq!(parse_snapshot(&snapshot(u64::MAX)), Some(u64::MAX));
        let others =
            ["log.1f", "log.000000000000001F", "log.+00000000000001f", "snapshot.000000000000001f", "log."];
        assert!(others.iter().all(|name| parse_log(name).is_none()));
        assert_eq!(parse_snapshot(&corrupt_snapshot(7)), None);
        assert_eq!(parse_snapshot(&unfinished_snapshot(7)), None);
        assert!(is_temporary(&unfinished_snapshot(7)) && !is_temporary(&snapshot(7)));
    }
}
