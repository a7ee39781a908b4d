//! Locks and signals between threads, green or kernel, in any mixture. Waiting costs no CPU.
//!
//! | primitive | order of waiters | a panic of a holder |
//! |---|---|---|
//! | [`Mutex`] | first come, first woken; running threads may barge in for a millisecond, then it is handed over | unlocks, no poisoning |
//! | [`RwLock`] | first come, first served, handed over; readers that stand together enter together | unlocks, no poisoning |
//! | [`Condvar`] | first come, first woken | – |
//! | [`Semaphore`] | first come, first served, handed over | a [`Permit`] gives its permits back |
//! | [`Barrier`] | all at once | – |
//! | [`Once`], [`OnceLock`], [`LazyLock`] | all at once | of the initialiser: as in `std` |
//! | [`Event`] | all at once | – |
//! | [`channel`] | first come, first served on both sides; messages and room are handed over | its ends are dropped |
//!
//! # What ends a wait
//! Every call that blocks has a variant with a time limit, where one makes sense, and one ending in `_interruptible`
//! that fails when the thread is asked to stop ([`crate::Thread::interrupt`]). The plain ones ignore that.
//!
//! # When the runtime stops
//! It unwinds the stacks of blocked threads, and the destructors on them may use what is here:
//!
//! * a **lock** ([`Mutex`], [`RwLock`], an initialisation that runs in another thread) is waited for, and excludes as
//!   ever;
//! * what may fail **fails at once**: a call with a time limit as if it were over, an interruptible one as if
//!   interrupted, a condition variable as if notified without reason;
//! * [`Semaphore::acquire`] takes the permit **on credit**, so that it is not missing when it is given back;
//! * whatever a thread had been given (a permit, a lock, a notification) when it is unwound is passed on to the next.
//!
//! None of this may be used on the progress path (a tick's handler): there, an I/O manager completes a
//! [`crate::Latch`] or unparks a thread.

mod barrier;
pub mod channel;
mod condvar;
mod event;
mod lazy_lock;
mod mutex;
mod once;
mod once_lock;
mod queue;
mod raw_mutex;
mod raw_rwlock;
mod rwlock;
mod semaphore;
mod signal;
pub(crate) mod spin;
mod wait_list;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use event::Event;
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};

#[cfg(not(loom))]
use crate::task::current::others_runnable;
use crate::task::interrupt::{Interrupted, is_interrupted};
use crate::task::park::is_stopping;

/// In a model every thread has a processor of its own.
#[cfg(loom)]
fn others_runnable() -> bool {
    false
}

/// Keeps a guard on the thread that made it.
type NotSend = std::marker::PhantomData<*const ()>;
