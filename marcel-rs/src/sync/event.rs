//! An event: a flag that any number of threads wait for, until it is reset.

use std::fmt;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use super::Interrupted;
use super::signal::{Limits, Outcome};
use super::wait_list::{Inner, Join, Primitive, WaitList};
use crate::os::{AtomicBool, const_unless_modelled};

/// A flag that threads, green or kernel, wait for.
///
/// While the event is set, waits return at once. A thread that waits when the event is set is woken, even if the event
/// is reset before the thread runs. Writes before [`set`](Event::set) are visible to the threads whose wait it ended.
///
/// ```
/// use marcel::sync::Event;
/// # use std::time::Duration;
///
/// let event = Event::new();
/// assert!(!event.wait_timeout(Duration::from_millis(1)));
/// event.set();
/// event.wait();
/// event.reset();
/// assert!(!event.is_set());
/// ```
pub struct Event {
    set: AtomicBool,
    waiters: WaitList<()>,
}

impl Primitive for Event {
    type State = ();
    type Waiter = ();

    fn list(&self) -> &WaitList<()> {
        &self.waiters
    }

    /// All waiters are woken.
    fn pass_on(&self, _: &()) {}
}

impl Event {
    const_unless_modelled! {
        /// An event that is not set.
        pub fn new() -> Self {
            Event { set: AtomicBool::new(false), waiters: WaitList::new(()) }
        }
    }

    /// Sets the event: all waits end, until it is reset.
    ///
    /// # Wakes
    /// All threads that wait.
    pub fn set(&self) {
        // Under the list's lock, as waiters look at it: each of them is in the queue by now, or sees it.
        let last = self.waiters.with(|inner| {
            self.set.store(true, Release);
            inner.queue.last_ticket()
        });
        self.waiters.wake_up_to(last);
    }

    /// Resets the event: threads wait again.
    pub fn reset(&self) {
        self.set.store(false, Relaxed);
    }

    /// Whether the event is set.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.set.load(Acquire)
    }

    /// Waits until the event is set. A destructor that runs because the runtime stops does not wait.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread.
    #[inline]
    pub fn wait(&self) {
        self.wait_within(&Limits::NONE);
    }

    /// As [`Event::wait`], for at most `time`; false after a time-out.
    ///
    /// # Context, Blocking
    /// As [`Event::wait`].
    pub fn wait_timeout(&self, time: Duration) -> bool {
        self.wait_within(&Limits::within(time)) == Outcome::Woken
    }

    /// As [`Event::wait`], until `deadline` at the latest; false after a time-out.
    ///
    /// # Context, Blocking
    /// As [`Event::wait`].
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.wait_within(&Limits::until(deadline)) == Outcome::Woken
    }

    /// As [`Event::wait`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking
    /// As [`Event::wait`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops.
    pub fn wait_interruptible(&self) -> Result<(), Interrupted> {
        match self.wait_within(&Limits::INTERRUPTIBLE) {
            Outcome::Woken => Ok(()),
            _ => Err(Interrupted),
        }
    }

    fn wait_within(&self, limits: &Limits) -> Outcome {
        if self.is_set() {
            return Outcome::Woken;
        }
        let ready = |_: &mut Inner<(), ()>| if self.is_set() { Join::No } else { Join::Back };
        self.wait_in_turn("event", limits, (), ready, || ()).0
    }
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("set", &self.is_set()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn who_waits_by_then_is_let_through_although_it_is_reset_at_once() {
        loom::model(|| {
            let event = Arc::new(Event::new());
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let event = event.clone();
                    thread::spawn(move || event.wait())
                })
                .collect();
            event.set();
            event.reset();
            event.set();
            waiters.into_iter().for_each(|t| t.join().unwrap());
        });
    }
}
