//! Handles: what the program has instead of objects.
//!
//! A handle is a number of 31 bits, so that it is also a Fortran integer: `generation (10 bits) | slot + 4096 (21
//! bits)`. The constants of the ABI are below 4096. A slot that is freed gets another generation, and is used again
//! only after the other free slots, so that a stale handle is noticed rather than taken for another object.
//!
//! Rejected: the object's address (a handle that is freed twice frees an unrelated object).

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use marcel::plumbing::KernelMutex;

const FIRST: u32 = 4096;
const SLOT_BITS: u32 = 21;
const SLOTS: u32 = (1 << SLOT_BITS) - FIRST;
const GENERATIONS: u32 = 1 << (31 - SLOT_BITS);
/// The first chunk has this many slots, each further one twice as many.
const CHUNK: u32 = 256;
const CHUNKS: usize = 14;

/// The objects of one kind, by their handles.
pub(crate) struct Table<T> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    free: KernelMutex<FreeSlots>,
}

struct Slot<T>(KernelMutex<(u32, Option<Arc<T>>)>);

struct FreeSlots {
    freed: VecDeque<u32>,
    fresh: u32,
}

/// A reference to an object that a handle stands for.
pub(crate) enum Ref<T: 'static> {
    /// An object that always exists.
    Fixed(&'static Arc<T>),
    Shared(Arc<T>),
}

impl<T> Clone for Ref<T> {
    #[inline]
    fn clone(&self) -> Ref<T> {
        match self {
            Ref::Fixed(object) => Ref::Fixed(object),
            Ref::Shared(object) => Ref::Shared(object.clone()),
        }
    }
}

impl<T> Deref for Ref<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match self {
            Ref::Fixed(object) => object,
            Ref::Shared(object) => object,
        }
    }
}

impl<T> Ref<T> {
    /// A reference to keep.
    pub(crate) fn share(&self) -> Arc<T> {
        match self {
            Ref::Fixed(object) => (*object).clone(),
            Ref::Shared(object) => object.clone(),
        }
    }
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: KernelMutex::new(FreeSlots { freed: VecDeque::new(), fresh: 0 }),
        }
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let chunk = (index / CHUNK + 1).ilog2();
        let start = CHUNK * ((1 << chunk) - 1);
        self.chunks.get(chunk as usize)?.get()?.get((index - start) as usize)
    }

    /// Adds an object; returns its handle. `None`: two million objects exist already.
    pub(crate) fn insert(&self, object: Arc<T>) -> Option<usize> {
        let index = {
            let mut free = self.free.lock();
            match free.freed.pop_front() {
                Some(index) if free.freed.len() >= 64 || free.fresh == SLOTS => index,
                other => {
                    if let Some(index) = other {
                        free.freed.push_front(index);
                    }
                    if free.fresh == SLOTS {
                        return None;
                    }
                    let index = free.fresh;
                    free.fresh += 1;
                    let chunk = (index / CHUNK + 1).ilog2();
                    self.chunks[chunk as usize].get_or_init(|| {
                        (0..CHUNK << chunk).map(|_| Slot(KernelMutex::new((0, None)))).collect()
                    });
                    index
                }
            }
        };
        let mut slot = self.slot(index)?.0.lock();
        slot.1 = Some(object);
        Some((slot.0 << SLOT_BITS | (index + FIRST)) as usize)
    }

    fn find(&self, handle: usize) -> Option<(&Slot<T>, u32, u32)> {
        let handle = u32::try_from(handle).ok()?;
        let index = (handle & ((1 << SLOT_BITS) - 1)).checked_sub(FIRST)?;
        Some((self.slot(index)?, index, handle >> SLOT_BITS))
    }

    /// The object, if the handle stands for one.
    #[inline]
    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        let (slot, _, generation) = self.find(handle)?;
        let slot = slot.0.lock();
        slot.1.as_ref().filter(|_| slot.0 == generation).cloned()
    }

    /// Ends a handle; returns the object that it stood for.
    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let (slot, index, generation) = self.find(handle)?;
        let object = {
            let mut slot = slot.0.lock();
            if slot.0 != generation {
                return None;
            }
            let object = slot.1.take()?;
            slot.0 = (generation + 1) % GENERATIONS;
            object
        };
        self.free.lock().freed.push_back(index);
        Some(object)
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        let free = self.free.lock();
        free.fresh as usize - free.freed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn a_handle_stands_for_its_object_until_it_is_freed(
            steps in proptest::collection::vec((any::<bool>(), any::<usize>()), 1..2000),
        ) {
            let table = Table::new();
            let (mut live, mut dead) = (HashMap::new(), Vec::new());
            for (number, (insert, which)) in steps.into_iter().enumerate() {
                if insert || live.is_empty() {
                    let handle = table.insert(Arc::new(number)).unwrap();
                    prop_assert!((4096..1 << 31).contains(&handle));
                    prop_assert!(live.insert(handle, number).is_none());
                } else {
                    let handle = *live.keys().nth(which % live.len()).unwrap();
                    let removed = table.remove(handle).map(|object| *object);
                    prop_assert_eq!(removed, live.remove(&handle));
                    dead.push(handle);
                }
            }
            prop_assert_eq!(table.len(), live.len());
            for (handle, number) in &live {
                prop_assert_eq!(table.get(*handle).map(|object| *object), Some(*number));
            }
            for handle in dead.iter().filter(|handle| !live.contains_key(handle)) {
                prop_assert!(table.get(*handle).is_none() && table.remove(*handle).is_none());
            }
        }
    }

    #[test]
    fn what_is_no_handle_is_nothing() {
        let table: Table<u8> = Table::new();
        for handle in [0, 1, 0x101, 4095, 4096, 1 << 21, 1 << 31, usize::MAX] {
            assert!(table.get(handle).is_none());
        }
    }
}
