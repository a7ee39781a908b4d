//! The memory of another process of this machine, by the kernel's cross-memory attach.

use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::Run;
use crate::abi::*;
use crate::error::Fault;

/// So many runs go to the kernel at once.
const MOST: usize = 256;
/// The value of the probe word.
const PROBE: u64 = 0x6d61_646d_7069_7721;
static WORD: AtomicU64 = AtomicU64::new(PROBE);

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// The address of the word that peers read to learn whether they can; lets them, where the kernel asks for that.
pub(super) fn probe_address() -> usize {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_ok_and(|scope| scope.trim() == "1") {
        // SAFETY: no memory is passed.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    }
    WORD.as_ptr().expose_provenance()
}

/// Whether the memory of a process can be reached; `probe` is the address of its probe word.
pub(super) fn probe(pid: u64, probe: usize) -> bool {
    let mut word = [0; 8];
    // SAFETY: the array has the length.
    let read = unsafe { read(pid as i32, &[Run::whole(probe, 8)], word.as_mut_ptr()) };
    read.is_ok() && u64::from_ne_bytes(word) == PROBE && WORD.load(Ordering::Relaxed) == PROBE
}

/// Copies the bytes of runs in process `pid` to `to`.
///
/// # Safety
/// `to` has room for them, which nothing else uses.
///
/// # Errors
/// The process is gone; it has no such memory.
pub(super) unsafe fn read(pid: i32, runs: &[Run], to: *mut u8) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { transfer(Direction::Read, pid, runs, to) }
}

/// Copies bytes from `from` to runs in process `pid`.
///
/// # Safety
/// `from` has so many bytes; the process has said that the runs may be written.
///
/// # Errors
/// As [`read`].
pub(super) unsafe fn write(pid: i32, runs: &[Run], from: *const u8) -> Result<(), Fault> {
    // SAFETY: the caller's promise; the bytes are only read.
    unsafe { transfer(Direction::Write, pid, runs, from.cast_mut()) }
}

unsafe fn transfer(
    direction: Direction,
    pid: i32,
    runs: &[Run],
    mut local: *mut u8,
) -> Result<(), Fault> {
    let mut each = runs.iter().flat_map(|run| run.each()).filter(|run| run.1 > 0).peekable();
    let mut list: Vec<libc::iovec> = Vec::new();
    while each.peek().is_some() {
        list.clear();
        list.extend(each.by_ref().take(MOST).map(|(at, len)| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(at),
            iov_len: len,
        }));
        let mut remote = &mut list[..];
        while !remote.is_empty() {
            let len = remote.iter().map(|piece| piece.iov_len).sum();
            let own = libc::iovec { iov_base: local.cast(), iov_len: len };
            let (list, count) = (remote.as_ptr(), remote.len() as libc::c_ulong);
            // SAFETY: the caller's promise; the kernel checks the other side.
            let moved = unsafe {
                match direction {
                    Direction::Read => libc::process_vm_readv(pid, &own, 1, list, count, 0),
                    Direction::Write => libc::process_vm_writev(pid, &own, 1, list, count, 0),
                }
            };
            if moved <= 0 {
                return Err(refused());
            }
            let mut moved = moved as usize;
            // SAFETY: not more than the caller's.
            local = unsafe { local.add(moved) };
            // The kernel may stop between pages.
            while let Some(first) = remote.first_mut() {
                if moved < first.iov_len {
                    first.iov_base = first.iov_base.wrapping_byte_add(moved);
                    first.iov_len -= moved;
                    break;
                }
                moved -= first.iov_len;
                remote = &mut remote[1..];
            }
        }
    }
    Ok(())
}

#[cold]
fn refused() -> Fault {
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH) => Fault::new(MPI_ERR_PROC_ABORTED, "the target has died"),
        Some(libc::EFAULT) => {
            Fault::new(MPI_ERR_RMA_RANGE, "the target has no memory at that address")
        }
        _ => Fault::new(MPI_ERR_OTHER, format!("the target's memory cannot be reached: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_runs_are_read_and_written_in_their_order() {
        let me = std::process::id();
        if !probe(u64::from(me), probe_address()) {
            return; // the kernel here does not allow it
        }
        let mut there: Vec<u16> = (0..5000).collect();
        let at = there.as_mut_ptr().expose_provenance();
        let runs = [Run { at: at + 9996, stride: -4, count: 2000, len: 2 }, Run::whole(at, 4)];
        let mut here = vec![0u16; 2002];
        // SAFETY: the lengths are these.
        unsafe { read(me as i32, &runs, here.as_mut_ptr().cast()) }
            .map_err(|f| f.text.clone())
            .unwrap();
        let expected: Vec<u16> = (0..2000).map(|index| 4998 - 2 * index).chain([0, 1]).collect();
        assert_eq!(here, expected);
        let doubled: Vec<u16> = here.iter().map(|number| number * 2).collect();
        // SAFETY: as above.
        unsafe { write(me as i32, &runs, doubled.as_ptr().cast()) }
            .map_err(|f| f.text.clone())
            .unwrap();
        assert_eq!((there[4998], there[1000], there[1], there[999]), (9996, 2000, 2, 999));
    }
}
