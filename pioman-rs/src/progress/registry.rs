//! The registered sources: a few slots that the progress path walks without locks or reference counts.
//!
//! One word says which slots are active. A reader *pins* them all ([`crate::srcu`]), then reads the word. Removal takes
//! the slot's bit away, then waits until every pin that began before has ended: only then may the source's memory go.
//! Pins are short, the longest being a bounded spin.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use crate::completion::wakers;
use crate::progress::counts::Counts;
use crate::progress::point::Point;
use crate::progress::policy::contract::Policy;
use crate::progress::policy::hints::Hint;
use crate::progress::policy::history::History;
use crate::progress::pollers::bits;
use crate::progress::source::{MAX, Source};
use crate::srcu::{self, Pins};
use crate::stderr::say;
use marcel::plumbing::KernelMutex;

/// A source, and its descriptor as it was at registration.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) fd: Option<RawFd>,
}

#[derive(Default)]
struct Slot {
    registered: UnsafeCell<Option<Registered>>,
    /// In a box of its own, which is replaced as a whole. Null as long as the slot has never been used.
    policy: AtomicPtr<Arc<dyn Policy>>,
    /// Of short waits, and of those that the library expects to be long.
    histories: [History; 2],
}

// SAFETY: `registered` is written only while the slot is inactive and no reader has pinned it, under
// `Registry::writers`; what `policy` points to goes only when no reader pins it any more. When the kernel does not say
// whether readers are left (`wait_for_readers` is false), both stay for ever.
unsafe impl Sync for Slot {}

impl Drop for Slot {
    fn drop(&mut self) {
        let policy = *self.policy.get_mut();
        if !policy.is_null() {
            // SAFETY: from `Box::into_raw`; `self` is the only reference.
            drop(unsafe { Box::from_raw(policy) });
        }
    }
}

pub(crate) struct Registry {
    slots: Box<[Slot; MAX]>,
    /// A bit for each slot that holds a source.
    active: AtomicU64,
    /// A bit for each source whose descriptor the kernel refuses to arm (closed too early): from then on it has none.
    without_fd: AtomicU64,
    counts: Counts,
    pins: Pins,
    /// Holds the slots that may be given away.
    writers: KernelMutex<u64>,
}

impl Registry {
    /// Without sources. `timed`: times are taken for statistics.
    pub(crate) fn new(timed: bool) -> Registry {
        marcel::plumbing::slot::prepare();
        let slots: Box<[Slot]> = (0..MAX).map(|_| Slot::default()).collect(); // not on the stack
        Registry {
            slots: slots.try_into().unwrap_or_else(|_| unreachable!("as many as were made")),
            active: AtomicU64::new(0),
            without_fd: AtomicU64::new(0),
            counts: Counts::new(timed),
            pins: Pins::new(),
            writers: KernelMutex::new(u64::MAX),
        }
    }

    /// What is counted.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes a free slot; `None` when there is none.
    pub(crate) fn add(&self, registered: Registered, policy: Arc<dyn Policy>) -> Option<usize> {
        let mut free = self.writers.lock();
        if *free == 0 {
            return None;
        }
        let index = free.trailing_zeros() as usize;
        *free &= !(1 << index);
        let slot = &self.slots[index];
        slot.histories.iter().for_each(History::clear);
        self.without_fd.fetch_and(!(1 << index), SeqCst);
        self.counts.begin(index, registered.source.name());
        let before = self.replace_policy(slot, policy);
        // SAFETY: inactive, not pinned by any reader, and no other writer.
        unsafe { *slot.registered.get() = Some(registered) };
        self.active.fetch_or(1 << index, Release);
        drop(free);
        drop(before); // its destructor is safe code, which may add or remove sources itself
        Some(index)
    }

