//! The programs of other libraries: where they come from, how they are built, how they are run.
//!
//! Their sources (`peers/threads`) are part of `mad`. A program is built on first use into the user's cache, under a
//! name made of everything that it depends on, so that a changed source or option makes a new one. Trying to build it
//! is how the library is found.
//!
//! A program is started with operation, workers, samples, threads; it prints one line of JSON per sample:
//! `{"op":"yield","ns":41.2}` or `{"op":"memory","bytes":4305.0}`. What else it has to say goes to standard error. With
//! the one argument `version` it names what it was built with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::experiments::threads::ops::Measurement;
use crate::harness::program::{self, Source, set};
use crate::harness::worker::WorkResult;

/// A file of a program: its path below the program's place, and what is in it. The path is that of the repository too,
/// unless another one follows.
macro_rules! sources {
    (@ $path:literal) => { sources!(@ $path = $path) };
    (@ $path:literal = $file:literal) => { ($path, include_str!(concat!("../../../", $file))) };
    ($($path:literal $(= $file:literal)?),*) => { &[$(sources!(@ $path $(= $file)?)),*] };
}

/// What builds a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tool {
    Cc,
    Cxx,
    Go,
    Cargo,
}

/// A library that is measured by a program of its own.
#[derive(Debug)]
pub(crate) struct Peer {
    library: &'static str,
    tool: Tool,
    /// The first is what the tool is given.
    sources: &'static [Source],
    /// Its name for pkg-config.
    package: &'static str,
    /// The variable that says where it is installed.
    directory: &'static str,
    /// How it is linked when pkg-config does not know it.
    link: &'static [&'static str],
    /// How to come by it.
    get: &'static str,
}

static PEERS: [Peer; 7] = [
    Peer {
        library: "argobots",
        tool: Tool::Cc,
        sources: sources!["peers/threads/argobots.c", "peers/threads/ops.h"],
        package: "argobots",
        directory: "ARGOBOTS_DIR",
        link: &["-labt"],
        get: "install Argobots and set ARGOBOTS_DIR to where it is",
    },
    Peer {
        library: "massivethreads",
        tool: Tool::Cc,
        sources: sources!["peers/threads/massivethreads.c", "peers/threads/ops.h"],
        package: "massivethreads",
        directory: "MASSIVETHREADS_DIR",
        link: &["-lmyth"],
        get: "install MassiveThreads and set MASSIVETHREADS_DIR to where it is",
    },
    Peer {
        library: "state-threads",
        tool: Tool::Cc,
        sources: sources!["peers/threads/state_threads.c", "peers/threads/ops.h"],
        package: "st",
        directory: "STATE_THREADS_DIR",
        link: &["-lst"],
        get: "apt-get install gcc libst-dev, or set STATE_THREADS_DIR to where it is",
    },
    Peer {
        library: "boost-fiber",
        tool: Tool::Cxx,
        sources: sources!["peers/threads/boost_fiber.cpp", "peers/threads/ops.h"],
        package: "",
        directory: "BOOST_DIR",
        link: &["-lboost_fiber", "-lboost_context"],
        get: "apt-get install g++ libboost-fiber-dev, or set BOOST_DIR to where it is",
    },
    Peer {
        library: "go",
        tool: Tool::Go,
        sources: sources!["peers/threads/go/main.go"],
        package: "",
        directory: "",
        link: &[],
        get: "apt-get install golang-go",
    },
    Peer { library: "may", ..RUST },
    Peer { library: "tokio", ..RUST },
];

const RUST: Peer = Peer {
    library: "",
    tool: Tool::Cargo,
    // Cargo leaves folders with a `Cargo.toml` out of the package around them, so the repository has another name.
    sources: sources![
        "peers/threads/rust/Cargo.toml" = "peers/threads/rust/manifest.toml",
        "peers/threads/rust/Cargo.lock",
        "peers/threads/rust/src/bin/may.rs",
        "peers/threads/rust/src/bin/tokio.rs",
        "src/experiments/threads/ops.rs"
    ],
    package: "",
    directory: "",
    link: &[],
    get: "run `mad bench threads --peers` once: cargo fetches it from crates.io",
};

/// The peer of this name.
pub(crate) fn find(library: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.library == library)
}

impl Peer {
    /// The tool's command; C and C++ have `CC` and `CXX`.
    fn command(&self) -> String {
        let or = |name, default: &str| {
            set(name).and_then(|text| text.into_string().ok()).unwrap_or_else(|| default.into())
        };
        match self.tool {
            Tool::Cc => or("CC", "cc"),
            Tool::Cxx => or("CXX", "c++"),
            Tool::Go => "go".into(),
            Tool::Cargo => or("CARGO", "cargo"),
        }
    }

