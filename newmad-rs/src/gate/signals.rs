//! What the engine shares with threads that do not hold its lock: what they submit, what they want to know without the
//! lock, and what it asks the connection manager for.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pioman::Completion;

use crate::collect::Submissions;
use crate::error::Error;
use crate::gate::absence::Absence;
use crate::request::Request;
use crate::sys;

/// Milliseconds between two calls of `tick` while something may change at any time.
pub(crate) const TICK_MS: u32 = 50;
/// What stands for no such call.
const STILL: u32 = 0;

/// Short messages may be sent beside the engine.
pub(crate) const FINE: u8 = 1;
/// Processes hold several ranks, or some of them do.
pub(crate) const SEVERAL: u8 = 2;

/// What the engine shares with threads that do not hold its lock.
pub(crate) struct Signals {
    /// Where requests are left for the lock's holder.
    pub(crate) submissions: Submissions<Request>,
    /// Requests that are not over. The lock's holder alone writes it.
    pub(crate) outstanding: AtomicUsize,
    /// Whether peers are to ring while no thread polls: not if the owners of all requests ask for their ends, and no
    /// peer needs an answer before. The lock's holder alone writes it.
    pub(crate) unattended: AtomicBool,
    /// How often a sleep was ended because there was more to do than one call may.
    pub(crate) self_wakes: AtomicU64,
    /// Threads that wait for the engine's lock.
    pub(crate) callers: AtomicUsize,
    /// Threads that wait for a large message.
    pub(crate) waiters: AtomicUsize,
    /// How long the program stays away before it waits for one.
    pub(crate) absence: Absence,
    /// Messages stay with the senders for lack of cells: a caller, which may allocate, is to help.
    pub(crate) starved: AtomicBool,
    /// Links that the connection manager should open or repair: bit `rail * size + peer`.
    wanted: Box<[AtomicU64]>,
    /// Something is unacknowledged or broken: so many milliseconds after its last call the connection manager is to call
    /// `tick` again; [`STILL`]. The lock's holder alone writes it.
    pace: AtomicU32,
    size: usize,
    /// Written when something is wanted.
    bell: OwnedFd,
    /// Messages are held until the next look.
    pub(crate) held: AtomicBool,
    /// Whether short messages have other ways than through the engine: [`FINE`], [`SEVERAL`]. One look for both.
    ways: AtomicU8,
    /// This process will want nothing more: the others may be told.
    leaves: AtomicBool,
    /// A peer has failed, or has sent word of a failure, and no part of the library that looks after these was at
    /// work. Completed once.
    pub(crate) alarm: Completion,
    alarmed: AtomicBool,
}

impl Signals {
    pub(crate) fn new(size: u32, rails: usize) -> Result<Arc<Signals>, Error> {
        let size = size as usize;
        Ok(Arc::new(Signals {
            submissions: Submissions::new(),
            outstanding: AtomicUsize::new(0),
            unattended: AtomicBool::new(false),
            self_wakes: AtomicU64::new(0),
            callers: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
            absence: Absence::default(),
            starved: AtomicBool::new(false),
            wanted: (0..(size * rails).div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            pace: AtomicU32::new(STILL),
            size,
            bell: sys::eventfd()?,
            held: AtomicBool::new(false),
            ways: AtomicU8::new(0),
            leaves: AtomicBool::new(false),
            alarm: Completion::new(),
            alarmed: AtomicBool::new(false),
        }))
    }

    /// Short messages have this way too, or have it no more.
    pub(crate) fn set_way(&self, way: u8, there: bool) {
        match there {
            true => self.ways.fetch_or(way, Ordering::Relaxed),
            false => self.ways.fetch_and(!way, Ordering::Relaxed),
        };
    }

    /// Whether short messages have one of these ways.
    #[inline]
    pub(crate) fn has_way(&self, ways: u8) -> bool {
        self.ways.load(Ordering::Relaxed) & ways != 0
    }

    /// Whether something is outstanding whose event has to be found while no thread polls.
    #[inline]
    pub(crate) fn is_unattended(&self) -> bool {
        self.unattended.load(Ordering::Relaxed)
    }

    /// Asks the connection manager for a link. Progress path.
    #[cold]
    pub(crate) fn want(&self, rail: usize, peer: u32) {
        let bit = rail * self.size + peer as usize;
        if let Some(word) = self.wanted.get(bit / 64) {
            word.fetch_or(1 << (bit % 64), Ordering::Release);
        }
        sys::ring(self.bell.as_raw_fd());
    }

    /// Something is unacknowledged: the connection manager, unless it knows, is told to call `tick` soon. Progress path.
    #[inline]
    pub(crate) fn unrest(&self) {
        let pace = self.pace.load(Ordering::Relaxed);
        if pace == STILL || pace > TICK_MS {
            self.pace.store(TICK_MS, Ordering::Relaxed);
            sys::ring(self.bell.as_raw_fd());
        }
    }

    /// When `tick` is to be called again, if at all: so long after its last call.
    #[inline]
    pub(crate) fn pace(&self) -> Option<Duration> {
        match self.pace.load(Ordering::Relaxed) {
            STILL => None,
            ms => Some(Duration::from_millis(ms.into())),
        }
    }

    /// `tick` is called: from now on it is to be called again only for what it, or a send, asks for.
    pub(crate) fn rest(&self) {
        self.pace.store(STILL, Ordering::Relaxed);
    }

    /// `tick` has to be called again in so many milliseconds, or sooner. The connection manager knows when it is called in
    /// `tick`; elsewhere the caller wakes it.
    pub(crate) fn call_again_in(&self, ms: u32) {
        let pace = self.pace.load(Ordering::Relaxed);
        if pace == STILL || ms < pace {
            self.pace.store(ms.max(1), Ordering::Relaxed);
        }
    }

    /// Readable when [`Signals::unrest`] has changed the pace, or when there is something for the connection manager in
    /// [`Signals::take_wanted`].
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Everything has been sent, and the session closes. Progress path.
    #[cold]
    pub(crate) fn leave(&self) {
        if !self.leaves.swap(true, Ordering::Relaxed) {
            sys::ring(self.bell.as_raw_fd());
        }
    }

    /// The part of the library that looks after failures is to begin. Progress path.
    #[cold]
    pub(crate) fn ring_alarm(&self) {
        if !self.alarmed.swap(true, Ordering::AcqRel) {
            self.alarm.complete();
        }
    }

    /// Whether this process will want nothing more.
    pub(crate) fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// Gives every link that was wanted since the last call to `each`, as (rail, peer). For the connection manager,
    /// which empties the bell first.
    pub(crate) fn take_wanted(&self, mut each: impl FnMut(usize, u32)) {
        for (index, word) in self.wanted.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                let bit = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                each(bit / self.size, (bit % self.size) as u32);
            }
        }
    }
}
