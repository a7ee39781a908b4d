//! A copy of a file that a rank has: its constructors and destructors.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use crate::elf::{Elf, Functions, Layout};

type Constructor = extern "C-unwind" fn(c_int, *const *const c_char, *const *const c_char);
type Destructor = extern "C-unwind" fn();

/// A copy that is loaded for good.
#[derive(Debug)]
pub(crate) struct Part {
    base: usize,
    elf: Arc<Elf>,
    /// Destructors that have not run yet.
    destructors: AtomicUsize,
}

impl Part {
    pub(crate) fn new(base: usize, elf: Arc<Elf>) -> Part {
        let words = elf.dynamic.fini_array.len as usize / 8;
        Part { base, elf, destructors: AtomicUsize::new(words + 1) }
    }

    pub(super) fn base(&self) -> usize {
        self.base
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.elf.layout
    }

    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.elf.layout.span() as usize
    }

    /// Calls the constructors.
    ///
    /// # Safety
    /// Once, on the rank's thread, before `main`.
    pub(super) unsafe fn construct(
        &self,
        argc: c_int,
        argv: *const *const c_char,
        environment: *const *const c_char,
    ) {
        let call = |address: usize| {
            // SAFETY: an address that the linker has written for this purpose.
            let function: Constructor = unsafe { std::mem::transmute(address) };
            function(argc, argv, environment);
        };
        let dynamic = &self.elf.dynamic;
        self.each(dynamic.preinit_array, call);
        if dynamic.init != 0 {
            call(self.base + dynamic.init as usize);
        }
        self.each(dynamic.init_array, call);
    }

    fn each(&self, functions: Functions, call: impl Fn(usize)) {
        (0..functions.len as usize / 8).filter_map(|i| self.function(functions, i)).for_each(call);
    }

    fn function(&self, functions: Functions, index: usize) -> Option<usize> {
        let at = self.base + functions.address as usize + 8 * index;
        // SAFETY: the parser has checked that a segment has the array; the copy is never unloaded.
        let function = unsafe { (at as *const usize).read_unaligned() };
        (function != 0 && function != usize::MAX).then_some(function)
    }

    /// Calls the destructors that have not been called, the last one first, then the old-fashioned one.
    pub(super) fn destroy(&self) {
        let dynamic = &self.elf.dynamic;
        while let Ok(left) = self.destructors.fetch_update(AcqRel, Acquire, |n| n.checked_sub(1)) {
            let address = match left.checked_sub(2) {
                Some(index) => self.function(dynamic.fini_array, index),
                None => (dynamic.fini != 0).then(|| self.base + dynamic.fini as usize),
            };
            if let Some(address) = address {
                // SAFETY: an address that the linker has written for this purpose.
                let function: Destructor = unsafe { std::mem::transmute(address) };
                function();
            }
        }
    }
}
