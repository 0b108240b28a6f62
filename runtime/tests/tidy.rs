//! The rules of the house that a tool can check, over the whole tree. Owns no exception: what breaks a rule is split,
//! renamed or explained, not listed here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Reads the tree itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 70;
/// Spelled in two halves, so that this file keeps the rule that it checks.
const UNFINISHED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("unimple", "mented!")];
const FUNCTION_STARTS: &[&str] = &["fn ", "async fn ", "const fn ", "unsafe fn "];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root(), extension, &mut found);
    found.sort();
    found
}

fn collect(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            let generated = name.starts_with('.') || name.starts_with("target");
            if !generated && !["node_modules", "repro", "data"].contains(&name) {
                collect(&path, extension, found);
            }
        } else if name.ends_with(extension) {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn report(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

#[test]
fn files_are_short_enough_to_be_read() {
    let long = |path: &PathBuf| {
        let lines = read(path).lines().count();
        (lines > MAX_FILE_LINES).then(|| format!("{}: {lines} lines", shown(path)))
    };
    report("a source file has at most 600 lines", &files(".rs").iter().filter_map(long).collect::<Vec<_>>());
}

/// Whether a function starts on this line, whatever its visibility.
fn starts_function(line: &str) -> bool {
    let code = line.trim_start();
    let code = match code.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or("", |(_, rest)| rest),
        None => code.strip_prefix("pub ").unwrap_or(code),
    };
    FUNCTION_STARTS.iter().any(|start| code.starts_with(start))
}

#[test]
fn functions_are_short_enough_to_be_read() {
    let mut breaches = Vec::new();
    for path in files(".rs") {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (start, line) in lines.iter().enumerate().filter(|(_, line)| starts_function(line)) {
            // rustfmt puts a function's closing brace at the indentation of its first line.
            let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
            let ends_at_once = line.ends_with('}') || line.ends_with(';');
            let length =
                lines[start..].iter().position(|line| *line == end).map_or(0, |position| position + 1);
            if !ends_at_once && length > MAX_FUNCTION_LINES {
                breaches.push(format!("{}:{}: {length} lines", shown(&path), start + 1));
            }
        }
    }
    report("a function has at most 70 lines", &breaches);
}

#[test]
fn every_module_says_what_it_owns() {
    let silent = |path: &PathBuf| (!read(path).starts_with("//!")).then(|| shown(path));
    report(
        "a source file opens with a //! comment",
        &files(".rs").iter().filter_map(silent).collect::<Vec<_>>(),
    );
}

/// Whether the word stands in the line by itself, not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let is_edge = |character: Option<char>| character.is_none_or(|character| !character.is_alphanumeric());
    line.match_indices(word).any(|(start, _)| {
        is_edge(line[..start].chars().next_back()) && is_edge(line[start + word.len()..].chars().next())
    })
}

#[test]
fn nothing_is_left_unfinished() {
    let mut breaches = Vec::new();
    for path in
        [".rs", ".md", ".toml", ".sh", ".py", ".js", ".go", ".java"].iter().flat_map(|kind| files(kind))
    {
        for (number, line) in read(&path).lines().enumerate() {
            if let Some(word) = UNFINISHED.iter().find(|word| has_word(line, word)) {
                breaches.push(format!("{}:{}: {word}", shown(&path), number + 1));
            }
        }
    }
    report("nothing is marked as unfinished", &breaches);
}

#[test]
fn exceptions_from_lints_and_tests_give_a_reason() {
    let mut breaches = Vec::new();
    for path in files(".rs") {
        let text = read(&path);
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let code = line.trim_start();
            let is_exception =
                ["#[allow(", "#![allow(", "#[ignore"].iter().any(|start| code.starts_with(start));
            let explained =
                line.contains("//") || line.contains("= \"") || before.trim_start().starts_with("//");
            if is_exception && !explained {
                breaches.push(format!("{}:{}", shown(&path), number + 1));
            }
            before = line;
        }
    }
    report("an allowed lint or an ignored test has its reason beside it", &breaches);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut breaches = Vec::new();
    for path in files(".md") {
        let text = read(&path);
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#', ' ']).next().unwrap_or_default();
            let outside = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
            let place = path.parent().expect("a file has a directory").join(target);
            if !outside && !place.exists() {
                breaches.push(format!("{}: {target}", shown(&path)));
            }
        }
    }
    report("a relative link leads to a file", &breaches);
}
