//! The registered sources: a few slots that the progress path walks without locks or reference counts.
//!
//! One word says which slots are active. A reader *pins* them all ([`crate::pins`]), then reads the word. Removal takes
//! the slot's bit away, then waits until everybody has left who was there before: only then may the source's memory go.
//! Pins are short, the longest being a bounded spin.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pins::Pins;
use crate::source::Source;

/// Most sources that one manager takes.
pub(crate) const MAX: usize = 64;

/// A source, and its descriptor as it was at registration.
type Registered = (Arc<dyn Source>, Option<RawFd>);

#[derive(Default)]
struct Slot(UnsafeCell<Option<Registered>>);

// SAFETY: written only while the slot is inactive and nobody has pinned it, under `Registry::writers`.
unsafe impl Sync for Slot {}

pub(crate) struct Registry {
    slots: Box<[Slot]>,
    /// A bit for each slot that holds a source.
    active: AtomicU64,
    pins: Pins,
    /// Holds the slots that may be given away.
    writers: Mutex<u64>,
}

impl Default for Registry {
    fn default() -> Self {
        marcel::slot::prepare();
        Registry {
            slots: (0..MAX).map(|_| Slot::default()).collect(),
            active: AtomicU64::new(0),
            pins: Pins::new(),
            writers: Mutex::new(u64::MAX),
        }
    }
}

impl Registry {
    /// Takes a free slot; `None` when there is none.
    pub(crate) fn add(&self, source: Arc<dyn Source>, fd: Option<RawFd>) -> Option<usize> {
        let mut free = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        if *free == 0 {
            return None;
        }
        let index = free.trailing_zeros() as usize;
        *free &= !(1 << index);
        // SAFETY: inactive, nobody has pinned it, and no other writer.
        unsafe { *self.slots[index].0.get() = Some((source, fd)) };
        self.active.fetch_or(1 << index, Release);
        Some(index)
    }

    /// Empties a slot; when this returns nobody uses its source any more.
    pub(crate) fn remove(&self, index: usize) -> Option<Registered> {
        let mut free = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        self.active.fetch_and(!(1 << index), SeqCst);
        if !self.pins.wait_for_readers() {
            // Nobody knows who still uses it: it stays, and its slot with it.
            // SAFETY: no other writer; readers only read.
            return unsafe { (*self.slots[index].0.get()).clone() };
        }
        *free |= 1 << index;
        // SAFETY: inactive, nobody has pinned it, and no other writer.
        unsafe { (*self.slots[index].0.get()).take() }
    }

    /// Pins every active source for a while. Progress path.
    #[inline]
    pub(crate) fn pin(&self) -> Pinned<'_> {
        if self.active.load(Relaxed) == 0 {
            return Pinned { registry: self, mask: 0, phase: None };
        }
        let phase = self.pins.begin(marcel::slot::current());
        Pinned { registry: self, mask: self.active.load(Acquire), phase: Some(phase) }
    }
}

/// Sources that stay alive as long as this does.
pub(crate) struct Pinned<'a> {
    registry: &'a Registry,
    mask: u64,
    phase: Option<usize>,
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
                if let Some((source, fd)) = unsafe { &*self.registry.slots[index].0.get() } {
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
        if let Some(phase) = self.phase {
            self.registry.pins.end(marcel::slot::current(), phase);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

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
