//! What threads wait for, and the lock of the progress path.
//!
//! | one waits for | with |
//! |---|---|
//! | the end of a request | `completion`: one word; `complete` is its last touch |
//! | bits that progress code sets | `cond` |
//! | permits | `semaphore` |
//! | any or all of several of these | `set`, over what `waitable` makes of each |
//! | the same, under an async executor, or by a callback | `future`, `callback`; `deferred` says who calls wakers, and when |
//! | the same, with an event loop of one's own | `notifier` |

pub(crate) mod bell;
pub(crate) mod biased;
pub(crate) mod callback;
pub(crate) mod completion;
pub(crate) mod cond;
pub(crate) mod deferred;
pub(crate) mod future;
pub(crate) mod handover;
pub(crate) mod node;
#[cfg(not(loom))]
pub(crate) mod notifier;
pub(crate) mod semaphore;
pub(crate) mod set;
pub(crate) mod waitable;
