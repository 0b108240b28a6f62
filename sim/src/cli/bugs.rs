//! `sillon-sim bugs`: does the simulator find bugs that are known to have happened? Each patch of sim/bugs/ is planted
//! in a copy of the tree, built, and swept with seeds.
//!
//! Owns the procedure. The tree itself is never changed.

use super::{Done, FAILED, GOOD, Wrong, find, run::progress_bar};
use crate::scenario::suggestion;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const EXAMPLES: &str = "\
Examples:
  sillon-sim bugs                      every planted bug
  sillon-sim bugs B26 --seeds 500      one of them, up to 500 seeds
  sillon-sim bugs --only B26 --json    the same for programs

A patch in sim/bugs/ begins with lines that say what it is:

  Id: B26
  Title: A crash while logs are loaded counts as a clean shutdown (KAFKA-10471)
  Scenario: power-loss
  Invariant: I20, I02

and goes on as `git diff` prints it. It is applied to a copy of the tree in target/bugs/, which is built with the
profile `sim`. The bug counts as found when a seed fails, its bundle replays to the same failure, and the tree without
the bug passes ten times as many seeds of the same scenario. Then faults are left out of the run that failed as long as
it fails in the same way; the table shows how many are left.";

/// Arguments of `bugs`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct BugsArguments {
    /// Which bugs: B26; all where none is named
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// The same, as an option
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// How many seeds are tried at most for each bug
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// So many times as many seeds as the bug needed must pass without it; 0 to leave that out
    #[arg(long, value_name = "N", default_value_t = 10)]
    clean: u64,
    /// How many runs may be made to find out which faults the failure needs; 0 to leave that out
    #[arg(long, value_name = "N", default_value_t = 100)]
    shrink_runs: u64,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress bar
    #[arg(long)]
    no_progress: bool,
}

/// A patch with what its first lines say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bug {
    id: String,
    title: String,
    scenario: String,
    invariants: Vec<String>,
    file: PathBuf,
}

/// What came of a bug.
#[derive(Debug, Serialize)]
struct Finding {
    id: String,
    title: String,
    scenario: String,
    expected_invariants: Vec<String>,
    found: Option<Found>,
    /// Why it could not be tried: the patch does not apply, the tree does not build, a run did not end as runs do.
    error: Option<String>,
    seeds_tried: u64,
    cpu_seconds: f64,
}

#[derive(Debug, Serialize)]
struct Found {
    invariant: String,
    as_expected: bool,
    text: String,
    seed: u64,
    bundle: String,
    replays: bool,
    /// Faults in the plan of the run that failed.
    faults: usize,
    /// Those that are left when no more can be left out; none where that was not looked at.
    faults_left: Option<usize>,
    plan_left: Vec<String>,
    clean_seeds: u64,
    clean_passes: bool,
    /// The first failure of the tree without the bug.
    clean_failure: Option<String>,
}

impl Finding {
    /// Nothing has come of it yet.
    fn of(bug: &Bug) -> Finding {
        Finding {
            id: bug.id.clone(),
            title: bug.title.clone(),
            scenario: bug.scenario.clone(),
            expected_invariants: bug.invariants.clone(),
            found: None,
            error: None,
            seeds_tried: 0,
            cpu_seconds: 0.0,
        }
    }

    fn is_good(&self) -> bool {
        self.error.is_none() && self.found.as_ref().is_some_and(|found| found.replays && found.clean_passes)
    }
}

