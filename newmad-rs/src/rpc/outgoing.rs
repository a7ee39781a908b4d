//! The caller's side: a call that is under way, and its reply as a future.
//!
//! ```text
//!   receive of the answer posted, packet (and long arguments) sent
//!        │ answer
//!        ├─ result is in it, or an error ──────────────────────────▶ outcome, `done`
//!        └─ result comes apart ─▶ receive of it posted ─ result ──▶ outcome, `done`
//! ```
//! The thread that finds the end of a step does the next one, not the waiting thread: results arrive while the caller
//! computes, and a reply that is not wanted any more still takes what it is sent, with no room for it, so that the
//! target is free of it. The call's memory belongs to the reply and to the step under way, by reference count.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use marcel::plumbing::KernelMutex;
use pioman::Completion;

use super::error::CallError;
use super::wire::{ANSWER, Content, Service, Status, answer_tag, decode_answer, result_tag};
use crate::Status as Received;
use crate::api::detached;
use crate::error::Error;
use crate::session::{Inner, Session};
use crate::wire::word;

/// What a receive has brought.
type Ended = Result<(Vec<u8>, Received), Error>;

/// How a call ended.
type Outcome = Result<Vec<u8>, CallError>;

/// See the module.
struct Outgoing {
    outcome: KernelMutex<Option<Outcome>>,
    done: Completion,
    wanted: AtomicBool,
    session: Weak<Inner>,
    peer: u32,
    id: u64,
    service: Service<'static>,
    limit: u64,
}

impl Outgoing {
    /// The answer is here.
    fn answered(self: Arc<Self>, ended: Ended) {
        let outcome = match ended {
            Ok((bytes, status)) => match decode_answer(&bytes[..status.len]) {
                Some((status, Content::Here(bytes))) => self.outcome(status, bytes),
                Some((_, Content::Apart(len))) => return self.receive(len),
                None => Err(self.undecodable(true, FOREIGN)),
            },
            Err(Error::Truncated { .. }) => Err(self.undecodable(true, FOREIGN)),
            Err(error) => Err(error.into()),
        };
        self.end(outcome);
    }

    /// The result comes apart. What is too long, or not wanted any more, is received without room for it.
    fn receive(self: Arc<Self>, len: u64) {
        let Some(session) = self.session.upgrade() else {
            return self.end(Err(Error::Closed.into()));
        };
        let room = len <= self.limit && self.wanted.load(Ordering::Relaxed);
        let buffer = vec![0; if room { len as usize } else { 0 }];
        let (peer, tag) = (self.peer, result_tag(self.id));
        detached::irecv(&session, peer, tag, buffer).on_done(move |ended| {
            let outcome = match ended {
                Ok((result, status)) if room && status.len as u64 == len => Ok(result),
                Ok(_) | Err(Error::Truncated { .. }) if room => {
                    Err(self.undecodable(true, "it has not the length that was announced"))
                }
                Ok(_) | Err(Error::Truncated { .. }) => Err(self.too_long(true, len, self.limit)),
                Err(error) => Err(error.into()),
            };
            self.end(outcome);
        });
    }

    fn end(&self, outcome: Outcome) {
        *self.outcome.lock() = Some(outcome);
        self.done.complete();
    }

    /// What an answer says.
    fn outcome(&self, status: Status, bytes: &[u8]) -> Outcome {
        let text = || String::from_utf8_lossy(bytes).into_owned();
        let (peer, service) = (self.peer, self.service.to_string());
        Err(match status {
            Status::Done => return Ok(bytes.to_vec()),
            Status::NoService => CallError::NoService { peer, service },
            Status::Panicked => CallError::Panicked { peer, service, message: text() },
            Status::Failed => CallError::Failed { peer, service, message: text() },
            Status::BadArguments => self.undecodable(false, &text()),
            Status::TooLong => match (word(bytes, 0), word(bytes, 8), bytes.len()) {
                (Some(len), Some(limit), 16) => self.too_long(false, len, limit),
                _ => self.undecodable(true, FOREIGN),
            },
        })
    }

