//! Handles: what the program has instead of objects.
//!
//! A slot that is freed is used again only after the other free slots: see [`crate::slots`].
//!
//! Rejected: the object's address (a handle that is freed twice frees an unrelated object).

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

use marcel::plumbing::KernelMutex;

use crate::slots::{self, Slots};

/// Free slots that rest before one is used again.
const RESTING: usize = 64;

/// The objects of one kind, by their handles.
pub(crate) struct Table<T> {
    slots: ObjectSlots<T>,
    free: KernelMutex<FreeSlots>,
}

/// Handles below 4096 are constants of the ABI.
type ObjectSlots<T> = Slots<Slot<T>, 4096>;

struct Slot<T> {
    owned: KernelMutex<(u32, Option<Arc<T>>)>,
    /// For [`Table::with`]: the object, and the generation of its handle, which is stored first.
    lent: AtomicPtr<T>,
    generation: AtomicU32,
}

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

impl<T> Slot<T> {
    fn empty() -> Slot<T> {
        Slot {
            owned: KernelMutex::new((0, None)),
            lent: AtomicPtr::new(std::ptr::null_mut()),
            generation: AtomicU32::new(0),
        }
    }
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table {
            slots: Slots::new(),
            free: KernelMutex::new(FreeSlots { freed: VecDeque::new(), fresh: 0 }),
        }
    }

    /// Adds an object; returns its handle. `None`: two million objects exist already.
    pub(crate) fn insert(&self, object: Arc<T>) -> Option<usize> {
        let index = {
            let mut free = self.free.lock();
            let rested = free.freed.len() > RESTING;
            let fresh = match rested {
                true => None,
                false => self.slots.grow(&mut free.fresh, Slot::empty),
            };
            fresh.or_else(|| free.freed.pop_front())?
        };
        let slot = self.slots.get(index)?;
        let mut owned = slot.owned.lock();
        slot.generation.store(owned.0, Relaxed);
        slot.lent.store(Arc::as_ptr(&object).cast_mut(), Release); // pairs with the load in `with`
        owned.1 = Some(object);
        Some(ObjectSlots::<T>::handle(index, owned.0))
    }

    fn find(&self, handle: usize) -> Option<(&Slot<T>, u32, u32)> {
        let (index, generation) = ObjectSlots::<T>::named(handle)?;
        Some((self.slots.get(index)?, index, generation))
    }

    /// The object, if the handle stands for one.
    #[inline]
    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        let (slot, _, generation) = self.find(handle)?;
        let owned = slot.owned.lock();
        owned.1.as_ref().filter(|_| owned.0 == generation).cloned()
    }

    /// Calls `f` with the object, if the handle stands for one. It costs three loads, where a reference that counts
    /// costs four locked instructions.
    ///
    /// # Safety
    /// The handle is not ended before `f` returns.
    #[inline]
    pub(crate) unsafe fn with<R>(&self, handle: usize, f: impl FnOnce(&T) -> R) -> Option<R> {
        let (slot, _, generation) = self.find(handle)?;
        // SAFETY: the table owns the object until the handle is ended, which is later: the caller's promise.
        let object = unsafe { slot.lent.load(Acquire).as_ref() }?;
        (slot.generation.load(Relaxed) == generation).then(|| f(object))
    }

    /// Ends a handle; returns the object that it stood for.
    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let (slot, index, generation) = self.find(handle)?;
        let object = {
            let mut owned = slot.owned.lock();
            if owned.0 != generation {
                return None;
            }
            let object = owned.1.take()?;
            slot.lent.store(std::ptr::null_mut(), Relaxed);
            owned.0 = slots::next(generation);
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
                // SAFETY: one thread, and the closure ends nothing.
                prop_assert_eq!(unsafe { table.with(*handle, |object| *object) }, Some(*number));
            }
            for handle in dead.iter().filter(|handle| !live.contains_key(handle)) {
                prop_assert!(table.get(*handle).is_none() && table.remove(*handle).is_none());
                // SAFETY: as above.
                let lent = unsafe { table.with(*handle, |_| ()) };
                prop_assert!(lent.is_none());
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
