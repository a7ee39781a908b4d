//! A record of what the scheduler and the I/O manager did, kept in memory while the program runs and written to a file:
//! `MARCEL_TRACE`, or [`start`] and [`save`]. `mad trace` makes pictures and tables of it.
//!
//! # How it works
//! Each kernel thread has a ring of fixed-size records (`ring`), preallocated by [`start`], in which the oldest are
//! overwritten; so a trace holds the last moments of each kernel thread, however long the program ran. Writing one takes no
//! lock and no atomic read-modify-write, and may happen in a signal handler that interrupts a writer. Names are
//! interned where things are made (`names`), records hold numbers. The time is the processor's counter where the kernel
//! trusts it, else the monotonic clock (`clock`). The format: `file`.
//!
//! # What it costs
//! Off: one load and a branch an event. On: some 15 ns a record, 10 of them for the time. So that it can be left on, what
//! may happen every few nanoseconds is recorded by [`often`] and its like: while such events follow each other faster
//! than they could be recorded for a twentieth of the time, most are only counted, and the next record says how many
//! were (see [`Kind::decode`]). Events that take a system call anyway are always recorded.
//!
//! # Rejected
//! * The crate `tracing` (which is there as well, as a feature): its subscribers allocate and lock, and a span costs some
//!   hundred nanoseconds.
//! * One ring for all: a line that wanders between cores at every event.
//! * Writing to the file while the program runs: whoever writes it disturbs what it looks at.
//! * Recording everything: at 20 ns a yield, reading the time alone would halve the speed.

mod clock;
mod event;
pub(crate) mod exit;
mod file;
mod kind;
mod limit;
mod names;
mod ring;
mod stamp;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

pub(crate) use event::event;
pub use exit::from_env;
pub use file::{MAGIC, VERSION};
pub use kind::Kind;
pub(crate) use limit::Limiter;
pub use names::{intern, intern_static};
pub(crate) use ring::owner_of;
pub use stamp::Stamp;

use self::ring::Rings;

/// The rings; null while nothing is recorded.
static ON: AtomicPtr<Rings> = AtomicPtr::new(std::ptr::null_mut());
/// The rings, once they have been made. They stay: somebody may be about to write.
static MADE: Mutex<Option<&'static Rings>> = Mutex::new(None);
/// Events of kernel threads without a ring.
static LOST: AtomicU64 = AtomicU64::new(0);

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
    crate::os::slot::prepare();
    let mut made = MADE.lock().unwrap_or_else(|e| e.into_inner());
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

/// Stops recording. What has been recorded can still be [saved](save).
///
/// # Context
/// Anywhere, signal handlers included.
pub fn stop() {
    ON.store(std::ptr::null_mut(), Release);
}

/// Writes what has been recorded since [`start`] to a file, while others may go on recording.
///
/// # Context
/// Green and kernel threads; not a signal handler. # Blocking: the kernel thread, for as long as it takes to write.
///
/// # Errors
/// Nothing has ever been recorded; those of the file system.
pub fn save(path: &Path) -> io::Result<()> {
    let rings = MADE.lock().unwrap_or_else(|e| e.into_inner()).as_ref().copied();
    let rings = rings.ok_or_else(|| io::Error::other("nothing has been recorded"))?;
    file::write(rings, LOST.load(Relaxed), path)
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

/// The calling kernel thread has got a slot, or has become a virtual processor (one more than its number) or ceased
/// to be one (0).
pub(crate) fn owner(vp: u32) {
    if let Some(slot) = crate::os::slot::current() {
        let [name, rest] = ring::set_owner(slot, vp);
        // SAFETY: gettid has no arguments.
        let tid = unsafe { libc::gettid() } as u32;
        record(Kind::Owner, u64::from(tid) | u64::from(vp) << 32, name);
        record(Kind::OwnerName, rest, 0);
    }
}
