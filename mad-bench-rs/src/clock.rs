//! The clock of all measurements: `CLOCK_MONOTONIC`, one for all processes of the machine, so that a moment
//! taken in one process can be compared with one taken in another (which `Instant` does not promise).

/// Nanoseconds since some moment that all processes of this machine share.
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Which clock [`now_ns`] reads: processes with the same name read the same one. A container may have one of its own.
pub(crate) fn name() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// Nanoseconds of CPU that the calling kernel thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of CPU that this process has used.
pub(crate) fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether the processor has user interrupts, as `CPUID` says.
pub fn processor_has_user_interrupts() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx >> 5 & 1 == 1
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