pub(super) fn bugs(arguments: &BugsArguments) -> Done {
    let tree = find::tree()?;
    let ids: Vec<String> = arguments.ids.iter().chain(&arguments.only).cloned().collect();
    let bugs = wanted(&all(&tree)?, &ids)?;
    let bar = progress_bar(bugs.len() as u64, "bugs", arguments.no_progress);
    let mut findings = Vec::new();
    for bug in &bugs {
        bar.set_message(format!("{}: {}", bug.id, bug.title));
        let mut finding = Finding::of(bug);
        if let Err(error) = one(arguments, &tree, bug, &mut finding) {
            finding.error = Some(error.to_string());
        }
        bar.inc(1);
        if !arguments.json {
            bar.suspend(|| tell(&finding));
        }
        findings.push(finding);
    }
    bar.finish_and_clear();
    let found = findings.iter().filter(|finding| finding.is_good()).count();
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&findings)?),
        false => {
            table(&findings);
            println!("{found} of {} planted bugs found", findings.len());
        }
    }
    Ok(if found == findings.len() { GOOD } else { FAILED })
}

/// Every patch, by id.
fn all(tree: &Path) -> Result<Vec<Bug>, Wrong> {
    let mut bugs = Vec::new();
    for entry in fs::read_dir(tree.join("sim/bugs"))? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "patch") {
            let text = fs::read_to_string(&file)?;
            bugs.push(parse(&text, &file).map_err(|error| format!("{}: {error}", file.display()))?);
        }
    }
    bugs.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(bugs)
}

/// Reads the lines before the diff.
fn parse(text: &str, file: &Path) -> Result<Bug, String> {
    let head = text.lines().take_while(|line| !line.starts_with("diff ") && !line.starts_with("--- "));
    let pairs: Vec<(&str, &str)> = head.filter_map(|line| line.split_once(':')).collect();
    let value = |name: &str| {
        let found =
            pairs.iter().find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim().to_string());
        found
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("the line `{name}: …` is missing before the diff"))
    };
    let invariants = value("Invariant")?.split(',').map(|word| word.trim().to_string()).collect();
    Ok(Bug {
        id: value("Id")?,
        title: value("Title")?,
        scenario: value("Scenario")?,
        invariants,
        file: file.to_path_buf(),
    })
}

fn wanted(bugs: &[Bug], ids: &[String]) -> Result<Vec<Bug>, Wrong> {
    if bugs.is_empty() {
        return Err("there is no patch in sim/bugs/".into());
    }
    if ids.is_empty() {
        return Ok(bugs.to_vec());
    }
    let names: Vec<&str> = bugs.iter().map(|bug| bug.id.as_str()).collect();
    ids.iter()
        .map(|id| {
            let found = bugs.iter().find(|bug| bug.id.eq_ignore_ascii_case(id)).cloned();
            found.ok_or_else(|| format!("there is no bug `{id}`: {}", suggestion(id, &names, "bugs")).into())
        })
        .collect()
}

fn one(arguments: &BugsArguments, tree: &Path, bug: &Bug, finding: &mut Finding) -> Result<(), Wrong> {
    let place = tree.join("target/bugs");
    let (copy, repro) = (place.join("tree"), place.join("repro").join(&bug.id));
    copy_tree(tree, &copy)?;
    plant(&copy, bug)?;
    let program = build(&copy, &place.join("target"))?;
    if repro.is_dir() {
        fs::remove_dir_all(&repro)?;
    }
    let summary = sweep(&program, &copy, &bug.scenario, arguments.seed, arguments.seeds, Some(&repro))?;
    finding.seeds_tried = summary["seeds_run"].as_u64().unwrap_or(0);
    finding.cpu_seconds = summary["cpu_ns"].as_f64().unwrap_or(0.0) / 1e9;
    if let Some(failure) = summary["failures"].get(0) {
        finding.found = Some(found(arguments, (tree, &copy), bug, (&program, finding.seeds_tried), failure)?);
    }
    Ok(())
}

