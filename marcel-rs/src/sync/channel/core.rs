//! What the ends of a channel share: messages, and the threads that wait with one or for one.
//!
//! While a receiver waits the channel is empty, and while a sender waits it is full: each operation first serves a
//! waiter of the other side. A waiter's slot holds its message, or will. A waiter that is served and finds its slot as
//! it was, was woken because the other side is gone.

use std::cell::Cell;
use std::sync::atomic::Ordering::*;

use super::fifo::Fifo;
use crate::list::{Leave, Listed};
use crate::os::AtomicUsize;
use crate::sync::queue::{Node, Queue};
use crate::sync::signal::{Limits, Outcome, Signal, Wake, Wakes};
use crate::sync::spin::Spin;

/// Where the message of a waiting sender is, or that of a waiting receiver will be.
pub(super) type Slot<T> = Cell<Option<T>>;

/// A channel, apart from its ends.
pub(super) struct Channel<T> {
    pub(super) core: Spin<Core<T>>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    capacity: Option<usize>,
}

/// What the lock protects.
pub(super) struct Core<T> {
    messages: Fifo<T>,
    capacity: usize,
    pub(super) senders: Queue<Slot<T>>,
    pub(super) receivers: Queue<Slot<T>>,
    /// There is no sender any more.
    no_senders: bool,
    /// There is no receiver any more.
    no_receivers: bool,
}

/// Why a message was not sent.
pub(super) enum Unsent {
    Full,
    Disconnected,
}

/// Why there is no message.
pub(super) enum Nothing {
    Empty,
    Disconnected,
}

/// Which end of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Sender,
    Receiver,
}

impl<T> Core<T> {
    /// Hands the message to the receiver that has waited longest, or keeps it if there is room.
    #[inline]
    pub(super) fn try_send(&mut self, message: T) -> Result<Option<Wake>, (T, Unsent)> {
        if self.no_receivers {
            return Err((message, Unsent::Disconnected));
        }
        if self.messages.len() < self.capacity && self.receivers.is_empty() {
            self.messages.push(message);
            return Ok(None);
        }
        let mut message = Some(message);
        let wake = self.receivers.serve_first(|slot| slot.set(message.take()));
        match message {
            None => Ok(wake),
            Some(message) if self.messages.len() < self.capacity => {
                self.messages.push(message);
                Ok(None)
            }
            Some(message) => Err((message, Unsent::Full)),
        }
    }

    /// Takes the oldest message; the sender that has waited longest gets the room, or is the one it comes from.
    #[inline]
    pub(super) fn try_recv(&mut self) -> Result<(T, Option<Wake>), Nothing> {
        if let Some(message) = self.messages.pop() {
            let mut wake = None;
            if self.messages.len() < self.capacity {
                let messages = &mut self.messages;
                wake = self.senders.serve_first(|slot| {
                    if let Some(next) = slot.take() {
                        messages.push(next);
                    }
                });
            }
            return Ok((message, wake));
        }
        let mut message = None;
        let wake = self.senders.serve_first(|slot| message = slot.take());
        match message {
            Some(message) => Ok((message, wake)),
            None if self.no_senders => Err(Nothing::Disconnected),
            None => Err(Nothing::Empty),
        }
    }

    pub(super) fn queue(&mut self, end: End) -> &mut Queue<Slot<T>> {
        match end {
            End::Sender => &mut self.senders,
            End::Receiver => &mut self.receivers,
        }
    }
}

impl<T> Channel<T> {
    pub(super) fn new(capacity: Option<usize>) -> Self {
        Channel {
            core: Spin::new(Core {
                messages: Fifo::new(),
                capacity: capacity.unwrap_or(usize::MAX),
                senders: Queue::new(),
                receivers: Queue::new(),
                no_senders: false,
                no_receivers: false,
            }),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
            capacity,
        }
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.core.with(|core| core.messages.len())
    }

    pub(super) fn try_send(&self, message: T) -> Result<(), (T, Unsent)> {
        let wake = self.core.with(|core| core.try_send(message))?;
        Wake::any(wake);
        Ok(())
    }

