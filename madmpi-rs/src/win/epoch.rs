//! Epochs: which accesses a process may make now.
//!
//! | access epoch | opened by | closed by |
//! |---|---|---|
//! | to all | `fence` | the next fence; also a lock or a start, since the last fence may have been the end |
//! | to a group | `start` | `complete` |
//! | to one | `lock` | `unlock` |
//! | to all | `lock_all` | `unlock_all` |
//!
//! Exposure (`post` to `wait`) is beside that. A call that does not fit is `MPI_ERR_RMA_SYNC`.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use marcel::plumbing::KernelMutex;

use crate::abi::*;
use crate::error::Fault;

/// Access to all members.
const FENCE: u8 = 1;
const LOCK_ALL: u8 = 2;
/// Access to one member.
const STARTED: u8 = 1;
const LOCKED: u8 = 2;
const EXCLUSIVE: u8 = 4;
/// No lock was taken, since the program says that none is needed.
const UNCHECKED: u8 = 8;

/// How a member is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) exclusive: bool,
    /// A lock was taken.
    pub(super) taken: bool,
}

/// See the module.
pub(super) struct Epochs {
    all: AtomicU8,
    members: Box<[AtomicU8]>,
    /// The ranks of the group that was started.
    started: KernelMutex<Option<Vec<u32>>>,
}

/// An exposure epoch of this process: the receives of the origins' completions.
pub(super) struct Exposure(pub(super) Vec<newmad::Request>);

#[cold]
fn wrong(why: &'static str) -> Fault {
    Fault::new(MPI_ERR_RMA_SYNC, why)
}

impl Epochs {
    pub(super) fn new(members: usize) -> Epochs {
        let members = (0..members).map(|_| AtomicU8::new(0)).collect();
        Epochs { all: AtomicU8::new(0), members, started: KernelMutex::new(None) }
    }

    /// Whether an epoch allows an access to that member.
    #[inline]
    pub(super) fn allows(&self, rank: usize) -> bool {
        self.all.load(Relaxed) | self.members[rank].load(Relaxed) & (STARTED | LOCKED) != 0
    }

    /// # Errors
    /// No epoch allows an access to that member.
    #[inline]
    pub(super) fn check_access(&self, rank: usize) -> Result<(), Fault> {
        match self.allows(rank) {
            false => Err(wrong(
                "there is no access epoch for the target: it begins with MPI_Win_fence, MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all",
            )),
            true => Ok(()),
        }
    }

    /// # Errors
    /// This process has not locked `rank`, or any member.
    pub(super) fn check_passive(&self, rank: Option<usize>) -> Result<(), Fault> {
        let is_locked = |member: &AtomicU8| member.load(Relaxed) & LOCKED != 0;
        let locked = match rank {
            Some(rank) => is_locked(&self.members[rank]),
            None => self.members.iter().any(is_locked),
        };
        match locked || self.all.load(Relaxed) & LOCK_ALL != 0 {
            true => Ok(()),
            false => Err(wrong(
                "this process holds no lock of the target: see MPI_Win_lock and MPI_Win_lock_all",
            )),
        }
    }

    /// # Errors
    /// Another epoch is open.
    pub(super) fn fence(&self, goes_on: bool) -> Result<(), Fault> {
        self.check_no_lock()?;
        if self.started.lock().is_some() {
            return Err(wrong("MPI_Win_start has begun an epoch, which MPI_Win_complete ends"));
        }
        self.all.store(if goes_on { FENCE } else { 0 }, Relaxed);
        Ok(())
    }

    /// # Errors
    /// A lock is held.
    pub(super) fn check_no_lock(&self) -> Result<(), Fault> {
        let locked = |member: &AtomicU8| member.load(Relaxed) & LOCKED != 0;
        match self.all.load(Relaxed) & LOCK_ALL != 0 || self.members.iter().any(locked) {
            true => Err(wrong("a lock is held, which MPI_Win_unlock or MPI_Win_unlock_all ends")),
            false => Ok(()),
        }
    }

    /// # Errors
    /// An epoch is open that this one cannot be inside of.
    pub(super) fn check_start(&self) -> Result<(), Fault> {
        self.check_no_lock()?;
        match self.started.lock().is_some() {
            true => Err(wrong("MPI_Win_start was called before, without MPI_Win_complete")),
            false => Ok(()),
        }
    }

    pub(super) fn start(&self, ranks: Vec<u32>) {
        self.all.store(0, Relaxed);
        for &rank in &ranks {
            self.members[rank as usize].store(STARTED, Relaxed);
        }
        *self.started.lock() = Some(ranks);
    }

    /// Ends the access epoch of a group; returns its ranks.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn complete(&self) -> Result<Vec<u32>, Fault> {
        let ranks = self.started.lock().take();
        let ranks = ranks.ok_or_else(|| wrong("MPI_Win_start was not called before"))?;
        for &rank in &ranks {
            self.members[rank as usize].store(0, Relaxed);
        }
        Ok(ranks)
    }

    /// The ranks of the group that was started.
    pub(super) fn started(&self) -> Vec<u32> {
        self.started.lock().clone().unwrap_or_default()
    }

    /// # Errors
    /// An epoch is open that this one cannot be inside of.
    pub(super) fn check_lock(&self, rank: Option<usize>) -> Result<(), Fault> {
        if self.started.lock().is_some() {
            return Err(wrong("MPI_Win_start has begun an epoch, which MPI_Win_complete ends"));
        }
        match rank {
            Some(rank) if self.all.load(Relaxed) & LOCK_ALL == 0 => {
                match self.members[rank].load(Relaxed) {
                    0 => Ok(()),
                    _ => Err(wrong("this process has locked the target already")),
                }
            }
            Some(_) => Err(wrong("MPI_Win_lock_all has locked the target already")),
            None => self.check_no_lock(),
        }
    }

    pub(super) fn lock(&self, rank: usize, lock: Lock) {
        self.all.store(0, Relaxed);
        let exclusive = if lock.exclusive { EXCLUSIVE } else { 0 };
        let unchecked = if lock.taken { 0 } else { UNCHECKED };
        self.members[rank].store(LOCKED | exclusive | unchecked, Relaxed);
    }

    /// How a member is locked.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn locked(&self, rank: usize) -> Result<Lock, Fault> {
        let bits = self.members[rank].load(Relaxed);
        if bits & LOCKED == 0 {
            return Err(wrong("MPI_Win_lock was not called for the target"));
        }
        Ok(Lock { exclusive: bits & EXCLUSIVE != 0, taken: bits & UNCHECKED == 0 })
    }

    pub(super) fn unlock(&self, rank: usize) {
        self.members[rank].store(0, Relaxed);
    }

    pub(super) fn lock_all(&self, taken: bool) {
        self.all.store(LOCK_ALL | if taken { 0 } else { UNCHECKED }, Relaxed);
    }

    /// Whether `lock_all` has taken locks.
    ///
    /// # Errors
    /// It was not called.
    pub(super) fn all_locked(&self) -> Result<bool, Fault> {
        match self.all.load(Relaxed) {
            bits if bits & LOCK_ALL != 0 => Ok(bits & UNCHECKED == 0),
            _ => Err(wrong("MPI_Win_lock_all was not called before")),
        }
    }

    pub(super) fn unlock_all(&self) {
        self.all.store(0, Relaxed);
    }
}
