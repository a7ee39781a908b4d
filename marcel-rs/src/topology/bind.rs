//! Binding of kernel threads to cores.

/// Binds the calling kernel thread to one core.
///
/// # Errors
/// The kernel refuses, for instance because the core is outside the cpuset.
pub fn bind_current_thread(cpu: usize) -> std::io::Result<()> {
    restrict_current_thread(&[cpu])
}

/// Restricts the calling kernel thread to some cores.
///
/// # Errors
/// As [`bind_current_thread`].
pub fn restrict_current_thread(cpus: &[usize]) -> std::io::Result<()> {
    let mut mask = [0u64; 128];
    for cpu in cpus {
        let Some(word) = mask.get_mut(cpu / 64) else {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
        };
        *word |= 1 << (cpu % 64);
    }
    // SAFETY: `mask` is readable for the length given.
    let ret =
        unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&mask), mask.as_ptr().cast()) };
    if ret == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