    /// Empties a slot. When no reader uses its source any more `last` is called, and then another source may have the
    /// slot.
    pub(crate) fn remove(
        &self,
        index: usize,
        last: impl FnOnce(&Registered),
    ) -> Option<Registered> {
        let mut free = self.writers.lock();
        self.active.fetch_and(!(1 << index), SeqCst);
        if !self.pins.wait_for_readers() {
            // Readers may still use it: it stays, and its slot with it.
            // SAFETY: no other writer; readers only read.
            let registered = unsafe { (*self.slots[index].registered.get()).clone() };
            return registered.inspect(last);
        }
        // SAFETY: inactive, not pinned by any reader, and no other writer.
        let registered = unsafe { (*self.slots[index].registered.get()).take() }.inspect(last);
        *free |= 1 << index;
        registered
    }

    /// Gives a source another policy; when this returns no reader asks the one before, which is returned.
    pub(crate) fn set_policy(
        &self,
        index: usize,
        policy: Arc<dyn Policy>,
    ) -> Option<Arc<dyn Policy>> {
        let _writing = self.writers.lock();
        self.replace_policy(&self.slots[index], policy)
    }

    fn replace_policy(&self, slot: &Slot, policy: Arc<dyn Policy>) -> Option<Arc<dyn Policy>> {
        let before = slot.policy.swap(Box::into_raw(Box::new(policy)), SeqCst);
        if before.is_null() {
            return None;
        }
        if !self.pins.wait_for_readers() {
            // Readers may still ask it: it stays.
            // SAFETY: never freed then.
            return unsafe { before.as_ref() }.cloned();
        }
        // SAFETY: from `Box::into_raw`; no reader pins it, and only this swap has taken it out.
        Some(*unsafe { Box::from_raw(before) })
    }

    /// Waits until every pin that exists now has ended. False, and at once, if the calling thread pins itself, or the
    /// kernel does not say.
    pub(crate) fn wait_for_pins(&self) -> bool {
        if srcu::is_pinning() {
            return false;
        }
        let _writing = self.writers.lock();
        self.pins.wait_for_readers()
    }

    /// How long waits for this source, with such a hint, have taken.
    pub(crate) fn history(&self, index: usize, hint: Hint) -> &History {
        &self.slots[index % MAX].histories[usize::from(hint == Hint::Long)]
    }

    /// A full fence that pairs with each [`Registry::pin`] that finds a source, see [`Pins::fence_readers`].
    #[must_use]
    pub(crate) fn fence_pins(&self) -> bool {
        self.pins.fence_readers()
    }

    /// Pins every active source for a while. Progress path.
    #[inline]
    pub(crate) fn pin(&self) -> Pinned<'_> {
        if self.active.load(Relaxed) == 0 {
            return Pinned { registry: self, mask: 0, slot: None, phase: None };
        }
        let slot = marcel::plumbing::slot::current();
        if slot.is_none() {
            srcu::begin_slotless();
        }
        let phase = self.pins.begin(slot);
        Pinned { registry: self, mask: self.active.load(Acquire), slot, phase: Some(phase) }
    }

    /// As [`Registry::pin`], if a source is unattended: the pin and a bit for each. Mostly none is. Such a pin ends without a
    /// call of wakers: nothing has fired meanwhile but in a tick, which has them called otherwise. (No guard: a source does
    /// not panic.)
    #[inline(always)]
    pub(crate) fn pin_unattended(&self) -> Option<(Pinned<'_>, u64)> {
        let Some(slot) = marcel::plumbing::slot::current() else { return self.pin_slotless() };
        if self.active.load(Relaxed) == 0 {
            return None;
        }
        let phase = self.pins.begin(Some(slot));
        let mask = self.active.load(Acquire);
        let mut unattended = 0;
        for index in bits(mask) {
            // SAFETY: pinned, so there is no writer.
            let registered = unsafe { &*self.slots[index].registered.get() };
            if registered.as_ref().is_some_and(|slot| slot.source.unattended()) {
                unattended |= 1 << index;
            }
        }
        if unattended == 0 {
            self.pins.end(Some(slot), phase);
            return None;
        }
        let sources = Pinned { registry: self, mask, slot: Some(slot), phase: Some(phase) };
        Some((sources, unattended))
    }

    /// [`Registry::pin_unattended`] by a kernel thread without a slot.
    #[cold]
    fn pin_slotless(&self) -> Option<(Pinned<'_>, u64)> {
        let sources = self.pin();
        let unattended = sources.unattended_of(u64::MAX);
        (unattended != 0).then_some((sources, unattended))
    }
}

