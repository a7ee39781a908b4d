//! A barrier: threads wait until all have arrived.

use std::fmt;

use super::Interrupted;
use super::signal::{Limits, Outcome};
use super::wait_list::{Inner, Join, Primitive, WaitList};
use crate::os::const_unless_modelled;
use crate::task::budget;
use crate::task::park::is_stopping;

/// A reusable barrier for `n` threads, green or kernel.
///
/// # When the runtime stops
/// A destructor that runs because of it does not wait, and does not count as an arrival.
///
/// ```
/// use marcel::sync::Barrier;
/// # let runtime = marcel::Runtime::builder().vps(1).build()?;
/// # runtime.run(|| {
/// let barrier = std::sync::Arc::new(Barrier::new(3));
/// let threads: Vec<_> = (0..3)
///     .map(|_| {
///         let barrier = barrier.clone();
///         marcel::spawn(move || barrier.wait().is_leader())
///     })
///     .collect();
/// let leaders = threads.into_iter().map(|t| t.join().unwrap()).filter(|l| *l);
/// assert_eq!(leaders.count(), 1);
/// # });
/// # Ok::<(), marcel::Error>(())
/// ```
pub struct Barrier {
    meeting: WaitList<Meeting>,
    n: usize,
}

/// The state of the current round, and of the last one.
pub(super) struct Meeting {
    /// Number of threads that have arrived and wait.
    waiting: usize,
    /// Threads with tickets up to this one are released, also if they are not woken yet.
    met: u64,
}

/// The result of [`Barrier::wait`]: whether the thread is the leader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for one thread of each round, the last to arrive.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.0).finish()
    }
}

impl Primitive for Barrier {
    type State = Meeting;
    type Waiter = ();

    fn list(&self) -> &WaitList<Meeting> {
        &self.meeting
    }

    fn left(meeting: &mut Meeting, ticket: u64) -> bool {
        let early = ticket > meeting.met;
        meeting.waiting -= early as usize;
        early
    }

    /// The last thread has arrived, and releases this one.
    fn pass_on(&self, _: &()) {}
}

impl Barrier {
    const_unless_modelled! {
        /// A barrier for `n` threads; 0 means 1.
        pub fn new(n: usize) -> Self {
            Barrier { meeting: WaitList::new(Meeting { waiting: 0, met: 0 }), n }
        }
    }

    /// Waits until `n` threads have called this. Then the barrier is ready for the next round. A destructor that runs because
    /// the runtime stops returns at once, and is no leader.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread.
    ///
    /// # Wakes
    /// The last thread to arrive wakes all others.
    pub fn wait(&self) -> BarrierWaitResult {
        self.meet(&Limits::NONE).unwrap_or(BarrierWaitResult(false))
    }

    /// As [`Barrier::wait`], but an interrupt ends the wait.
    ///
    /// An interrupted thread does not count as an arrival, and the others go on waiting.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Barrier::wait`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops. The last thread to
    /// arrive does not wait, and so does not fail, unless it is unwound already.
    pub fn wait_interruptible(&self) -> Result<BarrierWaitResult, Interrupted> {
        self.meet(&Limits::INTERRUPTIBLE)
    }

    fn meet(&self, limits: &Limits) -> Result<BarrierWaitResult, Interrupted> {
        if is_stopping() {
            return Err(Interrupted);
        }
        budget::spend();
        let mut all = None;
        let come = |inner: &mut Inner<Meeting, ()>| {
            let meeting = &mut inner.state;
            if meeting.waiting + 1 < self.n {
                meeting.waiting += 1;
                return Join::Back;
            }
            *meeting = Meeting { waiting: 0, met: inner.queue.last_ticket() };
            all = Some(meeting.met);
            Join::No
        };
        let (outcome, ()) = self.wait_in_turn("barrier", limits, (), come, || ());
        if let Some(all) = all {
            self.meeting.wake_up_to(all);
        }
        match outcome {
            Outcome::Woken => Ok(BarrierWaitResult(all.is_some())),
            _ => Err(Interrupted),
        }
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("n", &self.n).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::task::park;
    use loom::sync::{Arc, mpsc};
    use loom::thread;

    #[test]
    fn two_meet_twice_with_one_leader_each_time() {
        loom::model(|| {
            let barrier = Arc::new(Barrier::new(2));
            let meet = |barrier: &Barrier| [(); 2].map(|()| barrier.wait().is_leader());
            let other = {
                let barrier = barrier.clone();
                thread::spawn(move || meet(&barrier))
            };
            let (mine, theirs) = (meet(&barrier), other.join().unwrap());
            assert!(mine[0] != theirs[0] && mine[1] != theirs[1]);
        });
    }

    /// A thread whose meeting is complete has met, though it is asked to stop before it is woken.
    #[test]
    fn an_interruption_that_races_a_meeting_does_not_take_one_away_from_it() {
        loom::model(|| {
            let barrier = Arc::new(Barrier::new(2));
            let start = || {
                let (barrier, (tx, rx)) = (barrier.clone(), mpsc::channel());
                let thread = thread::spawn(move || {
                    tx.send(park::current()).unwrap();
                    barrier.wait_interruptible().is_ok()
                });
                (thread, rx.recv().unwrap())
            };
            let threads = [start(), start()];
            for (_, tcb) in &threads {
                tcb.interrupt.ask(tcb.interrupt.generation());
                crate::task::park::unpark(tcb);
            }
            let [one, other] = threads.map(|(thread, _)| thread.join().unwrap());
            assert_eq!(one, other);
            assert_eq!(barrier.meeting.with(|inner| inner.state.waiting), 0);
        });
    }
}
