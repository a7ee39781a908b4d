//! The requests of a window to one member, on their way, and their answers: in their order, several in a message.
//!
//! | request | goes |
//! |---|---|
//! | short put, accumulation | with a later one, or with a flush, or once [`TOGETHER`] bytes wait: the target may not rely on it earlier |
//! | one whose answer is short | the first since a flush at once: what is computed meanwhile hides it. The others like short puts, unless the program asks for each answer |
//! | others | at once, with all that waits |
//!
//! Short answers to the requests of one message come in one message, in their order. Only requests without an answer need that
//! of a flush.
//!
//! Invariant: who holds the lock appends and sends, so requests arrive in the order in which they came here.
//!
//! Rejected: what waits goes when an answer comes (over sockets that was there before the next request: each went alone).

use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use pioman::plumbing::hold_wakers;

use super::pending::{Access, Into, outcome};
use super::wire::{self, CLASS, DATA, Kind, LONGEST, REPLY, REQUEST, Request};
use crate::comm::Comm;
use crate::error::Fault;

/// Requests wait for others until they, or their answers, have this length together.
const TOGETHER: usize = 8 * 1024;
/// After so many messages without a flush the origin should wait for the target.
const MOST: usize = 1024;

/// See the module.
pub(super) struct Outgoing {
    /// The member's rank in newmad's session.
    pub(super) process: u32,
    /// See [`Outgoing::with_queue`].
    queue: KernelMutex<Queue>,
}

struct Queue {
    comm: Arc<Comm>,
    process: u32,
    /// The last one given out.
    number: u32,
    /// The message that is to go; empty if nothing waits.
    waiting: Vec<u8>,
    /// What awaits answers to it.
    answers: Vec<Answer>,
    /// Bytes of these answers.
    expected: usize,
    /// Messages since the last flush.
    messages: usize,
    /// There were requests without an answer since the last flush.
    unanswered: bool,
    /// There were requests with a short one.
    asked: bool,
}

/// What tells that a target has done what it was asked for.
pub(super) enum Told {
    /// What is awaited for other reasons.
    Anyhow,
    /// The answers to this message, which are the flush's alone: their number.
    Answer(u32),
    /// This access, whose answer comes with others.
    Access(Arc<Access>),
}

/// The place of a short answer: so many bytes of an access's room.
pub(super) struct Answer {
    pub(super) access: Arc<Access>,
    pub(super) begin: usize,
    pub(super) len: usize,
}

impl Queue {
    fn number(&mut self) -> u32 {
        self.number = (self.number + 1) % DATA;
        self.number
    }

    /// Has a request wait, after what waits by now has gone if there is no room for both.
    fn append(&mut self, request: &Request<'_>, answer: Option<Answer>) -> Result<(), Fault> {
        let answers = self.expected + answer.as_ref().map_or(0, |answer| CLASS + answer.len);
        if self.waiting.len() + request.room() > LONGEST || answers > TOGETHER {
            self.send_and_leave()?;
        }
        if self.waiting.is_empty() {
            wire::begin(&mut self.waiting);
        }
        request.append_to(&mut self.waiting);
        self.unanswered |= !request.kind.has_reply();
        if let Some(answer) = answer {
            self.expected += CLASS + answer.len;
            self.answers.push(answer);
        }
        Ok(())
    }

    /// Sends what waits. The request, if the message is still on its way.
    fn send(&mut self) -> Result<Option<newmad::Request>, Fault> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        self.messages += 1;
        let mut message = std::mem::take(&mut self.waiting);
        if !self.answers.is_empty() {
            let number = self.number();
            wire::set_number(&mut message, number);
            self.receive_answers(number);
        }
        let (session, tag) = (&self.comm.session, self.comm.internal_tag(REQUEST));
        if session.send_at_once(self.process, tag, &message)? {
            // Its memory serves the next one.
            message.clear();
            self.waiting = if message.capacity() <= TOGETHER { message } else { Vec::new() };
            return Ok(None);
        }
        Ok(Some(session.isend(self.process, tag, message)?))
    }

    /// Receives the answers to the message that goes. They end, whatever happens.
    fn receive_answers(&mut self, number: u32) {
        let answers = std::mem::take(&mut self.answers);
        let room = vec![0; std::mem::take(&mut self.expected)];
        let tag = self.comm.internal_tag(REPLY | number);
        match self.comm.session.irecv(self.process, tag, room) {
            Ok(receive) => receive.on_done(move |came| match came {
                Ok((bytes, status)) => take(answers, &bytes[..status.len.min(bytes.len())]),
                Err(error) => fail(answers, &error.into()),
            }),
            Err(error) => fail(answers, &error.into()),
        }
    }

    fn send_and_leave(&mut self) -> Result<(), Fault> {
        if let Some(sent) = self.send()? {
            sent.on_done(drop);
        }
        Ok(())
    }
}

