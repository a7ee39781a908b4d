//! Windows: one-sided communication.
//!
//! A window is reached in one of two ways, which its members choose together when they make it:
//!
//! | | members share memory | by messages |
//! |---|---|---|
//! | when | all are on one machine and newmad's driver is `shm`, or the window is `MPI_Win_allocate_shared`'s | otherwise |
//! | put, get | copies: memory of `allocate` and `allocate_shared` is mapped by all (`segment`), other memory is reached by the kernel (`foreign`) | requests, and messages of data |
//! | accumulate | under a lock word in the segment | requests, which the target's process serves one after the other, under its own lock |
//! | locks | words in the segment | requests (`lock_queue`) |
//! | a target that computes | takes no part | goes on: a sleeping kernel thread of the library wakes up and serves requests (`service`) |
//!
//! A process reaches its own memory by copies in both ways. Epochs of groups (`post`, `start`, `complete`, `wait`) are
//! messages of the window's own communicator, and a fence is its barrier.
//!
//! # Order and atomicity
//! Invariant: every update of a target's memory holds that target's update lock. Updates by memory are done when the call
//! returns; requests of an origin are served in their order. So accumulations of one origin are ordered
//! (`accumulate_ordering` is `rar,raw,war,waw`), and all of them atomic, `MPI_REPLACE` and `MPI_NO_OP` too.
//!
//! # Completion
//! An access by memory is over when its call returns. So is, at the origin, an access by messages whose data are in the
//! request. An access with messages of its own is a [`pending::Access`]. A flush waits for those accesses and then asks the
//! target, which answers when all earlier requests are done.
//!
//! # Ends
//! Receives fail when the member that they wait for dies; the target awaits each lock's release by such a receive. Where
//! members share memory, waits look at the members' processes, and so do unlocks and flushes every quarter of a second
//! (`processes`). The error is `MPI_ERR_PROC_ABORTED`.
//!
//! Rejected: atomic instructions for accumulations of single elements (they would not be atomic against long ones,
//! which would have to be loops of them: several times as slow); registering datatypes at the target (a message says
//! where the bytes lie).
//!
//! | file | what |
//! |---|---|
//! | `create`, `attributes` | making and freeing windows; what the program may ask of one |
//! | `access`, `target` | put, get and accumulations; the elements that they name at the target |
//! | `direct` | the short way of the commonest accesses |
//! | `remote`, `outgoing`, `pending` | accesses by messages, the origin's side: what they are made of, requests and answers on their way, what is awaited |
//! | `wire`, `service`, `lock_queue` | the form of messages; the target's side; its lock |
//! | `update`, `layout`, `foreign`, `memory` | updates; runs of bytes; memory of other processes; memory that is shown |
//! | `epoch`, `sync`, `active` | which accesses are allowed; fences, locks and flushes; epochs of groups |
//! | `segment`, `processes` | memory that members share with its locks (`newmad::plumbing::shared_locks`), and who is alive |

pub(crate) mod access;
pub(crate) mod active;
pub(crate) mod attributes;
pub(crate) mod create;
mod direct;
mod epoch;
mod foreign;
mod layout;
mod lock_queue;
mod memory;
mod outgoing;
mod pending;
mod processes;
mod remote;
mod segment;
mod service;
pub(crate) mod sync;
mod target;
mod update;
pub(crate) mod wire;

use core::ffi::c_int;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, MutexGuard, OnceLock};

use marcel::plumbing::KernelMutex;

use crate::abi::*;
use crate::attribute::Attributes;
use crate::comm::Comm;
use crate::errhandler::{self, Errhandler};
use crate::error::{Fault, HandlesErrors};
use crate::handle::{Ref, Table};
use crate::info::Entries;
use epoch::{Epochs, Exposure};
use memory::Exposed;
use newmad::plumbing::shared_locks::SharedMutex;
use processes::Processes;
use remote::Remote;
use segment::Segment;

static WINDOWS: Table<Win> = Table::new();

/// A window.
pub(crate) struct Win {
    handle: OnceLock<MPI_Win>,
    /// The window's own.
    pub(crate) comm: Ref<Comm>,
    members: Box<[Member]>,
    /// The ranks of all members.
    everyone: Box<[usize]>,
    way: Way,
    pub(crate) own: Own,
    pub(crate) attributes: Attributes,
    settings: KernelMutex<Settings>,
    epochs: Epochs,
    /// Calls that have waited for nothing.
    calls: AtomicU32,
    exposure: KernelMutex<Option<Exposure>>,
    /// The memory that the program has shown, if the window is reached without messages.
    shown: Exposed,
}

