//! Where events come from: what a library or a part of this crate registers with a manager.

use std::os::fd::RawFd;
use std::time::Instant;

use marcel::plumbing::SignalTarget;

use crate::progress::point::Point;

/// Most sources that one manager takes: a bit of a word each.
pub(crate) const MAX: usize = 64;

/// A source, as waits name it ([`crate::Hints::on`]). The number of a removed source may be given to another source of
/// the same manager; only histories depend on it, so that does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(pub(crate) u8);

impl SourceId {
    /// The source's place, and the number of its bit.
    pub(crate) fn slot(self) -> usize {
        usize::from(self.0) % MAX
    }
}

/// Something that yields events: a network, a set of timers, a device. A library registers one with
/// [`crate::Manager::add_source`].
///
/// All methods but [`Source::name`] and [`Source::fd`] are on the progress path.
///
/// # Safety
/// [`Source::poll`], [`Source::pending`], [`Source::unattended`], [`Source::arm`], [`Source::arm_interrupt`] and
/// [`Source::disarm`] may run in a signal handler that has interrupted any code of the thread, themselves and the allocator included (the tick). So
/// they allocate and free nothing, block on nothing, take only try-locks, touch no lazily initialised thread-local,
/// keep `errno`, and do not panic. (Light tasks, which are safe code, are never run in the handler.)
///
/// # From polling to sleeping
/// A peer rings a doorbell only where that is asked for: `arm` asks for rings, `disarm` says that they are unnecessary.
/// The manager guarantees: *when the last poller leaves while something is pending, it arms*. A source guarantees:
/// after `arm` has returned true, the next event makes `fd` readable.
pub unsafe trait Source: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Finds and treats events until none is left, in bounded work. True if anything was done.
    fn poll(&self) -> bool;

    /// As [`Source::poll`], which is called at this point: for sources that count where their events are found.
    #[inline]
    fn poll_at(&self, _point: Point) -> bool {
        self.poll()
    }

    /// Whether requests are outstanding whose end `poll` would find. One or two relaxed loads.
    fn pending(&self) -> bool;

    /// Whether something is outstanding whose event must be found while no thread polls. False promises that the owners
    /// of all that is outstanding ask for its end, and lose nothing when its event is found then: the manager arms
    /// nothing. An owner that sleeps does not ask ([`Manager::wait_prepared`](crate::Manager::wait_prepared)). As cheap
    /// as [`Source::pending`], and never true when that is false.
    fn unattended(&self) -> bool {
        self.pending()
    }

    /// A descriptor that becomes readable when something happens while armed; watched level-triggered.
    fn fd(&self) -> Option<RawFd>;

    /// The calling thread has slept on the descriptor, or was about to: makes it unreadable until the next event,
    /// whether or not another thread is using the source. The caller polls, or arms, after this.
    ///
    /// A source whose `poll` gives up when another thread is inside must do this. Otherwise a watcher that has
    /// preempted that thread is woken by the same event again and again, and keeps it from its core.
    ///
    /// # Context
    /// Not a signal handler; the rest of the progress path's rules hold.
    fn acknowledge(&self) {}

    /// Asks for `fd` to become readable at the next event. Idempotent. False if an event is there already:
    /// poll, do not sleep.
    fn arm(&self) -> bool;

    /// Whether peers can interrupt a kernel thread of this process at the next event, whichever event that is
    /// ([`Source::arm_interrupt`]).
    fn can_interrupt(&self) -> bool {
        false
    }

    /// As [`Source::arm`], for a process that computes: asks the peers to signal `target` at the next event, once,
    /// instead of making `fd` readable. The target's handler polls and asks again. [`Source::arm`] and
    /// [`Source::disarm`] end this: nobody is interrupted who polls or sleeps. Only called where
    /// [`Source::can_interrupt`].
    fn arm_interrupt(&self, target: SignalTarget) -> bool {
        let _ = target;
        self.arm()
    }

    /// Gives each figure that the source counts, with its name, to `each`: for statistics.
    fn figures(&self, _each: &mut dyn FnMut(&'static str, u64)) {}

    /// When the event happened that the last poll has found, if the source knows (timers do). For statistics only.
    fn happened(&self) -> Option<Instant> {
        None
    }

    /// A thread polls: rings are unnecessary. Cheap when not armed.
    fn disarm(&self);

    /// Whether no event makes `fd` readable after [`Source::disarm`]. False of a network that tells of every packet: then the
    /// manager takes `fd` out of the watcher's set while a thread polls, which is a system call and saves a wake-up.
    fn disarms_its_descriptor(&self) -> bool {
        true
    }
}
