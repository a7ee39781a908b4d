//! How packets went, for `mad bench eager-channels`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::outgoing::Route;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::verbs) enum Count {
    Ring,
    Closed,
    Full,
    Longer,
    Sleeps,
    Declines,
    Opened,
    Ended,
    Shrunk,
    Wakes,
    Naps,
    Memory,
    MostMemory,
}

impl Count {
    /// Of a packet that goes that way.
    #[inline]
    pub(in crate::net::verbs) fn of(route: Route) -> Count {
        match route {
            Route::Ring => Count::Ring,
            Route::Closed => Count::Closed,
            Route::Full => Count::Full,
            Route::Longer => Count::Longer,
            Route::Sleeps => Count::Sleeps,
        }
    }
}

const COUNTS: usize = Count::MostMemory as usize + 1;

/// Of one driver, which alone writes them, under the engine's lock.
#[derive(Default)]
pub(in crate::net::verbs) struct Driver([AtomicU64; COUNTS]);

static DRIVERS: Mutex<Vec<Weak<Driver>>> = Mutex::new(Vec::new());

impl Driver {
    pub(in crate::net::verbs) fn new() -> Arc<Driver> {
        let driver = Arc::new(Driver::default());
        let mut all = DRIVERS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|driver| driver.strong_count() > 0);
        all.push(Arc::downgrade(&driver));
        driver
    }

    #[inline]
    pub(in crate::net::verbs) fn add(&self, count: Count) {
        self.set(count, self.get(count) + 1);
    }

    #[inline]
    pub(in crate::net::verbs) fn get(&self, count: Count) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, count: Count, value: u64) {
        self.0[count as usize].store(value, Ordering::Relaxed);
    }

    /// Rings have so many bytes now.
    pub(in crate::net::verbs) fn memory(&self, bytes: u64) {
        self.set(Count::Memory, bytes);
        self.set(Count::MostMemory, self.get(Count::MostMemory).max(bytes));
    }
}

/// Of all open sessions of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of the small track that went through a channel.
    pub through: u64,
    /// By send and receive since there was no channel.
    pub closed: u64,
    /// Since no slot was free: the misses.
    pub misses: u64,
    /// Since they were longer than a slot.
    pub longer: u64,
    /// Since the receiver slept.
    pub sleeping: u64,
    /// Requests of others that this process declined.
    pub declines: u64,
    /// Rings that it made for others: each opening of a channel, and each other shape.
    pub opened: u64,
    /// Channels that it ended, or could not make.
    pub ended: u64,
    /// How often it ended or shrank one unasked, for want of memory.
    pub shrunk: u64,
    /// Packets that it sent to wake a receiver beside a written slot.
    pub wakes: u64,
    /// How often it woke up by the timer to look for one.
    pub naps: u64,
    /// Bytes of the rings in its memory.
    pub memory: u64,
    /// The most that they were.
    pub most_memory: u64,
}

/// How packets went over channels, in all open sessions of this process.
pub fn counts() -> Counts {
    let all = DRIVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let all: Vec<Arc<Driver>> = all.iter().filter_map(Weak::upgrade).collect();
    let of = |count| all.iter().map(|driver| driver.get(count)).sum();
    Counts {
        through: of(Count::Ring),
        closed: of(Count::Closed),
        misses: of(Count::Full),
        longer: of(Count::Longer),
        sleeping: of(Count::Sleeps),
        declines: of(Count::Declines),
        opened: of(Count::Opened),
        ended: of(Count::Ended),
        shrunk: of(Count::Shrunk),
        wakes: of(Count::Wakes),
        naps: of(Count::Naps),
        memory: of(Count::Memory),
        most_memory: of(Count::MostMemory),
    }
}
