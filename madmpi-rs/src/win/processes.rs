//! The processes of the members of a window that is reached without messages: whether they are alive.
//!
//! A store into the memory of a process that has died succeeds, and a lock that it held is never given back. So waits
//! look here, and synchronisation does so from time to time. A `pidfd` is readable once its process has ended, even if
//! its parent has not asked for it yet.
//!
//! Windows share the `pidfd`s of this process's neighbours: a file is a window, too, and a program with many of them has
//! few descriptors to spare. Invariant: a `pidfd` whose process has ended is not given to another window, for the kernel
//! may have given the number to a new process.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use marcel::plumbing::KernelMutex;

use crate::abi::MPI_ERR_PROC_ABORTED;
use crate::error::Fault;

/// Synchronisation looks again after this time.
const AGAIN: Duration = Duration::from_millis(250);

/// The `pidfd`s by the numbers of their processes.
static SHARED: KernelMutex<BTreeMap<u64, Weak<OwnedFd>>> = KernelMutex::new(BTreeMap::new());

/// See the module.
pub(super) struct Processes {
    /// Of each member; `None`: this process, or the kernel has no such descriptors.
    all: Box<[Option<Arc<OwnedFd>>]>,
    /// When it was looked at, in nanoseconds of the coarse clock.
    looked: AtomicU64,
}

impl Processes {
    /// For the processes with these numbers, of which 0 is none.
    pub(super) fn new(pids: impl Iterator<Item = u64>) -> Processes {
        let mut shared = SHARED.lock();
        shared.retain(|_, fd| fd.strong_count() > 0);
        let mut one = |pid: u64| {
            let known = shared.get(&pid).and_then(Weak::upgrade);
            if let Some(fd) = known.filter(|fd| !have_ended([Some(&**fd)].into_iter())[0]) {
                return Some(fd);
            }
            let fd = Arc::new(open(pid)?);
            shared.insert(pid, Arc::downgrade(&fd));
            Some(fd)
        };
        Processes { all: pids.map(&mut one).collect(), looked: AtomicU64::new(0) }
    }

    /// # Errors
    /// One of them has ended.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.check_those(|_| true)
    }

    /// # Errors
    /// One of those has ended.
    pub(super) fn check_those(&self, those: impl Fn(usize) -> bool) -> Result<(), Fault> {
        let ended = have_ended(self.all.iter().map(Option::as_deref));
        match (0..ended.len()).find(|&rank| ended[rank] && those(rank)) {
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

/// A new `pidfd` of the process with that number, of which 0 is none.
fn open(pid: u64) -> Option<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    // SAFETY: it is new, and nothing else's.
    (pid != 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// So many descriptors are looked at together: fewer than a process may have open, which is the most that the kernel takes.
const TOGETHER: usize = 64;

/// Whether the processes of these `pidfd`s have ended.
fn have_ended<'a>(fds: impl Iterator<Item = Option<&'a OwnedFd>>) -> Vec<bool> {
    let entry = |fd: Option<&OwnedFd>| libc::pollfd {
        fd: fd.map_or(-1, AsRawFd::as_raw_fd),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polled: Vec<libc::pollfd> = fds.map(entry).collect();
    for polled in polled.chunks_mut(TOGETHER) {
        // SAFETY: the array has so many entries. If the call fails, they say that no process has ended.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
    }
    polled.into_iter().map(|entry| entry.revents != 0).collect()
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
    use std::process::Child;
    use std::time::Instant;

    /// A process, and a window's view of it.
    fn watched() -> (Child, Processes) {
        let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let processes = view(&child);
        assert!(processes.check().is_ok());
        (child, processes)
    }

    fn view(child: &Child) -> Processes {
        Processes::new([0, u64::from(child.id())].into_iter())
    }

    fn kill(child: &mut Child, seen_by: &Processes) {
        child.kill().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while seen_by.check().is_ok() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn share(one: &Processes, other: &Processes) -> bool {
        let fd = |processes: &Processes| processes.all[1].clone().unwrap();
        Arc::ptr_eq(&fd(one), &fd(other))
    }

    #[test]
    fn a_process_that_has_ended_is_found_before_its_parent_asks() {
        let (mut child, processes) = watched();
        kill(&mut child, &processes);
        child.wait().unwrap();
    }

    #[test]
    fn an_end_is_found_among_more_members_than_files_may_be_open() {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the room is there.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
        let members = limit.rlim_cur.min(1 << 20) as usize + 1;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = u64::from(child.id());
        let processes = Processes::new(std::iter::repeat_n(0, members).chain([pid]));
        kill(&mut child, &processes);
        child.wait().unwrap();
    }

    #[test]
    fn windows_share_what_watches_over_a_process_until_it_ends() {
        let (mut child, first) = watched();
        let second = view(&child);
        assert!(share(&first, &second));
        kill(&mut child, &first);
        assert!(second.check().is_err());
        // The number may be that of another process by now.
        let third = view(&child);
        assert!(!share(&first, &third));
        child.wait().unwrap();
        let pid = u64::from(child.id());
        assert!(SHARED.lock().contains_key(&pid));
        drop([first, second, third]);
        drop(Processes::new([0].into_iter()));
        assert!(!SHARED.lock().contains_key(&pid));
    }
}