    pub(super) fn try_recv(&self) -> Result<T, Nothing> {
        let (message, wake) = self.core.with(Core::try_recv)?;
        Wake::any(wake);
        Ok(message)
    }

    /// Sends, waiting for room. The outcome says why not, [`Outcome::Woken`] that there is no receiver.
    #[inline]
    pub(super) fn send(&self, message: T, limits: &Limits) -> Result<(), (T, Outcome)> {
        // A send that never waits never yields.
        let signal = if self.capacity.is_some() { Signal::spending() } else { Signal::new() };
        let node = Node::new(&signal, Slot::new(None));
        let sent = self.core.with(|core| match core.try_send(message) {
            Ok(wake) => Ok(wake),
            Err((message, Unsent::Disconnected)) => Err(Some(message)),
            Err((message, Unsent::Full)) => {
                node.waiter.set(Some(message));
                // SAFETY: `node` and `signal` stay in place until `Listed` has taken the node out or it has been
                // served.
                unsafe { core.senders.push(&node, false) };
                Err(None)
            }
        });
        match sent {
            Ok(wake) => {
                Wake::any(wake);
                Ok(())
            }
            Err(Some(message)) => Err((message, Outcome::Woken)),
            Err(None) => {
                let waiting = Waiting { channel: self, node: &node, end: End::Sender };
                let outcome = signal.sleep_listed(Listed::new(waiting), "channel, to send", limits);
                match node.waiter.take() {
                    None => Ok(()),
                    Some(message) => Err((message, outcome)),
                }
            }
        }
    }

    /// Receives, waiting for a message. The outcome says why not, [`Outcome::Woken`] that none will come.
    #[inline]
    pub(super) fn recv(&self, limits: &Limits) -> Result<T, Outcome> {
        loop {
            let signal = Signal::spending();
            let node = Node::new(&signal, Slot::new(None));
            let received = self.core.with(|core| {
                let received = core.try_recv();
                if let Err(Nothing::Empty) = received {
                    // SAFETY: as in `send`.
                    unsafe { core.receivers.push(&node, false) };
                }
                received
            });
            match received {
                Ok((message, wake)) => {
                    Wake::any(wake);
                    return Ok(message);
                }
                Err(Nothing::Disconnected) => return Err(Outcome::Woken),
                Err(Nothing::Empty) => {
                    let waiting = Waiting { channel: self, node: &node, end: End::Receiver };
                    let outcome =
                        signal.sleep_listed(Listed::new(waiting), "channel, to receive", limits);
                    match node.waiter.take() {
                        Some(message) => return Ok(message),
                        None if outcome != Outcome::Woken => return Err(outcome),
                        // The senders are gone; but a message may have come back meanwhile.
                        None => {}
                    }
                }
            }
        }
    }

    /// Takes a waiter's node out; false if it was not in the queue any more.
    pub(super) fn leave(&self, end: End, node: &Node<Slot<T>>) -> bool {
        // SAFETY: a waiter's node is in no other queue.
        self.core.with(|core| unsafe { core.queue(end).remove(node) })
    }

    /// A message that was handed to a receiver whose stack is unwound: it goes to the next one.
    pub(super) fn put_back(&self, message: T) {
        let mut message = Some(message);
        let wake = self.core.with(|core| {
            let wake = core.receivers.serve_first(|slot| slot.set(message.take()));
            if !core.no_receivers
                && let Some(message) = message.take()
            {
                core.messages.push_front(message);
            }
            wake
        });
        Wake::any(wake);
        drop(message); // no thread will ever receive it
    }

    pub(super) fn count(&self, end: End) {
        self.ends(end).fetch_add(1, Relaxed);
    }

    /// An end is dropped; the last one disconnects the channel.
    pub(super) fn uncount(&self, end: End) {
        if self.ends(end).fetch_sub(1, AcqRel) == 1 {
            self.disconnect(end);
        }
    }

    fn ends(&self, end: End) -> &AtomicUsize {
        match end {
            End::Sender => &self.senders,
            End::Receiver => &self.receivers,
        }
    }

