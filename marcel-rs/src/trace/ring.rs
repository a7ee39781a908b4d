//! The rings: records of fixed size, the oldest overwritten.
//!
//! A ring is written by one kernel thread at a time (the one that has its *slot*), and by the signal handlers that
//! interrupt it; it is read by anybody. A writer *takes* the next number, by one instruction that no handler can split
//! ([`crate::os::slot::Counter`]): so a handler's records come between two of the thread it interrupts, or, when that one had
//! its number already, after one that is not complete yet. What is not complete is recognised:
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
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use std::sync::{Mutex, PoisonError};

use super::LOST;
use super::clock::{self, Moment};
use super::kind::Kind;
use super::limit::Limiter;
use crate::os::slot::{self, Counter, SLOTS};

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

pub(super) struct Rings {
    records: Box<[Record]>,
    /// Of one ring; a power of two.
    each: usize,
    heads: Box<[Head]>,
    counter: bool,
    begun: Mutex<Moment>,
}

/// What is known of the kernel thread that has a slot, or had it last.
struct Owner {
    tid: AtomicU32,
    vp: AtomicU32,
    name: [AtomicU64; 2],
}

static OWNERS: [Owner; SLOTS] = [const {
    Owner { tid: AtomicU32::new(0), vp: AtomicU32::new(0), name: [const { AtomicU64::new(0) }; 2] }
}; SLOTS];

/// The calling kernel thread has `slot`. Its name, up to sixteen bytes.
pub(super) fn set_owner(slot: usize, vp: u32) -> [u64; 2] {
    let mut name = [0u8; 16];
    // SAFETY: gettid has no arguments; sixteen writable bytes.
    let tid = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        libc::gettid()
    };
    let name = u128::from_le_bytes(name);
    let words = [name as u64, (name >> 64) as u64];
    let owner = &OWNERS[slot];
    owner.tid.store(tid as u32, Relaxed);
    owner.vp.store(vp, Relaxed);
    owner.name[0].store(words[0], Relaxed);
    owner.name[1].store(words[1], Relaxed);
    words
}

/// Who has `slot`, or had it last.
pub(crate) fn owner_of(slot: usize) -> (u32, Option<u32>) {
    let owner = &OWNERS[slot];
    (owner.tid.load(Relaxed), owner.vp.load(Relaxed).checked_sub(1))
}

/// What is in a ring.
pub(super) struct Copy {
    pub(super) slot: usize,
    pub(super) tid: u32,
    pub(super) vp: u32,
    pub(super) name: [u64; 2],
    /// Records that were written since the start and are not here.
    pub(super) lost: u64,
    pub(super) records: Vec<[u64; 4]>,
}

impl Rings {
    pub(super) fn new(records: usize) -> io::Result<Rings> {
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
        Ok(Rings { records, each, heads, counter, begun: Mutex::default() })
    }

    /// What is written from now on counts.
    pub(super) fn begin(&self) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = clock::moment(self.counter);
        for head in &self.heads {
            head.base.store(head.next.get(), Relaxed);
        }
    }

    /// Two moments by both clocks: when recording began, and now.
    pub(super) fn moments(&self) -> [Moment; 2] {
        let first = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        [first, clock::second_moment(self.counter, first)]
    }

    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        if self.counter { clock::count() } else { clock::monotonic() }
    }

    /// About how many counts are a nanosecond.
    pub(super) fn per_ns(&self) -> u64 {
        if self.counter { 3 } else { 1 }
    }

    /// How many records have been written, ever.
    pub(super) fn written(&self) -> u64 {
        self.heads.iter().map(|head| head.next.get()).sum()
    }

    /// What is in the ring of `slot`.
    pub(super) fn copy(&self, slot: usize) -> Copy {
        let (head, owner) = (&self.heads[slot], &OWNERS[slot]);
        let (base, next) = (head.base.load(Relaxed), head.next.get());
        let first = base.max(next.saturating_sub(self.each as u64));
        let records: Vec<_> = (first..next).filter_map(|number| self.read(slot, number)).collect();
        Copy {
            slot,
            tid: owner.tid.load(Relaxed),
            vp: owner.vp.load(Relaxed),
            name: [owner.name[0].load(Relaxed), owner.name[1].load(Relaxed)],
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
pub(super) fn write(rings: &Rings, kind: Kind, a: u64, b: u64) {
    put(rings, rings.now(), kind, 0, a, b);
}

#[inline(never)]
pub(super) fn write_often(rings: &Rings, kind: Kind, a: u64, b: u64) -> bool {
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
pub(super) fn put(rings: &Rings, now: u64, kind: Kind, skipped: u32, a: u64, b: u64) {
    match slot::current() {
        Some(slot) => rings.put(slot, now, kind.encode(skipped), a, b),
        None => _ = LOST.fetch_add(1, Relaxed),
    }
}

impl Rings {
    #[inline(always)]
    pub(super) fn put(&self, slot: usize, now: u64, kind: u64, a: u64, b: u64) {
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
