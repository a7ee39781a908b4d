//! The processes of the members of a window that is reached without messages: whether they are alive.
//!
//! A store into the memory of a process that has died succeeds, and a lock that it held is never given back. So waits
//! look here, and synchronisation does so from time to time. A `pidfd` is readable once its process has ended, even if
//! its parent has not asked for it yet.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::abi::MPI_ERR_PROC_ABORTED;
use crate::error::Fault;

/// Synchronisation looks again after this time.
const AGAIN: Duration = Duration::from_millis(250);

/// See the module.
pub(super) struct Processes {
    /// Of each member; `None`: this process, or the kernel has no such descriptors.
    all: Box<[Option<OwnedFd>]>,
    /// When it was looked at, in nanoseconds of the coarse clock.
    looked: AtomicU64,
}

impl Processes {
    /// For the processes with these numbers, of which 0 is none.
    pub(super) fn new(pids: impl Iterator<Item = u64>) -> Processes {
        let open = |pid: u64| {
            // SAFETY: no memory is passed.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
            // SAFETY: it is new, and nothing else's.
            (pid != 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
        };
        Processes { all: pids.map(open).collect(), looked: AtomicU64::new(0) }
    }

    /// # Errors
    /// One of them has ended.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.check_those(|_| true)
    }

    /// # Errors
    /// One of those has ended.
    pub(super) fn check_those(&self, those: impl Fn(usize) -> bool) -> Result<(), Fault> {
        let entry = |fd: &Option<OwnedFd>| libc::pollfd {
            fd: fd.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled: Vec<libc::pollfd> = self.all.iter().map(entry).collect();
        // SAFETY: the array has so many entries.
        let ended = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
        let dead = |rank: &usize| polled[*rank].revents != 0 && those(*rank);
        match (0..polled.len()).filter(|_| ended > 0).find(dead) {
            Some(rank) => Err(died(rank)),
            None => Ok(()),
        }
    }

    /// Checks the processes if the last check was long ago.
    ///
    /// # Errors
    /// One of them has ended.
    #[inline]
    pub(super) fn check_now_and_then(&self) -> Result<(), Fault> {
        let now = now();
        if now < Duration::from_nanos(self.looked.load(Relaxed)) + AGAIN {
            return Ok(());
        }
        self.check()?; // an error is found again by the next call
        self.looked.store(now.as_nanos() as u64, Relaxed);
        Ok(())
    }
}

/// The clock that is right to a tick of the kernel's, for a fifth of what the exact one costs.
#[inline]
fn now() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the room is there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cold]
fn died(rank: usize) -> Fault {
    Fault::new(MPI_ERR_PROC_ABORTED, format!("rank {rank} of the window has died"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_process_that_has_ended_is_found_before_its_parent_asks() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let processes = Processes::new([0, u64::from(child.id())].into_iter());
        assert!(processes.check().is_ok());
        child.kill().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while processes.check().is_ok() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
        child.wait().unwrap();
    }
}
