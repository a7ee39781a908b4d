//! Whether what is begun may rely on others to have it watched.
//!
//! Who leaves a request pending and computes on sees to it that somebody watches (`Manager::left_pending`), which costs more
//! than to begin one of a window of requests. Once somebody has done so, what pends stays watched as long as something
//! does without a break: whoever stops watching finds it pending, and hands it on. Such a time is a *spell*; the engine
//! numbers them, under its lock.
//!
//! ```text
//!   outstanding   0 ─ 1 ─ 2 ─ 1 ─ 0 ─ 1 ─ …
//!   spell             └── 7 ──┘       └ 8
//! ```
//! So a caller that begins a request in a *covered* spell need not do anything; in any other spell it covers the spell itself.
//! A request for which peers must ring for more packets than before begins another spell, too: the bell was armed for less.
//!
//! Rejected: to rely on whoever has begun what was outstanding before. It may be about to do so, find its own request over,
//! ended by a third who looked in passing, and do nothing.

use crate::sync::{AtomicU64, Ordering};

/// The last spell that somebody has covered, or one before; 0: none.
pub(crate) struct Covered(AtomicU64);

impl Covered {
    pub(crate) fn new() -> Covered {
        Covered(AtomicU64::new(0))
    }

    /// Whether somebody watches what pends in this spell, to which a request of the caller's belongs.
    #[inline]
    pub(crate) fn is(&self, spell: u64) -> bool {
        self.0.load(Ordering::Acquire) == spell
    }

    /// The caller has begun a request in this spell, and then has seen to it.
    #[inline]
    pub(crate) fn set(&self, spell: u64) {
        self.0.store(spell, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;
    use std::time::{Duration, Instant};

    use crate::engine::tests::{close, pair};
    use crate::request::Request;

    /// The watcher finds the last message although no thread calls the session: its receive is unattended.
    #[test]
    fn who_relies_on_others_to_watch_is_not_let_down() {
        the_last_message_is_found(false);
    }

    /// The last receive is attended, and its owner stays away; its sender waits for an answer.
    #[test]
    fn a_sender_that_waits_is_answered_under_an_earlier_watch() {
        the_last_message_is_found(true);
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
        unsafe { engine.submit_and_leave(NonNull::from(&mut second), &manager) };
        b.send(0, 1, &[1]).unwrap();
        // By a third, who looks in passing.
        engine.with(|core| while core.progress() {});
        assert!(first.is_finished());
        let sent = if attended { b.issend(0, 2, vec![2]) } else { b.isend(0, 2, vec![2]) };
        let begun = Instant::now();
        while !second.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody watches");
            std::thread::sleep(Duration::from_millis(1));
        }
        sent.unwrap().wait().unwrap();
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
        /// As `Manager::left_pending`.
        fn left_pending(&self) {
            let core = self.core.lock().unwrap();
            if core.outstanding > 0 {
                self.watched.store(true, Ordering::Relaxed);
            }
        }

        /// As `Engine::submit_and_leave`.
        fn submit(&self, number: usize) {
            let spell = {
                let mut core = self.core.lock().unwrap();
                core.spell += u64::from(core.outstanding == 0);
                core.outstanding += 1;
                core.begun[number] = true;
                core.spell
            };
            if !self.covered.is(spell) && !self.core.lock().unwrap().over[number] {
                self.left_pending();
                self.covered.set(spell);
            }
        }

        /// As somebody who looks in passing. Who watches goes when nothing pends.
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
            assert!(world.watched.load(Ordering::Relaxed), "nobody watches");
        });
    }
}
