//! A thread that looks for events again and again, in a wait or as a loop around `MPI_Test` does, gives its core to the
//! process that has the message.
//!
//! With a core for each process there is none to give it to, and each offer is three system calls: so offers are
//! seldom, one in [`SELDOM`] looks in vain. With more processes than cores the sender may be the one that waits for this
//! core; the kernel would let it wait until the looking thread's time slice is over, milliseconds later. So what came of
//! an offer decides when the next one is made: at the next look in vain if another thread has run, after twice as many
//! looks if none has.
//!
//! ```text
//!   look ──found──▶ vain - FOUND
//!     └──nothing──▶ vain + 1 ──= every──▶ offer ──not taken────▶ every = min(2 × every, SELDOM)
//!                                           ├──back soon───────▶ every = 1
//!                                           └──back after long─▶ every = min(8 × every, RARELY)
//! ```
//!
//! A core that is back soon went around among others that look. If it was away for long, a thread computes there: it
//! keeps the core for a time slice, and one that is woken would have had it back before. So such offers are rare. (With
//! one at each look, a loop around `MPI_Test` beside a computing process would look once in a slice.) Where the launcher
//! has started more processes than there are cores, what computes is a process of the same job: the looking thread may
//! wait for just what it computes, so a long absence counts as a short one ([`Machine::is_oversubscribed`]).
//!
//! A wait looks for as long as its policy says, and then sleeps, which in a crowd costs two switches more than an offer.
//! So the time of an offer after which the core is back soon is no part of the looking.
//!
//! A program that computes and tests in passing ([`Glance`]) has work for the core, so it does not offer it each time: only if
//! it had looked just before as well, as a loop around `MPI_Test` does, or once in a short time slice. (A search by eight
//! ranks on two cores that looks every 5 µs took 2.3 ms and now 1.9, a Monte-Carlo transport that looks every 3 µs 3.9 ms
//! and now 2.5.)
//!
//! What is found takes little from the count: in a crowd, too, some messages are there at the first look, and with a
//! count that began anew the offers would never begin.
//!
//! Several threads may look at once: they count together, and a count that gets lost costs nothing.
//!
//! Rejected: comparing the number of ranks with that of cores (other programs, and threads, want cores too); taking the
//! time of an offer for a sign that it was taken (what is long on one machine is short on the next).

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use marcel::plumbing::lwp::SHORT_SLICE;

use crate::progress::machine::Machine;

/// Most looks in vain from one offer of the core to the next: some ten microseconds.
const SELDOM: u32 = 64;
/// The same after an offer that took long: some milliseconds.
const RARELY: u32 = 64 * SELDOM;
/// What one event takes from the count.
const FOUND: u32 = 4;
/// Offers are taken if they are made at least as often.
const OFTEN: u32 = 8;
/// Of so many offers in a row that are due at each look, one finds out whether others still take them.
const PROBED: u32 = 8;
/// A core that went around among threads that look is back in so many times the cost of a wake-up: each has it for less
/// than that. Threads that compute have it for a time slice, hundreds of times as long. (With 12 times the cost eight
/// ranks on two cores did not begin to give way to each other.)
const AROUND: u32 = 128;
/// A wake-up that takes longer is made longer by threads that compute: it would be no measure for them.
const LONGEST_WAKE_UP: Duration = Duration::from_micros(8);
/// So long the cores of one wait may have been others' at the most before that counts: an end is late else.
pub(super) const MOST_AWAY: Duration = Duration::from_millis(1);

/// What computes for longer between two looks does not wait for what it looks for. A loop around a test takes some hundred
/// nanoseconds.
const LOOP: Duration = Duration::from_micros(1);

/// When the next offer is due. A cache line of its own: threads that look write to it.
#[repr(align(64))]
pub(super) struct Offers {
    /// Looks in vain since the last event, or the last offer.
    vain: AtomicU32,
    /// At so many an offer is due.
    every: AtomicU32,
    /// Offers since the last that found out whether they are taken.
    trusted: AtomicU32,
    /// When the last glance in a crowd ended, and when the last that might offer the core did: in nanoseconds since `begun`.
    glanced: AtomicU64,
    offered: AtomicU64,
    begun: Instant,
}

