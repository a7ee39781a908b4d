//! The spinning helper: an idle virtual processor that stays awake for what callers leave to it.
//!
//! To begin a request may cost its caller as much as a message (a system call, a copy), and an idle core could do it.
//! But only one that is awake: to wake one costs the caller a system call as well, which interrupts the other core. So
//! it is woken before it is needed, by a caller that waits or has nothing to run:
//!
//! ```text
//!   a caller offers something ── a poller on another core ──▶ the poller takes it, and stays for the next
//!             │ no such poller
//!             ▼
//!   the caller does it itself: MISSED ── a thread waits, or has nothing to run ──▶ an idle virtual processor is woken,
//!                                                                               and HELPS for a while
//! ```
//!
//! The helper polls the sources that allow passing polls, pending or not. While a thread waits, and so polls, it keeps
//! away.
//!
//! The core may be wanted elsewhere, so its time is paid for. An offer that is taken is worth about a wake-up to the
//! caller, and twenty times that of an idle core's time (the accepted overhead of \[Trahay09\], 5.3.2). Besides, a
//! twentieth of all time is free, to try. Time in which it finds something, or keeps away, costs nothing. Where offers
//! come too seldom for that, or its core is taken away by other processes, callers begin their requests themselves.
//!
//! Nothing depends on any of it but time: it is a poller like others (`progress::pollers`), and what is left when it
//! stops is armed as all that pends.
//!
//! Rejected: to wake a core by the offer (on a virtual machine 8 µs for the caller, and 25 until the other runs).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use marcel::{Kind, Vp};

use crate::driver::idle_poller::IdlePoller;
use crate::progress::machine::Machine;
use crate::progress::policy::contract::Limit;

/// It stays for so long after the last offer.
const STAY: u64 = 500_000;
/// What an offer that is taken is worth, in time of an idle core.
const WORTH: u64 = 200_000;
/// This part of all time is free.
const FREE: u64 = 20;
/// A helper that runs again after more than this has lost its core to another process, perhaps in the middle of a
/// submission, for milliseconds. It gives up its budget, and earns none for a penalty that doubles each time. Each
/// offer that is taken makes the penalty a part smaller again.
const AWAY: u64 = 200_000;
/// The same, for a helper that finds something: no single poll takes so long.
const LONG: u64 = 2_000_000;
const PENALTIES: (u64, u64) = (10_000_000, 640_000_000);
const FORGIVEN: u64 = 32;
/// No more is put aside.
const MOST: u64 = 4 * STAY;

const NO_CORE: usize = usize::MAX;

/// See the module's description. Times are nanoseconds since `epoch`. Two threads that write at once may lose an
/// amount.
#[derive(Debug)]
pub(super) struct Helper {
    epoch: Instant,
    /// The core of a caller whose offer was not taken, since the last call.
    missed_on: AtomicUsize,
    /// An idle virtual processor is to stay until then; 0: none is.
    until: AtomicU64,
    /// Not on this core: that is the caller's.
    offerer: AtomicUsize,
    /// Up to when its time is accounted for.
    paid: AtomicU64,
    budget: AtomicU64,
    /// Up to when the free part is in the budget.
    freed: AtomicU64,
    /// For how long nothing is free the next time that a helper loses its core.
    penalty: AtomicU64,
}

