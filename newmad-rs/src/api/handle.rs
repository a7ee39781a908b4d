//! Requests that own their buffers: what `isend` and `irecv` return.

use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::Status;
use crate::api::errand::Errand;
use crate::api::several::{Awaited, Seal, Waited, What};
use crate::error::Error;
use crate::request::Request;
use crate::session::Inner;

/// What a request that nobody has a handle to calls at its end.
type End = Box<dyn FnOnce(Result<Status, Error>) + Send>;

/// A request in a box of its own. Dropping it waits for the request (or takes back a receive that nothing has
/// matched); forgetting it leaks it with everything it needs.
pub(crate) struct Owned {
    boxed: NonNull<Boxed>,
    session: Arc<Inner>,
}

#[repr(C)]
struct Boxed {
    errand: Errand,
    end: Cell<Option<End>>,
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
        let owned = Owned::new(request.attended(), session);
        // SAFETY: in a box that is freed only after its end; the rest is the caller's promise.
        unsafe { session.engine.submit_and_leave(owned.pointer(), &session.manager) };
        owned
    }

    fn new(request: Request, session: &Arc<Inner>) -> Owned {
        let boxed = Boxed { errand: Errand::new(&session.engine, request), end: Cell::new(None) };
        Owned { boxed: NonNull::from(Box::leak(Box::new(boxed))), session: session.clone() }
    }

    /// A place for requests that come one after the other: see [`Owned::restart`].
    pub(crate) fn idle(session: &Arc<Inner>) -> Owned {
        Owned::new(Request::over(), session)
    }

    /// Submits another request, in the same place. False: the last one is not over, and nothing was done.
    ///
    /// # Safety
    /// As [`Owned::submit`]; and the handle is not in use elsewhere.
    pub(crate) unsafe fn restart(&self, request: Request) -> bool {
        if !self.is_finished() {
            return false;
        }
        // SAFETY: the last one is over, so the place is ours; it stays where it is until this one is over.
        unsafe {
            Errand::forget_waker(self.boxed.cast());
            *self.pointer().as_ptr() = request.attended();
            self.session.engine.submit_and_leave(self.pointer(), &self.session.manager);
        }
        true
    }

    /// Whether its memory is that session's.
    pub(crate) fn is_of(&self, session: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Its request, which may be under way.
    pub(crate) fn request(&self) -> &Request {
        self.errand().request()
    }

    /// Its request and session, for a wait for several.
    pub(crate) fn parts(&self) -> (NonNull<Request>, &Inner) {
        (self.pointer(), &self.session)
    }

    fn errand(&self) -> &Errand {
        // SAFETY: freed by `drop`, or given up by `detach`, only.
        unsafe { &self.boxed.as_ref().errand }
    }

    fn pointer(&self) -> NonNull<Request> {
        Errand::pointer(self.boxed.cast())
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.errand().request().is_finished()
    }

    /// Whether it is over, after a look for events if it is not.
    pub(crate) fn test(&self) -> bool {
        self.is_finished() || (self.session.look() && self.is_finished())
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) -> Result<Status, Error> {
        // SAFETY: we are its owner, and it lives until `drop`.
        unsafe { self.session.engine.wait(self.pointer(), &self.session.manager) };
        self.errand().result()
    }

    /// Takes a receive back; whether that was possible.
    pub(crate) fn cancel(&self) -> bool {
        // SAFETY: we are its owner.
        unsafe { self.session.engine.cancel(self.pointer()) }
    }

    /// Whether it is over; if not, the waker is called when it is worth another look.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Status, Error>> {
        let attended = self.request().attended.get();
        // SAFETY: the borrow is exclusive, and the box stays until it is over.
        if unsafe { self.errand().poll(context) } {
            return Poll::Ready(self.errand().result());
        }
        if attended {
            // Its waker is to be called from now on, whoever looks for events.
            self.session.engine.have_watched(&self.session.manager);
        }
        Poll::Pending
    }

    /// Gives the request up; `end` is called when it is over, at once if it is. Without a handle it does not keep its
    /// session open.
    pub(crate) fn detach(self, end: End) {
        let this = ManuallyDrop::new(self);
        // SAFETY: not used again.
        let session = unsafe { core::ptr::read(&raw const this.session) };
        // SAFETY: boxed in `submit`; nobody has a handle any more; `ended` frees it.
        unsafe {
            this.boxed.as_ref().end.set(Some(end));
            // What the waker of a future waited for is not asked for any more.
            Errand::forget_waker(this.boxed.cast());
            if Errand::watch(this.boxed.cast(), &session.manager, ended) {
                ended(this.boxed.cast());
            }
        }
    }
}

/// A detached request is over.
///
/// # Safety
/// As [`crate::api::errand::Then`]; the errand is the first field of a `Boxed`.
unsafe fn ended(errand: NonNull<Errand>) {
    // SAFETY: boxed in `submit`, given up by `detach`.
    let boxed = unsafe { Box::from_raw(errand.cast::<Boxed>().as_ptr()) };
    let (result, end) = (boxed.errand.result(), boxed.end.take());
    drop(boxed);
    if let Some(end) = end {
        end(result);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.is_finished() {
            // SAFETY: we are its owner.
            unsafe {
                self.session.engine.cancel(self.pointer());
                self.session.engine.wait(self.pointer(), &self.session.manager);
            }
        }
        // SAFETY: boxed in `submit`, finished, and nobody else's.
        drop(unsafe { Box::from_raw(self.boxed.as_ptr()) });
    }
}

