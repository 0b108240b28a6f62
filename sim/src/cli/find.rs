//! Finds scenarios by name or path, and what the surroundings are: the tree, its commit, the number of cores.

use super::Wrong;
use crate::scenario::{Scenario, suggestion};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The scenarios of a list of names and paths.
pub(super) fn scenarios(wanted: &[String]) -> Result<Vec<Scenario>, Wrong> {
    let mut found = Vec::new();
    for name in wanted {
        if name == "all" {
            for path in all_files()? {
                found.push(Scenario::load(&path)?);
            }
        } else {
            found.push(scenario(name)?);
        }
    }
    Ok(found)
}

/// The scenario of a name or path.
pub(super) fn scenario(name: &str) -> Result<Scenario, Wrong> {
    let path = Path::new(name);
    if name.ends_with(".toml") || path.components().count() > 1 {
        return Ok(Scenario::load(path)?);
    }
    let files = all_files()?;
    let names: Vec<String> = files.iter().filter_map(|file| stem(file)).collect();
    match files.iter().find(|file| stem(file).as_deref() == Some(name)) {
        Some(file) => Ok(Scenario::load(file)?),
        None => {
            Err(format!("there is no scenario `{name}`: {}", suggestion(name, &names, "scenarios")).into())
        }
    }
}

fn stem(file: &Path) -> Option<String> {
    Some(file.file_stem()?.to_str()?.to_string())
}

/// Every file in scenarios/, sorted.
pub(super) fn all_files() -> Result<Vec<PathBuf>, Wrong> {
    let directory = directory()?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!("{}: there is no scenario here", directory.display()).into());
    }
    Ok(files)
}

/// scenarios/ here, or of the tree around, or of the tree that this program was built from.
fn directory() -> Result<PathBuf, Wrong> {
    let here = std::env::current_dir()?;
    let around = here.ancestors().map(|directory| directory.join("scenarios"));
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scenarios");
    let found = around.chain([built_from.clone()]).find(|directory| directory.is_dir());
    match found {
        // Short where it can be: it stands in messages and in the commands that they show.
        Some(found) => Ok(found.strip_prefix(&here).map(Path::to_path_buf).unwrap_or(found)),
        None => Err(format!("no folder `scenarios` here, above, or at {}", built_from.display()).into()),
    }
}

/// The top of the source tree around the current directory, else of the one that this program was built from.
pub(super) fn tree() -> Result<PathBuf, Wrong> {
    let here = std::env::current_dir()?;
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf);
    let is_top =
        |directory: &PathBuf| directory.join("sim/bugs").is_dir() && directory.join("Cargo.toml").is_file();
    let found = here.ancestors().map(Path::to_path_buf).chain(built_from).find(is_top);
    found.ok_or_else(|| "this is not inside Sillon's source tree, which has sim/bugs/".into())
}

/// The commit of the tree around, with `-dirty` where it has changes; empty where there is no repository.
pub(super) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(head) = git(&["rev-parse", "HEAD"]) else { return String::new() };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty());
    if changed { format!("{head}-dirty") } else { head }
}

/// How many runs go on at the same time where nothing is said.
pub(super) fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// This program, as a person would call it again.
pub(super) fn program() -> String {
    // `cargo run` tells its children, so that examples name what was typed.
    if std::env::var_os("CARGO").is_some() { "cargo sim".to_string() } else { "sillon-sim".to_string() }
}
