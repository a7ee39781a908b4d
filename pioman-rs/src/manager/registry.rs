//! The registered sources: a few slots that the progress path walks without locks or reference counts.
//!
//! A reader *pins* a slot (one atomic addition), then looks whether it is active. Removal makes it inactive,
//! then waits until nobody has it pinned: only then may the source's memory go. Pins are short, the longest
//! being a bounded spin.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

use crate::source::Source;

/// Most sources that one manager takes.
pub(crate) const MAX: usize = 64;

/// A source, and its descriptor as it was at registration.
type Registered = (Arc<dyn Source>, Option<RawFd>);

#[derive(Default)]
struct Slot {
    active: AtomicBool,
    pins: AtomicUsize,
    source: UnsafeCell<Option<Registered>>,
}

// SAFETY: `source` is written only while the slot is inactive and unpinned, under `Registry::writers`.
unsafe impl Sync for Slot {}

pub(crate) struct Registry {
    slots: Box<[Slot]>,
    /// Slots from this one on have never been used.
    end: AtomicUsize,
    writers: Mutex<()>,
}

impl Default for Registry {
    fn default() -> Self {
        let slots = (0..MAX).map(|_| Slot::default()).collect();
        Registry { slots, end: AtomicUsize::new(0), writers: Mutex::new(()) }
    }
}

impl Registry {
    /// Takes a free slot; `None` when there is none.
    pub(crate) fn add(&self, source: Arc<dyn Source>, fd: Option<RawFd>) -> Option<usize> {
        let _writing = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let index = self.slots.iter().position(|s| !s.active.load(Relaxed))?;
        let slot = &self.slots[index];
        slot.wait_unpinned();
        // SAFETY: inactive, unpinned, and no other writer.
        unsafe { *slot.source.get() = Some((source, fd)) };
        slot.active.store(true, SeqCst);
        self.end.fetch_max(index + 1, Release);
        Some(index)
    }

    /// Empties a slot; when this returns nobody uses its source any more.
    pub(crate) fn remove(&self, index: usize) -> Option<Registered> {
        let _writing = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &self.slots[index];
        slot.active.store(false, SeqCst);
        slot.wait_unpinned();
        // SAFETY: inactive, unpinned, and no other writer.
        unsafe { (*slot.source.get()).take() }
    }

    /// Pins every active source for a while. Progress path.
    #[inline]
    pub(crate) fn pin(&self) -> Pinned<'_> {
        let mut mask = 0u64;
        for (index, slot) in self.slots[..self.end.load(Acquire)].iter().enumerate() {
            if slot.active.load(Relaxed) {
                slot.pins.fetch_add(1, SeqCst);
                if slot.active.load(SeqCst) {
                    mask |= 1 << index;
                } else {
                    slot.pins.fetch_sub(1, Release);
                }
            }
        }
        Pinned { registry: self, mask }
    }
}

impl Slot {
    fn wait_unpinned(&self) {
        while self.pins.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// Sources that stay alive as long as this does.
pub(crate) struct Pinned<'a> {
    registry: &'a Registry,
    mask: u64,
}

impl Pinned<'_> {
    /// The sources with their slots.
    #[inline]
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, &dyn Source, Option<RawFd>)> {
        let mut mask = self.mask;
        std::iter::from_fn(move || {
            loop {
                if mask == 0 {
                    return None;
                }
                let index = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                // SAFETY: pinned, so nobody writes.
                if let Some((source, fd)) = unsafe { &*self.registry.slots[index].source.get() } {
                    return Some((index, &**source, *fd));
                }
            }
        })
    }

    /// Polls all; true if any did something.
    #[inline]
    pub(crate) fn poll(&self) -> bool {
        self.each().fold(false, |found, (_, source, _)| source.poll() | found)
    }

    /// Whether any has requests outstanding.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.each().any(|(_, source, _)| source.pending())
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut mask = self.mask;
        while mask != 0 {
            let index = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            self.registry.slots[index].pins.fetch_sub(1, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Probe(Arc<AtomicUsize>);
    // SAFETY: one atomic addition.
    unsafe impl Source for Probe {
        fn name(&self) -> &str {
            "probe"
        }
        fn poll(&self) -> bool {
            self.0.fetch_add(1, SeqCst);
            true
        }
        fn pending(&self) -> bool {
            true
        }
        fn fd(&self) -> Option<RawFd> {
            None
        }
        fn arm(&self) -> bool {
            true
        }
        fn disarm(&self) {}
    }
    impl Drop for Probe {
        fn drop(&mut self) {
            self.0.store(usize::MAX / 2, SeqCst); // a poll after this is visible
        }
    }

    #[test]
    fn a_removed_source_is_never_polled_again() {
        let registry = Registry::default();
        let polls = Arc::new(AtomicUsize::new(0));
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    registry.pin().poll();
                }
            });
            for _ in 0..300 {
                polls.store(0, SeqCst);
                let index = registry.add(Arc::new(Probe(polls.clone())), None).unwrap();
                while polls.load(SeqCst) < 3 {
                    std::hint::spin_loop();
                }
                drop(registry.remove(index));
                assert_eq!(polls.load(SeqCst), usize::MAX / 2);
            }
            stop.store(true, SeqCst);
        });
    }

    #[test]
    fn there_is_an_end_to_the_slots() {
        let registry = Registry::default();
        let probe = || Arc::new(Probe(Arc::default()));
        let slots: Vec<_> = (0..MAX).map(|_| registry.add(probe(), None).unwrap()).collect();
        assert!(registry.add(probe(), None).is_none());
        registry.remove(slots[3]);
        assert_eq!(registry.add(probe(), None), Some(slots[3]));
    }
}
