//! The rings: records of fixed size, the oldest overwritten.
//!
//! A ring is written by one kernel thread at a time (the one that has its *slot*), and by the signal handlers that
//! interrupt it; any thread reads it. A writer *takes* the next number, by one instruction that no handler can split
//! ([`crate::os::slot::Counter`]): so a handler's records come between two of the thread it interrupts, or, when that
//! one had its number already, after one that is not complete yet. What is not complete is recognised:
//!
//! ```text
//!   writer                                    reader
//!   word = 0; release fence                   word = number and kind, as expected?   (acquire)
//!   time, a, b                                time, a, b; acquire fence
//!   word = number and kind   (release)        word the same?
//! ```
//!
//! A reader that sees another word leaves the record out. (It cannot be another one with the same number before 2^32
//! more have been written.) Readers sort by time: numbers are taken before the clock is read.
//!
//! When a kernel thread ends, the next owner of its slot goes on in its ring: *owner* records say so.

use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::clock::{self, Moment};
use super::kind::Kind;
use super::limit::Limiter;
use crate::os::KernelMutex;
use crate::os::slot::{self, Counter, SLOTS};

/// Events of kernel threads without a ring.
pub(super) static LOST: AtomicU64 = AtomicU64::new(0);

#[repr(C)]
struct Record {
    time: AtomicU64,
    word: AtomicU64,
    a: AtomicU64,
    b: AtomicU64,
}

/// What the writer of a ring changes.
#[derive(Default)]
#[repr(align(128))]
struct Head {
    /// Number of the next record.
    next: Counter,
    limiter: Limiter,
    /// The first one that counts.
    base: AtomicU64,
}

pub(crate) struct Rings {
    records: Box<[Record]>,
    /// Of one ring; a power of two.
    each: usize,
    heads: Box<[Head]>,
    counter: bool,
    begun: KernelMutex<Moment>,
}

/// What is in a ring.
pub(crate) struct Copy {
    pub(crate) slot: usize,
    pub(crate) tid: u32,
    pub(crate) vp: u32,
    pub(crate) name: [u64; 2],
    /// Records that were written since the start and are not here.
    pub(crate) lost: u64,
    pub(crate) records: Vec<[u64; 4]>,
}

impl Rings {
    pub(crate) fn new(records: usize) -> io::Result<Rings> {
        let each = records.clamp(16, 1 << 24).next_power_of_two();
        let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let layout = Layout::array::<Record>(each * SLOTS).map_err(|_| no_memory())?;
        // SAFETY: a layout that is not empty; zeroes are valid records, and the box frees it with the same layout.
        // Pages that are never touched are never had.
        let records = unsafe {
            let memory = alloc_zeroed(layout).cast::<Record>();
            if memory.is_null() {
                return Err(no_memory());
            }
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, each * SLOTS))
        };
        let heads = (0..SLOTS).map(|_| Head::default()).collect();
        let counter = clock::has_counter();
        Ok(Rings { records, each, heads, counter, begun: KernelMutex::default() })
    }

    /// What is written from now on counts.
    pub(crate) fn begin(&self) {
        *self.begun.lock() = clock::moment(self.counter);
        for head in &self.heads {
            head.base.store(head.next.get(), Relaxed);
        }
    }

    /// Two moments by both clocks: when recording began, and now.
    pub(crate) fn moments(&self) -> [Moment; 2] {
        let first = *self.begun.lock();
        [first, clock::second_moment(self.counter, first)]
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        if self.counter { clock::count() } else { clock::monotonic() }
    }

    /// About how many counts are a nanosecond.
    pub(crate) fn per_ns(&self) -> u64 {
        if self.counter { 3 } else { 1 }
    }

    /// How many records have been written, ever.
    pub(crate) fn written(&self) -> u64 {
        self.heads.iter().map(|head| head.next.get()).sum()
    }

    /// What is in the ring of `slot`.
    pub(crate) fn copy(&self, slot: usize) -> Copy {
        let (head, owner) = (&self.heads[slot], slot::last_owner(slot));
        let (base, next) = (head.base.load(Relaxed), head.next.get());
        let first = base.max(next.saturating_sub(self.each as u64));
        let records: Vec<_> = (first..next).filter_map(|number| self.read(slot, number)).collect();
        Copy {
            slot,
            tid: owner.tid,
            vp: owner.vp,
            name: owner.name,
            lost: (next - base).saturating_sub(records.len() as u64),
            records,
        }
    }

    fn at(&self, slot: usize, number: u64) -> &Record {
        &self.records[slot * self.each + (number as usize & (self.each - 1))]
    }

    fn read(&self, slot: usize, number: u64) -> Option<[u64; 4]> {
        let record = self.at(slot, number);
        let word = record.word.load(Acquire);
        let copy =
            [record.time.load(Relaxed), word, record.a.load(Relaxed), record.b.load(Relaxed)];
        fence(Acquire);
        let complete = word >> 32 == (number + 1) & 0xffff_ffff && word & 0xffff != 0;
        (complete && record.word.load(Relaxed) == word).then_some(copy)
    }
}

#[inline(never)]
pub(crate) fn write(rings: &Rings, kind: Kind, a: u64, b: u64) {
    put(rings, rings.now(), kind, 0, a, b);
}

#[inline(never)]
pub(crate) fn write_often(rings: &Rings, kind: Kind, a: u64, b: u64) -> bool {
    let Some(slot) = slot::current() else { return false };
    let limiter = &rings.heads[slot].limiter;
    if limiter.holds() {
        return false;
    }
    let now = rings.now();
    let skipped = limiter.let_through(now, rings.per_ns());
    rings.put(slot, now, kind.encode(skipped), a, b);
    true
}

#[inline(always)]
pub(crate) fn put(rings: &Rings, now: u64, kind: Kind, skipped: u32, a: u64, b: u64) {
    match slot::current() {
        Some(slot) => rings.put(slot, now, kind.encode(skipped), a, b),
        None => _ = LOST.fetch_add(1, Relaxed),
    }
}

impl Rings {
    #[inline(always)]
    pub(crate) fn put(&self, slot: usize, now: u64, kind: u64, a: u64, b: u64) {
        let number = self.heads[slot].next.take(1);
        let record = self.at(slot, number);
        record.word.store(0, Relaxed);
        fence(Release);
        record.time.store(now, Relaxed);
        record.a.store(a, Relaxed);
        record.b.store(b, Relaxed);
        record.word.store(kind & 0xffff_ffff | (number + 1) << 32, Release);
    }
}
