//! How far a group is with sharing memory, and the turn of the thread that does a collective.
//!
//! ```text
//!   Counting ──so many collectives were waited for──▶ set up ──all members can────────▶ On
//!                                                        ├─────all are of one process─▶ Met
//!                                                        ├─────several of a process───▶ Teams
//!                                                        └─────one cannot────────────▶ Off
//! ```

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};

use crate::coll::board::meeting::Meeting;
use crate::coll::board::members::Board;
use crate::coll::board::places::Places;
use crate::error::Error;

/// So many collectives a group does by messages before it is set up.
pub(in crate::coll) const SOME: u32 = 4;
/// Most members with boards: each has a bit among the marks.
pub(in crate::coll) const MOST: u32 = 64;

/// What a group has of shared memory: the part of a group's context.
pub(in crate::coll) struct Shared {
    /// A thread does a collective.
    busy: AtomicBool,
    /// Its own.
    stage: UnsafeCell<Stage>,
    /// Where members of one process meet, once they do.
    meeting: OnceLock<Arc<Meeting>>,
}

// SAFETY: the thread that has set `busy` alone uses the stage.
unsafe impl Sync for Shared {}

/// See the module.
pub(in crate::coll) enum Stage {
    /// So many collectives were waited for.
    Counting(u32),
    Off,
    On(Board),
    /// At the group's meeting.
    Met,
    /// Those of each process at a meeting of theirs; then one for each with the others.
    Teams,
}

/// The right to do a collective: one thread has it.
pub(in crate::coll) struct Turn<'a>(&'a Shared);

impl Shared {
    /// Of a group with so many members, which are all of one process or not. `wanted`: not switched off.
    pub(in crate::coll) fn new(size: u32, of_one: bool, wanted: bool) -> Shared {
        let most = if of_one { u32::MAX } else { MOST };
        let stage = match wanted && (2..=most).contains(&size) {
            true => Stage::Counting(0),
            false => Stage::Off,
        };
        let (busy, stage) = (AtomicBool::new(false), UnsafeCell::new(stage));
        Shared { busy, stage, meeting: OnceLock::new() }
    }

    /// Where the members meet, if they do.
    #[inline]
    pub(in crate::coll) fn meeting(&self) -> Option<&Meeting> {
        self.meeting.get().map(|meeting| &**meeting)
    }

    /// The members meet there from now on. The caller then looks whether the group has failed.
    pub(in crate::coll) fn meet_at(&self, meeting: Arc<Meeting>) {
        let _ = self.meeting.set(meeting);
        // Pairs with the fence in `failed`: a revoker sees the meeting, or the caller sees the failure.
        fence(Ordering::SeqCst);
    }

    /// Where the members meet, for a revoker that has set the group's failure.
    pub(in crate::coll) fn failed(&self) -> Option<&Meeting> {
        fence(Ordering::SeqCst);
        self.meeting()
    }

    /// Until the result is dropped no other thread enters.
    ///
    /// # Errors
    /// Another thread is inside.
    #[inline]
    pub(in crate::coll) fn enter(&self) -> Result<Turn<'_>, Error> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(taken());
        }
        Ok(Turn(self))
    }

    /// Whether a thread is inside.
    #[cfg(test)]
    pub(in crate::coll) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// The group goes, and no thread is inside: so does its place.
    pub(in crate::coll) fn leave(&self, places: &Places) {
        let Ok(mut turn) = self.enter() else { return };
        if let Stage::On(board) = std::mem::replace(turn.stage(), Stage::Off) {
            places.leave(board);
        }
    }
}

#[cold]
fn taken() -> Error {
    Error::BadGroup(
        "two threads wait for collectives of it at once: give each thread a group of its own (dup)"
            .into(),
    )
}

impl Turn<'_> {
    /// The group's stage.
    #[inline]
    pub(in crate::coll) fn stage(&mut self) -> &mut Stage {
        // SAFETY: this thread has set `busy`.
        unsafe { &mut *self.0.stage.get() }
    }

    /// Whether the group is to be set up now.
    #[inline]
    pub(in crate::coll) fn is_due(&mut self) -> bool {
        matches!(self.stage(), Stage::Counting(SOME))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}
