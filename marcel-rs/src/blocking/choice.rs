//! Which mechanism makes a blocking call.

use crate::blocking::export::export;
use crate::blocking::standby::{holds_up_no_other, standby};
use crate::lwp::blocking::Mechanism;
use crate::sched::worker;

/// Makes a call that may block in the kernel, and returns what it returns: the calling green thread waits, its
/// virtual processor's other threads go on. The closure may borrow. By [`export`] or by [`standby`]: see
/// [`Mechanism`], `MARCEL_BLOCKING`. In doubt, so both ways, the closure must be `Send`.
///
/// # Context
/// A green thread. Elsewhere the closure is just called.
///
/// # Blocking
/// The green thread, until the closure has ended. When the runtime is dropped meanwhile: a closure that has not begun
/// never runs; one that runs is waited for.
///
/// # Panics
/// With the closure's payload, when it panics.
pub fn blocking<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let mechanism = worker::current().map(|worker| worker.shared.blocking.mechanism());
    match mechanism {
        Some(Mechanism::Export) => export(f),
        Some(Mechanism::Auto) if !holds_up_no_other() => export(f),
        _ => standby(f),
    }
}
