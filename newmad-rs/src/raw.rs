//! Requests on raw memory: what bindings to other languages are made of, whose programs look after their buffers
//! themselves. The rules that the owned and scoped requests of this crate keep for a program are the caller's here.

use crate::api::handle::Owned;
use crate::api::message::Message;
pub use crate::api::several::Awaited;
use crate::api::several::{Seal, Waited, What};
use crate::error::Error;
use crate::memory::layout::Layout;
use crate::request::Request;
use crate::session::Session;
use crate::{Origin, Status, Tag};

/// Memory that a message is made of, or goes to.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// So many bytes in a row.
    Whole(*mut u8, usize),
    /// Pieces, the first ones first.
    Pieces {
        /// Address of the list.
        list: *const libc::iovec,
        /// Number of pieces.
        count: usize,
        /// Bytes of all of them.
        len: usize,
    },
}

impl Memory {
    fn len(self) -> usize {
        match self {
            Memory::Whole(_, len) | Memory::Pieces { len, .. } => len,
        }
    }

    /// A request that sends this memory.
    ///
    /// # Safety
    /// Until the request is over, the memory (and the list of its pieces) stays readable and unchanged.
    unsafe fn send(self, to: u32, tag: u64, waits: bool) -> Request {
        match self {
            Memory::Whole(at, len) => {
                let data = std::ptr::slice_from_raw_parts(at.cast_const(), len);
                // SAFETY: the caller's promise.
                unsafe { Request::send(to, tag, data, waits) }
            }
            Memory::Pieces { list, count, len } => {
                // SAFETY: the caller's promise.
                unsafe { Request::send_scattered(to, tag, Layout::list(list, count, len), waits) }
            }
        }
    }

    /// A request that receives into this memory.
    ///
    /// # Safety
    /// Until the request is over, the memory stays writable and exclusive, and the list of its pieces stays as it is.
    unsafe fn recv(self, from: u32, tag: u64, waits: bool) -> Request {
        match self {
            Memory::Whole(at, len) => {
                let buffer = std::ptr::slice_from_raw_parts_mut(at, len);
                // SAFETY: the caller's promise.
                unsafe { Request::recv(from, tag, buffer, waits) }
            }
            Memory::Pieces { list, count, len } => {
                // SAFETY: the caller's promise.
                unsafe { Request::recv_scattered(from, tag, Layout::list(list, count, len), waits) }
            }
        }
    }
}

/// A request on raw memory that goes on, or a place for one. Dropping it waits for its end, or takes a receive back that
/// nothing has matched.
#[must_use = "dropping it waits for a send, and takes a receive back"]
pub struct RawRequest {
    /// The last one that was not over at once. Its memory serves for further ones.
    owned: Option<Owned>,
    /// What came of one that was over at once.
    now: Option<Status>,
}

impl RawRequest {
    /// A place for requests that come one after the other; so far there was an empty one.
    pub const fn idle() -> RawRequest {
        RawRequest { owned: None, now: Some(Status { source: 0, tag: 0, len: 0 }) }
    }

