//! What a kernel thread knows of itself that needs no type of the scheduler: whether a tick's handler runs, and the
//! number of the virtual processor that it is.
//!
//! A signal handler may ask: [`words`](super::words), and a thread-local with a constant initialiser and without a
//! destructor.

use std::cell::Cell;
use std::ptr::{null_mut, without_provenance_mut};

use super::words::{self, IN_TICK};

thread_local! {
    static VP_NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Whether the handler of a virtual processor's tick runs on this kernel thread right now: what is called then keeps to
/// what signal handlers may do.
///
/// # Context
/// Anywhere, signal handlers included.
#[inline]
pub fn in_tick() -> bool {
    !words::get::<IN_TICK>().is_null()
}

pub(crate) fn set_in_tick(yes: bool) {
    words::set::<IN_TICK>(if yes { without_provenance_mut(1) } else { null_mut() });
}

/// One more than the number of the virtual processor that the kernel thread is; 0 if it is none.
pub(crate) fn vp_number() -> u32 {
    VP_NUMBER.get()
}

pub(crate) fn set_vp_number(number: u32) {
    VP_NUMBER.set(number);
}
