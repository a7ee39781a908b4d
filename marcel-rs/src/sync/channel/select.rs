//! Waiting for the first of several sends and receives.
//!
//! 1. The locks of all channels involved are taken, in the order of their addresses, each once.
//! 2. With all locks held, the arms are tried, starting at a random one. The first one that is possible is chosen.
//! 3. Otherwise a node of each arm joins its queue, all with the same signal, and the locks are released.
//! 4. A thread that takes such a node out of its queue *claims* the signal. The first claim succeeds and serves the
//!    node. A thread whose claim fails drops the node and serves the next in its queue. A waiter that gives up claims
//!    its signal as well.
//! 5. The remaining nodes are taken out, each under its channel's lock.
//!
//! All locks are held from 2 to 3. So no arm becomes possible between the attempt and the wait, and no signal is
//! claimed before all of its nodes are queued. Two selects may use one channel: the second one finds the node of the
//! first, and has no node of its own yet.
//!
//! Rejected: queueing nodes one by one and trying again afterwards. A select that finds a partner would have to claim
//! itself and the partner in one step.

use std::time::{Duration, Instant};

use super::arms::{Arm, Chosen, Done};
use crate::sync::Interrupted;
use crate::sync::signal::{Limits, Outcome, Signal, Wake};
use crate::task::budget;

/// Waits until one of the sends and receives is possible, does it, and returns its index.
///
/// Among several possible ones it chooses at random. A send or receive on a disconnected channel counts as possible,
/// and fails. The arm has the result. In a destructor that runs because the runtime stops, the first arm fails if none
/// is possible at once.
///
/// [`select!`](crate::select!) is easier to write.
///
/// ```
/// use marcel::sync::channel;
///
/// let (tx, rx) = channel::bounded(1);
/// let (_keep, never) = channel::bounded::<()>(0);
/// tx.send(7).unwrap();
/// let (mut some, mut none, mut send) = (rx.receiving(), never.receiving(), tx.sending(8));
/// assert_eq!(channel::select(&mut [&mut none, &mut some, &mut send]), 1);
/// assert_eq!(some.result(), Some(Ok(7)));
/// assert_eq!(none.result(), None);
/// assert_eq!(send.into_message(), Some(8));
/// ```
///
/// # Context
/// Green and kernel threads; not the progress path.
///
/// # Blocking
/// Blocks the green thread, or outside a runtime the kernel thread.
///
/// # Wakes
/// As [`super::Sender::send`] and [`super::Receiver::recv`].
///
/// # Panics
/// There is no arm, or all arms are sends that have been done, so that the wait would never end.
pub fn select(arms: &mut [&mut dyn Arm]) -> usize {
    assert!(arms.iter().any(|arm| arm.is_armed()), "a select of nothing would wait for ever");
    match choose(arms, Some(&Limits::NONE)) {
        Ok(index) => index,
        Err(_) => {
            let first = arms.iter().position(|arm| arm.is_armed()).unwrap_or(0);
            arms[first].fail();
            first
        }
    }
}

/// As [`select`](fn@select), but returns `None` if no arm is possible now.
///
/// # Wakes
/// As [`select`](fn@select).
pub fn try_select(arms: &mut [&mut dyn Arm]) -> Option<usize> {
    choose(arms, None).ok()
}

/// As [`select`](fn@select), for at most `time`.
///
/// # Context, Blocking, Wakes
/// As [`select`](fn@select).
pub fn select_timeout(arms: &mut [&mut dyn Arm], time: Duration) -> Option<usize> {
    choose(arms, Some(&Limits::within(time))).ok()
}

/// As [`select`](fn@select), until `deadline` at the latest.
///
/// # Context, Blocking, Wakes
/// As [`select`](fn@select).
pub fn select_until(arms: &mut [&mut dyn Arm], deadline: Instant) -> Option<usize> {
    choose(arms, Some(&Limits::until(deadline))).ok()
}

/// As [`select`](fn@select), but an interrupt ends the wait.
///
/// # Context, Blocking, Wakes
/// As [`select`](fn@select).
///
/// # Errors
/// The thread would wait and has been interrupted, or is while it waits, or its runtime stops.
pub fn select_interruptible(arms: &mut [&mut dyn Arm]) -> Result<usize, Interrupted> {
    choose(arms, Some(&Limits::INTERRUPTIBLE)).map_err(|_| Interrupted)
}

