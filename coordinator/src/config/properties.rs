//! Reads `zoo.cfg`: the format of `java.util.Properties`, as far as configuration files use it.
//! Owns the syntax and the line numbers; never knows what a key means.

use std::fmt;

/// One `key=value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The key.
    pub key: String,
    /// The value, without the white space around it.
    pub value: String,
    /// Where it stands.
    pub place: Place,
}

/// Where a setting came from, for messages: a file's line, or the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's name, or what stands in for it.
    pub source: String,
    /// Counted from 1; 0 where there are no lines.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.source),
            line => write!(f, "{}:{line}", self.source),
        }
    }
}

/// The properties of a text, in order. Comments (`#`, `!`) and empty lines are skipped, a backslash at the end of a
/// line continues it, `\uXXXX`, `\t`, `\n`, `\r` and `\\` are resolved. A key without a value has the value "".
pub fn parse(text: &str, source: &str) -> Vec<Property> {
    let mut properties = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut logical = line.trim_start().to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while ends_with_continuation(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start()),
                None => break,
            }
        }
        let (key, value) = split(&logical);
        properties.push(Property {
            key: unescape(key),
            value: unescape(value.trim()).trim().to_owned(),
            place: Place { source: source.to_owned(), line: index + 1 },
        });
    }
    properties
}

/// An odd number of backslashes at the end: the last one is not itself escaped.
fn ends_with_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits at the first unescaped `=`, `:` or white space.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    for (position, character) in line.char_indices() {
        if !escaped && (matches!(character, '=' | ':') || character.is_whitespace()) {
            let rest = line[position..].trim_start();
            let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
            return (&line[..position], value);
        }
        escaped = character == '\\' && !escaped;
    }
    (line, "")
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let decoded = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, usize)> {
        parse(text, "zoo.cfg").into_iter().map(|p| (p.key, p.value, p.place.line)).collect()
    }

    #[test]
    fn reads_what_zookeepers_files_contain() {
        let text = "# comment\n\ntickTime=2000\n  dataDir : /a b \nserver.1=n1:2888:3888;2181\nwide=a,\\\n  b\nempty=\n";
        assert_eq!(
            pairs(text),
            [
                ("tickTime".into(), "2000".into(), 3),
                ("dataDir".into(), "/a b".into(), 4),
                ("server.1".into(), "n1:2888:3888;2181".into(), 5),
                ("wide".into(), "a,b".into(), 6),
                ("empty".into(), String::new(), 8),
            ]
        );
    }

    #[test]
    fn escapes_are_resolved_and_never_panic() {
        assert_eq!(pairs(r"a\=b=c\u0041\\d")[0], ("a=b".into(), r"cA\d".into(), 1));
        assert_eq!(pairs("a=\\u12")[0].1, "\u{12}");
        assert_eq!(pairs("a=b\\")[0].1, "b");
    }
}
