//! Programs with the output that they must have: how they are found, run and compared.
//!
//! The first line of a program says how it is run, in a comment: `np: 2`, or `np: 2 4` for once with each; `peers: no`: the
//! other libraries here do not have all of it; `peers: mpich`: only those that are named have it; `peers-np: 4`: they run it
//! with these numbers of processes only; `ranks: no`: it counts processes, so that its ranks cannot share one.
//! `NAME.expected` is what `NAME.c` must print, or `NAME.4.expected` with 4 processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Other libraries: their names, their launchers with options.
pub const OTHERS: &[(&str, &str, &[&str])] = &[
    ("openmpi", "mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"]),
    ("mpich", "mpirun.mpich", &[]),
];

/// Whether programs are to run on other libraries, too; the test that asks says that they are not.
pub fn peers_are_asked_for() -> bool {
    let asked = std::env::var_os("MAD_TEST_PEERS").is_some_and(|value| value == "1");
    if !asked {
        eprintln!(
            "SKIPPED other_libraries_print_the_same: MAD_TEST_PEERS=1 compares with Open MPI and MPICH"
        );
    }
    asked
}

/// A program with one number of processes.
pub struct Program {
    pub source: PathBuf,
    pub expected: String,
    pub processes: String,
    pub peers: String,
    /// Whether its ranks may share processes.
    pub shares: bool,
    /// Other libraries run it with this number of processes, too.
    pub for_peers: bool,
}

impl Program {
    /// Whether another library, which has these names, can run it.
    pub fn runs_on(&self, names: &[&str]) -> bool {
        let mut named = self.peers.split_whitespace();
        self.for_peers && (self.peers.is_empty() || named.any(|name| names.contains(&name)))
    }
}

/// The programs of a folder with these extensions, by name; once for each number of processes.
pub fn programs(folder: &str, extensions: &[&str]) -> Vec<Program> {
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the programs")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let extension = path.extension().unwrap_or_default().to_string_lossy();
            extensions.contains(&&*extension)
        })
        .collect();
    sources.sort();
    sources.iter().flat_map(|source| runs(source)).collect()
}

/// The numbers of processes that a file is run with; none if it is no program, but a part of one.
fn runs(source: &Path) -> Vec<Program> {
    let text = std::fs::read_to_string(source).expect("a program is text");
    let head = text.lines().next().unwrap_or_default().trim_matches(['/', '*', '!', ' ']);
    let value = |key: &str| {
        let found = head.split(',').find_map(|part| part.trim().strip_prefix(key));
        found.map_or("", str::trim)
    };
    let counts = value("np:");
    let is_program = source.with_extension("expected").exists();
    assert!(!is_program || !counts.is_empty(), "{}: no np", source.display());
    counts
        .split_whitespace()
        .map(|processes| {
            let own = source.with_extension(format!("{processes}.expected"));
            let file = if own.exists() { own } else { source.with_extension("expected") };
            let expected = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let peers_np = value("peers-np:");
            let for_peers = peers_np.is_empty() || peers_np.split(' ').any(|np| np == processes);
            let processes = processes.to_owned();
            Program {
                source: source.to_owned(),
                expected,
                processes,
                peers: value("peers:").to_owned(),
                shares: value("ranks:") != "no",
                for_peers,
            }
        })
        .collect()
}

/// Runs it with an end of its time: a program that hangs is a failure that says which.
pub fn run(command: Command, program: &Program, label: &str) -> Output {
    let output = timed(command);
    assert!(
        output.status.success(),
        "{} on {label}: {}\n{}{}",
        program.source.display(),
        output.status,
        super::out(&output),
        super::err(&output)
    );
    output
}

/// Its exit status is 124 if it came to the end of its time.
pub fn timed(mut command: Command) -> Output {
    // Only a hang reaches it: a program of ten thousand accesses to files takes minutes beside eight computing processes.
    let limit = Duration::from_secs(600);
    let mut timed = Command::new("timeout");
    timed.arg(limit.as_secs().to_string()).arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => timed.env(key, value),
            None => timed.env_remove(key),
        };
    }
    command = timed;
    command.output().expect("timeout is there")
}

pub fn check(output: &Output, program: &Program, label: &str) {
    let found = super::out(output);
    assert_eq!(
        found,
        program.expected,
        "{} on {label}: {}",
        program.source.display(),
        super::err(output)
    );
}
