//! What both ends touch: the slots, the producers' counter, the slow path.

use std::mem::MaybeUninit;

use super::slow_path::SlowPath;
use crate::shim::{AtomicU64, Ordering::*, UnsafeCell, fence};

/// A cache line of its own, or several (two: lines are fetched in pairs).
#[repr(align(128))]
struct Slot<T> {
    header: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    fn touch<R>(&self, f: impl FnOnce(*mut MaybeUninit<T>) -> R) -> R {
        #[cfg(loom)]
        return self.value.with_mut(f);
        #[cfg(not(loom))]
        f(self.value.get())
    }
}

/// The next free position. Only producers touch it.
#[repr(align(128))]
struct Counter(AtomicU64);

/// See the description of the parent module.
pub(super) struct Shared<T> {
    /// A power of two of them.
    slots: Box<[Slot<T>]>,
    pub(super) slow_path: SlowPath,
    next: Counter,
}

// SAFETY: a value is touched by the producer that has its slot's position while the header says free, and by the
// consumer while it says occupied; it moves from one thread to another.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: values are sent.
unsafe impl<T: Send> Send for Shared<T> {}

fn free(position: u64) -> u64 {
    position << 1
}

fn occupied(position: u64) -> u64 {
    free(position) | 1
}

impl<T> Shared<T> {
    pub(super) fn new(slots: usize) -> Shared<T> {
        assert!(slots > 0, "a channel without slots");
        let slots = (0..slots.next_power_of_two() as u64)
            .map(|position| Slot {
                header: AtomicU64::new(free(position)),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            })
            .collect();
        Shared { slots, slow_path: SlowPath::new(), next: Counter(AtomicU64::new(0)) }
    }

    pub(super) fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline]
    fn slot(&self, position: u64) -> &Slot<T> {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    /// A position of the caller's own.
    #[inline]
    pub(super) fn acquire(&self) -> u64 {
        self.next.0.fetch_add(1, Relaxed)
    }

    /// Whether the producer that has the position may write its slot.
    #[inline]
    pub(super) fn is_free(&self, position: u64) -> bool {
        self.slot(position).header.load(Acquire) == free(position)
    }

    /// Whether there is a value at the position.
    #[inline]
    pub(super) fn is_occupied(&self, position: u64) -> bool {
        self.slot(position).header.load(Acquire) == occupied(position)
    }

    /// Writes a value, and tells the consumer if it waits.
    ///
    /// # Safety
    /// The position is the caller's, free, and given up by this.
    #[inline]
    pub(super) unsafe fn put(&self, position: u64, value: T) {
        let slot = self.slot(position);
        // SAFETY: the slot is the caller's alone until the header says occupied.
        slot.touch(|place| unsafe { (*place).write(value) });
        slot.header.store(occupied(position), Release);
        fence(SeqCst);
        self.slow_path.tell_consumer();
    }

    /// Where the value at a position is. Only to be used by the consumer, while the position is occupied.
    #[inline]
    pub(super) fn place(&self, position: u64) -> *mut T {
        self.slot(position).touch(<*mut _>::cast)
    }

    /// Frees the position's slot for the next that it serves, and wakes the producer that waits for it. The consumer
    /// calls this when it has taken the value, or found a hole.
    #[inline]
    pub(super) fn free(&self, position: u64) {
        let next = position + self.slots();
        self.slot(position).header.store(free(next), Release);
        fence(SeqCst);
        self.slow_path.tell_producer(next);
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for slot in &self.slots {
            if slot.header.load(Acquire) & 1 == 1 {
                // SAFETY: occupied, and both ends are gone.
                slot.touch(|place| unsafe { (*place).assume_init_drop() });
            }
        }
    }
}