/// How the members reach each other.
enum Way {
    Memory { segment: Segment, processes: Processes },
    Messages(Remote),
}

/// A member, as this process sees it.
struct Member {
    /// Its rank in newmad's session.
    process: u32,
    reach: Reach,
    size: usize,
    unit: usize,
}

/// How a member's memory is reached, with the address of its first byte.
#[derive(Clone, Copy)]
enum Reach {
    Here(usize),
    /// In the process with that number.
    Foreign(usize, i32),
    /// By messages; the address is the member's.
    Messages(usize),
}

/// The values of the standard's attributes.
pub(crate) struct Own {
    pub(crate) base: usize,
    pub(crate) size: MPI_Aint,
    pub(crate) unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
}

/// The settings of the program.
pub(crate) struct Settings {
    pub(crate) errhandler: Errhandler,
    pub(crate) name: Vec<u8>,
    pub(crate) info: Entries,
}

/// The window that a handle stands for.
///
/// # Errors
/// The handle stands for none.
#[inline]
pub(crate) fn get(win: MPI_Win) -> Result<Ref<Win>, Fault> {
    WINDOWS.get(win.0).map(Ref::Shared).ok_or_else(|| bad(win))
}

/// Calls `f` with the window that a handle stands for.
///
/// # Safety
/// The window is not freed before `f` returns.
///
/// # Errors
/// The handle stands for none; those of `f`, which go to the window's error handler.
#[inline]
pub(crate) unsafe fn with(
    win: MPI_Win,
    f: impl FnOnce(&Win) -> Result<(), Fault>,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    match unsafe { WINDOWS.with(win.0, f) } {
        Some(Ok(())) => Ok(()),
        Some(Err(fault)) => Err(fault.on(get(win)?.share())),
        None => Err(bad(win)),
    }
}

#[cold]
fn bad(win: MPI_Win) -> Fault {
    let why = match win {
        MPI_WIN_NULL => "MPI_WIN_NULL is not a window",
        _ => "it is not a window, or was freed",
    };
    Fault::handle(MPI_ERR_WIN, "win", win.0, why)
}

impl HandlesErrors for Win {
    fn handle_error(&self, class: c_int, text: &str) -> c_int {
        errhandler::invoke(&self.errhandler(), self.handle().0, class, text)
    }
}

impl Win {
    pub(crate) fn handle(&self) -> MPI_Win {
        self.handle.get().copied().unwrap_or(MPI_WIN_NULL)
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.settings().errhandler.clone()
    }

    pub(crate) fn set_errhandler(&self, handler: Errhandler) {
        let old = std::mem::replace(&mut self.settings().errhandler, handler);
        drop(old); // not under the lock
    }

    /// The member with a rank. `None`: `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    fn member(&self, rank: c_int) -> Result<Option<usize>, Fault> {
        match usize::try_from(rank) {
            Ok(rank) if rank < self.members.len() => Ok(Some(rank)),
            _ if rank == MPI_PROC_NULL => Ok(None),
            _ => Err(self.bad_rank(rank)),
        }
    }

    #[cold]
    fn bad_rank(&self, rank: c_int) -> Fault {
        let why = format!("the window has ranks 0 to {}", self.members.len() - 1);
        Fault::argument(MPI_ERR_RANK, "rank", rank, &why)
    }

    /// The lock that updates of a member's memory hold, where they are done in this process.
    fn update_lock(&self, rank: usize) -> &SharedMutex {
        match &self.way {
            Way::Memory { segment, .. } => &segment.locks(rank).update,
            Way::Messages(remote) => &remote.service.locks.update,
        }
    }

    /// # Errors
    /// A member has died.
    fn alive(&self) -> Result<(), Fault> {
        match &self.way {
            Way::Memory { processes, .. } => processes.check(),
            Way::Messages(_) => Ok(()),
        }
    }

    /// # Errors
    /// Members reach each other by memory.
    fn remote(&self) -> Result<&Remote, Fault> {
        match &self.way {
            Way::Messages(remote) => Ok(remote),
            Way::Memory { .. } => Err(Fault::new(MPI_ERR_INTERN, "members share memory")),
        }
    }
}

/// A handle for a new window.
fn insert(win: Win) -> Result<MPI_Win, Fault> {
    let win = Arc::new(win);
    let handle = WINDOWS.insert(win.clone()).map(MPI_Win);
    let handle = handle.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many windows exist"))?;
    let _ = win.handle.set(handle);
    Ok(handle)
}