/// A buffer whose memory is lent to the engine: touched again only after the request's end.
pub(crate) struct Lent(ManuallyDrop<Vec<u8>>);

/// A send that goes on; see [`crate::Session::isend`]. Dropping it waits for its end.
#[must_use = "dropping a send waits for its end"]
pub struct SendRequest {
    // Dropped first: waits until the buffer is free again.
    owned: Option<Owned>,
    /// The message left at once: there is no request, and nobody was told yet.
    sent: bool,
    buffer: Lent,
}

/// A receive that goes on; see [`crate::Session::irecv`]. Dropping it takes it back if no message has matched
/// it, and waits for its message otherwise.
#[must_use = "dropping a receive cancels it"]
pub struct RecvRequest {
    // Dropped first: waits until the buffer is free again.
    owned: Option<Owned>,
    /// The message was there at once: there is no request, and nobody was told yet.
    got: Option<Status>,
    buffer: Lent,
}

impl Lent {
    pub(crate) fn new(buffer: Vec<u8>) -> Lent {
        Lent(ManuallyDrop::new(buffer))
    }

    /// Where it is.
    pub(crate) fn memory(&mut self) -> *mut [u8] {
        std::ptr::slice_from_raw_parts_mut(self.0.as_mut_ptr(), self.0.len())
    }

    /// The buffer, when it is not lent now.
    pub(crate) fn get(&mut self) -> &mut [u8] {
        &mut self.0
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        // An empty vector is left behind; dropping that, or not, is the same.
        std::mem::take(&mut *self.0)
    }

    /// To another owner; the memory stays where it is, and lent.
    fn move_out(&mut self) -> Lent {
        Lent(ManuallyDrop::new(self.take()))
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
    /// A send like any other. A short message for which the way is free needs no request.
    #[inline]
    pub(crate) fn plain(session: &Arc<Inner>, to: u32, tag: u64, data: Vec<u8>) -> SendRequest {
        let engine = &session.engine;
        if !engine.offload.wants_send(data.len()) && engine.send_now(to, tag, &data) {
            return SendRequest { owned: None, sent: true, buffer: Lent::new(data) };
        }
        SendRequest::start(session, to, tag, data, |request| request)
    }

    pub(crate) fn start(
        session: &Arc<Inner>,
        to: u32,
        tag: u64,
        data: Vec<u8>,
        kind: impl FnOnce(Request) -> Request,
    ) -> SendRequest {
        let mut buffer = Lent(ManuallyDrop::new(data));
        let data =
            std::ptr::slice_from_raw_parts(buffer.0.as_mut_ptr().cast_const(), buffer.0.len());
        // SAFETY: the vector's memory neither moves nor is freed nor written before the request's end: the
        // handle drops the request first, and forgetting the handle leaks the vector too.
        let owned = unsafe { Owned::submit(kind(Request::send(to, tag, data, false)), session) };
        SendRequest { owned: Some(owned), sent: false, buffer }
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
            Some(owned) => drop(owned.wait()?),
            None => self.tell()?,
        }
        Ok(self.buffer.take())
    }

    /// There is no request: what came of it, once.
    fn tell(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.sent) { Ok(()) } else { Err(Error::Closed) }
    }

    /// Whether it is over. Looks for events if it is not.
    pub fn test(&mut self) -> bool {
        self.owned.as_ref().is_none_or(Owned::test)
    }

    /// Has `function` called when it is over, with what [`SendRequest::wait`] would return: at once, if it is over
    /// already; or else by whoever finds its end, or by a kernel thread of the library's. It must not block: others
    /// wait behind it. It may use the session. Without a handle the request does not keep the session open: if that
    /// closes first, the function is told [`Error::Closed`].
    ///
    /// # Panics
    /// When `function` does, if it is called at once; later panics are reported and end there.
    pub fn on_done(mut self, function: impl FnOnce(Result<Vec<u8>, Error>) + Send + 'static) {
        let mut buffer = self.buffer.move_out();
        match self.owned.take() {
            Some(owned) => {
                owned.detach(Box::new(move |result| {
                    let buffer = buffer.take();
                    function(result.map(|_| buffer));
                }));
            }
            None => function(self.tell().map(|()| buffer.take())),
        }
    }
}

impl Future for SendRequest {
    type Output = Result<Vec<u8>, Error>;

    /// As [`SendRequest::wait`], for any executor. A future that has ended and is polled again has [`Error::Closed`].
    /// Dropped before its end it waits, as the request does.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(owned) = self.owned.as_mut() else {
            return Poll::Ready(self.tell().map(|()| self.buffer.take()));
        };
        let Poll::Ready(result) = owned.poll(context) else { return Poll::Pending };
        drop(self.owned.take());
        Poll::Ready(result.map(|_| self.buffer.take()))
    }
}