    /// Whether it is over; does not look for events.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.under_way().is_none_or(Owned::is_finished)
    }

    /// Whether a wait for it had better look for events at once, before it prepares to wait: how a short message moves does
    /// not hang on whether it is waited for.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.under_way().is_none_or(|owned| owned.request().is_short())
    }

    /// Whether it is over, after a look for events if it is not.
    #[inline]
    pub fn test(&self) -> bool {
        self.under_way().is_none_or(Owned::test)
    }

    /// Waits for its end. What came of it stays to be asked for again. One thread waits for it at a time.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::Truncated`], [`Error::PeerDied`], [`Error::Cancelled`], [`Error::Closed`].
    #[inline]
    pub fn wait(&self) -> Result<Status, Error> {
        match (self.now, &self.owned) {
            (None, Some(owned)) => owned.wait(),
            (now, _) => now.ok_or(Error::Closed),
        }
    }

    /// Takes a receive back; whether that was possible. It is over then.
    pub fn cancel(&self) -> bool {
        self.under_way().is_some_and(Owned::cancel)
    }

    /// Has `function` called when it is over, as [`crate::SendRequest::on_done`].
    ///
    /// # Panics
    /// When `function` does, if it is called at once; later panics are reported and end there.
    pub fn on_done(self, function: impl FnOnce(Result<Status, Error>) + Send + 'static) {
        match (self.now, self.owned) {
            (None, Some(owned)) => owned.detach(Box::new(function)),
            (now, _) => function(now.ok_or(Error::Closed)),
        }
    }

    /// To wait for it beside others.
    #[inline]
    pub fn awaited(&self) -> Awaited<'_> {
        What::of(self.under_way())
    }

    #[inline]
    fn under_way(&self) -> Option<&Owned> {
        self.owned.as_ref().filter(|_| self.now.is_none())
    }

    /// Submits another one, in the same memory if it can.
    ///
    /// # Safety
    /// As [`Session::isend_raw`] or [`Session::irecv_raw`].
    unsafe fn submit(&mut self, session: &Session, request: Request) -> Result<(), Error> {
        if !self.is_over() {
            return Err(Error::Active);
        }
        // In both ways the caller's promise holds, and nobody else has the handle.
        match self.owned.as_ref().filter(|owned| owned.is_of(session.inner())) {
            // SAFETY: as said; it is over, so this says true.
            Some(owned) => drop(unsafe { owned.restart(request) }),
            // SAFETY: as said.
            None => self.owned = Some(unsafe { Owned::submit(request, session.inner()) }),
        }
        self.now = None;
        Ok(())
    }

    /// As [`Session::isend_raw`], in this place; always a request of its own: see [`Session::send_at_once`].
    ///
    /// # Safety
    /// As [`Session::isend_raw`].
    ///
    /// # Errors
    /// As [`Session::isend_raw`]; [`Error::Active`]: the last one is not over.
    pub unsafe fn send(
        &mut self,
        session: &Session,
        to: u32,
        tag: u64,
        data: Memory,
        synchronous: bool,
    ) -> Result<(), Error> {
        session.check(Some(to), tag)?;
        // SAFETY: the caller's promise.
        let mut request = unsafe { data.send(to, tag, false) };
        if synchronous {
            request = request.synchronous();
        }
        // SAFETY: the caller's promise.
        unsafe { self.submit(session, request) }
    }

    /// As [`Session::irecv_raw`], in this place.
    ///
    /// # Safety
    /// As [`Session::irecv_raw`].
    ///
    /// # Errors
    /// As [`Session::irecv_raw`]; [`Error::Active`]: the last one is not over.
    pub unsafe fn recv(
        &mut self,
        session: &Session,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        into: Memory,
    ) -> Result<(), Error> {
        let (from, (tag, mask)) = session.check_source(from.into(), tag.into())?;
        // SAFETY: the caller's promise.
        unsafe { self.submit(session, into.recv(from, tag, false).masked(mask)) }
    }

    /// As [`Message::irecv`], in this place.
    ///
    /// # Safety
    /// As [`Session::irecv_raw`].
    ///
    /// # Errors
    /// [`Error::Active`]: the last one is not over; then the message goes back where it was.
    pub unsafe fn recv_message(&mut self, message: Message, into: Memory) -> Result<(), Error> {
        if !self.is_over() {
            return Err(Error::Active);
        }
        let status = message.status();
        let (session, cell) = message.give_up();
        // SAFETY: the caller's promise.
        unsafe { self.submit(&session, into.recv(status.source, status.tag, false).of(cell)) }
    }
}

impl Waited for RawRequest {
    fn awaited(&self, _: Seal) -> Awaited<'_> {
        RawRequest::awaited(self)
    }
}

