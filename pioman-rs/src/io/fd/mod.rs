//! The source of all descriptors of a manager: sockets, pipes, whatever the kernel can say is ready.
//!
//! One `epoll` set for any number of descriptors. Its own descriptor is what the manager's watches sleep on (sets
//! nest), and it is readable as long as an event has not been fetched: so no thread has to *arm* anything here, and
//! what comes between the last look and the sleep is there at the sleep.
//!
//! Descriptors are registered edge-triggered, when a thread first has to wait for them and in the direction that it
//! waits in; they stay until they are closed. Each event adds to the count of its descriptor's place (`readiness`),
//! whether a thread waits or not.
//!
//! Rejected: *one-shot* (a system call for each wait, where now there is none; what it would save is the look at events
//! without a waiter); *level-triggered* (an event without a waiter would come for ever); to ask for both
//! directions at once (each byte that the peer takes from a Unix socket would be an event); registering at creation
//! (what never waits costs nothing now, and a descriptor may be made outside the runtime that it is used in).

#[cfg(not(loom))]
mod arena;
pub(crate) mod readiness;
#[cfg(not(loom))]
pub(crate) mod registrations;
#[cfg(not(loom))]
pub(crate) mod set;
