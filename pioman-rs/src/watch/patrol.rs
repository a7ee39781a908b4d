//! The patrol: the watcher looks every so often instead of being woken, as long as the program calls all the time.
//!
//! A program that posts many requests and waits for them one after the other leaves something pending with every call, and
//! comes back at once. Each time the watch would be armed, the peer would ring, the watcher would be woken, and would find
//! the program there already: four system calls and a wake-up for nothing, several times per message. So whoever leaves
//! something pending is counted; a watcher that is woken and finds that many did so a moment ago, or that some did and it has
//! been woken in vain, *joins* the pollers ([`super::pollers`]), for which no one has to be armed, and polls at its pace,
//! asleep in between. When nobody has called during a period it leaves them, and looks who is to be armed, as every
//! poller does. What the program leaves behind when it goes off to compute is found a period late, once.
//!
//! Wake-ups in vain count, since they may be all that keeps the program from calling more often: on a core that a program and
//! its watcher share, wake-ups took so much of the time that they did not end. (`mad bench delegation --method caller`, a
//! program that only tests, two cores: half a round trip of 2.1 to 2.5 µs; now 0.45 to 0.57.)
//!
//! Only for sources whose policy lets whoever passes poll.
//!
//! Rejected: a watcher that spins for a while before it sleeps (where processes share the cores it takes the core from
//! the peer that is waited for); arming late (somebody would have to be there to do it).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::manager::Core;
use crate::manager::registry::Pinned;

/// Time between two looks: what a wake-up costs is a small part of it.
const PERIOD: Duration = Duration::from_micros(50);
/// So many must leave something pending during a period, at least,
const BUSY: u32 = 8;
/// or so many while the watcher finds nothing as often.
const VAIN: u32 = 2;

/// How often something was left pending.
#[derive(Debug, Default)]
pub(crate) struct Visits(AtomicU32);

impl Visits {
    /// Once more. Several at once may count as one: it is an estimate, and cheap.
    #[inline]
    pub(crate) fn count(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// Whether the program sees to its events by itself, by what came in the last period or some: calls that left something pending,
/// and looks of the watcher, `patrolling` already or not, that found nothing.
fn is_busy(patrolling: bool, calls: u32, vain: u32) -> bool {
    let least = if patrolling { 1 } else { VAIN };
    calls >= BUSY || calls >= least && vain >= least
}

/// Whether the watcher is on patrol, and what it goes by.
pub(crate) struct Patrol {
    /// Since when it counts how often something is left pending, and how often that had been then.
    counted: Instant,
    visits: u32,
    /// How often it has looked in vain since then.
    vain: u32,
    /// The sources that it polls, on patrol.
    polls: u64,
}

impl Patrol {
    pub(crate) fn new(core: &Core) -> Patrol {
        // The kernel may be late by this much; otherwise by as much as the period.
        // SAFETY: no memory is passed.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 5_000, 0, 0, 0) };
        Patrol { counted: Instant::now(), visits: core.visits.now(), vain: 0, polls: 0 }
    }

    /// When it is to look next, on patrol.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.polls != 0).then(|| Instant::now() + PERIOD)
    }

    /// The watcher was woken, or its time has come, and it has looked, and `found` something: goes on patrol, or ends it. The
    /// caller then looks who is to be armed.
    pub(crate) fn looked(&mut self, core: &Core, sources: &Pinned<'_>, found: bool) {
        let now = Instant::now();
        let since = now - self.counted;
        self.vain += u32::from(!found);
        if since < PERIOD {
            return;
        }
        self.counted = now;
        let visits = core.visits.now();
        let calls = visits.wrapping_sub(std::mem::replace(&mut self.visits, visits));
        let vain = std::mem::take(&mut self.vain);
        let busy = since < 4 * PERIOD && is_busy(self.polls != 0, calls, vain);
        if busy && self.polls == 0 {
            self.polls = sources.unattended_of(core.passed.load(Relaxed));
            core.pollers.join(self.polls);
            sources.these(self.polls).for_each(|(_, slot)| slot.source.disarm());
        } else if !busy {
            self.end(core);
        }
    }

    /// Ends it. The caller then looks who is to be armed.
    pub(crate) fn end(&mut self, core: &Core) {
        if self.polls != 0 {
            core.pollers.leave(std::mem::take(&mut self.polls));
        }
    }

    /// What is polled, on patrol.
    pub(crate) fn polls(&self) -> u64 {
        self.polls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_woken_in_vain_while_somebody_calls_goes_on_patrol() {
        assert!(is_busy(false, BUSY, 0), "many calls");
        assert!(is_busy(false, VAIN, VAIN) && !is_busy(false, VAIN - 1, 100), "some calls");
        assert!(!is_busy(false, BUSY - 1, 1), "it finds what nobody else does");
        assert!(is_busy(true, 1, 1), "it goes on as long as it is not needed");
        assert!(!is_busy(true, 0, 1) && !is_busy(true, BUSY - 1, 0), "it is needed again");
    }
}
