//! Readers that pay next to nothing, and writers that wait for them before they free what was removed.
//!
//! The progress path looks at the registered sources some million times a second; a source is removed now and then. So
//! this is a *sleepable read-copy-update* (SRCU, as in Linux): a reader counts itself in and out with counters of its
//! own kernel thread, and a writer that removes something waits until every reader has left that may have seen it.
//!
//! ```text
//!   reader                                   writer
//!   1. phase = current; locks[phase] += 1    1. take it out of what readers look at
//!   2. (fence)                               2. (fence)
//!   3. look, use                             3. for both phases: read all unlocks, then all locks; the same: all
//!   4. unlocks[phase] += 1                      of that phase have left
//! ```
//!
//! * A reader whose look came before 1 of the writer has been counted when the writer reads: one of the two fences
//!   comes first. So it is waited for.
//! * Sums over all kernel threads are compared, so one may leave elsewhere than it came (a green thread that has
//!   moved). `unlocks` are read first: the sums are equal only if all that have come have left.
//! * There are two phases so that a writer ends while new readers keep coming: it waits for one, in which there are
//!   only stragglers, then has newcomers counted in that one, and waits for the other.
//! * A tick's handler is a reader within a reader. Counters lose nothing by that, see [`marcel::plumbing::slot`].
//!
//! The reader's fence is the dear part (6 ns here, as two of them were in each pin before). Where the kernel has
//! `membarrier`, *private expedited*, the reader's is one for the compiler only, and the writer's interrupts all cores
//! that run a thread of this process: each passes a full fence between the begin and the end of that call, so either
//! before its look, which then sees what the writer did, or after its count, which the writer then sees. Where it is
//! refused, readers have a real fence.
//!
//! What the model below shows is the protocol with real fences. That `membarrier` may stand for the reader's is the
//! kernel's promise, which loom has no notion of.
//!
//! Rejected: a counter per source (two read-modify-writes a source and look); hazard pointers (need the same fence);
//! epochs of `crossbeam` (its pin is a fence, it allocates, and a thread must be registered to use it).

use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::compiler_fence;

use crate::shim::{AtomicU64, Ordering::*, fence, yield_now};

#[cfg(not(loom))]
pub(crate) use marcel::plumbing::slot::{Counter, SLOTS};
#[cfg(loom)]
pub(crate) use model::{Counter, SLOTS};

/// Counters of one kernel thread, or of those without a slot.
#[derive(Default)]
#[repr(align(64))]
struct Record {
    locks: [Counter; 2],
    unlocks: [Counter; 2],
}

/// See the module's description.
pub(crate) struct Pins {
    records: Arc<[Record]>,
    phase: AtomicU64,
    /// `membarrier` serves.
    asymmetric: bool,
}

impl Pins {
    pub(crate) fn new() -> Pins {
        let records: Arc<[Record]> = (0..=SLOTS).map(|_| Record::default()).collect();
        #[cfg(not(loom))]
        everywhere::add(&records);
        Pins { records, phase: AtomicU64::new(0), asymmetric: barrier::is_to_be_had() }
    }

    /// A reader comes: what it looks at from now on stays until [`Pins::end`], to which it gives the answer.
    #[inline(always)]
    pub(crate) fn begin(&self, slot: Option<usize>) -> usize {
        let phase = self.phase.load(Relaxed) as usize & 1;
        match slot {
            Some(slot) => self.records[slot].locks[phase].add(1),
            None => self.records[SLOTS].locks[phase].add_shared(1),
        }
        self.fence();
        phase
    }

    /// It leaves; `slot` is that of the kernel thread that runs it now.
    #[inline(always)]
    pub(crate) fn end(&self, slot: Option<usize>, phase: usize) {
        match slot {
            Some(slot) => self.records[slot].unlocks[phase & 1].add(1),
            None => self.records[SLOTS].unlocks[phase & 1].add_shared(1),
        }
    }

    #[inline(always)]
    fn fence(&self) {
        #[cfg(not(loom))]
        if self.asymmetric {
            return compiler_fence(SeqCst);
        }
        fence(SeqCst);
    }