/// Sources that stay alive as long as this does.
pub(crate) struct Pinned<'a> {
    registry: &'a Registry,
    mask: u64,
    /// That of the kernel thread which has pinned them, for counting.
    slot: Option<usize>,
    phase: Option<usize>,
}

impl<'a> Pinned<'a> {
    /// Where they are registered.
    #[inline]
    pub(crate) fn registry(&self) -> &'a Registry {
        self.registry
    }

    /// Those of `mask` that there are.
    #[inline]
    pub(crate) fn of(&self, mask: u64) -> u64 {
        self.mask & mask
    }

    /// The sources with their slots.
    #[inline]
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, &Registered)> {
        self.these(u64::MAX)
    }

    /// Those whose bit is set, with their slots.
    #[inline]
    pub(crate) fn these(&self, mask: u64) -> impl Iterator<Item = (usize, &Registered)> {
        bits(self.mask & mask).filter_map(|index| Some((index, self.get(index)?)))
    }

    /// One of them.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&Registered> {
        if index >= MAX || self.mask >> index & 1 == 0 {
            return None;
        }
        // SAFETY: pinned, so there is no writer.
        unsafe { &*self.registry.slots[index].registered.get() }.as_ref()
    }

    /// The descriptor of one of them, as long as the kernel arms it.
    pub(crate) fn fd(&self, index: usize) -> Option<RawFd> {
        let fd = self.get(index)?.fd?;
        (self.registry.without_fd.load(Relaxed) >> index & 1 == 0).then_some(fd)
    }

    /// Whether peers can interrupt for one of them.
    pub(crate) fn can_interrupt(&self, index: usize) -> bool {
        self.get(index).is_some_and(|registered| registered.source.can_interrupt())
    }

    /// The kernel refuses for good to arm the descriptor of one of them, which has none from now on: ticks find its
    /// events.
    #[cold]
    pub(crate) fn lose_fd(&self, index: usize, error: &std::io::Error) {
        let before = self.registry.without_fd.fetch_or(1 << index, SeqCst);
        if before >> index & 1 == 0 {
            let name = self.registry.counts.name(index);
            say(format_args!(
                "pioman: source {name:?}: its descriptor cannot be armed ({error}): ticks look for its events"
            ));
        }
    }

    /// The policy of one of them.
    #[inline]
    pub(crate) fn policy(&self, index: usize) -> Option<&dyn Policy> {
        self.get(index)?;
        // SAFETY: set before the slot became active; a writer that replaces it waits for pins before it frees it.
        unsafe { self.registry.slots[index].policy.load(Acquire).as_ref() }.map(|policy| &**policy)
    }

    /// Polls all; true if any did something.
    #[inline]
    pub(crate) fn poll(&self, point: Point) -> bool {
        self.poll_these(point, u64::MAX)
    }

    /// Polls those whose bit is set; true if any did something.
    #[inline]
    pub(crate) fn poll_these(&self, point: Point, mask: u64) -> bool {
        self.poll_each(point, mask) != 0
    }

    /// Polls those whose bit is set; a bit for each that did something.
    #[inline]
    pub(crate) fn poll_each(&self, point: Point, mask: u64) -> u64 {
        let counts = &self.registry.counts;
        self.these(mask).fold(0, |found, (index, registered)| {
            let did = counts.poll(self.slot, point, index, &*registered.source);
            found | u64::from(did) << index
        })
    }

    /// Disarms and acknowledges these: the caller has slept on them, or was about to. It polls now, and then arms again
    /// those that are still unattended. (A source that stayed armed for the caller alone would ring for nothing.)
    pub(crate) fn acknowledge(&self, mask: u64) {
        for (_, slot) in self.these(mask) {
            slot.source.disarm();
            slot.source.acknowledge();
        }
    }

    /// Those of `mask` whose events must be found although no thread polls.
    #[inline]
    pub(crate) fn unattended_of(&self, mask: u64) -> u64 {
        let unattended = self.these(mask).filter(|(_, slot)| slot.source.unattended());
        unattended.fold(0, |mask, (slot, _)| mask | 1 << slot)
    }

    /// Those of `mask` that have requests outstanding.
    #[inline]
    pub(crate) fn pending_of(&self, mask: u64) -> u64 {
        let pending = self.these(mask).filter(|(_, slot)| slot.source.pending());
        pending.fold(0, |mask, (slot, _)| mask | 1 << slot)
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(phase) = self.phase {
            // A pin that began without a slot ends without one, even if the thread has got one since: the counts of a
            // slot say whether its thread pins.
            let slot = self.slot.and_then(|_| marcel::plumbing::slot::current());
            self.registry.pins.end(slot, phase);
            if self.slot.is_none() {
                srcu::end_slotless();
            }
            wakers::settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    fn add(registry: &Registry, source: Arc<dyn Source>) -> Option<usize> {
        let policy = crate::progress::policy::named::by_name("load-aware").unwrap();
        registry.add(Registered { source, fd: None }, policy)
    }

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
        /// From the first poll on.
        fn unattended(&self) -> bool {
            self.0.load(SeqCst) != 0
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
        let registry = Registry::new(false);
        let polls = Arc::new(AtomicUsize::new(0));
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    registry.pin().poll(Point::Library);
                }
            });
            for _ in 0..300 {
                polls.store(0, SeqCst);
                let index = add(&registry, Arc::new(Probe(polls.clone()))).unwrap();
                while polls.load(SeqCst) < 3 {
                    std::hint::spin_loop();
                }
                drop(registry.remove(index, |_| ()));
                assert_eq!(polls.load(SeqCst), usize::MAX / 2);
            }
            stop.store(true, SeqCst);
        });
    }

    #[test]
    fn only_unattended_sources_are_left_pinned() {
        let registry = Registry::new(false);
        assert!(registry.pin_unattended().is_none());
        let polls: [Arc<AtomicUsize>; 2] = Default::default();
        let [_, second] = [&polls[0], &polls[1]]
            .map(|polls| add(&registry, Arc::new(Probe(polls.clone()))).unwrap());
        assert!(registry.pin_unattended().is_none() && !srcu::is_pinning());
        registry.pin().poll_these(Point::Library, 1 << second);
        let (sources, unattended) = registry.pin_unattended().unwrap();
        assert_eq!((unattended, sources.of(u64::MAX)), (1 << second, 0b11));
        assert!(srcu::is_pinning());
        drop(sources);
        assert!(!srcu::is_pinning());
        drop(registry.remove(second, |_| ()));
        assert!(registry.pin_unattended().is_none());
    }

    /// Wakers are not called under a pin. A kernel thread without a slot has no counts of its own that say whether it
    /// pins.
    #[test]
    fn a_thread_without_a_slot_knows_whether_it_pins() {
        use marcel::plumbing::slot::{SLOTS, current};
        let registry = Registry::new(false);
        add(&registry, Arc::new(Probe(Arc::default()))).unwrap();
        let (all, slotless) = (std::sync::Barrier::new(SLOTS + 1), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..=SLOTS {
                s.spawn(|| {
                    let slot = current();
                    all.wait();
                    if slot.is_none() {
                        let (outer, inner) = (registry.pin(), registry.pin());
                        drop(inner);
                        assert!(srcu::is_pinning());
                        drop(outer);
                        assert!(!srcu::is_pinning());
                        slotless.fetch_add(1, SeqCst);
                    }
                    all.wait();
                });
            }
        });
        assert!(slotless.load(SeqCst) > 0);
    }

    #[test]
    fn there_is_an_end_to_the_slots() {
        let registry = Registry::new(false);
        let probe = || Arc::new(Probe(Arc::default()));
        let slots: Vec<_> = (0..MAX).map(|_| add(&registry, probe()).unwrap()).collect();
        assert!(add(&registry, probe()).is_none());
        registry.remove(slots[3], |_| ());
        assert_eq!(add(&registry, probe()), Some(slots[3]));
    }
}
