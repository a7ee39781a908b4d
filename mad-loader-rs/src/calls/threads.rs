//! Kernel threads of a rank: they belong to it as its main thread does.

use std::ffi::{c_int, c_void};

use libc::{pthread_attr_t, pthread_t};

use super::call::{Call, waits_green};
use crate::job::is_forked;
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

pub(super) fn calls() -> [Call; 6] {
    [
        ("pthread_create", create as *const () as usize),
        ("pthread_join", join as *const () as usize),
        ("pthread_exit", exit as *const () as usize),
        ("thrd_create", create_c11 as *const () as usize),
        ("thrd_join", join_c11 as *const () as usize),
        ("thrd_exit", exit_c11 as *const () as usize),
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
    // For good: destructors of the thread's values run after this, and may call MPI.
    std::mem::forget(Belongs::to(rank, false));
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
    if !waits_green() {
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
        // The only thread of a child.
        // SAFETY: ends the child.
        Some(_) if is_forked() => unsafe { libc::exit(0) },
        Some(rank) if current::is_main() => {
            rank.threads.wait();
            // SAFETY: the caller is on the thread of `main`, and expects no return.
            unsafe { rank.finish(0) }
        }
        // SAFETY: the caller's own call.
        _ => unsafe { pthread_exit(value) },
    }
}

type StartC11 = extern "C-unwind" fn(*mut c_void) -> c_int;

/// What a new thread of C11 is given.
struct FirstC11 {
    start: StartC11,
    argument: *mut c_void,
}

/// Results of the functions of `threads.h`.
const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;
const THRD_NOMEM: c_int = 3;

fn c11(error: c_int) -> c_int {
    match error {
        0 => THRD_SUCCESS,
        libc::ENOMEM => THRD_NOMEM,
        _ => THRD_ERROR,
    }
}

/// Takes the place of `thrd_create`. Threads of C11 are the C library's others; the result is the number in the pointer.
unsafe extern "C" fn create_c11(
    thread: *mut pthread_t,
    start: StartC11,
    argument: *mut c_void,
) -> c_int {
    let first = Box::into_raw(Box::new(FirstC11 { start, argument }));
    // SAFETY: the caller's own call; `begin_c11` takes the box.
    let result = unsafe { create(thread, std::ptr::null(), begin_c11, first.cast()) };
    if result != 0 {
        // SAFETY: no thread has been made.
        drop(unsafe { Box::from_raw(first) });
    }
    c11(result)
}

extern "C-unwind" fn begin_c11(first: *mut c_void) -> *mut c_void {
    // SAFETY: `create_c11` made it, for this thread.
    let FirstC11 { start, argument } = *unsafe { Box::from_raw(first.cast::<FirstC11>()) };
    result_c11(start(argument))
}

/// As the C library passes it on.
fn result_c11(result: c_int) -> *mut c_void {
    std::ptr::without_provenance_mut(result as usize)
}

unsafe extern "C-unwind" fn join_c11(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut value: *mut c_void = std::ptr::null_mut();
    // SAFETY: the caller's own call.
    let error = unsafe { join(thread, &raw mut value) };
    if error == 0 && !result.is_null() {
        // SAFETY: the caller's place.
        unsafe { *result = value.addr() as c_int };
    }
    c11(error)
}

unsafe extern "C-unwind" fn exit_c11(result: c_int) -> ! {
    // SAFETY: the caller's own call.
    unsafe { exit(result_c11(result)) }
}
