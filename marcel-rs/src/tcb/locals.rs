//! The green-thread-local values of one thread: see `task::local_key`.

use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;

use crate::os::signal::AllBlocked;
use crate::tcb::payload::contain;

/// The value has been destroyed, or is being.
const GONE: *mut Header = std::ptr::without_provenance_mut(1);

/// What every value's heap block begins with.
pub(crate) struct Header {
    older: *mut Header,
    index: usize,
    drop: unsafe fn(*mut Header),
}

/// A value's heap block.
#[repr(C)]
struct Node<T> {
    header: Header,
    value: T,
}

/// Where the value is that a slot has; `None` if it is gone.
///
/// # Safety
/// The slot is not empty, and is that of a key of this type.
#[inline]
pub(crate) unsafe fn value<T>(slot: *mut Header) -> Option<*const T> {
    // SAFETY: a slot of this key holds a node of this type, alive until it is GONE.
    (slot != GONE).then(|| unsafe { &raw const (*slot.cast::<Node<T>>()).value })
}

/// The values of one thread, in its control block.
pub(crate) struct Locals {
    slots: UnsafeCell<Vec<*mut Header>>,
    /// Head of the list of values, the newest first; GONE if this thread gets none any more.
    newest: Cell<*mut Header>,
    /// Some slots are GONE.
    used: Cell<bool>,
}

impl Default for Locals {
    fn default() -> Self {
        Locals {
            slots: UnsafeCell::new(Vec::new()),
            newest: Cell::new(null_mut()),
            used: Cell::new(false),
        }
    }
}

impl Locals {
    /// The slot of key `index`; null if it is empty.
    pub(crate) fn get(&self, index: usize) -> *mut Header {
        // SAFETY: only the thread itself comes here, and no reference outlives a call.
        unsafe { &*self.slots.get() }.get(index).copied().unwrap_or(null_mut())
    }

    /// Puts `value` into the empty slot of key `index`. The slot then: with what has come there meanwhile, or gone if
    /// this thread gets no values any more.
    #[cold]
    pub(crate) fn put<T>(&self, index: usize, value: T) -> *mut Header {
        unsafe fn drop_node<T>(header: *mut Header) {
            // SAFETY: made by `Box::new` below.
            drop(unsafe { Box::from_raw(header.cast::<Node<T>>()) });
        }
        let older = self.newest.get();
        if older == GONE {
            return GONE;
        }
        let there = self.get(index);
        if !there.is_null() {
            return there; // the initialiser used its own key: what it saw stays
        }
        let header = Header { older, index, drop: drop_node::<T> };
        let header = Box::into_raw(Box::new(Node { header, value })).cast::<Header>();
        self.set(index, header);
        self.newest.set(header);
        header
    }

    fn set(&self, index: usize, header: *mut Header) {
        // SAFETY: as in `get`.
        let slots = unsafe { &mut *self.slots.get() };
        if slots.len() <= index {
            // Handlers of signals look for values (`LocalKey::if_made`), and may not find the table that is being freed.
            let _blocked = AllBlocked::new();
            slots.resize(index + 1, null_mut());
        }
        slots[index] = header;
    }

    /// No value is made here from now on: the block stands for a kernel thread that is almost gone, where
    /// no code would destroy it.
    pub(crate) fn close(&self) {
        self.newest.set(GONE);
    }

    /// Destroys the values. On the thread itself, which may go on afterwards; to be called once more at its end.
    #[inline]
    pub(crate) fn destroy(&self) {
        if !self.newest.get().is_null() {
            self.destroy_all();
        }
    }

    /// The last [`Locals::destroy`]: the block is as new.
    #[inline]
    pub(crate) fn finish(&self) {
        self.destroy();
        if self.used.replace(false) {
            // SAFETY: as in `get`.
            unsafe { &mut *self.slots.get() }.fill(null_mut());
        }
    }

    #[cold]
    fn destroy_all(&self) {
        self.used.set(true);
        loop {
            let header = self.newest.get();
            if header.is_null() || header == GONE {
                return;
            }
            // SAFETY: nodes in the list are alive; this one leaves it, and its slot, before it is freed.
            unsafe {
                self.newest.set((*header).older);
                self.set((*header).index, GONE);
                // The panic hook has said why; the values that remain are destroyed all the same.
                if let Some(unwinding) = contain(|| ((*header).drop)(header)).unwinding {
                    unwinding.at_the_end_anyway();
                }
            }
        }
    }
}
