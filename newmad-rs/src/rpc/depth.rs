//! How deep the calling thread is in handlers that call services.

use std::cell::Cell;

marcel::thread_local! {
    /// Depth of the calls that this thread makes.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Depth of the calls that the calling thread makes.
pub(super) fn get() -> u32 {
    DEPTH.get()
}

/// Changes it until the guard is dropped, by unwinding too.
pub(super) fn enter(depth: u32) -> Inside {
    Inside(DEPTH.replace(depth))
}

/// The thread is inside a handler; the depth that it had before.
pub(super) struct Inside(u32);

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}
