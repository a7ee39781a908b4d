//! The kernel's clocks.

/// Nanoseconds of a clock of the kernel. Anywhere, signal handlers included; no system call where the kernel has a
/// vDSO.
#[inline]
pub fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of the clock that never goes back, which all processes of a machine share. Anywhere, signal handlers
/// included.
#[inline]
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}
