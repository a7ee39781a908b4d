//! What a one-shot descriptor is in an `epoll` set, as far as its users can know.
//!
//! ```text
//!   OFF ──arm──▶ ARMING ──epoll_ctl──▶ ON ──event──▶ OFF        (the kernel disarms a one-shot by itself)
//!                   │ event             └──disarm──▶ DISARMING ──epoll_ctl──▶ OFF
//!                   └─────▶ FIRED ──epoll_ctl──▶ OFF, and the arming thread tries again
//! ```
//!
//! No thread waits for another one's system call. A thread that is to arm and finds ARMING leaves it to the arming
//! thread, which goes on until it has succeeded. One that finds DISARMING polls and tries again. (Without that
//! difference, threads that all leave something pending at once polled in a circle while one of them was in the kernel:
//! 13 % of the samples of an echo server.) The kernel looks at the descriptor when it arms it, so earlier events are
//! not missed.
//!
//! > **Invariant: ON means that the kernel will report the next event, or that a sleeper holds an event that it has not
//! > noted yet; that sleeper arms again after it has polled. ARMING or FIRED means that one thread is between
//! > [`Arming::begin`] and [`Arming::end`]; if it ends FIRED, that thread tries again.**
//!
//! (The other way round is not promised: a note that comes late may leave an armed descriptor OFF, which costs a system
//! call.) All is in one word. Rejected: a note beside it that an event came too early. A thread that had just disarmed
//! took the note that was meant for the next thread to arm, so an event that all threads relied on woke none. The model
//! found it with one more thread than before.

use crate::shim::{AtomicU8, Ordering::SeqCst};

const OFF: u8 = 0;
const ON: u8 = 1;
const ARMING: u8 = 2;
const FIRED: u8 = 3;
const DISARMING: u8 = 4;

/// State of one descriptor.
pub(crate) struct Arming(AtomicU8);

/// What [`Arming::begin`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Begin {
    /// It is as wanted.
    Already,
    /// The caller makes the system call, then calls [`Arming::end`].
    Yours,
    /// Another thread is about to make it so.
    Others,
    /// Another thread is about to change it, or just has.
    Busy,
}

impl Arming {
    /// Not armed.
    pub(crate) fn new() -> Arming {
        Arming(AtomicU8::new(OFF))
    }

    /// Whether there is anything to disarm.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(SeqCst) == ON
    }

    /// Starts to arm it (`on`) or to disarm it.
    pub(crate) fn begin(&self, on: bool) -> Begin {
        let (from, by) = if on { (OFF, ARMING) } else { (ON, DISARMING) };
        let state = match self.0.load(SeqCst) {
            state if state == from => match self.turn(from, by) {
                Ok(_) => return Begin::Yours,
                Err(state) => state,
            },
            state => state,
        };
        match (on, state) {
            (true, ON) | (false, OFF) => Begin::Already,
            (true, ARMING | FIRED) | (false, DISARMING) => Begin::Others,
            _ => Begin::Busy,
        }
    }

    /// The system call has been `done`. False if the descriptor is not `on` as wanted: the caller tries again, since
    /// other threads rely on it.
    #[must_use]
    pub(crate) fn end(&self, on: bool, done: bool) -> bool {
        if on && done && self.turn(ARMING, ON).is_ok() {
            return true;
        }
        self.0.store(OFF, SeqCst);
        !on
    }

    /// The kernel has reported the descriptor, and disarmed it. The caller sees to what pends after this.
    pub(crate) fn note_event(&self) {
        loop {
            let noted = match self.0.load(SeqCst) {
                ON => self.turn(ON, OFF),
                ARMING => self.turn(ARMING, FIRED),
                _ => return,
            };
            if noted.is_ok() {
                return;
            }
        }
    }

    /// It is another descriptor's now.
    pub(crate) fn reset(&self) {
        self.0.store(OFF, SeqCst);
    }

    fn turn(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.0.compare_exchange(from, to, SeqCst, SeqCst)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::shim::AtomicBool;
    use loom::sync::Arc;
    use loom::thread;

    /// A descriptor, and what the kernel knows of it.
    struct World {
        arming: Arming,
        armed: AtomicBool,
    }

    impl World {
        /// As `EpollSet::turn`.
        fn turn(&self, on: bool) -> bool {
            match self.arming.begin(on) {
                Begin::Already | Begin::Others => true,
                Begin::Busy => false,
                Begin::Yours => {
                    self.armed.swap(on, SeqCst); // system calls are read-modify-writes of the kernel's state
                    self.arming.end(on, true)
                }
            }
        }

        /// As `Driver::arm`, for something that pends to the end.
        fn cover(&self) {
            while !self.turn(true) {
                thread::yield_now();
            }
        }

        fn event(&self) {
            if self.armed.swap(false, SeqCst) {
                self.arming.note_event();
            }
        }

        /// The sleeper that got the event sees to what pends after it.
        fn sleeper(&self) {
            self.event();
            self.cover();
        }
    }

    fn run(threads: &[fn(&World)]) -> Arc<World> {
        let world = Arc::new(World { arming: Arming::new(), armed: AtomicBool::new(false) });
        let start = |f: &fn(&World)| {
            let (f, world) = (*f, world.clone());
            thread::spawn(move || f(&world))
        };
        let threads: Vec<_> = threads.iter().map(start).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        world
    }

    fn what_pends_is_armed(threads: &'static [fn(&World)]) {
        loom::model(move || {
            let world = run(threads);
            assert!(world.armed.swap(false, SeqCst), "a thread relied on it, and it is not armed");
        });
    }

    /// A thread that disarms because it sleeps elsewhere arms again when it stops.
    fn disarm_for_a_while(world: &World) {
        let _ = world.turn(false);
        world.cover();
    }

    #[test]
    fn who_leaves_it_to_others_may_rely_on_them() {
        what_pends_is_armed(&[World::cover, World::cover, World::sleeper]);
    }

    #[test]
    fn who_leaves_it_to_others_may_rely_on_those_who_disarm() {
        what_pends_is_armed(&[World::cover, disarm_for_a_while, World::sleeper]);
    }

    /// One sleeper still has an event in hand when the next one gets another.
    #[test]
    fn who_leaves_it_to_others_may_rely_on_them_whatever_happens_at_once() {
        what_pends_is_armed(&[World::cover, World::sleeper, World::sleeper]);
    }
}