/// Without limits it does not wait.
fn choose(arms: &mut [&mut dyn Arm], limits: Option<&Limits>) -> Result<usize, Outcome> {
    if limits.is_some() {
        budget::spend();
    }
    arms.iter_mut().enumerate().for_each(|(at, arm)| arm.set_index(at));
    arms.sort_unstable_by_key(|arm| arm.address());
    let chosen = loop {
        if let Some(chosen) = attempt(arms, limits) {
            break chosen;
        }
    };
    let chosen = chosen.map(|at| arms[at].index());
    arms.sort_unstable_by_key(|arm| arm.index());
    chosen
}

/// The arms are in the order of their addresses. `None` if a channel was disconnected: once more.
fn attempt(arms: &mut [&mut dyn Arm], limits: Option<&Limits>) -> Option<Result<usize, Outcome>> {
    let signal = Signal::new();
    lock_all(arms);
    // SAFETY: all locks are held until `unlock_all`.
    if let Some((at, Done(wake))) = unsafe { try_all(arms) } {
        unlock_all(arms);
        Wake::any(wake);
        return Some(Ok(at));
    }
    let Some(limits) = limits else {
        unlock_all(arms);
        return Some(Err(Outcome::TimedOut));
    };
    let prepared = Prepared { arms };
    for (arm, choice) in prepared.arms.iter_mut().zip(1..) {
        if arm.is_armed() {
            arm.prepare(&Chosen(&signal), choice);
        }
    }
    // From here on the arms are borrowed shared, as by the threads that find their nodes.
    let waiting = Waiting { arms: &*prepared.arms, signal: &signal };
    for arm in waiting.arms {
        // SAFETY: the lock is held, and `waiting` takes the node out before anything else happens to it.
        unsafe { arm.join() };
    }
    unlock_all(waiting.arms);
    let outcome = signal.sleep("select", limits);
    match waiting.end(outcome) {
        Some(at) => prepared.arms[at].finish().then_some(Ok(at)),
        None => Some(Err(outcome)),
    }
}

/// # Safety
/// All locks are held.
unsafe fn try_all(arms: &mut [&mut dyn Arm]) -> Option<(usize, Done)> {
    let n = arms.len();
    let start = if n > 1 { random() as usize % n } else { 0 };
    for at in (start..n).chain(0..start) {
        // SAFETY: the caller's promise.
        if let Some(done) = unsafe { arms[at].try_now() } {
            return Some((at, done));
        }
    }
    None
}

/// Each once: arms of one channel are neighbours.
fn lock_all(arms: &[&mut dyn Arm]) {
    for (at, arm) in arms.iter().enumerate() {
        if at == 0 || arms[at - 1].address() != arm.address() {
            arm.lock();
        }
    }
}

/// To be called after `lock_all` of the same arms.
fn unlock_all(arms: &[&mut dyn Arm]) {
    for (at, arm) in arms.iter().enumerate() {
        if at == 0 || arms[at - 1].address() != arm.address() {
            // SAFETY: locked by `lock_all`.
            unsafe { arm.unlock() };
        }
    }
}

/// Arms that may have nodes. Dropped after the nodes are out of the queues, also while the thread's stack is unwound: the
/// arms outlive the signal that their nodes refer to, and an unsent message goes back to its arm.
struct Prepared<'a, 'b> {
    arms: &'a mut [&'b mut dyn Arm],
}

impl Drop for Prepared<'_, '_> {
    fn drop(&mut self) {
        self.arms.iter_mut().for_each(|arm| arm.unprepare());
    }
}

/// Nodes that are in queues: dropped when the thread's stack is unwound while it waits.
struct Waiting<'a, 'b> {
    arms: &'a [&'b mut dyn Arm],
    signal: &'a Signal,
}

impl Waiting<'_, '_> {
    /// Takes all nodes out; which arm was served, if one was.
    fn leave(&self, outcome: Outcome) -> Option<usize> {
        let given_up = outcome != Outcome::Woken && self.signal.claim();
        if !given_up {
            // It has been served, or claimed by a thread that is about to serve it.
            self.signal.sleep("select", &Limits::TO_THE_END);
        }
        let chosen = self.signal.served().map(|choice| choice as usize - 1);
        for (at, arm) in self.arms.iter().enumerate() {
            if Some(at) != chosen {
                arm.leave();
            }
        }
        chosen
    }

    fn end(self, outcome: Outcome) -> Option<usize> {
        let chosen = self.leave(outcome);
        std::mem::forget(self);
        chosen
    }
}

impl Drop for Waiting<'_, '_> {
    fn drop(&mut self) {
        if let Some(at) = self.leave(Outcome::Stopping) {
            self.arms[at].pass_on();
        }
    }
}

