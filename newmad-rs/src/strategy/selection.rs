//! The strategy that a gate has, how it is asked, and what is known of the gate's track.

use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::error::Error;
use crate::strategy::contract::Strategy;
use crate::strategy::contract::seal::Seal;
use crate::strategy::default;
use crate::strategy::message::{Lone, Message};

/// What a packet is taken to cost before the first one has been posted, and at most.
const PACKET_NS: (u64, u64) = (2_000, 20_000);

std::thread_local! {
    /// This kernel thread asks a strategy of the program's, with the engine's lock held.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Kernel threads that ask one. While there are none, a call of a session need not look at its thread's mark.
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// Whether the caller is a strategy of the program's. It holds the engine's lock: what it waits for would never come.
#[inline]
pub(crate) fn is_asked() -> bool {
    ASKING.load(Relaxed) > 0 && is_marked()
}

/// Not inlined: the compiler would look for the thread-local, a call in a shared library, before it knows that it has to.
#[cold]
#[inline(never)]
fn is_marked() -> bool {
    ASKED.get()
}

/// The caller may use a session.
///
/// # Errors
/// It is a strategy: [`is_asked`].
#[inline]
pub(crate) fn check_caller() -> Result<(), Error> {
    if is_asked() { Err(Error::InStrategy) } else { Ok(()) }
}

/// As [`check_caller`], where there is no error to return. The panic ends where the strategy was asked.
///
/// # Panics
/// The caller is a strategy.
#[inline]
pub(crate) fn assert_caller() {
    assert!(!is_asked(), "newmad: {}", Error::InStrategy);
}

/// The mark of a thread that asks; dropping it restores what was there.
struct Asked(bool);

impl Asked {
    fn new() -> Asked {
        ASKING.fetch_add(1, Relaxed);
        Asked(ASKED.replace(true))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        ASKED.set(self.0);
        ASKING.fetch_sub(1, Relaxed);
    }
}

/// The strategy of a gate, and what is known of its track.
pub(crate) struct Selection {
    strategy: Arc<dyn Strategy>,
    /// It comes with this crate: may be asked in a signal handler.
    ours: bool,
    /// It sends the messages one by one, in order: need not be asked.
    pub(crate) plain: bool,
    /// It is to be asked whether a lone message stays for a moment.
    pub(crate) holds: bool,
    /// Packets by which the oldest message has been overtaken.
    pub(crate) overtaken: u32,
    /// When the last packet was posted or the last message held. Kept up only if `holds`, as is the next one.
    pub(crate) last_ns: u64,
    /// What it cost to post one, on average.
    pub(crate) packet_ns: u64,
    bursts: Bursts,
}

/// Messages that are submitted without a look for events in between.
#[derive(Clone, Copy, Debug, Default)]
struct Bursts {
    /// The number of the last look.
    look: u32,
    /// Since then.
    now: u32,
    /// In the burst before.
    last: u32,
}

impl Bursts {
    /// A message is submitted, after so many looks. How many there were in the burst before it, and in the one before
    /// that.
    fn count(&mut self, looks: u32) -> (u32, u32) {
        if self.look != looks {
            *self = Bursts { look: looks, now: 0, last: self.now };
        }
        let before = self.now;
        self.now = before.saturating_add(1);
        (before, self.last)
    }
}

impl Selection {
    pub(crate) fn new(strategy: Arc<dyn Strategy>) -> Selection {
        Selection {
            ours: strategy.is_ours(Seal),
            plain: strategy.is_ours(Seal) && strategy.name() == default::NAME,
            holds: strategy.may_hold(),
            strategy,
            overtaken: 0,
            last_ns: 0,
            packet_ns: PACKET_NS.0,
            bursts: Bursts::default(),
        }
    }

    /// Whether it has no say in how a message leaves for which the track is free.
    pub(crate) fn is_simple(&self) -> bool {
        self.plain && !self.holds
    }

    /// Calls the strategy. A user's is safe code: it may panic, and may not run in a signal handler.
    pub(crate) fn ask<T>(&mut self, f: impl FnOnce(&dyn Strategy) -> T) -> Option<T> {
        if self.ours {
            return Some(f(&*self.strategy));
        }
        if marcel::in_tick() {
            return None;
        }
        let asked = Asked::new();
        let answer = catch_unwind(AssertUnwindSafe(|| f(&*self.strategy)));
        drop(asked);
        match answer {
            Ok(answer) => Some(answer),
            Err(payload) => {
                // Dropping it would run the program's code again.
                std::mem::forget(payload);
                self.broke();
                None
            }
        }
    }

    #[cold]
    fn broke(&mut self) {
        self.plain = true;
        self.holds = false;
        // A closed stream is no reason to panic here.
        let _ = writeln!(
            std::io::stderr(),
            "newmad: a strategy panicked; \"{}\" takes its place",
            default::NAME
        );
    }

    /// What is known of a message that is submitted now, after so many looks for events.
    pub(crate) fn lone(&mut self, message: Message, now_ns: u64, looks: u32) -> Lone {
        let (before, last_burst) = self.bursts.count(looks);
        let quiet_ns = now_ns.saturating_sub(self.last_ns);
        Lone { message, quiet_ns, packet_ns: self.packet_ns, before, last_burst }
    }

    /// A packet was posted, in this time.
    pub(crate) fn posted(&mut self, from_ns: u64, to_ns: u64) {
        let cost = to_ns.saturating_sub(from_ns).min(PACKET_NS.1);
        self.packet_ns = (7 * self.packet_ns + cost) / 8;
        self.last_ns = to_ns;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_with_a_look() {
        let mut bursts = Bursts::default();
        let mut count = |looks| bursts.count(looks);
        assert_eq!([count(5), count(5), count(5)], [(0, 0), (1, 0), (2, 0)]);
        assert_eq!([count(6), count(9), count(9)], [(0, 3), (0, 1), (1, 1)]);
    }
}
