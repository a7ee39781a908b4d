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
