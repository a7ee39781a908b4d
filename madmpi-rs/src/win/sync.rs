//! Synchronisation of all members, and with one of them: fences, locks and flushes.

use core::ffi::c_int;
use std::sync::atomic::{Ordering, fence as memory_fence};

use super::epoch::Lock;
use super::{Way, Win};
use crate::abi::*;
use crate::error::Fault;
use crate::per_rank;

/// # Errors
/// It has other bits than those of `known`.
pub(super) fn check_assert(assert: c_int, known: c_int) -> Result<(), Fault> {
    if assert & !known == 0 {
        return Ok(());
    }
    let why = "the call does not take that assertion";
    Err(Fault::argument(MPI_ERR_ASSERT, "assert", assert, why))
}

/// Every so many calls that wait for nothing let others go on.
const SELDOM: u32 = 64;

/// A call has waited for nothing. A program that loops around such calls waits for another rank, which may need this core, or
/// the requests that this process serves: it gives way now and then, and looks for events.
#[inline]
fn breathe(win: &Win) {
    // Not one atomic addition: threads that call at once may be counted once.
    let calls = win.calls.load(Ordering::Relaxed).wrapping_add(1);
    win.calls.store(calls, Ordering::Relaxed);
    if calls.is_multiple_of(SELDOM) {
        per_rank::give_way();
        win.comm.session.look();
    }
}

/// Ends the epoch that the last fence has begun, and begins another.
///
/// # Errors
/// A member has died; another epoch is open.
pub(crate) fn fence(win: &Win, assert: c_int) -> Result<(), Fault> {
    let known = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    check_assert(assert, known)?;
    win.epochs.fence(assert & MPI_MODE_NOSUCCEED == 0)?;
    let flushed = flush_members(win, &win.everyone);
    win.comm.coll_group()?.barrier().wait()?;
    memory_fence(Ordering::SeqCst);
    flushed
}

/// Waits until the accesses to members are over there.
///
/// # Errors
/// One has failed; a member has died.
pub(super) fn flush_members(win: &Win, ranks: &[usize]) -> Result<(), Fault> {
    memory_fence(Ordering::SeqCst);
    breathe(win);
    match &win.way {
        Way::Memory { processes, .. } => processes.check_now_and_then(),
        Way::Messages(remote) => remote.flush(ranks),
    }
}

fn take(win: &Win, ranks: &[usize], exclusive: bool) -> Result<(), Fault> {
    match &win.way {
        Way::Memory { segment, processes } => {
            let entered = |member: usize| &segment.locks(member).entered;
            let own = entered(win.comm.rank() as usize);
            for (taken, &rank) in ranks.iter().enumerate() {
                own.fetch_add(1, Ordering::SeqCst);
                // A member that died without a lock hinders no other. (Each waiter left at any death, and its ticket was lost.)
                let hinders = |member| member == rank || entered(member).load(Ordering::SeqCst) > 0;
                let alive = || {
                    // Its holder may wait for this process, which has no progress outside of calls in some modes.
                    win.comm.session.look();
                    processes.check_those(hinders)
                };
                if let Err(fault) = segment.locks(rank).epoch.lock(exclusive, &alive) {
                    own.fetch_sub(1, Ordering::SeqCst);
                    give_back(win, &ranks[..taken], exclusive)?;
                    return Err(fault);
                }
            }
        }
        Way::Messages(remote) => remote.lock(ranks, exclusive)?,
    }
    memory_fence(Ordering::SeqCst);
    Ok(())
}

fn give_back(win: &Win, ranks: &[usize], exclusive: bool) -> Result<(), Fault> {
    match &win.way {
        Way::Memory { segment, .. } => {
            let own = &segment.locks(win.comm.rank() as usize).entered;
            for &rank in ranks {
                segment.locks(rank).epoch.unlock(exclusive);
                own.fetch_sub(1, Ordering::SeqCst);
            }
            Ok(())
        }
        // Of all, though one has died: members wait for the locks of the others.
        Way::Messages(remote) => {
            ranks.iter().map(|&rank| remote.unlock(rank)).fold(Ok(()), Result::and)
        }
    }
}