impl Helper {
    pub(super) fn new() -> Helper {
        Helper {
            epoch: Instant::now(),
            missed_on: AtomicUsize::new(NO_CORE),
            until: AtomicU64::new(0),
            offerer: AtomicUsize::new(NO_CORE),
            paid: AtomicU64::new(0),
            budget: AtomicU64::new(MOST),
            freed: AtomicU64::new(0),
            penalty: AtomicU64::new(PENALTIES.0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds to the budget, and the free part of the time until now.
    fn earn(&self, now: u64, worth: u64) -> u64 {
        let free = now.saturating_sub(self.freed.fetch_max(now, Relaxed)) / FREE;
        let budget = (self.budget.load(Relaxed) + free + worth).min(MOST);
        self.budget.store(budget, Relaxed);
        budget
    }

    /// An offer is taken: its taker stays for the next.
    fn taken(&self, now: u64) {
        self.earn(now, WORTH);
        let penalty = self.penalty.load(Relaxed);
        self.penalty.store((penalty - penalty / FORGIVEN).max(PENALTIES.0), Relaxed);
        if self.until.load(Relaxed) != 0 {
            self.until.store(now + STAY, Relaxed);
        }
    }

    /// As [`crate::Manager::offer`].
    pub(super) fn offer(&self, idle: &IdlePoller) -> bool {
        let Some(core) = own_core() else { return false };
        let taken = idle.get().is_some_and(|vp| vp.cpu() != Some(core));
        match taken {
            true => self.taken(self.now()),
            false => self.missed_on.store(core, Relaxed),
        }
        taken
    }

    /// Whether an offer has found no helper since the last call.
    #[inline]
    pub(super) fn is_missed(&self) -> bool {
        self.missed_on.load(Relaxed) != NO_CORE
    }

    /// Wakes an idle virtual processor for the next offer, if it is paid for.
    #[cold]
    pub(super) fn call(&self, machine: &Machine) {
        let offerer = self.missed_on.swap(NO_CORE, Relaxed);
        let Some(load) = machine.load() else { return };
        let idle = load.compute_vps() > load.busy_compute_vps();
        let never = machine.limit == Limit::For(Duration::ZERO);
        if !never && idle && machine.points.idle && self.is_worth_a_call(self.now(), offerer) {
            // If none sleeps there, one may be about to, and looks first.
            load.wake_on(&|core| core != offerer);
        }
    }

    /// Whether this idle virtual processor is to stay awake.
    #[inline]
    pub(super) fn stays_awake(&self, vp: &Vp) -> bool {
        self.until.load(Relaxed) != 0
            && vp.kind() == Kind::Compute
            && vp.cpu().is_some_and(|core| core != self.offerer.load(Relaxed))
            && self.stays(self.now())
    }

    /// The helper has found something, or keeps away from a source that others poll.
    #[inline]
    pub(super) fn is_useful(&self) {
        self.is_busy(self.now());
    }

    /// Whether a helper is to be woken, for offers from that core. Not if one is on the way, or it is not paid for.
    fn is_worth_a_call(&self, now: u64, offerer: usize) -> bool {
        let calls = now >= self.until.load(Relaxed) && self.earn(now, 0) >= STAY;
        if calls {
            self.offerer.store(offerer, Relaxed);
            self.paid.store(now, Relaxed);
            self.until.store(now + STAY, Relaxed);
        }
        calls
    }

    /// Whether the helper stays. It pays for the time since it asked last.
    fn stays(&self, now: u64) -> bool {
        let price = now.saturating_sub(self.paid.swap(now, Relaxed));
        let budget = self.budget.load(Relaxed);
        let left = budget.saturating_sub(price);
        self.budget.store(left, Relaxed);
        if price >= AWAY {
            self.lost_its_core(now);
        }
        let stays = now < self.until.load(Relaxed) && left > 0 && price < AWAY;
        if !stays {
            self.until.store(0, Relaxed);
        }
        stays
    }

    /// The helper does not poll in vain just now.
    fn is_busy(&self, now: u64) {
        let took = now.saturating_sub(self.paid.swap(now, Relaxed));
        if took >= LONG {
            self.lost_its_core(now);
        }
    }

    #[cold]
    fn lost_its_core(&self, now: u64) {
        self.until.store(0, Relaxed);
        self.budget.store(0, Relaxed);
        let penalty = self.penalty.load(Relaxed);
        self.freed.store(now + penalty, Relaxed);
        self.penalty.store((2 * penalty).min(PENALTIES.1), Relaxed);
    }
}

/// The core that runs the caller, at this moment.
fn own_core() -> Option<usize> {
    // SAFETY: no memory is passed.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// For how long a helper stays that is called at `now`, comes at once, and finds nothing.
    fn stays_from(helper: &Helper, now: u64) -> u64 {
        let mut time = now;
        while helper.stays(time) {
            time += 100;
        }
        time - now
    }

    #[test]
    fn who_is_never_offered_anything_goes_and_costs_a_twentieth() {
        let helper = Helper::new();
        let (mut now, mut spent) = (0, 0);
        while now < 1_000_000_000 {
            if helper.is_worth_a_call(now, 0) {
                spent += stays_from(&helper, now);
            }
            now += 1_000_000;
        }
        assert!(spent > 0 && spent <= now / FREE + MOST, "{spent} ns of {now}");
    }

    #[test]
    fn who_is_offered_enough_stays() {
        let helper = Helper::new();
        assert!(helper.is_worth_a_call(1000, 0));
        for i in 1..100_000 {
            let now = 1000 + i * 50_000;
            assert!(helper.stays(now), "offer {i}");
            assert!(!helper.is_worth_a_call(now, 0), "it is there already");
            if i % 3 == 0 {
                helper.taken(now);
            }
        }
        let rest = stays_from(&helper, 1000 + 100_000 * 50_000);
        assert!(rest <= STAY, "{rest} ns after the last offer");
    }

    #[test]
    fn who_loses_its_core_goes() {
        let helper = Helper::new();
        assert!(helper.is_worth_a_call(0, 0) && helper.stays(20_000));
        assert!(!helper.stays(20_000 + AWAY), "another process had its core");
        assert!(!helper.is_worth_a_call(PENALTIES.0, 0), "nor is the next one called soon");
        let later = PENALTIES.0 + 20_000_000;
        assert!(helper.is_worth_a_call(later, 0), "but another time it is tried again");
        assert!(!helper.stays(later + AWAY));
        assert!(!helper.is_worth_a_call(later + 20_000_000, 0), "not so soon this time");
        assert!(helper.is_worth_a_call(later + 40_000_000, 0));
    }

    #[test]
    fn who_loses_its_core_while_it_works_goes() {
        let helper = Helper::new();
        assert!(helper.is_worth_a_call(0, 0) && helper.stays(20_000));
        helper.taken(20_000 + LONG / 2 - 1);
        helper.is_busy(20_000 + LONG / 2);
        assert!(helper.stays(30_000 + LONG / 2));
        helper.is_busy(30_000 + LONG / 2 + LONG);
        assert!(!helper.stays(30_000 + LONG / 2 + LONG));
    }

    #[test]
    fn seldom_offers_do_not_pay() {
        let helper = Helper::new();
        let (mut now, mut spent) = (0, 0);
        for _ in 0..10_000 {
            // The offer comes just before it would go.
            if helper.is_worth_a_call(now, 0) {
                let mut time = now;
                while helper.stays(time) && time + AWAY / 2 < now + STAY {
                    time += AWAY / 2;
                }
                helper.taken(time);
                spent += time - now + stays_from(&helper, time);
            }
            now += 2 * STAY;
        }
        assert!(spent <= MOST + now / FREE + now / (2 * STAY) * WORTH, "{spent} ns of {now}");
    }
}
