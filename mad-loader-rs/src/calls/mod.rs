//! Functions of the C library that a program calls here instead.
//!
//! | file | what |
//! |---|---|
//! | `start` | from `_start` to `main` |
//! | `end` | `exit`, `atexit` and their like; `abort` and `_exit`, which end the job |
//! | `environment` | changes of the environment |
//! | `files` | the C library's standard streams, which a rank does not close |
//! | `options` | `getopt` |
//! | `streams` | C++'s standard streams |
//! | `sleep` | sleeping and yielding |
//! | `threads` | kernel threads of a rank |
//!
//! A call by a thread that belongs to no rank, or that is no green thread, goes to the C library.

mod call;
mod end;
mod environment;
mod files;
mod options;
mod sleep;
mod start;
mod streams;
mod threads;

use self::call::Call;

/// The function that takes the place of the one with this name.
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    let tables: [&[Call]; 8] = [
        &start::calls(),
        &end::calls(),
        &environment::calls(),
        &files::calls(),
        &options::calls(),
        &sleep::calls(),
        &streams::calls(),
        &threads::calls(),
    ];
    let mut calls = tables.into_iter().flatten();
    calls.find(|call| call.0.as_bytes() == name).map(|call| call.1)
}