/// Locks the memory of a member.
///
/// # Errors
/// A member has died; another epoch is open; an argument is not acceptable.
pub(crate) fn lock(win: &Win, kind: c_int, rank: c_int, assert: c_int) -> Result<(), Fault> {
    let exclusive = match kind {
        MPI_LOCK_EXCLUSIVE => true,
        MPI_LOCK_SHARED => false,
        _ => {
            let why = "it is neither MPI_LOCK_EXCLUSIVE nor MPI_LOCK_SHARED";
            return Err(Fault::argument(MPI_ERR_LOCKTYPE, "lock_type", kind, why));
        }
    };
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let Some(rank) = win.member(rank)? else { return Ok(()) };
    win.epochs.check_lock(Some(rank))?;
    let taken = assert & MPI_MODE_NOCHECK == 0;
    if taken {
        take(win, &[rank], exclusive)?;
    }
    win.epochs.lock(rank, Lock { exclusive, taken });
    Ok(())
}

/// Ends the accesses to a member that this process has locked, and gives the lock back.
///
/// # Errors
/// It is not locked; it has died; an access has failed. The epoch is over nevertheless.
pub(crate) fn unlock(win: &Win, rank: c_int) -> Result<(), Fault> {
    let Some(rank) = win.member(rank)? else { return Ok(()) };
    let Lock { exclusive, taken } = win.epochs.locked(rank)?;
    win.epochs.unlock(rank);
    let flushed = flush_members(win, &[rank]);
    let given = if taken { give_back(win, &[rank], exclusive) } else { Ok(()) };
    flushed.and(given)
}

/// Locks the memory of all members, together with others that do.
///
/// # Errors
/// As [`lock`].
pub(crate) fn lock_all(win: &Win, assert: c_int) -> Result<(), Fault> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    win.epochs.check_lock(None)?;
    win.epochs.all_locked().err().ok_or_else(|| {
        Fault::new(
            MPI_ERR_RMA_SYNC,
            "MPI_Win_lock_all was called before, without MPI_Win_unlock_all",
        )
    })?;
    let taken = assert & MPI_MODE_NOCHECK == 0;
    if taken {
        take(win, &win.everyone, false)?;
    }
    win.epochs.lock_all(taken);
    Ok(())
}

/// Ends the accesses to all members, and gives the locks of [`lock_all`] back.
///
/// # Errors
/// As [`unlock`].
pub(crate) fn unlock_all(win: &Win) -> Result<(), Fault> {
    let taken = win.epochs.all_locked()?;
    win.epochs.unlock_all();
    let flushed = flush_members(win, &win.everyone);
    let given = if taken { give_back(win, &win.everyone, false) } else { Ok(()) };
    flushed.and(given)
}

/// Has `flush` flush one member, or all.
#[inline]
fn flush_as(
    win: &Win,
    rank: Option<c_int>,
    flush: impl FnOnce(&[usize]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Some(rank) = rank else {
        win.epochs.check_passive(None)?;
        return flush(&win.everyone);
    };
    let Some(rank) = win.member(rank)? else { return Ok(()) };
    win.epochs.check_passive(Some(rank))?;
    flush(&[rank])
}

/// Waits until the accesses to one member, or to all, are over everywhere.
///
/// # Errors
/// No lock is held; an access has failed; a member has died.
pub(crate) fn flush(win: &Win, rank: Option<c_int>) -> Result<(), Fault> {
    flush_as(win, rank, |ranks| flush_members(win, ranks))
}

/// Waits until the accesses to one member, or to all, are over at this process.
///
/// # Errors
/// As [`flush`].
pub(crate) fn flush_local(win: &Win, rank: Option<c_int>) -> Result<(), Fault> {
    flush_as(win, rank, |ranks| {
        breathe(win);
        match &win.way {
            Way::Memory { processes, .. } => processes.check_now_and_then(),
            Way::Messages(remote) => remote.flush_local(ranks),
        }
    })
}

/// Orders this process's loads and stores of the window's memory with the others' accesses.
pub(crate) fn sync(win: &Win) {
    memory_fence(Ordering::SeqCst);
    breathe(win);
}