/// A look of a program that does not wait, from its begin to its end.
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    /// The program has computed before, and the core has been offered of late.
    in_passing: bool,
}

impl Default for Offers {
    fn default() -> Offers {
        let zero = || AtomicU32::new(0);
        Offers {
            vain: zero(),
            every: AtomicU32::new(SELDOM),
            trusted: zero(),
            glanced: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }
}

impl Offers {
    /// A look has ended; if it found nothing, this may give the core away. For how long, if that is no part of the
    /// looking.
    #[inline]
    pub(super) fn looked(&self, found: bool, machine: &Machine) -> Duration {
        if !self.are_due(found) {
            return Duration::ZERO;
        }
        self.make(machine)
    }

    /// A glance begins.
    #[inline]
    pub(super) fn glance(&self) -> Glance {
        Glance { in_passing: self.are_taken() && self.is_in_passing(self.now()) }
    }

    /// As [`Offers::looked`], at the end of a glance.
    #[inline]
    pub(super) fn glanced(&self, glance: Glance, found: bool, machine: &Machine) {
        if found || !glance.in_passing {
            self.looked(found, machine);
        }
        if self.are_taken() {
            self.note(found, !glance.in_passing);
        }
    }

    fn is_in_passing(&self, now: u64) -> bool {
        let since = |then: &AtomicU64| Duration::from_nanos(now.saturating_sub(then.load(Relaxed)));
        since(&self.glanced) > LOOP && since(&self.offered) < SHORT_SLICE
    }

