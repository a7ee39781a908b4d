//! An allocator that aborts when it is called by a thread that must not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Whether the thread must not allocate or free.
    pub static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

struct Strict;

impl Strict {
    fn check() {
        if FORBIDDEN.try_with(Cell::get).unwrap_or(false) {
            let text = b"the progress path called the allocator\n";
            // SAFETY: a constant text; then the process ends.
            unsafe {
                libc::write(2, text.as_ptr().cast(), text.len());
                libc::abort();
            }
        }
    }
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Strict::check();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        Strict::check();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static STRICT: Strict = Strict;