    /// Waits until all readers have left that may have seen what the caller has just removed. One writer at a time.
    /// False, and at once, if the kernel has withdrawn its promise: readers may be left then.
    #[must_use]
    pub(crate) fn wait_for_readers(&self) -> bool {
        if !self.fence_readers() {
            return false;
        }
        let phase = self.phase.load(Relaxed) as usize & 1;
        self.wait_for(phase ^ 1);
        self.phase.store(phase as u64 ^ 1, Relaxed);
        self.wait_for(phase);
        true
    }

    /// A full fence that pairs with the one in each [`Pins::begin`]: of a reader that writes A, begins and reads B, and
    /// a caller that writes B, calls this and reads A, at least one sees what the other wrote. False if the kernel has
    /// withdrawn its promise: then this orders nothing.
    #[must_use]
    pub(crate) fn fence_readers(&self) -> bool {
        if self.asymmetric && !barrier::all_threads() {
            return false;
        }
        fence(SeqCst);
        true
    }

    fn wait_for(&self, phase: usize) {
        let sum = |of: fn(&Record) -> &[Counter; 2]| {
            self.records.iter().fold(0u64, |sum, record| sum.wrapping_add(of(record)[phase].get()))
        };
        loop {
            let left = sum(|record| &record.unlocks);
            if left == sum(|record| &record.locks) {
                return;
            }
            yield_now();
        }
    }
}

/// The pins of all managers.
#[cfg(not(loom))]
mod everywhere {
    use std::sync::{Arc, Weak};

    use marcel::plumbing::KernelMutex;

    use std::cell::Cell;

    use super::{Counter, Record};

    std::thread_local! {
        /// Pins of the kernel thread that began while it had no slot.
        static SLOTLESS: Cell<usize> = const { Cell::new(0) };
    }

    /// The calling kernel thread, which has no slot, begins to pin.
    #[cold]
    pub(crate) fn begin_slotless() {
        SLOTLESS.set(SLOTLESS.get() + 1);
    }

    /// A pin ends that began with [`begin_slotless`].
    #[cold]
    pub(crate) fn end_slotless() {
        SLOTLESS.set(SLOTLESS.get() - 1);
    }

    static ALL: KernelMutex<Vec<Weak<[Record]>>> = KernelMutex::new(Vec::new());

    pub(super) fn add(records: &Arc<[Record]>) {
        let mut all = ALL.lock();
        all.retain(|records| records.strong_count() > 0);
        all.push(Arc::downgrade(records));
    }

    /// Whether the calling kernel thread is in the middle of a pin: its slot's counts differ, or it has begun one
    /// without a slot. (Pins are not held across a switch of green threads.)
    ///
    /// Not in a signal handler.
    pub(crate) fn is_pinning() -> bool {
        if SLOTLESS.get() > 0 {
            return true;
        }
        let Some(slot) = marcel::plumbing::slot::current() else { return false };
        let sum = |counters: &[Counter; 2]| counters[0].get().wrapping_add(counters[1].get());
        let all = ALL.lock();
        all.iter().filter_map(Weak::upgrade).any(|records| {
            let record = &records[slot];
            loop {
                let (came, left) = (sum(&record.locks), sum(&record.unlocks));
                // A tick in between has come and left.
                if came == sum(&record.locks) {
                    break came != left;
                }
            }
        })
    }
}
#[cfg(not(loom))]
pub(crate) use everywhere::{begin_slotless, end_slotless, is_pinning};

/// `membarrier(2)`, private expedited.
#[cfg(not(loom))]
pub(crate) mod barrier {
    use std::sync::OnceLock;

    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

    fn call(command: i32) -> bool {
        // SAFETY: no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Whether the kernel promises it to this process; asked once.
    pub(crate) fn is_to_be_had() -> bool {
        static ANSWER: OnceLock<bool> = OnceLock::new();
        *ANSWER.get_or_init(|| call(REGISTER_PRIVATE_EXPEDITED) && call(PRIVATE_EXPEDITED))
    }

    /// Has every running thread of the process pass a full fence.
    pub(crate) fn all_threads() -> bool {
        call(PRIVATE_EXPEDITED) || call(REGISTER_PRIVATE_EXPEDITED) && call(PRIVATE_EXPEDITED)
    }
}

#[cfg(loom)]
mod barrier {
    pub(super) fn is_to_be_had() -> bool {
        false
    }
    pub(super) fn all_threads() -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

    const DEAD: usize = 0xdead;

