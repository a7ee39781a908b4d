//! The recorder behind [`crate::trace`]: rings of records, one for each kernel thread, written in any context.

mod clock;
mod event;
mod kind;
mod limit;
pub(crate) mod names;
pub(crate) mod ring;
mod stamp;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicPtr, Ordering::*};

pub(crate) use event::event;
pub use kind::Kind;
pub(crate) use limit::Limiter;
pub use names::{intern, intern_static};
pub use stamp::Stamp;

use self::ring::Rings;
use crate::os::KernelMutex;
use crate::os::{slot, this_thread};

/// The rings; null while nothing is recorded.
static ON: AtomicPtr<Rings> = AtomicPtr::new(std::ptr::null_mut());
/// The rings, once they have been made. They stay: a thread may be about to write.
static MADE: KernelMutex<Option<&'static Rings>> = KernelMutex::new(None);

/// Records a kernel thread keeps if nothing else is said.
pub const RECORDS: usize = 32 * 1024;

/// Starts to record, into rings of `records` (rounded up to a power of two) for each kernel thread. Memory is used as
/// it is filled: 32 bytes a record. What was recorded before, and is still in the rings, is forgotten. When this is
/// called again the rings keep the size that they have.
///
/// # Context
/// Not a signal handler.
///
/// # Errors
/// There is no memory.
pub fn start(records: usize) -> io::Result<()> {
    slot::prepare();
    slot::on_claim(record_owner);
    let mut made = MADE.lock();
    let rings = match *made {
        Some(rings) => rings,
        None => {
            let rings: &'static Rings = Box::leak(Box::new(Rings::new(records)?));
            *made = Some(rings);
            rings
        }
    };
    if ON.load(Relaxed).is_null() {
        rings.begin();
        ON.store(std::ptr::from_ref(rings).cast_mut(), Release);
    }
    Ok(())
}

/// Stops recording. What has been recorded can still be [saved](crate::trace::save).
///
/// # Context
/// Anywhere, signal handlers included.
pub fn stop() {
    ON.store(std::ptr::null_mut(), Release);
}

/// The rings, if anything has ever been recorded.
pub(crate) fn made() -> Option<&'static Rings> {
    MADE.lock().as_ref().copied()
}

/// How many events of kernel threads without a ring were not recorded.
pub(crate) fn lost() -> u64 {
    ring::LOST.load(Relaxed)
}

/// Whether anything is recorded now.
#[inline(always)]
pub fn is_on() -> bool {
    !ON.load(Relaxed).is_null()
}

#[inline(always)]
fn on() -> Option<&'static Rings> {
    // SAFETY: null, or leaked by `start`.
    unsafe { ON.load(Acquire).as_ref() }
}

/// Records an event; what `a` and `b` mean says its [`Kind`].
///
/// # Context
/// Anywhere, signal handlers included.
#[inline(always)]
pub fn record(kind: Kind, a: u64, b: u64) {
    if let Some(rings) = on() {
        ring::write(rings, kind, a, b);
    }
}

/// A moment at which something is recorded later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(u64);

/// This moment, if anything is recorded now.
///
/// # Context
/// Anywhere, signal handlers included.
#[inline(always)]
pub fn now() -> Option<When> {
    on().map(|rings| When(rings.now()))
}

/// Records events, each with its `a` and `b`, as of one moment: for less than one by one, and where it is known only
/// later whether there was anything to record.
///
/// # Context
/// Anywhere, signal handlers included.
#[inline(never)]
pub fn record_as_of<const N: usize>(when: When, events: [(Kind, u64, u64); N]) {
    if let Some(rings) = on() {
        for (kind, a, b) in events {
            ring::put(rings, when.0, kind, 0, a, b);
        }
    }
}

/// As [`record`], for events that may follow each other within nanoseconds; false if this one was only counted. If it
/// begins something whose end is recorded as well, that depends on the answer.
#[inline(always)]
pub fn often(kind: Kind, a: u64, b: u64) -> bool {
    on().is_some_and(|rings| ring::write_often(rings, kind, a, b))
}

/// Records what `limiter` has not held back; false if nothing is recorded any more.
#[cold]
#[inline(never)]
pub(crate) fn let_through(limiter: &Limiter, kind: Kind, a: u32, b: u32) -> bool {
    on().is_some_and(|rings| {
        let now = rings.now();
        let skipped = limiter.let_through(now, rings.per_ns());
        ring::put(rings, now, kind, skipped, a.into(), b.into());
        true
    })
}

/// The calling kernel thread has become a virtual processor (one more than its number), or ceased to be one (0).
pub(crate) fn owner(vp: u32) {
    this_thread::set_vp_number(vp);
    if let Some(slot) = slot::current() {
        record_owner(slot::set_owner(slot));
    }
}

/// The calling kernel thread has a slot, and is of this description.
fn record_owner(owner: slot::Owner) {
    record(Kind::Owner, u64::from(owner.tid) | u64::from(owner.vp) << 32, owner.name[0]);
    record(Kind::OwnerName, owner.name[1], 0);
}
