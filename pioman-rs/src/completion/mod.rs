//! What threads wait for.
//!
//! | one waits for | with |
//! |---|---|
//! | the end of a request | `one_shot`: one word; `complete` is its last touch |
//! | bits that progress code sets | `cond` |
//! | permits | `semaphore` |
//! | any or all of several of these | `set`, over what `waitable` makes of each |
//! | the same, under an async executor, or by a callback | `future`, `callback`; `wakers` says which thread calls wakers, and when |
//! | the same, with an event loop of one's own | `notifier` |

pub(crate) mod bell;
pub(crate) mod callback;
pub(crate) mod cond;
pub(crate) mod future;
pub(crate) mod node;
#[cfg(not(loom))]
pub(crate) mod notifier;
pub(crate) mod one_shot;
pub(crate) mod queue;
pub(crate) mod semaphore;
pub(crate) mod set;
pub(crate) mod waitable;
pub(crate) mod wakers;
