//! Requests on raw memory: what bindings to other languages are made of, whose programs look after their buffers
//! themselves. The rules that the types of this crate keep for a program are the caller's here.
//!
//! A binding promises once, with [`Memory::trusted`], that the program keeps the rules; the result is a
//! [`Buffer`](crate::Buffer) like any other.

use crate::api::buffer::{Buffer as _, BufferMut as _};
pub use crate::api::buffer::{Memory, Trusted};
use crate::api::message::Message;
use crate::api::options::{RecvOptions, SendOptions};
use crate::api::owned::Owned;
use crate::api::request::{Owner, Request};
pub use crate::api::several::Awaited;
use crate::api::several::What;
use crate::engine::call_gate;
use crate::error::Error;
pub use crate::proto::events::{Event, EventKind};
use crate::request::Request as EngineRequest;
use crate::request::tag::EXACT;
use crate::session::Session;
use crate::{Origin, Status, Tag};

/// A request on raw memory, or a place for requests that come one after the other.
pub type RawRequest = Request<Trusted>;

impl RawRequest {
    /// A place for requests that come one after the other.
    pub const fn idle() -> RawRequest {
        Request::EMPTY
    }

    /// Submits a send in this place, in the memory of the last request if there was one; never at once: see
    /// [`Session::send_at_once`].
    ///
    /// # Errors
    /// As [`Session::isend_with`]; [`Error::Active`]: the last one is not over.
    pub fn start_send(
        &mut self,
        session: &Session,
        to: u32,
        tag: u64,
        data: Trusted,
        options: SendOptions,
    ) -> Result<(), Error> {
        session.check(Some(to), tag)?;
        self.replace(|| Request::send(Owner::NEW, to, tag, data, options))?;
        self.begin_with(session.inner(), |_| ())
    }

    /// Submits a receive in this place, in the memory of the last request if there was one. A ban
    /// ([`Session::ban_any_source`]) does not end it: waits for it return, and [`RawRequest::is_alarmed`] says so.
    ///
    /// # Errors
    /// As [`Session::irecv_with`]; [`Error::Active`]: the last one is not over.
    #[inline]
    pub fn start_recv(
        &mut self,
        session: &Session,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        into: Trusted,
    ) -> Result<(), Error> {
        self.start_recv_of(session, from.into(), tag.into(), into)
    }

    /// Inlined, so that what a binding knows of the memory is known where the request is written.
    #[inline(always)]
    fn start_recv_of(
        &mut self,
        session: &Session,
        from: Origin,
        tag: Tag,
        into: Trusted,
    ) -> Result<(), Error> {
        let (from, tag) = session.check_source(from, tag)?;
        self.replace(|| Request::recv(Owner::NEW, from, tag, into, RecvOptions::new()))?;
        self.begin_with(session.inner(), EngineRequest::stay)
    }

    /// As [`Message::irecv`], in this place.
    ///
    /// # Errors
    /// [`Error::Active`]: the last one is not over; then the message goes back where it was.
    pub fn start_message(&mut self, message: Message, into: Trusted) -> Result<(), Error> {
        let Status { source, tag, .. } = message.status();
        let options = RecvOptions::new();
        self.replace(|| Request::recv(Owner::NEW, source, (tag, EXACT), into, options))?;
        let (session, cell) = message.give_up();
        self.begin_with(session.inner(), |request| request.held.set(Some(cell)))
    }

    /// The status of a receive that is over and has got its message whole: what [`Request::result`] says, in fewer steps.
    /// `None`: it is not over, or there is something else to say.
    #[inline]
    pub fn received(&self) -> Option<Status> {
        self.under_way().and_then(|owned: &Owned| owned.request().received())
    }

    /// Waits for its end, which [`Request::result`] says then, or until it is alarmed.
    ///
    /// # Safety
    /// One thread at a time waits for the request.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    #[inline]
    pub unsafe fn wait_shared(&self) {
        if let Some(owned) = self.under_way() {
            owned.wait_or_alarm();
        }
    }

    /// Whether a ban is in force for it, a receive from any rank, and its owner has not looked at it yet.
    #[inline]
    pub fn is_alarmed(&self) -> bool {
        self.under_way().is_some_and(|owned: &Owned| owned.request().is_alarmed())
    }

    /// Its owner has looked, and found that it is to look again: puts the alarm back.
    pub fn alarm(&self) {
        if let Some(owned) = self.under_way() {
            owned.request().alarm();
        }
    }

    /// Its owner has looked at the ranks that have failed, and waits on. A later ban alarms it again.
    pub fn calm(&self) {
        if let Some(owned) = self.under_way() {
            owned.request().calm();
        }
    }

