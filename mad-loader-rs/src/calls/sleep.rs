//! Sleeping and yielding: a green thread sleeps alone.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libc::{clockid_t, timespec};

use super::call::{Call, fail, waits_green};
use crate::job::is_child;

pub(super) fn calls() -> [Call; 8] {
    [
        ("sleep", sleep as *const () as usize),
        ("usleep", usleep as *const () as usize),
        ("nanosleep", nanosleep as *const () as usize),
        ("clock_nanosleep", clock_nanosleep as *const () as usize),
        ("sched_yield", sched_yield as *const () as usize),
        ("pthread_yield", sched_yield as *const () as usize),
        ("thrd_sleep", sleep_c11 as *const () as usize),
        ("thrd_yield", sched_yield as *const () as usize),
    ]
}

unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    if waits_green() {
        marcel::sleep(Duration::from_secs(seconds.into()));
        return 0;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::sleep(seconds) }
}

unsafe extern "C-unwind" fn usleep(microseconds: c_uint) -> c_int {
    if waits_green() {
        marcel::sleep(Duration::from_micros(microseconds.into()));
        return 0;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::usleep(microseconds) }
}

unsafe extern "C-unwind" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    if waits_green() {
        // SAFETY: the caller's argument.
        let Some(time) = (unsafe { duration(time) }) else {
            return fail(libc::EINVAL);
        };
        marcel::sleep(time);
        return 0;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::nanosleep(time, left) }
}

unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    // Other clocks measure computing, or what cannot be slept on.
    let known =
        matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME | libc::CLOCK_BOOTTIME);
    if waits_green() && known {
        // SAFETY: the caller's argument.
        let Some(time) = (unsafe { duration(time) }) else { return libc::EINVAL };
        let time =
            if flags & libc::TIMER_ABSTIME == 0 { time } else { time.saturating_sub(now(clock)) };
        marcel::sleep(time);
        return 0;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::clock_nanosleep(clock, flags, time, left) }
}

/// Takes the place of `thrd_sleep`: -1 after a signal, another negative number for another error.
unsafe extern "C-unwind" fn sleep_c11(time: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's own call.
    match unsafe { clock_nanosleep(libc::CLOCK_REALTIME, 0, time, left) } {
        0 => 0,
        libc::EINTR => -1,
        _ => -2,
    }
}

unsafe extern "C-unwind" fn sched_yield() -> c_int {
    if !is_child() {
        marcel::yield_now();
    }
    0
}

/// # Safety
/// `time` is null or valid.
pub(super) unsafe fn duration(time: *const timespec) -> Option<Duration> {
    // SAFETY: the caller's promise.
    let time = unsafe { time.as_ref() }?;
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok().filter(|n| *n < 1_000_000_000)?;
    Some(Duration::new(seconds, nanoseconds))
}

fn now(clock: clockid_t) -> Duration {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place.
    unsafe { libc::clock_gettime(clock, &mut time) };
    // SAFETY: valid.
    unsafe { duration(&time) }.unwrap_or_default()
}
