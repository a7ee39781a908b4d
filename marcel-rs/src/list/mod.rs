//! Intrusive lists: every node is inside the object that it links, so that nothing is allocated to wait, to wake or to
//! queue, and a push may come from a signal handler.
//!
//! | | nodes | pushed by | taken out by |
//! |---|---|---|---|
//! | [`RunQueue`] | immortal | the owner | the owner, oldest first or one that it looks for |
//! | [`Inbox`] | immortal | any thread, signal handlers included | one consumer, all at once |
//! | [`RawInbox`] | any that stay in place | any thread, signal handlers included | one consumer, all at once |
//! | [`List`] | any that stay in place | the holder of the lock around it | the same, any node |
//!
//! Immortal nodes make the first two safe to use. A [`List`] links what lies on the stacks of waiting threads; a
//! thread that waits holds a [`Listed`], which takes its node out however the wait ends.
//!
//! Rejected: `cordyceps` (its models need another version of loom than ours, and no model may run two);
//! `intrusive-collections` (it has no lock-free list, a call of each of its cursors is as unsafe as one here, and a
//! link that knows whether it is listed costs an atomic).

mod chain;
mod linked;
mod listed;

#[cfg(any(test, not(loom)))]
pub(crate) use chain::RunQueue;
pub use chain::{Chained, Inbox, InboxItems, RawInbox};
pub use linked::{Linked, Links, List};
pub use listed::{Leave, Listed};