    fn undecodable(&self, result: bool, message: &str) -> CallError {
        CallError::Undecodable {
            peer: self.peer,
            service: self.service.to_string(),
            result,
            message: message.to_owned(),
        }
    }

    fn too_long(&self, result: bool, bytes: u64, limit: u64) -> CallError {
        let (peer, service) = (self.peer, self.service.to_string());
        CallError::TooLong { peer, service, result, bytes, limit }
    }
}

const FOREIGN: &str = "its answer is not of this protocol";

/// The reply to a call, which will come. Dropped, it says that the result is not wanted; the call is made all the same.
///
/// It ends by itself: waiting, testing or awaiting only looks. `reply.await` works in any executor.
#[must_use = "a reply that is dropped does not tell how the call ended; `cast` is for calls without one"]
pub struct Reply {
    call: Arc<Outgoing>,
    session: Session,
}

impl Reply {
    /// Posts the receive for the answer of call `id`.
    pub(super) fn expect(
        session: &Session,
        peer: u32,
        id: u64,
        service: &Service<'_>,
        limit: u64,
    ) -> Reply {
        let call = Arc::new(Outgoing {
            outcome: KernelMutex::new(None),
            done: Completion::new(),
            wanted: AtomicBool::new(true),
            session: Arc::downgrade(session.inner()),
            peer,
            id,
            service: service.to_owned(),
            limit,
        });
        let step = call.clone();
        detached::irecv(session.inner(), peer, answer_tag(id), vec![0; ANSWER])
            .on_done(move |ended| step.answered(ended));
        Reply { call, session: session.clone() }
    }

    /// Waits for the result.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread, until the call is over.
    /// # Errors
    /// See [`CallError`]. A peer that dies ends every call to it.
    pub fn wait(self) -> Result<Vec<u8>, CallError> {
        self.wait_and_keep()
    }

    /// Waits for the end of the call for `time` at the most. True: it is over, and [`Reply::wait`] will not block.
    ///
    /// # Context, Blocking
    /// As [`Reply::wait`].
    pub fn wait_timeout(&self, time: Duration) -> bool {
        // Without a deadline if that is too far away to be told.
        self.session.inner().wait_until(&self.call.done, Instant::now().checked_add(time))
    }

    /// Whether it is over. Looks for events if it is not.
    pub fn test(&self) -> bool {
        self.call.done.is_done() || (self.session.inner().look() && self.call.done.is_done())
    }

    /// Its end, to wait for together with others ([`pioman::Manager::wait_any`]).
    pub fn completion(&self) -> &Completion {
        &self.call.done
    }

    /// Rank that was called.
    pub fn peer(&self) -> u32 {
        self.call.peer
    }

    fn take(&self) -> Result<Vec<u8>, CallError> {
        let outcome = self.call.outcome.lock().take();
        outcome.unwrap_or_else(|| Err(Error::Closed.into()))
    }

    /// The result was of another type.
    #[cfg(feature = "typed")]
    pub(super) fn undecodable(&self, message: &str) -> CallError {
        self.call.undecodable(true, message)
    }

    /// As [`Reply::wait`]; the reply stays for the message of an error.
    pub(super) fn wait_and_keep(&self) -> Result<Vec<u8>, CallError> {
        self.session.inner().wait_until(&self.call.done, None);
        self.take()
    }

    /// As `await`; the reply stays for the message of an error.
    pub(super) async fn await_and_keep(&self) -> Result<Vec<u8>, CallError> {
        (&self.call.done).await;
        self.take()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.call.wanted.store(false, Ordering::Relaxed);
    }
}

impl IntoFuture for Reply {
    type Output = Result<Vec<u8>, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.await_and_keep().await })
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outgoing { peer, service, .. } = &*self.call;
        write!(f, "Reply(service {service} of rank {peer})")
    }
}
