//! What is wrong in a scenario file, where, and what to write instead.
//!
//! Owns positions, excerpts and suggestions. Never decides what is valid.

use std::{fmt, ops::Range};

/// The text of a scenario with its name, to point into.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file's path as the user gave it.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// A mistake in a scenario file. Prints as `file:line:column: message`, the line with a mark, and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file's path as the user gave it.
    pub source_name: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    excerpt: String,
    marked_characters: usize,
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}:{}: {}", self.source_name, self.line, self.column, self.message)?;
        let number = self.line.to_string();
        writeln!(f, "{number} | {}", self.excerpt)?;
        let indent = " ".repeat(number.len());
        write!(f, "{indent} | {}{}", " ".repeat(self.column - 1), "^".repeat(self.marked_characters))?;
        match &self.hint {
            Some(hint) => write!(f, "\n{indent} = {hint}"),
            None => Ok(()),
        }
    }
}

impl Source {
    /// An error at `span` (byte positions in the text).
    pub fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> ScenarioError {
        let start = floor_boundary(&self.text, span.start.min(self.text.len()));
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |length| start + length);
        let end = floor_boundary(&self.text, span.end.clamp(start, line_end));
        ScenarioError {
            source_name: self.name.clone(),
            line: before.matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            message: message.into(),
            hint,
            excerpt: self.text[line_start..line_end].trim_end().to_string(),
            marked_characters: self.text[start..end].chars().count().max(1),
        }
    }

    /// Where the header of a table stands, or that of the first table inside it.
    pub(super) fn header(&self, table: &str) -> Option<Range<usize>> {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let name = line.trim_start().strip_prefix('[').and_then(|rest| rest.split(']').next());
            let is_it = |name: &str| {
                name.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            if name.is_some_and(is_it) {
                return Some(start..start + line.trim_end().len());
            }
            start += line.len();
        }
        None
    }

    /// An error of the TOML reader, in this house's words.
    pub(super) fn toml_error(&self, error: &toml::de::Error) -> ScenarioError {
        let span = error.span().unwrap_or(0..0);
        let message = error.message();
        let place = self.table_at(span.start);
        if let Some((name, known)) = unknown(message, "unknown field `") {
            let hint = suggestion(&name, &known, "keys here");
            return self.error(span, format!("unknown key `{name}` {place}"), Some(hint));
        }
        if let Some((name, known)) = unknown(message, "unknown variant `") {
            let hint = suggestion(&name, &known, "allowed values");
            return self.error(span, format!("unknown value `{name}`"), Some(hint));
        }
        if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            return self.error(span, format!("the key `{name}` is missing {place}"), None);
        }
        if message == "duplicate key" {
            return self.error(span, "this key is given twice", None);
        }
        self.error(span, plain_words(message), None)
    }

    /// The table that holds a position: `in [phases]`, or `at the top of the file`.
    fn table_at(&self, position: usize) -> String {
        let position = floor_boundary(&self.text, position.min(self.text.len()));
        let line_end = self.text[position..].find('\n').map_or(self.text.len(), |length| position + length);
        let at_header = self.text[..line_end].lines().next_back().unwrap_or("").trim_start().starts_with('[');
        // An unknown key may itself be a header: then it is its parent that does not know it.
        let header_names_the_key = at_header && !self.text[position..].starts_with('[');
        let searched = if header_names_the_key { &self.text[..0] } else { &self.text[..line_end] };
        let header = searched.lines().rev().map(str::trim).find(|line| line.starts_with('['));
        match header {
            Some(header) => format!("in {}", header.split('#').next().unwrap_or(header).trim()),
            None => "at the top of the file".to_string(),
        }
    }
}

fn floor_boundary(text: &str, mut position: usize) -> usize {
    while !text.is_char_boundary(position) {
        position -= 1;
    }
    position
}

/// Takes serde's `unknown field \`x\`, expected one of \`a\`, \`b\`` apart.
fn unknown(message: &str, prefix: &str) -> Option<(String, Vec<String>)> {
    let (name, rest) = message.strip_prefix(prefix)?.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2).map(str::to_string).collect();
    Some((name.to_string(), known))
}

/// serde speaks of Rust's types; people who write scenarios do not.
fn plain_words(message: &str) -> String {
    let mut message = message.to_string();
    for (rust, plain) in [
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected i32", "expected a whole number"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list [...]"),
        ("expected a map", "expected a table"),
    ] {
        if let Some(start) = message.strip_suffix(rust) {
            message = format!("{start}{plain}");
        }
    }
    if let Some(start) = message.find("expected struct ") {
        message.replace_range(start.., "expected a table of keys");
    }
    message
}

/// The valid name that a wrong one was probably meant to be.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', '.', ' '], "");
    let wrong = plain(name);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wrong, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(name.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// ``did you mean `x`?`` where a name is near, and else what there is.
pub fn suggestion(name: &str, known: &[impl AsRef<str>], what: &str) -> String {
    let list = || known.iter().map(|known| format!("`{}`", known.as_ref())).collect::<Vec<_>>().join(", ");
    match nearest(name, known.iter().map(AsRef::as_ref)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("there are no {what}"),
        None => format!("{what}: {}", list()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_ignores_case_and_separators() {
        assert_eq!(nearest("powerloss", ["crash", "power-loss"]), Some("power-loss"));
        assert_eq!(nearest("sedes", ["seeds", "jobs"]), Some("seeds"));
        assert_eq!(nearest("Flush_Messages", ["flush.messages", "segment.bytes"]), Some("flush.messages"));
        assert_eq!(nearest("banana", ["crash", "power-loss"]), None);
    }

    #[test]
    fn positions_outside_the_text_are_no_panic() {
        let source = Source { name: "x".into(), text: "aé\nb".into() };
        assert_eq!(source.error(2..900, "m", None).line, 1);
        let end = source.error(900..901, "m", None);
        assert_eq!((end.line, end.column), (2, 2));
    }
}