/// Good enough that no arm is preferred. Not inlined: where threads migrate, its thread-local is another's after a
/// wait.
#[inline(never)]
fn random() -> u32 {
    use std::cell::Cell;
    thread_local! {
        static STATE: Cell<u32> = const { Cell::new(0x9E37_79B9) };
    }
    if cfg!(loom) {
        return 0; // a model is repeated exactly
    }
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        state.set(x);
        x >> 8
    })
}

#[cfg(all(test, loom))]
mod model {
    use super::super::{bounded, unbounded};
    use super::*;
    use loom::thread;

    /// Two messages for a select of two channels: it wakes once for each, and loses none.
    #[test]
    fn a_select_takes_one_message_at_a_time() {
        loom::model(|| {
            let channels = [bounded(0), bounded(0)];
            let [(tx0, rx0), (tx1, rx1)] = channels;
            // The senders' ends live on: a disconnection would be chosen as well.
            let senders = [tx0, tx1].map(|tx| {
                thread::spawn(move || {
                    tx.send(7).unwrap();
                    tx
                })
            });
            let (mut arm0, mut arm1) = (rx0.receiving(), rx1.receiving());
            let mut got = 0;
            while got < 2 {
                let at = select(&mut [&mut arm0, &mut arm1]);
                let (chosen, other) = if at == 0 {
                    (arm0.result(), arm1.result())
                } else {
                    (arm1.result(), arm0.result())
                };
                assert!(other.is_none());
                got += usize::from(chosen.unwrap().is_ok());
            }
            drop(senders.map(|sender| sender.join().unwrap()));
        });
    }

    /// A sender that loses the race for a select that waits keeps its message.
    #[test]
    fn what_a_select_does_not_take_stays_where_it_is() {
        loom::model(|| {
            let [(tx0, rx0), (tx1, rx1)] = [unbounded(), unbounded()];
            let senders = [tx0, tx1].map(|tx| thread::spawn(move || tx.send(7).unwrap()));
            let (mut arm0, mut arm1) = (rx0.receiving(), rx1.receiving());
            let at = select(&mut [&mut arm0, &mut arm1]);
            let other = [&rx1, &rx0][at];
            assert_eq!(other.recv(), Ok(7));
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        });
    }

    #[test]
    fn a_select_that_gives_up_takes_a_message_or_leaves_it() {
        loom::model(|| {
            let (tx, rx) = unbounded();
            let (tx1, rx1) = unbounded::<i32>();
            let sender = thread::spawn(move || tx.send(7).unwrap());
            let (mut arm0, mut arm1) = (rx.receiving(), rx1.receiving());
            match select_until(&mut [&mut arm0, &mut arm1], Instant::now()) {
                Some(at) => assert_eq!((at, arm0.result()), (0, Some(Ok(7)))),
                None => assert_eq!(rx.recv(), Ok(7)),
            }
            sender.join().unwrap();
            drop(tx1);
        });
    }

    /// One selects a send or a receive, the other the opposite, on the same two channels.
    #[test]
    fn two_selects_meet() {
        loom::model(|| {
            let ((tx0, rx0), (tx1, rx1)) = (bounded(0), bounded(0));
            let (tx0b, rx1b) = (tx0.clone(), rx1.clone());
            let other = thread::spawn(move || {
                let (mut send, mut recv) = (tx0b.sending(1), rx1b.receiving());
                let at = select(&mut [&mut send, &mut recv]);
                if at == 0 {
                    assert_eq!(send.result(), Some(Ok(())));
                } else {
                    assert_eq!(recv.result(), Some(Ok(2)));
                }
                at
            });
            let (mut recv, mut send) = (rx0.receiving(), tx1.sending(2));
            let at = select(&mut [&mut recv, &mut send]);
            if at == 0 {
                assert_eq!(recv.result(), Some(Ok(1)));
            } else {
                assert_eq!(send.result(), Some(Ok(())));
            }
            assert_eq!(other.join().unwrap(), at);
            drop((tx0, rx1));
        });
    }

    #[test]
    fn a_disconnection_wakes_a_select() {
        loom::model(|| {
            let [(tx0, rx0), (tx1, rx1)] = [unbounded::<i32>(), unbounded::<i32>()];
            let other = thread::spawn(move || drop(tx0));
            let (mut arm0, mut arm1) = (rx0.receiving(), rx1.receiving());
            assert_eq!(select(&mut [&mut arm1, &mut arm0]), 1);
            assert!(arm0.result().unwrap().is_err());
            other.join().unwrap();
            drop(tx1);
        });
    }
}
