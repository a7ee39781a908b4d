//! Messages of the program over the control network, between its threads and the connection manager's.
//!
//! ```text
//!   send ──▶ outbox ──bell──▶ connection manager ──▶ network ──▶ … ──▶ connection manager ──▶ inbox of a rank ──▶ recv
//! ```
//! The connection manager's thread sleeps in the kernel and is woken by what comes. So messages move on, and wake the thread
//! that receives them, while every virtual processor computes.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use marcel::plumbing::KernelMutex;
use marcel::sync::{Condvar, Mutex};

use super::network::MOST_BYTES;
use crate::error::{Cause, Error};
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::sys;

/// Bytes before the program's: the ranks of sender and receiver.
const RANKS: usize = 8;
/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 1024;
const _: () = assert!(LONGEST + RANKS <= MOST_BYTES);
/// So many messages of a process may be unacknowledged.
const MOST: usize = 1 << 14;

/// See the module.
pub(crate) struct Mail {
    process: u32,
    ranks: Arc<Ranks>,
    signals: Arc<Signals>,
    outbox: KernelMutex<Outbox>,
    /// What the connection manager has taken out and is not acknowledged.
    unacknowledged: AtomicUsize,
    inboxes: Box<[Inbox]>,
}

#[derive(Default)]
struct Outbox {
    /// To that process.
    posts: VecDeque<(u32, Vec<u8>)>,
    /// Processes that receive nothing more.
    ended: BTreeMap<u32, Cause>,
    /// Whether a connection manager takes messages out.
    served: bool,
}

/// Of one rank.
struct Inbox {
    content: Mutex<Content>,
    came: Condvar,
}

struct Content {
    messages: VecDeque<(u32, Vec<u8>)>,
    /// Nothing more comes.
    over: bool,
}

impl Mail {
    /// Of that process. Until [`Mail::serve`] its ranks can send to each other alone.
    pub(crate) fn new(process: u32, ranks: Arc<Ranks>, signals: Arc<Signals>) -> Arc<Mail> {
        let inbox = |_| Inbox {
            content: Mutex::new(Content { messages: VecDeque::new(), over: false }),
            came: Condvar::new(),
        };
        let inboxes = ranks.of(process).map(inbox).collect();
        Arc::new(Mail {
            process,
            ranks,
            signals,
            outbox: KernelMutex::new(Outbox::default()),
            unacknowledged: AtomicUsize::new(0),
            inboxes,
        })
    }

    /// Sends a message from a rank of this process.
    pub(crate) fn send(&self, from: u32, to: u32, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > LONGEST {
            return Err(Error::Control(format!(
                "a control message of {} bytes is too long: it has {LONGEST} at the most; longer ones go by `send`",
                bytes.len()
            )));
        }
        let home = self.ranks.home(to);
        if home == self.process {
            self.put(from, to, bytes);
            return Ok(());
        }
        let mut outbox = self.outbox.lock();
        if let Some(&cause) = outbox.ended.get(&home) {
            return Err(Error::PeerDied { rank: to, cause });
        }
        if !outbox.served {
            return Err(Error::Control(
                "this session has no control network: one of `Session::local_world` has none"
                    .into(),
            ));
        }
        let waiting = outbox.posts.len() + self.unacknowledged.load(Ordering::Relaxed);
        if waiting >= MOST {
            return Err(Error::Control(format!(
                "{waiting} control messages of this process are not acknowledged yet: send again when some are \
                 received, or send less"
            )));
        }
        let body = [&from.to_le_bytes()[..], &to.to_le_bytes(), bytes].concat();
        outbox.posts.push_back((home, body));
        drop(outbox);
        sys::ring(self.signals.bell().as_raw_fd());
        Ok(())
    }

    /// The next message for the rank of that place, if one is there. `Err`: none is there nor will be.
    pub(crate) fn try_receive(&self, place: u16) -> Result<Option<(u32, Vec<u8>)>, Error> {
        self.inboxes[usize::from(place)].content.lock().next()
    }

    /// Waits for the next message for the rank of that place.
    pub(crate) fn receive(&self, place: u16) -> Result<(u32, Vec<u8>), Error> {
        let inbox = &self.inboxes[usize::from(place)];
        let mut content = inbox.content.lock();
        loop {
            if let Some(message) = content.next()? {
                return Ok(message);
            }
            content = inbox.came.wait(content);
        }
    }

