//! Locks in memory that processes share, for libraries on top: words that are free where the memory is zero.
//!
//! A waiter spins for a moment, then sleeps in the kernel on the word. A holder may die: who sleeps asks the caller's own
//! question now and then whether the wait still makes sense, and leaves with the answer's error.
//!
//! | lock | for |
//! |---|---|
//! | [`SharedMutex`] | a moment: its waiters keep their core |
//! | [`FairLock`] | as long as its holder likes, for one or shared by several, first come first served; a green thread that waits gives its core to others |

mod fair_lock;
mod futex;
mod mutex;

pub use fair_lock::FairLock;
pub use futex::Alive;
pub use mutex::{Held, SharedMutex};

/// What the models' threads change under a lock.
#[cfg(all(test, loom))]
struct Guarded<L> {
    lock: L,
    value: crate::sync::UnsafeCell<u32>,
}

// SAFETY: the lock's protocol, which loom checks.
#[cfg(all(test, loom))]
unsafe impl<L> Sync for Guarded<L> {}
// SAFETY: a number, and words.
#[cfg(all(test, loom))]
unsafe impl<L> Send for Guarded<L> {}

#[cfg(all(test, loom))]
impl<L: Default> Guarded<L> {
    fn new() -> crate::sync::Arc<Guarded<L>> {
        crate::sync::Arc::new(Guarded {
            lock: L::default(),
            value: crate::sync::UnsafeCell::new(0),
        })
    }

    /// # Safety
    /// The lock is the caller's alone.
    unsafe fn count(&self) {
        // SAFETY: the caller's promise.
        self.value.with_mut(|n| unsafe { *n += 1 });
    }

    /// # Safety
    /// No thread counts meanwhile.
    unsafe fn value(&self) -> u32 {
        // SAFETY: the caller's promise.
        self.value.with(|n| unsafe { *n })
    }
}
