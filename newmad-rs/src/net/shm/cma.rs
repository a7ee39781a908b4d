//! Cross-memory attach: copies between the address spaces of two processes, without a detour.

use crate::memory::span::Span;
use crate::net::packet::Refused;
use crate::net::segment::PROBE_VALUE;
use crate::sys::errno;

fn refusal() -> Refused {
    match errno() {
        libc::ESRCH => Refused::Gone,
        _ => Refused::Unable,
    }
}

/// Copies `len` bytes at `remote` in process `pid` to `to`.
///
/// # Safety
/// `len` bytes at `to` are writable and exclusive.
pub(crate) unsafe fn read(
    pid: i32,
    remote: u64,
    to: *mut u8,
    len: usize,
) -> Result<usize, Refused> {
    let local = libc::iovec { iov_base: to.cast(), iov_len: len };
    let there = libc::iovec { iov_base: remote as *mut libc::c_void, iov_len: len };
    // SAFETY: writable by the caller's promise; the kernel checks the remote side.
    let copied = unsafe { libc::process_vm_readv(pid, &local, 1, &there, 1, 0) };
    if copied > 0 { Ok(copied as usize) } else { Err(refusal()) }
}

/// Copies `data` to `remote` in process `pid`.
///
/// # Safety
/// The process announced that many bytes at `remote` as writable.
pub(crate) unsafe fn write(pid: i32, remote: u64, data: Span) -> Result<usize, Refused> {
    let local = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let there = libc::iovec { iov_base: remote as *mut libc::c_void, iov_len: data.len() };
    // SAFETY: a span is readable; the remote side is the caller's promise.
    let copied = unsafe { libc::process_vm_writev(pid, &local, 1, &there, 1, 0) };
    if copied > 0 { Ok(copied as usize) } else { Err(refusal()) }
}

/// Whether the memory of `pid` can be reached; `probe` is the address of its probe word.
pub(crate) fn probe(pid: i32, probe: u64) -> bool {
    let mut word = [0u8; 8];
    // SAFETY: a local array.
    let copied = unsafe { read(pid, probe, word.as_mut_ptr(), 8) };
    copied == Ok(8) && u64::from_ne_bytes(word) == PROBE_VALUE
}

/// Where the kernel restricts tracing to descendants (Yama 1), lets processes of the same user reach this one.
pub(crate) fn permit() {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_ok_and(|scope| scope.trim() == "1") {
        // SAFETY: no memory is passed.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    }
}

/// Whether large messages can be copied straight between processes: cross-memory attach is tried on this very
/// process, and the kernel's policy for others (Yama) is read.
///
/// # Errors
/// The reason why not, as text; messages then go through shared memory twice.
pub fn cma_works() -> Result<(), String> {
    let word = PROBE_VALUE;
    let pid = std::process::id() as i32;
    if !probe(pid, &raw const word as u64) {
        return Err(format!("process_vm_readv is refused: {}", std::io::Error::last_os_error()));
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" | "0" | "1" => Ok(()),
        other => Err(format!(
            "kernel.yama.ptrace_scope is {other}: only privileged processes may attach"
        )),
    }
}