    /// Takes a send back that waits for its receive (a long or a synchronous one), if no receive has matched it when its
    /// receiver hears of this. It ends with [`Error::Cancelled`] then, else as always. A receive goes on.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// For as long as the engine is held by another thread.
    pub fn take_back(&self) {
        if let Some(owned) = self.under_way() {
            Owned::take_back(owned);
        }
    }

    /// Whether a wait for it had better look for events at once, before it prepares to wait: how a short message moves
    /// does not hang on whether it is waited for.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.under_way().is_none_or(|owned: &Owned| owned.request().is_short())
    }
}

/// The calling thread is none of the program's, from now on: code that is called inside the program's calls only
/// ([`Operator::in_calls`](crate::coll::Operator::in_calls)) is not called because this thread waits.
///
/// # Context
/// A green thread says it of itself, a kernel thread of what runs on it outside of green threads.
pub fn stand_aside() {
    call_gate::stand_aside();
}

impl Session {
    /// Sends a short message without a request, if nothing hinders; whether it did. If not, nothing was done.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    #[inline]
    pub fn send_at_once(
        &self,
        to: u32,
        tag: u64,
        data: &impl crate::Buffer,
    ) -> Result<bool, Error> {
        self.check(Some(to), tag)?;
        let inner = self.inner();
        // SAFETY: the buffer is borrowed during the call.
        let data = unsafe { data.memory().bytes() };
        Ok(data.is_some_and(|data| {
            !inner.engine.offload.wants_send(data.len()) && inner.send_now(to, tag, data)
        }))
    }

    /// Sends a message whose end nobody awaits.
    ///
    /// # Blocking
    /// For as long as the engine is held by another thread, if the message is short.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`]; [`Error::PeerDied`], [`Error::Closed`] if that is known by now.
    pub fn send_and_leave(&self, to: u32, tag: u64, data: Vec<u8>) -> Result<(), Error> {
        if self.send_at_once(to, tag, &data)? {
            return Ok(());
        }
        let sent = self.isend(to, tag, data)?;
        let is_left = |owned: &Owned| !owned.is_finished() && owned.request().is_short();
        if sent.under_way().is_some_and(is_left)
            && self.inner().engine.signals().submissions.is_pending()
        {
            // Another thread holds the engine, which may have found the peer dead: the message begins, or fails, here.
            self.inner().engine.with(|_| ());
        }
        match sent.result() {
            Some(result) => result.map(drop),
            None => {
                sent.on_done(drop);
                Ok(())
            }
        }
    }

    /// Sends a short message without a request to a peer whose packets are no system calls, if nothing hinders; whether it
    /// did. (A system call that sends would get into the way of the peer's, if that sends as well.)
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    #[inline]
    pub fn send_lightly(&self, to: u32, tag: u64, data: &[u8]) -> Result<bool, Error> {
        self.check(Some(to), tag)?;
        Ok(self.inner().engine.send_lightly(self.inner().mine(), to, tag, data))
    }

    /// Receives a message, sends one at the same time, and waits for both: how each has ended, the receive first.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`], [`Error::BadLayout`]: nothing was done.
    pub fn exchange(
        &self,
        (from, tag, mut into): (Origin, Tag, Trusted),
        (to, sendtag, data): (u32, u64, Trusted),
    ) -> Result<[Result<Status, Error>; 2], Error> {
        self.check(Some(to), sendtag)?;
        let (from, (tag, mask)) = self.check_source(from, tag)?;
        // SAFETY: the binding's promise; both requests are over when `exchange` returns or unwinds.
        let (mut receive, mut send) = unsafe {
            let receive = into.memory_mut().recv(from, tag, None, true)?.masked(mask);
            (receive, data.memory().send(to, sendtag, None, true)?)
        };
        self.complete_both(&mut receive, &mut send)?;
        Ok([receive.result(), send.result()])
    }

    /// Records what happens to messages and peers behind the program's calls, for a tool, or stops that.
    ///
    /// # Blocking
    /// For as long as the engine is held by another thread.
    pub fn record_events(&self, on: bool) {
        self.inner().engine.with(|core| core.record_events(self.inner().mine(), on));
    }

    /// Takes the events that were recorded, in their order; how many of each kind ([`EventKind::ALL`]) found no room.
    ///
    /// # Blocking
    /// As [`Session::record_events`].
    pub fn take_events(&self, into: &mut Vec<Event>) -> [u64; EventKind::ALL.len()] {
        self.inner().engine.with(|core| core.take_events(self.inner().mine(), into))
    }

    /// Something that others complete, to wait for beside requests.
    pub fn awaited<'a>(&'a self, completion: &'a pioman::Completion) -> Awaited<'a> {
        Awaited(What::Other(self.inner(), completion))
    }

    /// Looks for events, as the `test` of a request does. Whether there were some.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// No.
    #[inline]
    pub fn look(&self) -> bool {
        self.inner().look()
    }
}
