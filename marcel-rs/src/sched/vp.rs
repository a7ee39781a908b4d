//! A virtual processor, as other kernel threads see it. The part that its own kernel thread has: `worker`.

use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};

use crossbeam_deque::Stealer;

use crate::list::Inbox;
use crate::os::sleeper::Sleeper;
use crate::sched::lending::Lending;
use crate::sched::tick::Tick;
use crate::tcb::block::Tcb;

/// Which threads a virtual processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads that compute; bound to a core.
    Compute,
    /// Threads that react to events; sleeps in the kernel, preempts by the kernel's grace.
    Reactive,
}

/// Where a virtual processor is in the topology; nowhere in particular for a reactive one.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Place {
    /// Its core in the topology.
    pub(crate) core: Option<usize>,
    /// The core of this machine to which its kernel thread is bound.
    pub(crate) real: Option<usize>,
    /// Nodes of the topology from its core up to the machine.
    pub(crate) path: Vec<usize>,
    /// The other virtual processors of its kind, the nearest first.
    pub(crate) steal_order: Vec<usize>,
}

/// A virtual processor.
pub struct Vp {
    kind: Kind,
    index: usize,
    pub(crate) place: Place,
    pub(crate) inbox: Inbox<Tcb>,
    /// Where threads migrate, those of the inbox that neighbours may take.
    pub(crate) movable: Inbox<Tcb>,
    pub(crate) stealer: Stealer<&'static Tcb>,
    pub(crate) sleeper: Sleeper,
    /// Counts the threads that wake one of its threads and look for a neighbour that may take it: their runtime does
    /// not go meanwhile.
    pub(crate) wakers: AtomicU32,
    pub(crate) tick: Tick,
    /// Timers of its heap that threads have left behind which went on elsewhere.
    pub(crate) stale_timers: AtomicUsize,
    pub(crate) busy: AtomicBool,
    /// The thread that it resumed last; whether that one still runs, its `info` says.
    pub(crate) running: AtomicPtr<Tcb>,
    /// When it last began to have something to run, by `debug_info`'s clock.
    pub(crate) busy_since: AtomicU64,
    /// The kernel's number of its kernel thread, once that runs.
    pub(crate) tid: AtomicI32,
    /// One more than the descriptor by which user interrupts are sent to it; 0: it has none.
    pub(crate) vector: AtomicU32,
    /// Its standby (`blocking::standby`), once a call of this runtime has needed it; else null.
    standby: AtomicPtr<Vp>,
    /// Of a standby: whether it may take the threads that its original would.
    pub(crate) lending: Lending,
    /// A policy of the program's own runs, which its worker's core is kept from. By its own kernel thread.
    pub(crate) fenced: AtomicBool,
}

impl Vp {
    pub(crate) fn new(
        (kind, index): (Kind, usize),
        place: Place,
        stealer: Stealer<&'static Tcb>,
    ) -> Vp {
        Vp {
            kind,
            index,
            place,
            inbox: Inbox::default(),
            movable: Inbox::default(),
            stealer,
            sleeper: Sleeper::new(),
            wakers: AtomicU32::new(0),
            tick: Tick::default(),
            stale_timers: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
            running: AtomicPtr::new(std::ptr::null_mut()),
            busy_since: AtomicU64::new(0),
            tid: AtomicI32::new(0),
            vector: AtomicU32::new(0),
            standby: AtomicPtr::new(std::ptr::null_mut()),
            lending: Lending::default(),
            fenced: AtomicBool::new(false),
        }
    }

    /// Compute or reactive.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its number among those of its kind.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its number among all, for `DebugInfo`: its index, and the highest bit of a reactive one.
    pub(crate) fn number(&self) -> u32 {
        self.index as u32 | ((self.kind == Kind::Reactive) as u32) << 31
    }

    /// Its core in the topology.
    pub fn cpu(&self) -> Option<usize> {
        self.place.core
    }

    /// Whether it runs a thread.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }

    /// Where its kernel thread sleeps. Others notify it only: see the contexts of [`Sleeper`]'s functions.
    pub fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    /// Its standby, if it has one.
    pub(crate) fn standby(&self) -> Option<&'static Vp> {
        // SAFETY: virtual processors are immortal.
        unsafe { self.standby.load(Acquire).as_ref() }
    }

    /// It has this standby from now on, or none.
    pub(crate) fn set_standby(&self, standby: Option<&'static Vp>) {
        let standby = standby.map_or(std::ptr::null(), std::ptr::from_ref);
        self.standby.store(standby.cast_mut(), Release);
    }

    /// Whether others have made threads runnable here.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        !self.inbox.is_empty() || !self.movable.is_empty()
    }
}

impl fmt::Debug for Vp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vp")
            .field("kind", &self.kind)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