impl RecvRequest {
    /// A receive like any other. A short message that is there needs no request.
    #[inline]
    pub(crate) fn plain(
        session: &Arc<Inner>,
        from: u32,
        tag: (u64, u64),
        mut buffer: Vec<u8>,
    ) -> RecvRequest {
        if let Some(len) = session.engine.recv_now(from, tag, &mut buffer, &session.manager) {
            let got = Some(Status { source: from, tag: tag.0, len });
            return RecvRequest { owned: None, got, buffer: Lent::new(buffer) };
        }
        RecvRequest::start(session, buffer, |memory| {
            // SAFETY: the promise of `RecvRequest::start`.
            unsafe { Request::recv(from, tag.0, memory, false) }.masked(tag.1)
        })
    }

    /// `make` is to build the request under the promise that the memory is exclusive and stays until its end.
    pub(crate) fn start(
        session: &Arc<Inner>,
        buffer: Vec<u8>,
        make: impl FnOnce(*mut [u8]) -> Request,
    ) -> RecvRequest {
        let mut buffer = Lent(ManuallyDrop::new(buffer));
        let memory = std::ptr::slice_from_raw_parts_mut(buffer.0.as_mut_ptr(), buffer.0.len());
        // SAFETY: the vector's memory neither moves nor is freed nor touched before the request's end: the
        // handle drops the request first, and forgetting the handle leaks the vector too.
        let owned = unsafe { Owned::submit(make(memory), session) };
        RecvRequest { owned: Some(owned), got: None, buffer }
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
            None => self.tell()?,
        };
        Ok((self.buffer.take(), status))
    }

    /// There is no request: what has come, once.
    fn tell(&mut self) -> Result<Status, Error> {
        self.got.take().ok_or(Error::Closed)
    }

    /// Whether it is over. Looks for events if it is not.
    pub fn test(&mut self) -> bool {
        self.owned.as_ref().is_none_or(Owned::test)
    }

    /// Takes it back if no message has matched it: gives the buffer back, which nothing was written to. Otherwise, or if it
    /// is over already, it goes on as before.
    ///
    /// ```
    /// newmad::run(|session| {
    ///     let receive = session.irecv(0, 1, vec![0; 8])?;
    ///     assert!(receive.cancel().is_ok());
    ///     let receive = session.irecv(0, 1, vec![0; 8])?;
    ///     session.send(0, 1, b"too late")?;
    ///     let receive = receive.cancel().unwrap_err();
    ///     assert_eq!(receive.wait()?.0, b"too late");
    ///     Ok::<(), newmad::Error>(())
    /// })??;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// For as long as the engine is held by another thread.
    /// # Errors
    /// The request itself: it was matched, or has ended.
    pub fn cancel(mut self) -> Result<Vec<u8>, RecvRequest> {
        match self.owned.take() {
            Some(owned) if owned.cancel() => {
                drop(owned);
                Ok(self.buffer.take())
            }
            owned => {
                self.owned = owned;
                Err(self)
            }
        }
    }

    /// Has `function` called when it is over, with what [`RecvRequest::wait`] would return; see
    /// [`SendRequest::on_done`].
    ///
    /// ```
    /// newmad::run(|session| {
    ///     let (tell, told) = std::sync::mpsc::channel();
    ///     session.irecv(0, 1, vec![0; 8])?.on_done(move |result| tell.send(result).unwrap());
    ///     session.send(0, 1, b"ball")?;
    ///     let (buffer, status) = told.recv().unwrap()?;
    ///     assert_eq!(&buffer[..status.len], b"ball");
    ///     Ok::<(), newmad::Error>(())
    /// })??;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`SendRequest::on_done`].
    pub fn on_done(
        mut self,
        function: impl FnOnce(Result<(Vec<u8>, Status), Error>) + Send + 'static,
    ) {
        let mut buffer = self.buffer.move_out();
        match self.owned.take() {
            Some(owned) => owned.detach(Box::new(move |result| {
                let buffer = buffer.take();
                function(result.map(|status| (buffer, status)));
            })),
            None => function(self.tell().map(|status| (buffer.take(), status))),
        }
    }
}

impl Future for RecvRequest {
    type Output = Result<(Vec<u8>, Status), Error>;

    /// As [`RecvRequest::wait`], for any executor. A future that has ended and is polled again has [`Error::Closed`].
    /// Dropped before its end it is taken back, or waits, as the request does.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(owned) = self.owned.as_mut() else {
            return Poll::Ready(self.tell().map(|status| (self.buffer.take(), status)));
        };
        let Poll::Ready(result) = owned.poll(context) else { return Poll::Pending };
        drop(self.owned.take());
        Poll::Ready(result.map(|status| (self.buffer.take(), status)))
    }
}

impl Waited for SendRequest {
    fn awaited(&self, _: Seal) -> Awaited<'_> {
        What::of(self.owned.as_ref())
    }
}

impl Waited for RecvRequest {
    fn awaited(&self, _: Seal) -> Awaited<'_> {
        What::of(self.owned.as_ref())
    }
}

impl std::fmt::Debug for Owned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Owned")
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
