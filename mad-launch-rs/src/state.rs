//! What processes do that do not say it themselves, by the kernel's word (`/proc`).
//!
//! Those of `marcel` answer `SIGQUIT` with what each of their threads waits for; it would end others, an MPI library's
//! launcher for one, whose own processes are looked at as well.

use std::fmt::Write;
use std::fs;

/// How deep children of children are followed.
const DEPTH: u32 = 8;

/// Whether a process has a handler for a signal. It may be another one's, but it does not end the process.
pub fn catches(pid: u32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    caught(&status).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The signals that have handlers, one bit for each.
fn caught(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Whether a process is on its way out: every thread of it has begun to end. It may take its time, with much memory or on a
/// busy machine, before its parent can collect its exit status.
pub(crate) fn is_ending(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut stats = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .peekable();
    stats.peek().is_some() && stats.all(|stat| has_begun_to_end(&stat))
}

/// Whether the flags of `/proc/…/stat` hold `PF_EXITING`.
fn has_begun_to_end(stat: &str) -> bool {
    const FLAGS: usize = 6; // after the name: the state, parent, group, session, terminal, its group
    const PF_EXITING: u32 = 4;
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(FLAGS));
    flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|flags| flags & PF_EXITING != 0)
}

/// What every thread of the process and of its descendants does.
pub fn of(pid: u32) -> String {
    let mut text = String::new();
    describe(pid, DEPTH, &mut text);
    match text.is_empty() {
        true => "nothing is known of it".into(),
        false => text.trim_end().into(),
    }
}

fn describe(pid: u32, depth: u32, text: &mut String) {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
    let mut children = Vec::new();
    // What threads do, and how many do the same.
    let mut states: Vec<(String, u32)> = Vec::new();
    for thread in threads.flatten() {
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let where_it_is = read("wchan");
        let mut state = format!("{} {}", read("comm").trim(), doing(&read("stat")));
        if !["", "0"].contains(&where_it_is.trim()) {
            let _ = write!(state, " in {}", where_it_is.trim());
        }
        match states.iter_mut().find(|(other, _)| *other == state) {
            Some((_, count)) => *count += 1,
            None => states.push((state, 1)),
        }
        let listed = read("children");
        children.extend(listed.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    let _ = write!(text, "process {pid}: ");
    for (state, count) in states {
        let times = if count > 1 { format!(" ({count} threads)") } else { String::new() };
        let _ = write!(text, "{state}{times}; ");
    }
    if depth > 0 {
        children.into_iter().for_each(|child| describe(child, depth - 1, text));
    }
}

/// In words, what the state letter of `/proc/…/stat` says. It comes after the name, which may hold anything.
fn doing(stat: &str) -> &'static str {
    let letter = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    match letter {
        Some('R') => "runs",
        Some('S') => "sleeps",
        Some('D') => "waits for a device",
        Some('T' | 't') => "is stopped",
        Some('Z' | 'X') => "has ended",
        _ => "does something unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        assert_eq!(caught("Name:\tx\nSigCgt:\t0000000000000004\n"), Some(4));
        assert_eq!(caught("Name:\tx\n"), None);
        assert_eq!(doing("7 (a) S) R 1 1"), "runs");
        assert_eq!(doing("nonsense"), "does something unknown");
    }

    #[test]
    fn a_process_is_ending_from_its_exit_until_it_is_collected() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(!is_ending(child.id()));
        drop(child.stdin.take());
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !is_ending(child.id()) {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
        let number = child.id();
        child.wait().unwrap();
        assert!(!is_ending(number));
    }

    #[test]
    fn a_sleeping_child_is_found_below_its_shell() {
        let mut shell =
            std::process::Command::new("sh").args(["-c", "sleep 60; true"]).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !of(shell.id()).contains("sleep sleeps") {
            assert!(std::time::Instant::now() < until, "{}", of(shell.id()));
            std::thread::yield_now();
        }
        assert!(!catches(shell.id(), libc::SIGQUIT));
        let found = of(shell.id());
        let child = found.rsplit_once("process ").unwrap().1.split(':').next().unwrap();
        // SAFETY: takes no pointers; the shell has not waited for it, since it still sleeps.
        unsafe { libc::kill(child.parse().unwrap(), libc::SIGKILL) };
        shell.wait().unwrap();
    }
}
