//! Locks and signals between threads, green or kernel, in any mixture. Waiting costs no CPU.
//!
//! | primitive | a waiter blocks | order of waiters | on a panic of the holder |
//! |---|---|---|---|
//! | [`Mutex`] | its green thread | first come, first woken; a running thread may barge in | unlocks, no poisoning |
//! | [`Condvar`] | its green thread | first come, first woken | – |
//! | [`Semaphore`] | its green thread | first come, first served (permits are handed over) | permits held by guards come back |
//!
//! None of them may be used on the progress path (a tick's handler): there, an I/O manager completes a
//! [`crate::Latch`] or unparks a thread.

mod condvar;
mod mutex;
mod semaphore;
mod wait_list;

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use semaphore::Semaphore;
