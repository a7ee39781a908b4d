//! The channel of MyThOS (whitepaper of 2016) between the threads of one process: a fixed number of slots of a fixed
//! size, one direction, many producers, one consumer. It never allocates for a message, and a producer that finds it
//! full is told so, and can do something else before it tries again.
//!
//! ```
//! use pioman_extras::channel;
//!
//! let (producer, mut consumer) = channel::channel(4);
//! let mut position = producer.acquire_send(); // a place in the order of messages
//! position.try_send("one")?; // `Full`: try again, and poll incoming work in between
//! assert!(consumer.has_messages());
//! let message = consumer.try_read().expect("just sent");
//! assert_eq!(*message, "one"); // read in place
//! drop(message); // frees the slot
//! assert!(!consumer.has_messages());
//! # Ok::<(), std::sync::mpsc::TrySendError<&str>>(())
//! ```
//!
//! # Protocol
//! Three parts: [`Producer`] and [`Consumer`] are private to their threads, `shared` is what both touch. Each slot has
//! a *header*, which names the logical position that it serves; position `p` is in slot `p % n`:
//!
//! ```text
//!   2 p       free for the producer that has position p     ──writes the value, release──▶ 2 p + 1
//!   2 p + 1   occupied by it                                ──read by the consumer, release──▶ 2 (p + n)
//! ```
//! A producer takes a position, looks at that slot's header until it is free *for that position*, writes, marks it
//! occupied. The consumer looks at the header of its own position, reads in place, and stores the slot's next position,
//! which frees the slot for the producer that has that position. Slots see plain loads and stores only; neither end
//! looks at the other's counter.
//!
//! **Where a read-modify-write is needed all the same**: in the producers' counter, from which each takes a different
//! position. It is one `fetch_add`, in a cache line that only producers touch: cheap for one of them, the
//! transfer of that line when several send at once.
//!
//! # Waiting
//! What seldom happens (a thread waits, a position is given up, an end goes) is in `slow_path`, under a lock, and
//! announced by bits in one word. A sender, and a consumer that frees a slot, reads that word after a fence. It takes
//! the lock only if a bit says that a thread waits for just that: no system call and no lock where no thread sleeps. A
//! waiting producer is woken when the slot becomes free for *its* position, not for each that becomes free. The fence
//! could be the sleeper's by `membarrier`, as in pioman's `srcu`: rejected, a wait would cost an interrupt to all
//! cores.
//!
//! It is here and not in newmad, because it is used by threads of one process and waits as everything here does: with a
//! [`Manager`](pioman::Manager), so that a kernel thread that waits polls, and a green thread leaves its processor to
//! others. Between processes newmad's `net/segment/ring` has the same protocol, with one producer.
//!
//! # What is not sent
//! * A [`Position`] that is dropped before it has sent leaves a *hole*, which the consumer steps over.
//! * One that is forgotten (`mem::forget`) holds the channel up: what was sent at later positions is not received. It
//!   is dropped with the channel.
//! * A [`Message`] that is forgotten is read again.
//! * When the consumer is dropped so is what it has not received, and sends fail. What is sent at the same moment is
//!   dropped with the last producer. When the last producer is dropped the consumer still gets what was sent.
//!
//! # A log
//! One channel makes a log of lines from many threads (MyThOS's `mlog`), read by one:
//!
//! ```
//! # let manager = pioman::Manager::here()?;
//! use pioman_extras::channel;
//!
//! struct Record { thread: usize, level: u8, text: String }
//! let (log, mut sink) = channel::channel(64);
//! std::thread::scope(|s| {
//!     for thread in 0..3 {
//!         let (log, manager) = (log.clone(), &manager);
//!         s.spawn(move || {
//!             let text = format!("hello from {thread}");
//!             log.send(manager, Record { thread, level: thread as u8, text })
//!         });
//!     }
//!     drop(log);
//!     let mut shown = 0;
//!     while let Ok(record) = sink.read(&manager) {
//!         if record.level > 0 {
//!             println!("{}: {}", record.thread, record.text);
//!             shown += 1;
//!         }
//!     }
//!     assert_eq!(shown, 2);
//! });
//! # Ok::<(), pioman::Error>(())
//! ```
//!
//! # Rejected
//! Several consumers, by a lock bit in the header: a consumer that is slow would hold up the slots behind it, and
//! reading in place by `&mut` could not say that there is one reader. Counters of head and tail in place of positions
//! in headers: both ends would touch both at each message.

mod consumer;
#[cfg(not(loom))]
mod mailbox;
#[cfg(all(test, loom))]
mod model;
mod producer;
mod shared;
mod slow_path;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

pub use self::consumer::{Consumer, Message};
#[cfg(not(loom))]
pub use self::mailbox::{Mailbox, Sender, Urgency, mailbox};
pub use self::producer::{Position, Producer};
use self::shared::Shared;
use crate::shim::Arc;

/// A channel with at least `slots` slots: the next power of two.
///
/// # Panics
/// Without slots, or with more than memory could hold.
pub fn channel<T: Send>(slots: usize) -> (Producer<T>, Consumer<T>) {
    let shared = Arc::new(Shared::new(slots));
    (Producer::new(shared.clone()), Consumer::new(shared))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The test itself holds the lock of the slow path: a send or a receive that took it would wait for ever.
    #[test]
    fn where_nobody_waits_nobody_takes_the_lock() {
        let (producer, mut consumer) = channel(4);
        producer.shared.slow_path.while_taken(|| {
            for n in 0..10 {
                assert!(producer.acquire_send().try_send(n).is_ok());
                assert!(consumer.has_messages());
                assert_eq!(consumer.try_recv(), Ok(n));
                assert_eq!(consumer.try_recv(), Err(TryRecvError::Empty));
            }
        });
    }

    #[test]
    fn what_nobody_will_receive_is_remembered_by_nobody() {
        let (producer, consumer) = channel(4);
        drop(producer.acquire_send());
        assert_eq!(producer.shared.slow_path.holes(), 1);
        drop(consumer);
        for n in 0..100 {
            assert!(producer.acquire_send().try_send(n).is_err());
        }
        assert_eq!(producer.shared.slow_path.holes(), 0);
    }

    #[test]
    fn ends_and_what_they_lend_may_be_sent_as_far_as_values_may() {
        fn sent<T: Send>(_: &T) {}
        fn shared<T: Sync>(_: &T) {}
        let (producer, mut consumer) = channel::<std::cell::Cell<u8>>(1);
        sent(&producer);
        sent(&consumer);
        shared(&producer);
        sent(&producer.acquire_send());
        assert!(consumer.try_read().inspect(sent).is_none());
    }
}