impl std::fmt::Debug for RawRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawRequest").field("over", &self.is_over()).finish()
    }
}

impl Session {
    /// As [`Session::send`] (as [`Session::ssend`], if `synchronous`).
    ///
    /// # Safety
    /// Until this returns, or unwinds, the memory (and the list of its pieces) stays readable and unchanged.
    ///
    /// # Errors
    /// As [`Session::send`].
    #[inline]
    pub unsafe fn send_raw(
        &self,
        to: u32,
        tag: u64,
        data: Memory,
        synchronous: bool,
    ) -> Result<(), Error> {
        self.check(Some(to), tag)?;
        if let (Memory::Whole(at, len), false) = (data, synchronous) {
            let at = if len == 0 { std::ptr::dangling() } else { at.cast_const() };
            // SAFETY: the caller's promise.
            return self.send_unchecked(to, tag, unsafe { std::slice::from_raw_parts(at, len) });
        }
        // SAFETY: the caller's promise, and `complete` returns or unwinds only after the request is over.
        let mut request = unsafe { data.send(to, tag, true) };
        if synchronous {
            request = request.synchronous();
        }
        self.complete(&mut request).map(drop)
    }

    /// As [`Session::recv`].
    ///
    /// # Safety
    /// Until this returns, or unwinds, the memory stays writable and nobody else touches it; the list of its pieces stays
    /// as it is.
    ///
    /// # Errors
    /// As [`Session::recv`].
    #[inline]
    pub unsafe fn recv_raw(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        into: Memory,
    ) -> Result<Status, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        // SAFETY: the caller's promise, and `complete` returns or unwinds only after the request is over.
        let mut request = unsafe { into.recv(from, tag, true) }.masked(mask);
        self.complete(&mut request)
    }

    /// Sends a short message without a request, if nothing hinders; whether it did. If not, nothing was done.
    ///
    /// # Safety
    /// During the call the memory is readable and unchanged.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    #[inline]
    pub unsafe fn send_at_once(&self, to: u32, tag: u64, data: Memory) -> Result<bool, Error> {
        self.check(Some(to), tag)?;
        let engine = &self.inner().engine;
        let Memory::Whole(at, len) = data else { return Ok(false) };
        if engine.offload.wants_send(len) {
            return Ok(false);
        }
        let at = if len == 0 { std::ptr::dangling() } else { at.cast_const() };
        // SAFETY: the caller's promise.
        Ok(engine.send_now(to, tag, unsafe { std::slice::from_raw_parts(at, len) }))
    }

    /// As [`Session::isend`] (as [`Session::issend`], if `synchronous`).
    ///
    /// # Safety
    /// Until the request is over, even if it is forgotten, the memory (and the list of its pieces) stays readable and
    /// unchanged.
    ///
    /// # Errors
    /// As [`Session::isend`].
    #[inline]
    pub unsafe fn isend_raw(
        &self,
        to: u32,
        tag: u64,
        data: Memory,
        synchronous: bool,
    ) -> Result<RawRequest, Error> {
        let mut request = RawRequest::idle();
        // SAFETY: the caller's promise.
        unsafe {
            if !synchronous && self.send_at_once(to, tag, data)? {
                request.now = Some(Status { source: self.rank(), tag, len: data.len() });
            } else {
                request.send(self, to, tag, data, synchronous)?;
            }
        }
        Ok(request)
    }

    /// As [`Session::irecv`].
    ///
    /// # Safety
    /// Until the request is over, even if it is forgotten, the memory stays writable and nobody else touches it; the list of
    /// its pieces stays as it is.
    ///
    /// # Errors
    /// As [`Session::irecv`].
    #[inline]
    pub unsafe fn irecv_raw(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        into: Memory,
    ) -> Result<RawRequest, Error> {
        let mut request = RawRequest::idle();
        // SAFETY: the caller's promise.
        unsafe { request.recv(self, from, tag, into)? };
        Ok(request)
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