/// Looks closer at a failure: whether it replays, what it needs, and whether it is the bug's.
fn found(
    arguments: &BugsArguments,
    (tree, copy): (&Path, &Path),
    bug: &Bug,
    (program, seeds): (&Path, u64),
    failure: &Value,
) -> Result<Found, Wrong> {
    let text = |name: &str| failure[name].as_str().unwrap_or_default().to_string();
    let (invariant, bundle) = (text("name"), text("bundle"));
    let replays = !bundle.is_empty() && replays(program, copy, &bundle)?;
    let shrunk = match arguments.shrink_runs {
        0 => Value::Null,
        _ if bundle.is_empty() => Value::Null,
        runs => shrunk(program, copy, &bundle, runs)?,
    };
    let plan_left = shrunk["plan"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let clean_seeds = seeds.saturating_mul(arguments.clean);
    let clean = match clean_seeds {
        0 => Value::Null,
        _ => sweep(&std::env::current_exe()?, tree, &bug.scenario, arguments.seed, clean_seeds, None)?,
    };
    let clean_failure = clean["failures"][0]["text"].as_str().map(str::to_string);
    Ok(Found {
        as_expected: bug.invariants.contains(&invariant),
        invariant,
        text: text("text"),
        seed: failure["seed"].as_u64().unwrap_or(0),
        bundle,
        replays,
        faults: shrunk["faults_before"].as_u64().unwrap_or(0) as usize,
        faults_left: shrunk["faults_left"].as_u64().map(|left| left as usize),
        plan_left: plan_left.map(str::to_string).collect(),
        clean_seeds,
        clean_passes: clean_failure.is_none(),
        clean_failure,
    })
}

/// Brings the copy in line with the tree's files. Files that are the same are left alone, so that cargo need not build
/// what has not changed.
fn copy_tree(tree: &Path, copy: &Path) -> Result<(), Wrong> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(tree)
        .output()?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()).into());
    }
    let names = String::from_utf8(listed.stdout)?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (tree.join(name), copy.join(name));
        // Deleted in the tree, not yet in git.
        let Ok(content) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|known| known == content) {
            continue;
        }
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&to, content)?;
    }
    Ok(())
}

fn plant(copy: &Path, bug: &Bug) -> Result<(), Wrong> {
    let patch = fs::canonicalize(&bug.file)?;
    // The copy lies inside the repository, but is no part of it: git must not look for one.
    let output = Command::new("git")
        .args(["apply", "--whitespace=nowarn"])
        .arg(&patch)
        .current_dir(copy)
        .env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy))
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("the patch does not apply: {}", String::from_utf8_lossy(&output.stderr).trim())
                .into())
        }
    }
}

fn build(copy: &Path, target: &Path) -> Result<PathBuf, Wrong> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--profile", "sim", "-p", "sillon-sim", "--bin", "sillon-sim"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", target)
        // Few seeds are run of each tree: it is built quickly rather than well, and only what a patch changes is built anew.
        .env("CARGO_PROFILE_SIM_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_SIM_DEBUG", "0")
        .env("CARGO_PROFILE_SIM_INCREMENTAL", "true")
        // The copy's own .cargo/config.toml sets what is needed.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()?;
    match output.status.success() {
        true => Ok(target.join("sim/sillon-sim")),
        false => {
            Err(format!("the tree with the bug does not build:\n{}", String::from_utf8_lossy(&output.stderr))
                .into())
        }
    }
}

/// Runs seeds until the first failure; gives the summary.
fn sweep(
    program: &Path,
    tree: &Path,
    scenario: &str,
    seed: u64,
    seeds: u64,
    repro: Option<&Path>,
) -> Result<Value, Wrong> {
    let mut command = Command::new(program);
    command.args(["run", scenario, "--json", "--no-progress", "--max-failures", "1"]).current_dir(tree);
    command.args(["--seed", &seed.to_string(), "--seeds", &seeds.to_string()]);
    match repro {
        Some(directory) => command.arg("--repro-dir").arg(directory),
        None => command.arg("--no-bundles"),
    };
    let output = command.output()?;
    let summaries: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        format!("the sweep of {scenario} failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    Ok(summaries[0].clone())
}

fn replays(program: &Path, tree: &Path, bundle: &str) -> Result<bool, Wrong> {
    let output = Command::new(program).args(["replay", bundle, "--json"]).current_dir(tree).output()?;
    let result: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("the replay failed: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    Ok(result["same"].as_bool().unwrap_or(false))
}

fn shrunk(program: &Path, tree: &Path, bundle: &str, runs: u64) -> Result<Value, Wrong> {
    let mut command = Command::new(program);
    command.args(["shrink", bundle, "--json", "--no-progress", "--runs", &runs.to_string()]);
    let output = command.current_dir(tree).output()?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        format!("the failure cannot be shrunk: {}", String::from_utf8_lossy(&output.stderr).trim()).into()
    })
}

