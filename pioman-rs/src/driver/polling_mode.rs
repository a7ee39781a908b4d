//! Polling mode (as NAPI has it): the watcher looks every so often instead of being woken, as long as the program calls
//! all the time.
//!
//! A program that posts many requests and waits for them one after the other leaves something pending with every call,
//! and comes back at once. Each time the watch would be armed, the peer would ring, the watcher would be woken, and
//! would find the program there already: four system calls and a wake-up for nothing, several times per message. So
//! calls that leave something pending are counted; a watcher that is woken and finds that many did so a moment ago, or
//! that some did and it has been woken in vain, *joins* the pollers ([`crate::progress::pollers`]), for which no one
//! has to be armed, and polls at its pace, asleep in between. After a period without a call it leaves them,
//! and arms what is to be armed, as every poller does. What the program leaves behind when it goes off to compute is
//! found a period late, once.
//!
//! Wake-ups in vain count, since they may be all that keeps the program from calling more often: on a core that a
//! program and its watcher share, wake-ups took so much of the time that they did not end. (`mad bench delegation
//! --method caller`, a program that only tests, two cores: half a round trip of 2.1 to 2.5 µs; now 0.45 to 0.57.)
//!
//! Whether the peers would still ring cannot be seen in polling mode. So the watcher leaves it after some looks in vain
//! in a row, too ([`Patience`]), and more of them if it had to come back soon the last time. (Without that, one window
//! of messages that filled a track brought looks every 50 µs for as long as the program went on to exchange messages.)
//!
//! Only for sources whose policy allows passing polls.
//!
//! Rejected: a watcher that spins for a while before it sleeps (where processes share the cores it takes the core from
//! the peer that is waited for); arming late (a thread would have to be there to do it).

use std::time::{Duration, Instant};

use crate::driver::core::{Driver, Polling};
use crate::progress::registry::Pinned;

/// Time between two looks: what a wake-up costs is a small part of it.
const PERIOD: Duration = Duration::from_micros(50);
/// So many must leave something pending during a period, at least,
const BUSY: u32 = 8;
/// or so many while the watcher finds nothing as often.
const VAIN: u32 = 2;

/// Looks in vain in a row after which polling mode ends: at first, and at the most.
const LEAST_PATIENCE: u32 = 4;
const MOST_PATIENCE: u32 = 256;

/// How many looks in vain in a row polling mode lasts.
struct Patience {
    looks: u32,
    vain: u32,
    ended: Option<Instant>,
}

impl Patience {
    fn new() -> Patience {
        Patience { looks: LEAST_PATIENCE, vain: 0, ended: None }
    }

    /// Polling mode begins. It lasts longer if it has ended a moment ago: the peers ring again.
    fn begin(&mut self, now: Instant) {
        let soon = self.ended.is_some_and(|ended| now - ended < self.looks * PERIOD);
        self.looks = if soon { (2 * self.looks).min(MOST_PATIENCE) } else { LEAST_PATIENCE };
        self.vain = 0;
    }

    /// A look in polling mode; whether the mode goes on.
    fn looked(&mut self, found: bool) -> bool {
        self.vain = if found { 0 } else { self.vain + 1 };
        self.vain < self.looks
    }

    fn end(&mut self, now: Instant) {
        self.ended = Some(now);
    }
}

/// Whether the program sees to its events by itself, by what came in the last period or some: calls that left something
/// pending, and looks of the watcher, `polling` already or not, that found nothing.
fn is_busy(polling: bool, calls: u32, vain: u32) -> bool {
    let least = if polling { 1 } else { VAIN };
    calls >= BUSY || calls >= least && vain >= least
}

/// Whether the watcher is in polling mode, and what it goes by.
pub(super) struct PollingMode<'a> {
    driver: &'a Driver,
    /// Since when it counts how often something is left pending, and how often that had been then.
    counted: Instant,
    visits: u32,
    /// How often it has looked in vain since then.
    vain: u32,
    patience: Patience,
    /// The sources that it polls, in polling mode.
    polling: Option<Polling<'a>>,
}

impl<'a> PollingMode<'a> {
    pub(super) fn new(driver: &'a Driver) -> PollingMode<'a> {
        // The kernel may be late by this much; otherwise by as much as the period.
        // SAFETY: no memory is passed.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 5_000, 0, 0, 0) };
        let visits = driver.background.visits.now();
        let (counted, patience) = (Instant::now(), Patience::new());
        PollingMode { driver, counted, visits, vain: 0, patience, polling: None }
    }

    /// When it is to look next, in polling mode.
    pub(super) fn next(&self) -> Option<Instant> {
        self.polling.as_ref().map(|_| Instant::now() + PERIOD)
    }

    /// The watcher was woken, or its time has come, and it has looked, and `found` something: begins polling mode, or
    /// ends it. The caller then arms.
    pub(super) fn looked(&mut self, sources: &Pinned<'_>, found: bool) {
        let now = Instant::now();
        let since = now - self.counted;
        self.vain += u32::from(!found);
        if since < PERIOD {
            return;
        }
        self.counted = now;
        let visits = self.driver.background.visits.now();
        let calls = visits.wrapping_sub(std::mem::replace(&mut self.visits, visits));
        let vain = std::mem::take(&mut self.vain);
        let patient = self.polling.is_none() || self.patience.looked(found);
        let busy = patient && since < 4 * PERIOD && is_busy(self.polling.is_some(), calls, vain);
        if busy && self.polling.is_none() {
            let polls = sources.unattended_of(self.driver.advisor.passed());
            if polls != 0 {
                self.patience.begin(now);
                self.polling = Some(self.driver.begin_polling(sources, polls));
            }
        } else if !busy && let Some(polling) = self.polling.take() {
            self.patience.end(now);
            polling.stop().paid_by_parking(); // the caller arms
        }
    }

    /// What is polled, in polling mode.
    pub(super) fn polls(&self) -> u64 {
        self.polling.as_ref().map_or(0, Polling::mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_woken_in_vain_while_somebody_calls_polls() {
        assert!(is_busy(false, BUSY, 0), "many calls");
        assert!(is_busy(false, VAIN, VAIN) && !is_busy(false, VAIN - 1, 100), "some calls");
        assert!(!is_busy(false, BUSY - 1, 1), "it finds what no other thread does");
        assert!(is_busy(true, 1, 1), "it goes on as long as it is not needed");
        assert!(!is_busy(true, 0, 1) && !is_busy(true, BUSY - 1, 0), "it is needed again");
    }

    #[test]
    fn polling_mode_ends_after_looks_in_vain_and_lasts_longer_if_it_comes_back_soon() {
        let mut patience = Patience::new();
        let mut now = Instant::now();
        let mut lasts = |patience: &mut Patience, pause: Duration| {
            now += pause;
            patience.begin(now);
            let looks = 1 + (0..).take_while(|_| patience.looked(false)).count() as u32;
            now += looks * PERIOD;
            patience.end(now);
            looks
        };
        assert_eq!(lasts(&mut patience, PERIOD), LEAST_PATIENCE);
        assert_eq!(lasts(&mut patience, PERIOD), 2 * LEAST_PATIENCE);
        assert_eq!(lasts(&mut patience, PERIOD), 4 * LEAST_PATIENCE);
        assert_eq!(lasts(&mut patience, MOST_PATIENCE * PERIOD), LEAST_PATIENCE, "long ago");
        patience.begin(now);
        for _ in 0..10 * LEAST_PATIENCE {
            assert!(patience.looked(false) && patience.looked(true), "it finds what there is");
        }
    }
}
