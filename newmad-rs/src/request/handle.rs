//! Requests that own their buffers: what `isend` and `irecv` return.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use pioman::Point;

use crate::Status;
use crate::error::Error;
use crate::request::Request;
use crate::session::Inner;

/// A request in a box of its own. Dropping it waits for the request (or takes back a receive that nothing has
/// matched); forgetting it leaks it with everything it needs.
pub(crate) struct Owned {
    request: NonNull<Request>,
    session: Arc<Inner>,
}

// SAFETY: the handle's own accesses are atomic, or follow the end of the request.
unsafe impl Send for Owned {}
// SAFETY: `&Owned` only looks at atomics.
unsafe impl Sync for Owned {}

impl Owned {
    /// Submits the request.
    ///
    /// # Safety
    /// The memory that the request names stays valid and untouched until the request is finished, even if the
    /// handle is forgotten.
    pub(crate) unsafe fn submit(request: Request, session: &Arc<Inner>) -> Owned {
        let request = NonNull::from(Box::leak(Box::new(request)));
        // SAFETY: in a box that is freed only after its end; the rest is the caller's promise.
        unsafe { session.engine.submit(request) };
        let owned = Owned { request, session: session.clone() };
        if !owned.is_finished() {
            session.manager.left_pending();
        }
        owned
    }

    fn is_finished(&self) -> bool {
        // SAFETY: freed by `drop` only.
        unsafe { self.request.as_ref() }.is_finished()
    }

    /// Whether it is over, after a look for events if it is not.
    pub(crate) fn test(&self) -> bool {
        self.is_finished() || (self.session.manager.poll(Point::Library) && self.is_finished())
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) -> Result<Status, Error> {
        // SAFETY: we are its owner, and it lives until `drop`.
        unsafe {
            self.session.engine.wait(self.request, &self.session.manager);
            self.request.as_ref().result()
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.is_finished() {
            // SAFETY: we are its owner.
            unsafe {
                self.session.engine.cancel(self.request);
                self.session.engine.wait(self.request, &self.session.manager);
            }
        }
        // SAFETY: boxed in `submit`, finished, and nobody else's.
        drop(unsafe { Box::from_raw(self.request.as_ptr()) });
    }
}

/// A buffer whose memory is lent to the engine: touched again only after the request's end.
struct Lent(ManuallyDrop<Vec<u8>>);

/// A send that goes on; see [`crate::Session::isend`]. Dropping it waits for its end.
#[must_use = "dropping a send waits for its end"]
pub struct SendRequest {
    // Dropped first: waits until the buffer is free again.
    owned: Option<Owned>,
    buffer: Lent,
}

/// A receive that goes on; see [`crate::Session::irecv`]. Dropping it takes it back if no message has matched
/// it, and waits for its message otherwise.
#[must_use = "dropping a receive cancels it"]
pub struct RecvRequest {
    // Dropped first: waits until the buffer is free again.
    owned: Option<Owned>,
    buffer: Lent,
}

impl Lent {
    fn take(&mut self) -> Vec<u8> {
        // An empty vector is left behind; dropping that, or not, is the same.
        std::mem::take(&mut *self.0)
    }
}

impl Drop for SendRequest {
    fn drop(&mut self) {
        drop(self.owned.take());
        drop(self.buffer.take());
    }
}

impl Drop for RecvRequest {
    fn drop(&mut self) {
        drop(self.owned.take());
        drop(self.buffer.take());
    }
}

impl SendRequest {
    pub(crate) fn start(session: &Arc<Inner>, to: u32, tag: u64, data: Vec<u8>) -> SendRequest {
        let mut buffer = Lent(ManuallyDrop::new(data));
        let data =
            std::ptr::slice_from_raw_parts(buffer.0.as_mut_ptr().cast_const(), buffer.0.len());
        // SAFETY: the vector's memory neither moves nor is freed nor written before the request's end: the
        // handle drops the request first, and forgetting the handle leaks the vector too.
        let owned = unsafe { Owned::submit(Request::send(to, tag, data, false), session) };
        SendRequest { owned: Some(owned), buffer }
    }

    /// Waits until the buffer is free again, and gives it back.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread, until the message has left (a short one) or has been received (a long one).
    /// # Errors
    /// [`Error::PeerDied`], [`Error::Closed`].
    pub fn wait(mut self) -> Result<Vec<u8>, Error> {
        match self.owned.take() {
            Some(owned) => owned.wait()?,
            None => return Err(Error::Closed),
        };
        Ok(self.buffer.take())
    }

    /// Whether it is over. Looks for events if it is not.
    pub fn test(&mut self) -> bool {
        self.owned.as_ref().is_none_or(Owned::test)
    }
}

impl RecvRequest {
    pub(crate) fn start(session: &Arc<Inner>, from: u32, tag: u64, buffer: Vec<u8>) -> RecvRequest {
        let mut buffer = Lent(ManuallyDrop::new(buffer));
        let memory = std::ptr::slice_from_raw_parts_mut(buffer.0.as_mut_ptr(), buffer.0.len());
        // SAFETY: the vector's memory neither moves nor is freed nor touched before the request's end: the
        // handle drops the request first, and forgetting the handle leaks the vector too.
        let owned = unsafe { Owned::submit(Request::recv(from, tag, memory, false), session) };
        RecvRequest { owned: Some(owned), buffer }
    }

    /// Waits for the message; gives the buffer back, whose first `Status::len` bytes are the message.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread, until the message is there.
    /// # Errors
    /// [`Error::Truncated`], [`Error::PeerDied`], [`Error::Closed`].
    pub fn wait(mut self) -> Result<(Vec<u8>, Status), Error> {
        let status = match self.owned.take() {
            Some(owned) => owned.wait()?,
            None => return Err(Error::Closed),
        };
        Ok((self.buffer.take(), status))
    }

    /// Whether it is over. Looks for events if it is not.
    pub fn test(&mut self) -> bool {
        self.owned.as_ref().is_none_or(Owned::test)
    }
}

impl std::fmt::Debug for SendRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SendRequest")
    }
}

impl std::fmt::Debug for RecvRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecvRequest")
    }
}