/// A line for each bug.
fn table(findings: &[Finding]) {
    println!("\n{:<6} {:<10} {:>6} {:>8} {:>7}  scenario", "bug", "found by", "seeds", "CPU s", "faults");
    for finding in findings {
        let found = finding.found.as_ref();
        let by = match (found, &finding.error) {
            (Some(found), _) => found.invariant.as_str(),
            (None, Some(_)) => "not tried",
            (None, None) => "-",
        };
        let left = found.and_then(|found| found.faults_left).map_or("-".to_owned(), |left| left.to_string());
        let (seeds, cpu) = (finding.seeds_tried, finding.cpu_seconds);
        println!("{:<6} {by:<10} {seeds:>6} {cpu:>8.1} {left:>7}  {}", finding.id, finding.scenario);
    }
    println!();
}

fn tell(finding: &Finding) {
    println!("{}  {}", finding.id, finding.title);
    let seeds = finding.seeds_tried;
    if let Some(error) = &finding.error {
        println!("     COULD NOT BE TRIED: {error}");
        return;
    }
    let Some(found) = &finding.found else {
        println!(
            "     NOT FOUND in {seeds} seeds of {} ({:.1} s of CPU time)",
            finding.scenario, finding.cpu_seconds
        );
        println!("     expected: {}", finding.expected_invariants.join(", "));
        return;
    };
    let expected = match found.as_expected {
        true => String::new(),
        false => format!(" (expected {})", finding.expected_invariants.join(", ")),
    };
    println!("     found by {}{expected}, seed {}", found.invariant, found.seed);
    println!("     {}", found.text);
    println!("     {seeds} seeds of {}, {:.1} s of CPU time", finding.scenario, finding.cpu_seconds);
    println!(
        "     bundle {}: {}",
        found.bundle,
        if found.replays { "replays to the same failure" } else { "DOES NOT REPLAY" }
    );
    if let Some(left) = found.faults_left {
        println!("     {left} of {} faults are left when no more can be left out", found.faults);
        found.plan_left.iter().for_each(|line| println!("     {line}"));
    }
    match &found.clean_failure {
        None if found.clean_seeds == 0 => {}
        None => println!("     without the bug the tree passes {} seeds", found.clean_seeds),
        Some(failure) => println!("     WITHOUT THE BUG THE TREE FAILS as well: {failure}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Id: B26\nTitle: Crash: counted as clean\nScenario: power-loss\nInvariant: I20, I02\n\n\
                         diff --git a/x b/x\n--- a/x\n+++ b/x\n";

    #[test]
    fn a_patch_says_what_it_is() {
        let bug = parse(PATCH, Path::new("b26.patch")).expect("it is whole");
        assert_eq!((bug.id.as_str(), bug.title.as_str()), ("B26", "Crash: counted as clean"));
        assert_eq!(bug.invariants, ["I20", "I02"]);
    }

    #[test]
    fn a_patch_without_its_lines_is_refused() {
        let error = parse(&PATCH.replace("Scenario: power-loss\n", ""), Path::new("b26.patch")).unwrap_err();
        assert_eq!(error, "the line `Scenario: …` is missing before the diff");
    }

    #[test]
    fn unknown_ids_name_the_nearest() {
        let bug = parse(PATCH, Path::new("b26.patch")).expect("it is whole");
        let error = wanted(&[bug], &["B62".to_string()]).unwrap_err();
        assert_eq!(error.to_string(), "there is no bug `B62`: did you mean `B26`?");
    }
}