    /// Options that find the library: its directory if that is set, else pkg-config's, else its name.
    fn options(&self) -> Vec<OsString> {
        let named = || self.link.iter().map(OsString::from);
        if let Some(directory) = set(self.directory) {
            let with = |prefix: &str, below: &str| {
                let mut option = OsString::from(prefix);
                option.push(Path::new(&directory).join(below));
                option
            };
            return [with("-I", "include"), with("-L", "lib"), with("-Wl,-rpath,", "lib")]
                .into_iter()
                .chain(named())
                .collect();
        }
        let known = Command::new("pkg-config")
            .args(["--cflags", "--libs", self.package])
            .stderr(Stdio::null())
            .output();
        match known {
            Ok(output) if !self.package.is_empty() && output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.split_whitespace().map(OsString::from).collect()
            }
            _ => named().collect(),
        }
    }

    /// Where its program is or will be.
    fn place(&self) -> Result<PathBuf, String> {
        let name = if self.tool == Tool::Cargo { "rust" } else { self.library };
        program::place(name, (self.tool, self.sources, self.command(), self.options()))
    }

    /// Its program, below its place.
    fn program(&self) -> Result<PathBuf, String> {
        let place = self.place()?;
        Ok(match self.tool {
            Tool::Cargo => place.join("target/release").join(self.library),
            _ => place.join(self.library),
        })
    }
}

/// Sees to it that its program is there. What cargo has to fetch is built only `with_cargo`.
///
/// # Errors
/// Why there is none, and what to do about it.
pub(crate) fn build(peer: &Peer, with_cargo: bool) -> Result<(), String> {
    let of = |why: String| format!("{}: {why} ({})", peer.library, peer.get);
    let (place, program) = (peer.place().map_err(of)?, peer.program().map_err(of)?);
    if program.exists() {
        return Ok(());
    }
    if peer.tool == Tool::Cargo && !with_cargo {
        return Err(of("not built yet".into()));
    }
    program::build(&place, &program, peer.sources, |part| {
        let source = place.join(peer.sources[0].0);
        let mut command = Command::new(peer.command());
        match peer.tool {
            Tool::Cc | Tool::Cxx => {
                let standard = if peer.tool == Tool::Cc { "-std=gnu11" } else { "-std=gnu++17" };
                command.args(["-O2", standard, "-pthread", "-o"]).arg(part).arg(&source);
                command.args(peer.options());
            }
            Tool::Go => {
                command.args(["build", "-o"]).arg(part).arg(&source);
            }
            Tool::Cargo => {
                command.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
                command.arg(&source).arg("--target-dir").arg(place.join("target"));
            }
        }
        command
    })
    .map_err(of)
}

/// A line of a program.
#[derive(Deserialize)]
struct Line {
    op: String,
    #[serde(alias = "ns", alias = "bytes")]
    figure: f64,
}

/// Runs a peer's program.
///
/// # Errors
/// When it is not there, fails, or says something else than it should.
pub(crate) fn run(
    library: &str,
    measurement: Measurement<'_>,
    mut report: impl FnMut(f64) -> Result<(), String>,
) -> WorkResult {
    let peer = find(library).ok_or("no such library")?;
    let numbers =
        [measurement.workers, measurement.samples, measurement.threads].map(|n| n.to_string());
    let mut samples = 0;
    let mut command = Command::new(peer.program()?);
    command.arg(measurement.op).args(numbers).env("RUST_BACKTRACE", "0");
    let outcome = program::run(&mut command, |line| match serde_json::from_str::<Line>(&line) {
        Ok(Line { op, figure }) if op == measurement.op && figure.is_finite() => {
            samples += 1;
            report(figure)?;
            Ok(false)
        }
        _ => Err(format!("its program says {line:?}").into()),
    })?;
    match outcome.failure() {
        Some(why) => Err(format!("its program {why}").into()),
        None if samples == 0 => Err("its program measured nothing".into()),
        None => Ok(()),
    }
}

/// The version of a library that was measured.
pub(crate) fn version(library: &str) -> Option<String> {
    let peer = find(library)?;
    if peer.tool == Tool::Cargo {
        let lock = peer.sources.iter().find(|(path, _)| path.ends_with("Cargo.lock"))?.1;
        let (_, after) = lock.split_once(&format!("name = \"{library}\"\nversion = \""))?;
        return Some(format!("{library} {}", after.split_once('"')?.0));
    }
    let output = Command::new(peer.program().ok()?).arg("version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_programs_are_understood() {
        let line: Line = serde_json::from_str(r#"{"op":"yield","ns":41.25}"#).unwrap();
        assert_eq!((line.op.as_str(), line.figure), ("yield", 41.25));
        let line: Line = serde_json::from_str(r#"{"op":"memory","bytes":4305}"#).unwrap();
        assert_eq!(line.figure, 4305.0);
    }

    #[test]
    fn the_lock_says_which_version_cargo_builds() {
        for library in ["may", "tokio"] {
            let version = version(library).unwrap();
            assert!(version.starts_with(library) && version.contains('.'), "{version}");
        }
    }

    #[test]
    fn a_changed_source_makes_another_program() {
        let peer = find("go").unwrap();
        let changed = Peer { sources: &[("peers/threads/go/main.go", "")], ..RUST };
        assert_ne!(
            peer.place().unwrap(),
            Peer { library: "go", tool: Tool::Go, ..changed }.place().unwrap()
        );
    }
}
