//! Sends from and receives into several pieces of memory: see [`crate::memory::layout`].

use std::io::{IoSlice, IoSliceMut};

use super::Session;
use crate::error::Error;
use crate::memory::layout::Layout;
use crate::request::Request;
use crate::{Origin, Scope, ScopedRequest, Status, Strided, Tag};

/// Bytes of the message.
fn len(layout: Strided, memory: usize) -> Result<usize, Error> {
    layout.len(memory).ok_or(Error::BadLayout { layout, memory })
}

fn strided(data: &[u8], layout: Strided) -> Result<Layout, Error> {
    Ok(Layout::strided(data.as_ptr().cast_mut(), layout, len(layout, data.len())?))
}

fn strided_mut(buffer: &mut [u8], layout: Strided) -> Result<Layout, Error> {
    let len = len(layout, buffer.len())?;
    Ok(Layout::strided(buffer.as_mut_ptr(), layout, len))
}

impl Session {
    /// As [`Session::send`]: one message, gathered from `pieces`.
    ///
    /// ```
    /// use std::io::{IoSlice, IoSliceMut};
    /// newmad::run(|session| {
    ///     session.send_vectored(0, 1, &[IoSlice::new(b"head"), IoSlice::new(b"body")])?;
    ///     let (mut start, mut rest) = ([0; 2], [0; 8]);
    ///     let mut pieces = [IoSliceMut::new(&mut start), IoSliceMut::new(&mut rest)];
    ///     assert_eq!(session.recv_vectored(0, 1, &mut pieces)?.len, 8);
    ///     assert_eq!((&start, &rest[..6]), (b"he", &b"adbody"[..]));
    ///     Ok::<(), newmad::Error>(())
    /// })??;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Context, Blocking, Errors
    /// As [`Session::send`].
    pub fn send_vectored(&self, to: u32, tag: u64, pieces: &[IoSlice<'_>]) -> Result<(), Error> {
        self.check(Some(to), tag)?;
        // SAFETY: list and pieces are borrowed until `complete` returns, when the request is over.
        let mut request =
            unsafe { Request::send_scattered(to, tag, Layout::of_slices(pieces), true) };
        self.complete(&mut request).map(drop)
    }

    /// As [`Session::recv`]: one message, spread over `pieces`, the first ones first.
    ///
    /// # Context, Blocking, Errors
    /// As [`Session::recv`].
    pub fn recv_vectored(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        pieces: &mut [IoSliceMut<'_>],
    ) -> Result<Status, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        // SAFETY: list and pieces are borrowed exclusively until `complete` returns, when the request is over.
        let request =
            unsafe { Request::recv_scattered(from, tag, Layout::of_slices_mut(pieces), true) };
        self.complete(&mut request.masked(mask))
    }

    /// As [`Session::send`]: one message, gathered from the blocks of `data`, whose first begins there.
    ///
    /// # Context, Blocking
    /// As [`Session::send`].
    /// # Errors
    /// As [`Session::send`]; [`Error::BadLayout`].
    pub fn send_strided(
        &self,
        to: u32,
        tag: u64,
        data: &[u8],
        layout: Strided,
    ) -> Result<(), Error> {
        self.check(Some(to), tag)?;
        let layout = strided(data, layout)?;
        // SAFETY: `data` is borrowed until `complete` returns, when the request is over.
        let mut request = unsafe { Request::send_scattered(to, tag, layout, true) };
        self.complete(&mut request).map(drop)
    }

    /// As [`Session::recv`]: one message, spread over the blocks of `buffer`; what is between them is not touched.
    ///
    /// # Context, Blocking
    /// As [`Session::recv`].
    /// # Errors
    /// As [`Session::recv`]; [`Error::BadLayout`].
    pub fn recv_strided(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: &mut [u8],
        layout: Strided,
    ) -> Result<Status, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        let layout = strided_mut(buffer, layout)?;
        // SAFETY: `buffer` is borrowed exclusively until `complete` returns, when the request is over.
        let request = unsafe { Request::recv_scattered(from, tag, layout, true) };
        self.complete(&mut request.masked(mask))
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// As [`Scope::isend`]: one message, gathered from `pieces`.
    ///
    /// # Errors
    /// As [`Scope::isend`].
    pub fn isend_vectored(
        &'scope self,
        to: u32,
        tag: u64,
        pieces: &'env [IoSlice<'env>],
    ) -> Result<ScopedRequest<'scope, 'env>, Error> {
        self.session().check(Some(to), tag)?;
        // SAFETY: borrowed until the scope's end, which waits for the request.
        Ok(self
            .start(unsafe { Request::send_scattered(to, tag, Layout::of_slices(pieces), false) }))
    }

    /// As [`Scope::irecv`]: one message, spread over `pieces`.
    ///
    /// # Errors
    /// As [`Scope::irecv`].
    pub fn irecv_vectored<'piece: 'env>(
        &'scope self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        pieces: &'env mut [IoSliceMut<'piece>],
    ) -> Result<ScopedRequest<'scope, 'env>, Error> {
        let (from, (tag, mask)) = self.session().check_source(from.into(), tag.into())?;
        // SAFETY: borrowed exclusively until the scope's end, which waits for the request.
        let request =
            unsafe { Request::recv_scattered(from, tag, Layout::of_slices_mut(pieces), false) };
        Ok(self.start(request.masked(mask)))
    }

    /// As [`Scope::isend`]: one message, gathered from the blocks of `data`.
    ///
    /// # Errors
    /// As [`Scope::isend`]; [`Error::BadLayout`].
    pub fn isend_strided(
        &'scope self,
        to: u32,
        tag: u64,
        data: &'env [u8],
        layout: Strided,
    ) -> Result<ScopedRequest<'scope, 'env>, Error> {
        self.session().check(Some(to), tag)?;
        let layout = strided(data, layout)?;
        // SAFETY: borrowed until the scope's end, which waits for the request.
        Ok(self.start(unsafe { Request::send_scattered(to, tag, layout, false) }))
    }

    /// As [`Scope::irecv`]: one message, spread over the blocks of `buffer`.
    ///
    /// # Errors
    /// As [`Scope::irecv`]; [`Error::BadLayout`].
    pub fn irecv_strided(
        &'scope self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: &'env mut [u8],
        layout: Strided,
    ) -> Result<ScopedRequest<'scope, 'env>, Error> {
        let (from, (tag, mask)) = self.session().check_source(from.into(), tag.into())?;
        let layout = strided_mut(buffer, layout)?;
        // SAFETY: borrowed exclusively until the scope's end, which waits for the request.
        let request = unsafe { Request::recv_scattered(from, tag, layout, false) };
        Ok(self.start(request.masked(mask)))
    }
}
