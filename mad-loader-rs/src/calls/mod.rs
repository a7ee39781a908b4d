//! Functions of the C library that a program calls here instead.
//!
//! | file | what |
//! |---|---|
//! | `start` | from `_start` to `main` |
//! | `end` | `exit`, `atexit` and their like; `abort` and `_exit`, which end the job |
//! | `environment` | changes of the environment |
//! | `exceptions` | C++'s exceptions that are being handled |
//! | `files` | the C library's standard streams, which a rank neither closes nor gives a buffer |
//! | `options` | `getopt` |
//! | `streams` | C++'s standard streams |
//! | `descriptors`, `sockets` | reads and writes of pipes, sockets, terminals |
//! | `poll` | `poll`, `select`, `epoll_wait` |
//! | `blocking` | what only a kernel thread can wait for: children, names, semaphores |
//! | `sleep` | sleeping and yielding |
//! | `threads` | kernel threads of a rank |
//!
//! A call by a thread that belongs to no rank, or that is no green thread, goes to the C library.

mod blocking;
mod call;
mod descriptors;
mod end;
mod environment;
mod exceptions;
mod files;
mod options;
mod poll;
mod sleep;
mod sockets;
mod start;
mod streams;
mod threads;
mod wait_set;

use self::call::Call;
pub(crate) use self::end::watch as watch_ends;

/// The function that takes the place of the one with this name, in libraries that this process's runtime uses itself: only
/// what ranks must not share there.
pub(crate) fn find_private(name: &[u8]) -> Option<usize> {
    exceptions::calls().iter().find(|call| call.0.as_bytes() == name).map(|call| call.1)
}

/// The function that takes the place of the one with this name, in libraries that all ranks share: not those that wait. A
/// library may wait while it holds a mutex of its own. If another rank ran meanwhile and asked for that mutex, it would block
/// the kernel thread that both need.
pub(crate) fn find_shared(name: &[u8]) -> Option<usize> {
    let tables: [&[Call]; 8] = [
        &start::calls(),
        &end::calls(),
        &environment::calls(),
        &exceptions::calls(),
        &files::calls(),
        &options::calls(),
        &streams::calls(),
        &threads::calls(),
    ];
    look(&tables, name)
}

/// The function that takes the place of the one with this name, in what a rank has for itself, and in libraries that hold no
/// mutex where they wait.
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    let waits: [&[Call]; 5] = [
        &blocking::calls(),
        &descriptors::calls(),
        &poll::calls(),
        &sleep::calls(),
        &sockets::calls(),
    ];
    find_shared(name).or_else(|| look(&waits, name))
}

fn look(tables: &[&[Call]], name: &[u8]) -> Option<usize> {
    let mut calls = tables.iter().copied().flatten();
    calls.find(|call| call.0.as_bytes() == name).map(|call| call.1)
}