    /// Readers that never stop, some without a slot; no reader sees what is gone, and the writer ends each time.
    fn readers_and_a_writer(pins: &Pins) {
        let value = || Box::into_raw(Box::new(AtomicUsize::new(1)));
        let shared = AtomicPtr::new(value());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (shared, stop) = (&shared, &stop);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        let slot = (reader > 0).then_some(reader);
                        let phase = pins.begin(slot);
                        // SAFETY: pinned: not freed.
                        let seen = unsafe { &*shared.load(Acquire) };
                        let inner = pins.begin(slot);
                        assert_ne!(seen.load(Relaxed), DEAD);
                        pins.end(slot, inner);
                        assert_ne!(seen.load(Relaxed), DEAD);
                        pins.end(slot, phase);
                    }
                });
            }
            for _ in 0..300 {
                let old = shared.swap(value(), AcqRel);
                assert!(pins.wait_for_readers());
                // SAFETY: no reader has it any more.
                let old = unsafe { Box::from_raw(old) };
                old.store(DEAD, Relaxed);
            }
            stop.store(true, Relaxed);
        });
        // SAFETY: the last one; all readers have ended.
        drop(unsafe { Box::from_raw(shared.load(Relaxed)) });
    }

    #[test]
    fn nothing_goes_while_it_is_used() {
        readers_and_a_writer(&Pins::new());
    }

    #[test]
    fn nor_where_the_kernel_refuses_the_barrier() {
        readers_and_a_writer(&Pins { asymmetric: false, ..Pins::new() });
    }
}

#[cfg(loom)]
#[cfg_attr(not(test), allow(unused_imports))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    pub(crate) const SLOTS: usize = 2;

    /// As a kernel thread's own counter is for others: loaded and stored.
    #[derive(Default)]
    pub(crate) struct Counter(AtomicU64);

    impl Counter {
        pub(super) fn add(&self, n: u64) {
            self.0.store(self.0.load(Relaxed) + n, Release);
        }
        pub(super) fn add_shared(&self, n: u64) {
            self.0.fetch_add(n, Release);
        }
        pub(super) fn get(&self) -> u64 {
            self.0.load(Acquire)
        }
    }

    struct World {
        pins: Pins,
        there: AtomicUsize,
        value: UnsafeCell<u32>,
    }

    /// Reads what is there if it is there; loom reports a read that races with its end.
    fn read(world: &World, slot: Option<usize>) {
        let phase = world.pins.begin(slot);
        if world.there.load(Relaxed) == 1 {
            world.value.with(|value| {
                // SAFETY: pinned.
                assert_eq!(unsafe { *value }, 7);
            });
        }
        world.pins.end(slot, phase);
    }

    fn model(readers: &'static [Option<usize>], reads: usize) {
        loom::model(move || {
            let world = Arc::new(World {
                pins: Pins::new(),
                there: AtomicUsize::new(1),
                value: UnsafeCell::new(7),
            });
            let threads: Vec<_> = readers
                .iter()
                .map(|slot| {
                    let world = world.clone();
                    thread::spawn(move || (0..reads).for_each(|_| read(&world, *slot)))
                })
                .collect();
            world.there.store(0, Relaxed);
            // As `wait_for_readers` where there is no `membarrier`.
            assert!(world.pins.wait_for_readers());
            // SAFETY: there are no readers any more.
            world.value.with_mut(|value| unsafe { *value = 0 });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn a_reader_with_a_slot_is_waited_for() {
        model(&[Some(0)], 2);
    }

    /// A submitter and the watcher that stops its seldom looks (`driver::watcher`).
    #[test]
    fn a_request_or_the_end_of_the_looks_is_seen() {
        loom::model(|| {
            let world = Arc::new((Pins::new(), AtomicUsize::new(0), AtomicUsize::new(1)));
            let submitter = world.clone();
            let submitter = thread::spawn(move || {
                let (pins, pending, looks) = &*submitter;
                pending.store(1, Relaxed);
                let phase = pins.begin(Some(0));
                let relies = looks.load(Relaxed) == 1;
                pins.end(Some(0), phase);
                relies
            });
            let (pins, pending, looks) = &*world;
            looks.store(0, Relaxed);
            assert!(pins.fence_readers());
            let goes_on = pending.load(Relaxed) == 1;
            assert!(!submitter.join().unwrap() || goes_on, "it relies on looks that have ended");
        });
    }

    #[test]
    fn so_is_one_without() {
        model(&[Some(0), None], 1);
    }
}