    /// A glance has ended. The one that follows an event is no loop: the program was busy with it.
    fn note(&self, found: bool, offered: bool) {
        let now = self.now();
        self.glanced.store(if found { 0 } else { now }, Relaxed);
        if offered && !found {
            self.offered.store(now, Relaxed);
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    #[cold]
    fn make(&self, machine: &Machine) -> Duration {
        if machine.is_loaded() {
            // The process's own green threads compute on every core: one of them would have it. (A policy that always
            // polls answered after 60 µs instead of 6.)
            self.every.store(SELDOM, Relaxed);
            return Duration::ZERO;
        }
        if machine.is_oversubscribed {
            machine.short_slices.ask();
        }
        let before = Instant::now();
        let taken = match self.is_trusted() {
            true => None,
            false => Some(offer_core()),
        };
        if taken.is_none() {
            std::thread::yield_now();
        }
        let away = before.elapsed();
        let is_soon = away < AROUND * machine.wake_up.cost().min(LONGEST_WAKE_UP);
        self.made(taken, is_soon || machine.is_oversubscribed);
        if is_soon { away } else { Duration::ZERO }
    }

    /// Counts a look; whether an offer is due.
    #[inline]
    fn are_due(&self, found: bool) -> bool {
        let vain = self.vain.load(Relaxed);
        if found {
            if vain > 0 {
                self.vain.store(vain.saturating_sub(FOUND), Relaxed);
            }
            return false;
        }
        let due = vain + 1 >= self.every.load(Relaxed);
        self.vain.store(if due { 0 } else { vain + 1 }, Relaxed);
        due
    }

    /// Whether this offer is taken, as far as those before say.
    fn is_trusted(&self) -> bool {
        let trusted = self.trusted.load(Relaxed) + 1;
        let probed = self.every.load(Relaxed) > 1 || trusted >= PROBED;
        self.trusted.store(if probed { 0 } else { trusted }, Relaxed);
        !probed
    }

    /// An offer was made, and `taken`, if that is known.
    fn made(&self, taken: Option<bool>, is_soon: bool) {
        let every = match taken {
            Some(false) => (2 * self.every.load(Relaxed)).min(SELDOM),
            _ if !is_soon => (8 * self.every.load(Relaxed)).min(RARELY),
            Some(true) => 1,
            None => return,
        };
        self.every.store(every, Relaxed);
    }

    /// Whether others took the core of late when it was offered.
    #[inline]
    pub(super) fn are_taken(&self) -> bool {
        self.every.load(Relaxed) < OFTEN
    }
}

std::thread_local! {
    /// How often this kernel thread had lost its core when it was last asked.
    static LOST: Cell<libc::c_long> = const { Cell::new(0) };
}

/// Lets other kernel threads have the core; whether one has had it, now or since the last call. (A thread that yields is
/// still runnable, so the kernel counts the switch as one that the thread did not want. One that is woken may preempt
/// this one between two offers: it wanted the core as well.)
fn offer_core() -> bool {
    std::thread::yield_now();
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: valid memory for the result; zeroes are a valid value, should it not be written.
    let lost = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_nivcsw
    };
    LOST.replace(lost) != lost
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Looks in vain so often, while offers end like this; how many were made.
    fn offers(of: &Offers, looks: u32, taken: bool, is_soon: bool) -> u32 {
        let due = (0..looks).filter(|_| of.are_due(false));
        due.map(|_| of.made(Some(taken), is_soon)).count() as u32
    }

    #[test]
    fn offers_are_seldom_where_no_other_thread_wants_the_core() {
        let of = Offers::default();
        assert_eq!(offers(&of, 10 * SELDOM, false, true), 10);
        assert!(!of.are_taken());
    }

    #[test]
    fn each_look_in_vain_is_an_offer_where_others_take_them() {
        let of = Offers::default();
        assert_eq!(offers(&of, SELDOM, true, true), 1);
        assert_eq!(offers(&of, 50, true, true), 50);
        assert!(of.are_taken());
        // And they become seldom again: after 1, 2, 4 ... looks.
        assert_eq!(offers(&of, SELDOM - 1, false, true), SELDOM.ilog2());
        assert!(!of.are_taken());
        assert_eq!(offers(&of, 10 * SELDOM, false, true), 10);
    }

    #[test]
    fn offers_are_rare_where_others_compute() {
        let of = Offers::default();
        assert_eq!(offers(&of, SELDOM + 8 * SELDOM, true, false), 2);
        assert!(!of.are_taken());
        assert_eq!(offers(&of, 3 * RARELY, true, false), 3);
        // Until nobody takes one any more.
        assert_eq!(offers(&of, RARELY, false, true), 1);
        assert_eq!(offers(&of, 10 * SELDOM, false, true), 10);
    }

    #[test]
    fn of_offers_that_are_taken_few_are_probed() {
        let of = Offers::default();
        assert!(!of.is_trusted(), "nothing is known yet");
        of.made(Some(true), true);
        let trusted = (0..10 * PROBED).filter(|_| of.is_trusted()).count() as u32;
        assert_eq!(trusted, 10 * (PROBED - 1));
    }

    #[test]
    fn a_glance_is_in_passing_if_the_program_has_computed_and_the_core_was_offered_of_late() {
        let of = Offers::default();
        let us = |n: u64| n * 1_000;
        of.glanced.store(us(1_000), Relaxed);
        of.offered.store(us(1_000), Relaxed);
        assert!(!of.is_in_passing(us(1_000) + 200), "a loop");
        assert!(of.is_in_passing(us(1_005)), "it has computed");
        of.glanced.store(us(1_099), Relaxed);
        assert!(!of.is_in_passing(us(1_101)), "a time slice has passed since an offer");
        assert!(!of.glance().in_passing, "there is no crowd");
    }

    #[test]
    fn a_poller_that_finds_events_offers_nothing() {
        let of = Offers::default();
        for _ in 0..10 * SELDOM {
            assert!(!of.are_due(false) && !of.are_due(false) && !of.are_due(true));
        }
    }

    #[test]
    fn an_offer_is_taken_by_a_thread_that_wants_the_core() {
        let (over, runs) = (AtomicBool::new(false), AtomicU32::new(0));
        let offers = || {
            // Threads that this one starts stay there as well.
            marcel::topology::bind_current_thread(marcel::topology::allowed_cpus()[0]).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        runs.fetch_add(1, Relaxed);
                    }
                });
                let limit = Instant::now() + Duration::from_secs(60);
                // It ran during the offer, and the kernel's count says so.
                let taken = std::iter::repeat_with(|| {
                    let before = runs.load(Relaxed);
                    offer_core() && runs.load(Relaxed) != before
                })
                .take_while(|_| Instant::now() < limit)
                .any(|taken| taken);
                over.store(true, Relaxed);
                taken
            })
        };
        let taken = std::thread::scope(|scope| scope.spawn(offers).join().unwrap());
        assert!(taken);
    }
}
