//! Kernel threads of a rank: they belong to it as its main thread does.

use std::ffi::{c_int, c_void};

use libc::{pthread_attr_t, pthread_t};

use super::call::Call;
use crate::rank::Rank;
use crate::rank::{Belongs, current};

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C" {
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> c_int;
}

unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
}

pub(super) fn calls() -> [Call; 3] {
    [
        ("pthread_create", create as *const () as usize),
        ("pthread_join", join as *const () as usize),
        ("pthread_exit", exit as *const () as usize),
    ]
}

/// What a new thread is given.
struct First {
    rank: &'static Rank,
    start: Start,
    argument: *mut c_void,
}

unsafe extern "C" fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(rank) = current::rank() else {
        // SAFETY: the caller's own call.
        return unsafe { pthread_create(thread, attributes, start, argument) };
    };
    let first = Box::into_raw(Box::new(First { rank, start, argument }));
    rank.threads.add();
    // SAFETY: the caller's own call; `begin` takes the box.
    let result = unsafe { pthread_create(thread, attributes, begin, first.cast()) };
    if result != 0 {
        rank.threads.remove();
        // SAFETY: no thread has been made.
        drop(unsafe { Box::from_raw(first) });
    }
    result
}

/// A thread may be cancelled, or call `pthread_exit`: both unwind it. What it holds here is dropped then.
extern "C-unwind" fn begin(first: *mut c_void) -> *mut c_void {
    // SAFETY: `create` made it, for this thread.
    let First { rank, start, argument } = *unsafe { Box::from_raw(first.cast::<First>()) };
    let _belongs = Belongs::to(rank, false);
    let _counted = Counted(rank);
    start(argument)
}

struct Counted(&'static Rank);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.threads.remove();
    }
}

unsafe extern "C-unwind" fn join(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    if !marcel::is_green() {
        // SAFETY: the caller's own call.
        return unsafe { libc::pthread_join(thread, value) };
    }
    let value = value as usize;
    // SAFETY: the caller's own call; which kernel thread makes it makes no difference, since none joins itself.
    marcel::blocking(move || unsafe { libc::pthread_join(thread, value as *mut *mut c_void) })
}

/// Takes the place of `pthread_exit`: a rank's main thread waits for the rank's other threads, then the rank ends.
unsafe extern "C-unwind" fn exit(value: *mut c_void) -> ! {
    match current::rank() {
        Some(rank) if current::is_main() => {
            rank.threads.wait();
            // SAFETY: the caller is on the thread of `main`, and expects no return.
            unsafe { rank.finish(0) }
        }
        // SAFETY: the caller's own call.
        _ => unsafe { pthread_exit(value) },
    }
}
