//! Sends and receives of a session.

use crate::api::buffer::{Buffer, BufferMut};
use crate::api::options::{RecvOptions, SendOptions};
use crate::api::request::{Owner, Request};
use crate::error::Error;
use crate::request::Request as EngineRequest;
use crate::session::Session;
use crate::{Origin, Status, Tag};

impl Session {
    /// Sends `data` to rank `to` and waits until it has left (a short message) or has been received (a long
    /// one).
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`], [`Error::PeerDied`], [`Error::Closed`].
    #[inline]
    pub fn send(&self, to: u32, tag: u64, data: &[u8]) -> Result<(), Error> {
        self.check(Some(to), tag)?;
        self.send_unchecked(to, tag, data)
    }

    /// As [`Session::send`], from any [`Buffer`] and in any way: [`SendOptions`]. Data in several pieces, or in blocks
    /// of a buffer, are one message.
    ///
    /// ```
    /// use newmad::{RecvOptions, SendOptions};
    /// use std::io::{IoSlice, IoSliceMut};
    /// newmad::run(|session| {
    ///     let pieces = [IoSlice::new(b"head"), IoSlice::new(b"body")];
    ///     session.send_with(0, 1, &pieces[..], SendOptions::new().priority(1))?;
    ///     let (mut start, mut rest) = ([0; 2], [0; 8]);
    ///     let mut pieces = [IoSliceMut::new(&mut start), IoSliceMut::new(&mut rest)];
    ///     assert_eq!(session.recv_with(0, 1, &mut pieces[..], RecvOptions::new())?.len, 8);
    ///     assert_eq!((&start, &rest[..6]), (b"he", &b"adbody"[..]));
    ///     Ok::<(), newmad::Error>(())
    /// })??;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// The calling thread; with [`SendOptions::sync`] until rank `to` receives the message.
    /// # Errors
    /// As [`Session::send`]; [`Error::BadLayout`].
    #[inline]
    pub fn send_with(
        &self,
        to: u32,
        tag: u64,
        data: impl Buffer,
        options: impl Into<SendOptions>,
    ) -> Result<(), Error> {
        self.check(Some(to), tag)?;
        let (memory, options) = (data.memory(), options.into());
        // SAFETY: `data` is neither touched nor dropped before this returns.
        let bytes = unsafe { memory.bytes() };
        if let Some(bytes) = bytes.filter(|_| options.is_plain()) {
            return self.send_unchecked(to, tag, bytes);
        }
        // SAFETY: as above, and `complete` returns or unwinds only after the request is over.
        let mut request = unsafe { memory.send(to, tag, options.layout, true)? };
        options.apply(&mut request);
        self.complete(&mut request).map(drop)
    }

    /// Receives a message from `from` with `tag`, or one of several ([`Tag`]), into `buffer`.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// The calling thread, until the message is there.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`], [`Error::Truncated`], [`Error::PeerDied`], [`Error::Closed`].
    #[inline]
    pub fn recv(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: &mut [u8],
    ) -> Result<Status, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        // SAFETY: `buffer` is borrowed exclusively until `complete` returns, when the request is over.
        let mut request = unsafe { EngineRequest::recv(from, tag, buffer, true) }.masked(mask);
        self.complete(&mut request)
    }

    /// As [`Session::recv`], into any [`BufferMut`] and in any way: [`RecvOptions`]. One message is spread over several
    /// pieces of memory, or blocks of a buffer, the first ones first; see [`Session::send_with`].
    ///
    /// # Context, Blocking
    /// As [`Session::recv`].
    /// # Errors
    /// As [`Session::recv`]; [`Error::BadLayout`].
    #[inline]
    pub fn recv_with(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        mut buffer: impl BufferMut,
        options: impl Into<RecvOptions>,
    ) -> Result<Status, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        let (memory, RecvOptions { layout }) = (buffer.memory_mut(), options.into());
        // SAFETY: `buffer` is neither touched nor dropped before `complete` returns or unwinds, when the request is
        // over.
        let request = unsafe { memory.recv(from, tag, layout, true)? };
        self.complete(&mut request.masked(mask))
    }

    /// Starts to send; the buffer comes back from [`Request::wait`].
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`]; others when it is waited for.
    #[inline]
    pub fn isend(&self, to: u32, tag: u64, data: impl Into<Vec<u8>>) -> Result<Request, Error> {
        self.isend_with(to, tag, data.into(), SendOptions::new())
    }

    /// As [`Session::isend`], from any [`Buffer`] that borrows nothing, and in any way: [`SendOptions`].
    ///
    /// # Context, Blocking
    /// As [`Session::isend`].
    /// # Errors
    /// As [`Session::isend`]; [`Error::BadLayout`].
    #[inline]
    pub fn isend_with<B: Buffer + 'static>(
        &self,
        to: u32,
        tag: u64,
        data: B,
        options: impl Into<SendOptions>,
    ) -> Result<Request<B>, Error> {
        let mut request = self.send_init(to, tag, data, options)?;
        request.begin(self.inner())?;
        Ok(request)
    }

    /// As [`Session::isend_with`], idle: [`Request::start`] starts it, any number of times.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    #[inline]
    pub fn send_init<B: Buffer + 'static>(
        &self,
        to: u32,
        tag: u64,
        data: B,
        options: impl Into<SendOptions>,
    ) -> Result<Request<B>, Error> {
        self.check(Some(to), tag)?;
        Ok(Request::send(Owner::NEW, to, tag, data, options.into()))
    }

    /// Starts to receive into `buffer`, whose length is its capacity; it comes back from [`Request::wait`].
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`]; others when it is waited for.
    #[inline]
    pub fn irecv(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: Vec<u8>,
    ) -> Result<Request, Error> {
        self.irecv_with(from, tag, buffer, RecvOptions::new())
    }

    /// As [`Session::irecv`], into any [`BufferMut`] that borrows nothing, and in any way: [`RecvOptions`].
    ///
    /// # Context, Blocking
    /// As [`Session::irecv`].
    /// # Errors
    /// As [`Session::irecv`]; [`Error::BadLayout`].
    #[inline]
    pub fn irecv_with<B: BufferMut + 'static>(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: B,
        options: impl Into<RecvOptions>,
    ) -> Result<Request<B>, Error> {
        let mut request = self.recv_init(from, tag, buffer, options)?;
        request.begin(self.inner())?;
        Ok(request)
    }

    /// As [`Session::irecv_with`], idle: [`Request::start`] starts it, any number of times.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    #[inline]
    pub fn recv_init<B: BufferMut + 'static>(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: B,
        options: impl Into<RecvOptions>,
    ) -> Result<Request<B>, Error> {
        let (from, tag) = self.check_source(from.into(), tag.into())?;
        Ok(Request::recv(Owner::NEW, from, tag, buffer, options.into()))
    }
}
