//! Epochs of groups: `post` and `wait` at the targets, `start` and `complete` at the origins.
//!
//! ```text
//!   target    post ──POST──▶ origin: start returns … accesses … complete ──COMPLETE──▶ target: wait returns
//! ```
//! Both are messages without data of the window's communicator. A complete flushes first, so the accesses are over when
//! its message comes.

use core::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence as memory_fence};

use super::Win;
use super::epoch::Exposure;
use super::sync::{check_assert, flush_members};
use super::wire::{COMPLETE, POST};
use crate::abi::*;
use crate::error::Fault;
use crate::group::Group;
use crate::per_rank;

#[cold]
fn wrong(why: &'static str) -> Fault {
    Fault::new(MPI_ERR_RMA_SYNC, why)
}

/// The ranks in the window of the processes of a group.
fn ranks(win: &Win, group: &Arc<Group>) -> Result<Vec<u32>, Fault> {
    let stranger = || {
        let why = "argument group has a process that is not in the window";
        Fault::new(MPI_ERR_GROUP, why)
    };
    let group = group.called_in(win.comm.group.naming()).map_err(|_| stranger())?;
    let rank = |process: &u32| win.comm.group.rank(*process).ok_or_else(stranger);
    group.members().iter().map(rank).collect()
}

/// Tells all; the first fault counts, that of a member that has died already, too.
fn tell(win: &Win, ranks: &[u32], tag: u32) -> Result<(), Fault> {
    let tag = win.comm.internal_tag(tag);
    let process = |&rank: &u32| win.members[rank as usize].process;
    let tell = |rank| win.comm.session.send_and_leave(process(rank), tag, Vec::new());
    Ok(ranks.iter().map(tell).fold(Ok(()), Result::and)?)
}

fn await_all(win: &Win, ranks: &[u32], tag: u32) -> Result<Vec<newmad::Request>, Fault> {
    let tag = win.comm.internal_tag(tag);
    let receive = |&rank: &u32| {
        let process = win.members[rank as usize].process;
        Ok(win.comm.session.irecv(process, tag, Vec::new())?)
    };
    ranks.iter().map(receive).collect()
}

/// Waits for all; the first fault counts.
fn settle(receives: Vec<newmad::Request>) -> Result<(), Fault> {
    let mut result = Ok(());
    for receive in receives {
        result = result.and(receive.wait().map(drop));
    }
    memory_fence(Ordering::SeqCst);
    Ok(result?)
}

/// Shows the own memory to the processes of a group.
///
/// # Errors
/// It is shown already; the group is not the window's; a member has died.
pub(crate) fn post(win: &Win, group: &Arc<Group>, assert: c_int) -> Result<(), Fault> {
    check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
    let ranks = ranks(win, group)?;
    if win.exposure.lock().is_some() {
        return Err(wrong("MPI_Win_post was called before, without MPI_Win_wait"));
    }
    memory_fence(Ordering::SeqCst);
    let exposure = Exposure(await_all(win, &ranks, COMPLETE)?);
    *win.exposure.lock() = Some(exposure);
    if assert & MPI_MODE_NOCHECK == 0 {
        // A member that is dead fails the wait, which ends the epoch.
        let _ = tell(win, &ranks, POST);
    }
    Ok(())
}

/// Begins accesses to the processes of a group, once they have shown their memory.
///
/// # Errors
/// Another epoch is open; the group is not the window's; a member has died.
pub(crate) fn start(win: &Win, group: &Arc<Group>, assert: c_int) -> Result<(), Fault> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let ranks = ranks(win, group)?;
    win.epochs.check_start()?;
    if assert & MPI_MODE_NOCHECK == 0 {
        let posted = settle(await_all(win, &ranks, POST)?);
        if posted.is_err() {
            // Those that live have posted, and wait for the end of these accesses, which do not begin.
            let _ = tell(win, &ranks, COMPLETE);
        }
        posted?;
    }
    win.epochs.start(ranks);
    Ok(())
}

/// Ends the accesses that [`start`] has begun.
///
/// # Errors
/// There are none; an access has failed; a member has died. The epoch is over nevertheless.
pub(crate) fn complete(win: &Win) -> Result<(), Fault> {
    let ranks = win.epochs.complete()?;
    let targets: Vec<usize> = ranks.iter().map(|&rank| rank as usize).collect();
    let flushed = flush_members(win, &targets);
    flushed.and(tell(win, &ranks, COMPLETE))
}

fn not_posted() -> Fault {
    wrong("MPI_Win_post was not called before")
}

/// Waits until the accesses of the group that the memory is shown to are over.
///
/// # Errors
/// It is not shown; a member has died.
pub(crate) fn wait(win: &Win) -> Result<(), Fault> {
    let exposure = win.exposure.lock().take();
    settle(exposure.ok_or_else(not_posted)?.0)
}

/// Ends the exposure epoch, as [`wait`] does, if its accesses are over; whether they are.
///
/// # Errors
/// As [`wait`].
pub(crate) fn test(win: &Win) -> Result<bool, Fault> {
    let exposure = win.exposure.lock().take().ok_or_else(not_posted)?;
    // Tests of all: each looks for events.
    let pending = exposure.0.iter().filter(|receive| !receive.test()).count();
    if pending > 0 {
        *win.exposure.lock() = Some(exposure);
        per_rank::give_way();
        return Ok(false);
    }
    settle(exposure.0).map(|()| true)
}
