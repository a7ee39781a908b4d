//! Tasks between virtual processors, or any threads: one that receives has three channels, by urgency.
//!
//! MyThOS sends small active messages to another hardware thread in one of three queues (kernel, user, idle), and an
//! interrupt only if that is not awake already. Here the receiver enters itself in the wait lists of all three channels
//! before it sleeps, with one completion. A sender that finds no entry there makes no system call.

use std::sync::mpsc::{RecvError, SendError, TryRecvError};

use super::{Consumer, Producer, channel};
use pioman::Completion;

/// In which order messages are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// Before all others, for as long as there are any.
    Urgent,
    /// As most.
    Normal,
    /// When there is nothing else.
    Idle,
}

const ALL: [Urgency; 3] = [Urgency::Urgent, Urgency::Normal, Urgency::Idle];

/// A mailbox with (at least) `slots` slots for each urgency.
///
/// ```
/// use pioman_extras::channel::{Urgency, mailbox};
///
/// type Task = Box<dyn FnOnce() -> u32 + Send>;
/// let manager = pioman::Manager::here()?;
/// let (sender, mut mailbox) = mailbox::<Task>(8);
/// sender.send(&manager, Urgency::Idle, Box::new(|| 1))?;
/// sender.send(&manager, Urgency::Urgent, Box::new(|| 2))?;
/// let (urgency, task) = mailbox.recv(&manager)?;
/// assert_eq!((urgency, task()), (Urgency::Urgent, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// As [`channel`].
pub fn mailbox<T: Send>(slots: usize) -> (Sender<T>, Mailbox<T>) {
    let [(urgent, urgently), (normal, normally), (idle, idly)] = ALL.map(|_| channel(slots));
    (Sender { lanes: [urgent, normal, idle] }, Mailbox { lanes: [urgently, normally, idly] })
}

/// Sends to a [`Mailbox`].
#[derive(Debug)]
pub struct Sender<T: Send> {
    lanes: [Producer<T>; 3],
}

impl<T: Send> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { lanes: self.lanes.clone() }
    }
}

impl<T: Send> Sender<T> {
    /// The channel of one urgency: to try, and to poll one's own mailbox between two tries. A thread that receives,
    /// too, had better do that than wait in [`Sender::send`]: two such threads may wait for each other's room for ever.
    pub fn lane(&self, urgency: Urgency) -> &Producer<T> {
        &self.lanes[urgency as usize]
    }

    /// Sends, and waits for room if need be.
    ///
    /// # Context, Blocking, Errors
    /// As [`Producer::send`].
    pub fn send(
        &self,
        manager: &pioman::Manager,
        urgency: Urgency,
        value: T,
    ) -> Result<(), SendError<T>> {
        self.lane(urgency).send(manager, value)
    }
}

/// Receives, the most urgent first; see [`mailbox`].
#[derive(Debug)]
pub struct Mailbox<T: Send> {
    lanes: [Consumer<T>; 3],
}

impl<T: Send> Mailbox<T> {
    /// Whether there is a message.
    pub fn has_messages(&self) -> bool {
        self.lanes.iter().any(Consumer::has_messages)
    }

    /// Takes the most urgent message that is there.
    ///
    /// # Context, Blocking
    /// As [`Consumer::try_read`].
    ///
    /// # Errors
    /// There is none: yet, or ever, because all senders are gone.
    pub fn try_recv(&mut self) -> Result<(Urgency, T), TryRecvError> {
        let mut nothing = TryRecvError::Disconnected;
        for (lane, urgency) in self.lanes.iter_mut().zip(ALL) {
            match lane.try_recv() {
                Ok(value) => return Ok((urgency, value)),
                Err(TryRecvError::Empty) => nothing = TryRecvError::Empty,
                Err(TryRecvError::Disconnected) => (),
            }
        }
        Err(nothing)
    }

    /// Takes the most urgent message; waits until there is one.
    ///
    /// # Context, Blocking
    /// As [`Consumer::read`].
    ///
    /// # Errors
    /// All senders are gone, and everything is received.
    pub fn recv(&mut self, manager: &pioman::Manager) -> Result<(Urgency, T), RecvError> {
        marcel::plumbing::budget::spend();
        loop {
            match self.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => (),
            }
            let done = Completion::new();
            // SAFETY: dropped at the end of this block, before `done`.
            let _listed = self.lanes.each_ref().map(|lane| unsafe { lane.enlist(&done) });
            let over = self.lanes.iter().all(Consumer::is_closed);
            if !over && !self.lanes.iter().any(Consumer::has_work) {
                manager.wait(&done, pioman::Hint::Short);
            }
        }
    }
}