/// Gives accesses their answers: a class each, and the bytes.
fn take(answers: Vec<Answer>, mut bytes: &[u8]) {
    for Answer { access, begin, len } in answers {
        access.over(match wire::answer(&mut bytes, len) {
            Some((class, part)) => outcome(class).map(|()| access.came(begin, part)),
            None => Err(Fault::new(crate::abi::MPI_ERR_INTERN, "an answer is too short")),
        });
    }
}

fn fail(answers: Vec<Answer>, fault: &Fault) {
    answers.into_iter().for_each(|answer| answer.access.over(Err(fault.clone())));
}

impl Outgoing {
    /// The requests to that process of newmad's session, over the window's communicator.
    pub(super) fn new(comm: &Arc<Comm>, process: u32) -> Outgoing {
        let queue = Queue {
            comm: comm.clone(),
            process,
            number: 0,
            waiting: Vec::new(),
            answers: Vec::new(),
            expected: 0,
            messages: 0,
            unanswered: false,
            asked: false,
        };
        Outgoing { process, queue: KernelMutex::new(queue) }
    }

    /// Calls `f` with the lock held. `f` waits for nothing, and callbacks are called after it: one may be the program's operator,
    /// and wait for what another thread holds that waits for the lock.
    fn with_queue<R>(&self, f: impl FnOnce(&mut Queue) -> R) -> R {
        let _held = hold_wakers();
        f(&mut self.queue.lock())
    }

    /// A number for the messages that belong to a request.
    pub(super) fn number(&self) -> u32 {
        self.queue.lock().number()
    }

    /// Whether so much was asked for that the target should catch up.
    pub(super) fn is_far_ahead(&self) -> bool {
        self.queue.lock().messages >= MOST
    }

    /// Sends a request, or leaves it to a later one if it is not to go `now`. `answer`: it has a short one.
    ///
    /// # Errors
    /// The member has died, as far as is known.
    pub(super) fn ask(
        &self,
        request: &Request<'_>,
        now: bool,
        answer: Option<Answer>,
    ) -> Result<(), Fault> {
        self.with_queue(|queue| {
            let waits = match request.kind {
                Kind::Put | Kind::Accumulate => true,
                _ if answer.is_some() => std::mem::replace(&mut queue.asked, true),
                _ => false,
            };
            queue.append(request, answer)?;
            if waits && !now && queue.waiting.len() < TOGETHER {
                return Ok(());
            }
            queue.send_and_leave()
        })
    }

    /// Adds a request that may wait, and has no answer, to the message that is to go, unless that is to go now. The short way of
    /// [`Outgoing::ask`]: nothing is called here that calls back.
    #[inline]
    pub(super) fn add(&self, request: &Request<'_>) -> bool {
        let mut queue = self.queue.lock();
        let waits = queue.waiting.len() + request.room() < TOGETHER && queue.messages < MOST;
        if waits {
            if queue.waiting.is_empty() {
                wire::begin(&mut queue.waiting);
            }
            request.append_to(&mut queue.waiting);
            queue.unanswered = true;
        }
        waits
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// The member has died, as far as is known.
    pub(super) fn send(&self) -> Result<(), Fault> {
        self.with_queue(|queue| {
            queue.asked = false;
            queue.send_and_leave()
        })
    }

    /// A flush has failed: the next one asks the target again, whose death it may be. Else it would find that nothing waits for an
    /// answer, and succeed.
    pub(super) fn ask_again(&self) {
        self.queue.lock().unanswered = true;
    }

    /// Sends what waits. What tells that the target has done what it was asked for.
    ///
    /// # Blocking
    /// Until the message is sent, so that no strategy holds it for what may follow.
    /// # Errors
    /// The member has died.
    pub(super) fn flush(&self) -> Result<Told, Fault> {
        let (told, sent) = self.with_queue(|queue| {
            (queue.messages, queue.asked) = (0, false);
            let request = Request::bare(Kind::Flush, 0);
            let told = if !std::mem::take(&mut queue.unanswered) {
                Told::Anyhow
            } else if queue.answers.is_empty() {
                queue.append(&request, None)?;
                let number = queue.number();
                wire::set_number(&mut queue.waiting, number);
                Told::Answer(number)
            } else {
                let access = Access::new(&queue.comm.session, 1, Into::Nothing);
                let answer = Answer { access: access.clone(), begin: 0, len: 0 };
                queue.append(&request, Some(answer))?;
                Told::Access(access)
            };
            Ok::<_, Fault>((told, queue.send()?))
        })?;
        if let Some(sent) = sent {
            sent.wait()?;
        }
        Ok(told)
    }
}
