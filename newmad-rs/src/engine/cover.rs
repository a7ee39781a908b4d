//! Whether a pending request is watched already.
//!
//! A caller that leaves a request pending and computes on has a thread watch it (`Manager::ensure_watched`), which
//! costs more than to begin one of a window of requests. Once a caller has done so, requests stay watched as long as
//! one is outstanding without a break: a watcher that stops finds them pending, and hands them on. Such a time is a
//! *spell*; the engine numbers spells, under its lock.
//!
//! ```text
//!   outstanding   0 ─ 1 ─ 2 ─ 1 ─ 0 ─ 1 ─ …
//!   spell             └── 7 ──┘       └ 8
//! ```
//! Rules:
//! 1. A caller that begins a request in a *covered* spell need not do anything; in any other spell it covers the spell
//!    itself.
//! 2. A request for which peers must ring for more packets than before begins another spell, since the bell was armed
//!    for less.
//! 3. A copy that goes on needs a thread, not an event: a caller that leaves one covers the spell anew.
//! 4. While only requests are outstanding for which no thread has to watch, no thread does: a request that has to be watched
//!    begins another spell then.
//!
//! Rejected: to rely on the caller that began the earlier request. It may be about to register a watcher, and skip that
//! because another thread completes its request first.

use crate::sync::{AtomicU64, Ordering};

/// The last spell that was covered, or one before; 0: none.
pub(crate) struct Covered(AtomicU64);

impl Covered {
    pub(crate) fn new() -> Covered {
        Covered(AtomicU64::new(0))
    }

    /// Whether the requests of this spell are watched; one of the caller's is among them.
    #[inline]
    pub(crate) fn is(&self, spell: u64) -> bool {
        self.0.load(Ordering::Acquire) == spell
    }

    /// The caller has begun a request in this spell, and then had it watched.
    #[inline]
    pub(crate) fn set(&self, spell: u64) {
        self.0.store(spell, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use crate::engine::tests::{close, ends_without_a_call, pair};
    use crate::request::Request;

    /// The watcher finds the last message although no thread calls the session: its receive is unattended.
    #[test]
    fn a_caller_that_relies_on_an_earlier_watch_is_not_let_down() {
        the_last_message_is_found(false);
    }

    /// The last receive is attended, and its owner stays away; its sender waits for an answer.
    #[test]
    fn a_sender_that_waits_is_answered_under_an_earlier_watch() {
        the_last_message_is_found(true);
    }

    /// The announcement has come before its receive, which begins the copy and leaves it.
    #[test]
    fn a_copy_that_a_covered_request_begins_is_made() {
        const LEN: usize = 1 << 20;
        let (a, b, manager) = pair();
        let engine = &a.inner().engine;
        let mut buffers = [vec![0; LEN], vec![0; LEN]];
        let [late, early] = &mut buffers;
        // SAFETY: the buffers outlive the requests, which are over when this block is, as is asserted.
        let mut requests = unsafe {
            [
                Request::recv(1, 1, &raw mut late[..], true).attended(),
                Request::recv(1, 2, &raw mut early[..], true).attended(),
            ]
        };
        let [first, second] = &mut requests;
        // SAFETY: it stays where it is until it is over.
        unsafe { engine.submit_then_compute(NonNull::from(&mut *first), &manager) };
        let sent = b.isend(0, 2, vec![2; LEN]).unwrap();
        while a.iprobe(1, 2).unwrap().is_none() {}
        // SAFETY: as above.
        unsafe { engine.submit_then_compute(NonNull::from(&mut *second), &manager) };
        ends_without_a_call(second);
        let later = b.isend(0, 1, vec![1; LEN]).unwrap();
        ends_without_a_call(first);
        sent.wait().unwrap();
        later.wait().unwrap();
        assert!(
            buffers[0].iter().all(|&byte| byte == 1) && buffers[1].iter().all(|&byte| byte == 2)
        );
        close(a, b);
    }

    fn the_last_message_is_found(attended: bool) {
        let (a, b, manager) = pair();
        let engine = &a.inner().engine;
        let (mut word, mut last) = ([0], [0]);
        // SAFETY: the buffers outlive the requests, which are over when this block is, as is asserted.
        let [mut first, second] = unsafe {
            [
                Request::recv(1, 1, &raw mut word[..], true),
                Request::recv(1, 2, &raw mut last[..], true),
            ]
        };
        let mut second = if attended { second.attended() } else { second };
        // Another thread has begun this, and lost its core before it could see to anything else.
        // SAFETY: it stays where it is until it is over.
        unsafe { engine.submit(NonNull::from(&mut first)) };
        // SAFETY: as above.
        unsafe { engine.submit_then_compute(NonNull::from(&mut second), &manager) };
        b.send(0, 1, &[1]).unwrap();
        // A third thread polls in passing.
        engine.with(|core| while core.progress() {});
        assert!(first.is_finished());
        let sent = if attended {
            b.isend_with(0, 2, vec![2], crate::SendOptions::new().sync())
        } else {
            b.isend(0, 2, vec![2])
        };
        // It is rung for at the latest when its sender waits.
        std::thread::scope(|scope| {
            scope.spawn(|| sent.unwrap().wait().unwrap());
            ends_without_a_call(&second);
        });
        assert_eq!(last, [2]);
        close(a, b);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::Arc;
    use loom::sync::Mutex;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// What the engine's lock protects, and what others see of it.
    #[derive(Default)]
    struct Core {
        outstanding: usize,
        spell: u64,
        begun: [bool; 2],
        over: [bool; 2],
    }

    struct World {
        core: Mutex<Core>,
        covered: Covered,
        watched: AtomicBool,
    }

    impl World {
        /// As `Manager::ensure_watched`.
        fn ensure_watched(&self) {
            let core = self.core.lock().unwrap();
            if core.outstanding > 0 {
                self.watched.store(true, Ordering::Relaxed);
            }
        }

        /// As `Engine::submit_then_compute`.
        fn submit(&self, number: usize) {
            let spell = {
                let mut core = self.core.lock().unwrap();
                core.spell += u64::from(core.outstanding == 0);
                core.outstanding += 1;
                core.begun[number] = true;
                core.spell
            };
            if !self.covered.is(spell) && !self.core.lock().unwrap().over[number] {
                self.ensure_watched();
                self.covered.set(spell);
            }
        }

        /// As a thread that polls in passing. The watcher goes when nothing pends.
        fn end(&self, number: usize) {
            let mut core = self.core.lock().unwrap();
            if core.begun[number] {
                core.over[number] = true;
                core.outstanding -= 1;
                if core.outstanding == 0 {
                    self.watched.store(false, Ordering::Relaxed);
                }
            }
        }
    }

    /// Two begin a request each, and a third ends the first one, if it is there.
    #[test]
    fn what_pends_is_watched() {
        loom::model(|| {
            let world = Arc::new(World {
                core: Mutex::new(Core::default()),
                covered: Covered::new(),
                watched: AtomicBool::new(false),
            });
            let first = {
                let world = world.clone();
                thread::spawn(move || world.submit(0))
            };
            let third = {
                let world = world.clone();
                thread::spawn(move || world.end(0))
            };
            world.submit(1);
            first.join().unwrap();
            third.join().unwrap();
            assert!(world.watched.load(Ordering::Relaxed), "no thread watches");
        });
    }
}