    #[cold]
    fn disconnect(&self, gone: End) {
        let unreceived = self.core.with(|core| match gone {
            End::Sender => {
                core.no_senders = true;
                None
            }
            End::Receiver => {
                core.no_receivers = true;
                Some(std::mem::replace(&mut core.messages, Fifo::new()))
            }
        });
        let others = if gone == End::Sender { End::Receiver } else { End::Sender };
        let mut more = true;
        while more {
            let mut wakes = Wakes::default();
            self.core.with(|core| {
                while more && !wakes.is_full() {
                    match core.queue(others).serve_first(|_| ()) {
                        Some(wake) => wakes.push(wake),
                        None => more = false,
                    }
                }
            });
            wakes.up();
        }
        drop(unreceived); // without the lock: the messages' destructors are not ours
    }
}

/// A waiter whose node is in a queue of a channel, or was.
struct Waiting<'a, T> {
    channel: &'a Channel<T>,
    node: &'a Node<Slot<T>>,
    end: End,
}

impl<T> Leave for Waiting<'_, T> {
    fn leave(&self) -> bool {
        self.channel.leave(self.end, self.node)
    }

    /// A message that a receiver was given goes to the next one. One that a sender gave is sent.
    fn pass_on(&self) {
        if self.end == End::Receiver
            && let Some(message) = self.node.waiter.take()
        {
            self.channel.put_back(message);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::super::{Receiver, Sender, bounded, unbounded};
    use loom::thread::{self, JoinHandle};
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Instant;

    fn send<T: Send + 'static>(tx: &Sender<T>, messages: Vec<T>) -> JoinHandle<()> {
        let tx = tx.clone();
        thread::spawn(move || {
            for message in messages {
                assert!(tx.send(message).is_ok());
            }
        })
    }

    fn all<T: Send + 'static>(rx: &Receiver<T>) -> JoinHandle<Vec<T>> {
        let rx = rx.clone();
        thread::spawn(move || rx.iter().collect())
    }

    /// Nothing is lost or made, and a receiver gets the messages of one sender in their order.
    fn everything_arrives(capacity: Option<usize>) {
        loom::model(move || {
            let (tx, rx) = capacity.map_or_else(unbounded, bounded);
            let sender = send(&tx, vec![10, 11]);
            let receiver = all(&rx);
            drop((tx, rx));
            sender.join().unwrap();
            assert_eq!(receiver.join().unwrap(), [10, 11]);
        });
    }

    #[test]
    fn a_channel_without_bound_delivers() {
        everything_arrives(None);
    }

    #[test]
    fn a_bounded_channel_delivers() {
        everything_arrives(Some(1));
    }

    #[test]
    fn a_rendezvous_delivers() {
        everything_arrives(Some(0));
    }

    #[test]
    fn two_receivers_share_what_two_senders_send() {
        loom::model(|| {
            let (tx, rx) = bounded(1);
            let senders = [send(&tx, vec![1]), send(&tx, vec![2])];
            drop(tx);
            let receiver = all(&rx);
            let mut got: Vec<_> = rx.iter().collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            got.extend(receiver.join().unwrap());
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
        });
    }

    #[test]
    fn a_receive_that_times_out_leaves_the_message() {
        loom::model(|| {
            let (tx, rx) = bounded(0);
            let sender = {
                let tx = tx.clone();
                thread::spawn(move || tx.send(5).unwrap())
            };
            let hasty = {
                let rx = rx.clone();
                thread::spawn(move || rx.recv_until(Instant::now()))
            };
            match hasty.join().unwrap() {
                Err(RecvTimeoutError::Timeout) => assert_eq!(rx.recv(), Ok(5)),
                got => assert_eq!(got, Ok(5)),
            }
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_send_that_times_out_keeps_its_message() {
        loom::model(|| {
            let (tx, rx) = bounded(0);
            let hasty = thread::spawn(move || tx.send_until(5, Instant::now()).is_ok());
            let got = rx.recv();
            assert_eq!(hasty.join().unwrap(), got.is_ok());
        });
    }

    #[test]
    fn the_last_receiver_wakes_the_senders_that_wait() {
        loom::model(|| {
            let (tx, rx) = bounded(0);
            let sender = thread::spawn(move || tx.send(5).unwrap_err().0);
            drop(rx);
            assert_eq!(sender.join().unwrap(), 5);
        });
    }
}
