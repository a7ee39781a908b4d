//! Ranks that go wrong, and what debuggers see.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use common::{compile, host, ranks};

#[test]
fn a_rank_that_crashes_is_named_with_its_backtrace() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "crash.c", &["-pthread"]);
    let program = program.to_str().unwrap();
    for (how, signal, words) in [
        ("segv", libc::SIGSEGV, ", rank 2) has received SIGSEGV at address 0x0\n"),
        ("segv on a thread", libc::SIGSEGV, "rank 2) has received SIGSEGV at address 0x0\n"),
        ("fpe", libc::SIGFPE, ", rank 2) has received SIGFPE\n"),
        ("assert", libc::SIGABRT, ", rank 2) has received SIGABRT\n"),
        ("overflow", libc::SIGABRT, "thread 'rank 2' has overflowed its stack of 8192 KiB (number"),
    ] {
        let output = ranks(&["-n", "3", program, "%", how]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(words), "{how}: {errors}");
        assert!(errors.contains("at broken (") && errors.contains("crash.c:"), "{how}: {errors}");
        assert!(how == "overflow" || errors.contains("at calculate ("), "{how}: {errors}");
        // An overflow ends by SIGABRT, which is not told once more.
        assert_eq!(errors.matches("marcel: ").count(), 1, "{how}: {errors}");
        assert_eq!(output.status.signal(), Some(signal), "{how}: {errors}");
    }
    let output = ranks(&["-n", "3", program, "%", "overflow"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains(", rank 2, on vp"));
}

/// The second rank with a fault lets the first one's backtrace be written.
#[test]
fn ranks_that_crash_at_once_leave_a_whole_backtrace() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "crash.c", &["-pthread"]);
    for _ in 0..10 {
        let output = ranks(&["-n", "2", "-p", "2", program.to_str().unwrap(), "%", "segv of all"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("has received SIGSEGV"), "{errors}");
        assert!(errors.contains("at broken (") && errors.contains("at main ("), "{errors}");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    }
}

#[test]
fn a_program_without_symbols_has_its_rank_and_file_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "crash.c", &["-pthread", "-s", "-g0"]);
    let output = ranks(&["-n", "3", program.to_str().unwrap(), "%", "segv"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains(", rank 2) has received SIGSEGV"), "{errors}");
    assert!(!errors.contains("broken"), "{errors}");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
}

#[test]
fn gdb_stops_in_each_copy_and_finds_its_symbols() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("SKIPPED: no debugger: apt install gdb");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "crash.c", &["-pthread"]);
    let program = program.to_str().unwrap();
    let output = Command::new("timeout")
        .args(["-k", "5", "120", "gdb", "-batch", "-nx", "-ex", "set breakpoint pending on"])
        .args(["-ex", "set debuginfod enabled off", "-ex", "handle SIGPROF nostop noprint"])
        .args(["-ex", "break broken", "-ex", "run", "-ex", "bt", "-ex", "info sharedlibrary"])
        .args(["-ex", "print how", "-ex", "print deepest", "-ex", "info breakpoints", "--args"])
        .arg(host())
        .args(["-n", "3", program, "%", "none"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("ptrace: Operation not permitted") {
        println!("SKIPPED: no process may be traced here");
        return;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("broken (how="), "the breakpoint: {text} {errors}");
    assert!(text.contains("calculate (how="), "the caller: {text}");
    assert!(text.contains("\"none\"") && text.contains("$2 = 0"), "variables: {text}");
    let copies = text.lines().filter(|l| l.contains("Yes") && l.contains(program)).count();
    assert_eq!(copies, 3, "objects with symbols: {text}");
    assert_eq!(text.matches(" in broken at ").count(), 3, "places of the breakpoint: {text}");
}
