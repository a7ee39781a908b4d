//! Requests on raw memory: what bindings to other languages are made of, whose programs look after their buffers
//! themselves. The rules that the owned and scoped requests of this crate keep for a program are the caller's here.

use crate::error::Error;
use crate::matching::Message;
use crate::request::Request;
use crate::request::handle::Owned;
use crate::request::layout::Layout;
use crate::request::several::{Seal, Waited};
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
    fn send(self, to: u32, tag: u64, waits: bool) -> Request {
        match self {
            Memory::Whole(at, len) => {
                let data = std::ptr::slice_from_raw_parts(at.cast_const(), len);
                // SAFETY: what the callers of this module promise.
                unsafe { Request::send(to, tag, data, waits) }
            }
            Memory::Pieces { list, count, len } => {
                // SAFETY: as above.
                unsafe { Request::send_scattered(to, tag, Layout::list(list, count, len), waits) }
            }
        }
    }

    fn recv(self, from: u32, tag: u64, waits: bool) -> Request {
        match self {
            Memory::Whole(at, len) => {
                let buffer = std::ptr::slice_from_raw_parts_mut(at, len);
                // SAFETY: what the callers of this module promise.
                unsafe { Request::recv(from, tag, buffer, waits) }
            }
            Memory::Pieces { list, count, len } => {
                // SAFETY: as above.
                unsafe { Request::recv_scattered(from, tag, Layout::list(list, count, len), waits) }
            }
        }
    }
}

/// A request on raw memory that goes on. Dropping it waits for its end, or takes a receive back that nothing has matched.
#[must_use = "dropping it waits for a send, and takes a receive back"]
pub struct RawRequest {
    /// `None`: it was over at once.
    owned: Option<Owned>,
    status: Status,
}

impl RawRequest {
    /// Whether it is over; does not look for events.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.owned.as_ref().is_none_or(Owned::is_finished)
    }

    /// Whether it is over, after a look for events if it is not.
    #[inline]
    pub fn test(&self) -> bool {
        self.owned.as_ref().is_none_or(Owned::test)
    }

    /// Waits for its end. What came of it stays to be asked for again.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::Truncated`], [`Error::PeerDied`], [`Error::Cancelled`], [`Error::Closed`].
    #[inline]
    pub fn wait(&self) -> Result<Status, Error> {
        self.owned.as_ref().map_or(Ok(self.status), Owned::wait)
    }

    /// Takes a receive back; whether that was possible. It is over then.
    pub fn cancel(&self) -> bool {
        self.owned.as_ref().is_some_and(Owned::cancel)
    }
}

impl Waited for RawRequest {
    fn owned(&self, _: Seal) -> Option<&Owned> {
        self.owned.as_ref()
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
        let mut request = data.send(to, tag, true);
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
        let mut request = into.recv(from, tag, true).masked(mask);
        self.complete(&mut request)
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
        self.check(Some(to), tag)?;
        let engine = &self.inner().engine;
        let status = |len| Status { source: self.rank(), tag, len };
        if let (Memory::Whole(at, len), false) = (data, synchronous)
            && !engine.offload.wants_send(len)
        {
            let at = if len == 0 { std::ptr::dangling() } else { at.cast_const() };
            // SAFETY: the caller's promise.
            if engine.send_now(to, tag, unsafe { std::slice::from_raw_parts(at, len) }) {
                return Ok(RawRequest { owned: None, status: status(len) });
            }
        }
        let mut request = data.send(to, tag, false);
        if synchronous {
            request = request.synchronous();
        }
        let len = request.capacity;
        // SAFETY: the caller's promise.
        let owned = unsafe { Owned::submit(request, self.inner()) };
        Ok(RawRequest { owned: Some(owned), status: status(len) })
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
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        // SAFETY: the caller's promise.
        let owned =
            unsafe { Owned::submit(into.recv(from, tag, false).masked(mask), self.inner()) };
        Ok(RawRequest { owned: Some(owned), status: Status { source: self.rank(), tag, len: 0 } })
    }
}

impl Message {
    /// As [`Message::irecv`].
    ///
    /// # Safety
    /// As [`Session::irecv_raw`].
    pub unsafe fn irecv_raw(self, into: Memory) -> RawRequest {
        let status = self.status();
        let (session, cell) = self.give_up();
        let request = into.recv(status.source, status.tag, false).of(cell);
        // SAFETY: the caller's promise.
        let owned = unsafe { Owned::submit(request, session.inner()) };
        RawRequest { owned: Some(owned), status }
    }
}
