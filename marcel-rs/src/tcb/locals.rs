//! The green-thread-local values of one thread: see `task::local_key`.

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// The value has been destroyed, or is being.
pub(crate) const GONE: *mut Header = std::ptr::without_provenance_mut(1);

/// What every value's heap block begins with.
pub(crate) struct Header {
    pub(crate) older: *mut Header,
    pub(crate) index: usize,
    pub(crate) drop: unsafe fn(*mut Header),
}

/// The values of one thread, in its control block.
pub(crate) struct Locals {
    slots: UnsafeCell<Vec<*mut Header>>,
    /// Head of the list of values, the newest first; GONE if this thread gets none any more.
    pub(crate) newest: Cell<*mut Header>,
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
    pub(crate) fn get(&self, index: usize) -> *mut Header {
        // SAFETY: only the thread itself comes here, and no reference outlives a call.
        unsafe { &*self.slots.get() }.get(index).copied().unwrap_or(null_mut())
    }

    pub(crate) fn set(&self, index: usize, header: *mut Header) {
        // SAFETY: as in `get`.
        let slots = unsafe { &mut *self.slots.get() };
        if slots.len() <= index {
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
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| ((*header).drop)(header))) {
                    std::mem::forget(payload);
                }
            }
        }
    }
}
