//! Calls that block: on one virtual processor, the ranks that do not wait go on.

mod common;

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use common::{compile, host, lines, source};

/// Runs two ranks on one virtual processor, with two ends that the host process inherits.
fn two_ranks(program: &Path, way: &str, ends: (OwnedFd, OwnedFd)) -> Output {
    ranks(2, program, way, ends)
}

/// The same with so many ranks.
fn ranks(count: u32, program: &Path, way: &str, (input, output): (OwnedFd, OwnedFd)) -> Output {
    for end in [&input, &output] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::empty()).unwrap();
    }
    Command::new("timeout")
        .arg("60")
        .arg(host())
        .args(["-n", &count.to_string(), "-p", "1"])
        .arg(program)
        .args([way, "%", &input.as_raw_fd().to_string(), &output.as_raw_fd().to_string()])
        .output()
        .unwrap()
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = UnixStream::pair().unwrap();
    (reader.into(), writer.into())
}

fn check(output: &Output, way: &str, expected: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines(&text), lines(expected), "{way}: {errors}");
    assert_eq!(output.status.code(), Some(0), "{way}: {text} {errors}");
}

#[test]
fn a_rank_that_waits_for_a_descriptor_lets_the_other_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    for way in ["read", "readv", "poll", "ppoll", "select", "epoll"] {
        check(&two_ranks(&program, way, pipe()), way, &format!("{way} got w\n"));
    }
    for way in ["read", "recv", "recvmsg", "poll"] {
        check(&two_ranks(&program, way, sockets()), way, &format!("{way} got w\n"));
    }
    check(&two_ranks(&program, "yield", pipe()), "yield", "written\nseen\n");
}

#[test]
fn a_write_that_does_not_fit_ends_when_all_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    for ends in [pipe(), sockets()] {
        check(&two_ranks(&program, "whole", ends), "whole", "written\nsame 1\n");
    }
    check(&two_ranks(&program, "waitall", sockets()), "waitall", "written\nsame 1\n");
}

#[test]
fn what_no_call_asks_for_ends_no_wait_and_starves_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    check(&two_ranks(&program, "odd", sockets()), "odd", &"odd 0\n".repeat(2));
}

#[test]
fn sets_of_select_are_as_large_as_the_program_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    check(&two_ranks(&program, "wide", pipe()), "wide", "wide got w\n");
}

#[test]
fn datagrams_wait_for_room_and_what_never_waits_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    let output = ranks(1, &program, "datagrams", sockets());
    check(&output, "datagrams", "datagrams 0\n");
}

#[test]
fn a_read_of_no_bytes_waits_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    check(&two_ranks(&program, "nothing", pipe()), "nothing", &"nothing 0\n".repeat(2));
}

#[test]
fn a_wait_ends_at_the_sockets_own_limit() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    check(&two_ranks(&program, "limited", sockets()), "limited", &"limited 0\n".repeat(2));
}

#[test]
fn a_wait_needs_no_descriptor_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    for ends in [pipe(), sockets()] {
        check(&two_ranks(&program, "full", ends), "full", "full got w\n");
    }
}

/// More than the kernel lets wait for one descriptor by sets of sets.
#[test]
fn many_ranks_wait_for_one_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    check(&ranks(241, &program, "crowd", sockets()), "crowd", &"read\n".repeat(240));
}

#[test]
fn ranks_sleep_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits.c", &[]);
    let output = two_ranks(&program, "sleep", pipe());
    check(&output, "sleep", &"slept 1, refused 1\n".repeat(2));
}

/// The mutex is all ranks', and a rank that waits for it holds up the virtual processor: with the one that would give it back.
#[test]
fn a_library_that_waits_with_a_mutex_of_its_own_keeps_the_other_rank_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("cc")
        .args(["-g", "-fPIC", "-shared", "-DLIBRARY", "-pthread", "-o", "liblocked.so"])
        .arg("-Wl,-soname,liblocked.so")
        .arg(source("locked.c"))
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let place = folder.path().display();
    let flags = [&*format!("-L{place}"), &*format!("-Wl,-rpath,{place}"), "-llocked"];
    let program = compile(folder.path(), "locked.c", &flags);
    let output = two_ranks(&program, "any", pipe());
    check(&output, "locked", &"all\n".repeat(2));
}
