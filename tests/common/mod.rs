//! Helpers of the tests that start the `mad` command.

#![allow(dead_code, unreachable_pub)] // each test file uses some of it

pub mod machines;
pub mod made;
pub mod madmpi;
pub mod programs;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The `mad` command, without knobs of the caller's environment.
pub fn mad(args: &[&str]) -> Command {
    let mut command = alone(env!("CARGO_BIN_EXE_mad"));
    command.args(args);
    command
}

/// A program that no launcher starts, without knobs of the caller's environment.
pub fn alone(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if ["MARCEL_", "PIOM_", "NMAD_", "PMI_", "MAD_"].iter().any(|p| name_text.starts_with(p)) {
            command.env_remove(&name);
        }
    }
    default_signals(&mut command);
    command
}

/// Gives the signals that users send their default meaning. A shell without job control starts background jobs with
/// SIGINT and SIGQUIT ignored, processes inherit that, and marcel leaves an ignored signal alone.
pub fn default_signals(command: &mut Command) {
    let reset = || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: `signal` is async-signal-safe, so a child may call it between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: `reset` only makes that call: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(reset) };
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Output {
    mad(args).output().expect("mad can be started")
}

/// Standard output as text.
pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Path of an example, which cargo has built beside the tests.
pub fn example(name: &str) -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_BIN_EXE_mad"));
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(path.exists(), "{} is not built: run the tests with cargo test", path.display());
    path
}

/// Waits until `done`, for at most 30 s; true if it came.
pub fn eventually(mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    while !done() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Processes whose environment holds `mark`, by id. Zombies have no environment and are not counted.
pub fn processes_with(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(env) = std::fs::read(entry.path().join("environ")) else { continue };
        if env.split(|&byte| byte == 0).any(|var| var == mark.as_bytes()) {
            found.push(pid);
        }
    }
    found
}