    /// The rank of that place receives nothing more.
    pub(crate) fn close(&self, place: u16) {
        let inbox = &self.inboxes[usize::from(place)];
        inbox.content.lock().over = true;
        inbox.came.notify_all();
    }

    fn put(&self, from: u32, to: u32, bytes: &[u8]) {
        let place = (to - self.ranks.of(self.process).start) as usize;
        let inbox = &self.inboxes[place];
        let mut content = inbox.content.lock();
        if !content.over {
            content.messages.push_back((from, bytes.to_vec()));
            drop(content);
            inbox.came.notify_one();
        }
    }

    // The connection manager's side.

    /// Messages leave from now on.
    pub(super) fn serve(&self) {
        self.outbox.lock().served = true;
    }

    /// What is to be sent, by process.
    pub(super) fn take(&self) -> VecDeque<(u32, Vec<u8>)> {
        std::mem::take(&mut self.outbox.lock().posts)
    }

    /// So many are on their way.
    pub(super) fn set_unacknowledged(&self, count: usize) {
        self.unacknowledged.store(count, Ordering::Relaxed);
    }

    /// A message has come from that process. What is not of this form, or for no rank of this process, is dropped.
    pub(super) fn came(&self, process: u32, body: &[u8]) {
        let Some((ranks, bytes)) = body.split_first_chunk::<RANKS>() else { return };
        let word = |at: usize| ranks[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let (Some(from), Some(to)) = (word(0), word(4)) else { return };
        if self.ranks.of(process).contains(&from) && self.ranks.of(self.process).contains(&to) {
            self.put(from, to, bytes);
        }
    }

    /// That process receives nothing more.
    pub(super) fn ended(&self, process: u32, cause: Cause) {
        self.outbox.lock().ended.insert(process, cause);
    }

    /// No other process sends anything any more.
    pub(super) fn alone(&self) {
        // Ranks of one process go on among themselves.
        if let [_] = &*self.inboxes {
            self.close(0);
        }
    }

    /// The connection manager has ended.
    pub(super) fn over(&self) {
        self.outbox.lock().served = false;
        (0..self.inboxes.len()).for_each(|place| self.close(place as u16));
    }
}

impl Content {
    fn next(&mut self) -> Result<Option<(u32, Vec<u8>)>, Error> {
        match self.messages.pop_front() {
            None if self.over => Err(Error::Closed),
            message => Ok(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Arc<Mail> {
        let ranks = Ranks::new(&[2, 1]).unwrap();
        Mail::new(0, ranks, Signals::new(2, 1).unwrap())
    }

    #[test]
    fn what_comes_is_not_believed() {
        let mail = mail();
        let body = |from: u32, to: u32| [from.to_le_bytes(), to.to_le_bytes()].concat();
        mail.came(1, &body(2, 1));
        // From a rank of another process than it says, to a rank of another process, too short.
        mail.came(1, &body(1, 0));
        mail.came(1, &body(2, 2));
        mail.came(1, &body(u32::MAX, u32::MAX));
        mail.came(1, &[0; 7]);
        assert_eq!(mail.try_receive(1).unwrap(), Some((2, Vec::new())));
        assert!(mail.try_receive(0).unwrap().is_none() && mail.try_receive(1).unwrap().is_none());
    }

    #[test]
    fn refusals_say_what_to_do() {
        let mail = mail();
        let refusal = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert!(refusal(mail.send(0, 2, &[])).contains("local_world"));
        mail.serve();
        assert!(refusal(mail.send(0, 2, &[0; LONGEST + 1])).contains("1024"));
        mail.set_unacknowledged(MOST - 1);
        mail.send(0, 2, &[0; LONGEST]).unwrap();
        assert!(refusal(mail.send(0, 2, &[])).contains("not acknowledged"));
        assert_eq!(mail.take().len(), 1);
        mail.ended(1, Cause::Vanished);
        assert!(matches!(mail.send(0, 2, &[]), Err(Error::PeerDied { rank: 2, .. })));
    }

    #[test]
    fn ranks_of_a_process_reach_each_other_and_closed_ones_nothing() {
        let mail = mail();
        mail.send(0, 1, b"hello").unwrap();
        mail.close(1);
        mail.send(0, 1, b"late").unwrap();
        assert_eq!(mail.receive(1).unwrap(), (0, b"hello".to_vec()));
        assert!(matches!(mail.receive(1), Err(Error::Closed)));
    }
}
