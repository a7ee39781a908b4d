//! Requests on borrowed buffers, inside a scope that waits for them.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use crate::api::buffer::{Borrowed, BufferMut};
use crate::api::options::{RecvOptions, SendOptions};
use crate::api::owned::Owned;
use crate::api::request::{Keep, Request};
use crate::error::Error;
use crate::request::Request as EngineRequest;
use crate::request::tag::EXACT;
use crate::session::{Inner, Session};
use crate::{Origin, Tag};

/// What [`Session::scope`] gives to its closure.
///
/// Buffers are borrowed for `'env`, which outlives the scope, so this does not compile:
/// ```compile_fail
/// # fn f(session: &newmad::Session) {
/// session.scope(|scope| {
///     let mut inside = [0; 8];
///     scope.irecv(0, 1, &mut inside)?; // the scope waits after `inside` is gone
///     Ok(())
/// });
/// # }
/// ```
/// nor does touching a buffer that is being received into:
/// ```compile_fail
/// # fn f(session: &newmad::Session) {
/// let mut buffer = [0; 8];
/// session.scope(|scope| {
///     let request = scope.irecv(0, 1, &mut buffer)?;
///     buffer[0] = 1;
///     request.wait()
/// });
/// # }
/// ```
/// nor letting a request out of its scope:
/// ```compile_fail
/// # fn f(session: &newmad::Session) {
/// let data = [0; 8];
/// let escaped = session.scope(|scope| scope.isend(0, 1, &data));
/// # }
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    session: &'scope Session,
    requests: Requests,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// What the engine has of the scope's requests: dropped, and so waited for, with the scope.
type Requests = RefCell<Vec<Owned>>;

/// A request of a [`Scope`]. Dropping it does nothing: the scope waits for the request.
pub type ScopedRequest<'scope, B> = Request<B, InScope<'scope>>;

/// The scope keeps the request: to drop its handle does nothing.
pub struct InScope<'scope> {
    requests: &'scope Requests,
    /// One of those.
    request: Option<ManuallyDrop<Owned>>,
}

impl Keep for InScope<'_> {
    fn get(&self) -> Option<&Owned> {
        self.request.as_deref()
    }

    unsafe fn submit(
        &mut self,
        session: &Arc<Inner>,
        fill: impl FnOnce(&mut MaybeUninit<EngineRequest>) -> &mut EngineRequest,
    ) {
        // SAFETY: the caller's promise, which the scope keeps: safe code cannot forget it, and it waits.
        if let Some(new) = unsafe { Owned::submit(self.get(), session, fill) } {
            // SAFETY: the scope, which drops it, outlives this.
            self.request = Some(unsafe { new.alias() });
            self.requests.borrow_mut().push(new);
        }
    }

    fn tell(&self) {
        if let Some(owned) = self.get() {
            owned.tell();
        }
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    fn new(session: &'scope Session) -> Self {
        Scope {
            session,
            requests: RefCell::new(Vec::new()),
            _scope: PhantomData,
            _env: PhantomData,
        }
    }

    /// Sends `data`, which must not change until the request is over.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`]; others when it is waited for.
    pub fn isend(
        &'scope self,
        to: u32,
        tag: u64,
        data: &'env [u8],
    ) -> Result<ScopedRequest<'scope, &'env [u8]>, Error> {
        self.isend_with(to, tag, data, SendOptions::new())
    }

    /// As [`Scope::isend`], from any borrowed buffer (bytes, or a list of pieces) and in any way.
    ///
    /// # Errors
    /// As [`Scope::isend`]; [`Error::BadLayout`].
    pub fn isend_with<B: Borrowed + 'env>(
        &'scope self,
        to: u32,
        tag: u64,
        data: B,
        options: impl Into<SendOptions>,
    ) -> Result<ScopedRequest<'scope, B>, Error> {
        let mut request = self.send_init(to, tag, data, options)?;
        request.begin(self.session.inner())?;
        Ok(request)
    }

    /// As [`Scope::isend_with`], idle: [`Request::start`] starts it, any number of times.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    pub fn send_init<B: Borrowed + 'env>(
        &'scope self,
        to: u32,
        tag: u64,
        data: B,
        options: impl Into<SendOptions>,
    ) -> Result<ScopedRequest<'scope, B>, Error> {
        self.session.check(Some(to), tag)?;
        Ok(Request::send(self.keeper(), to, tag, data, options.into()))
    }

    /// Receives into `buffer`.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`]; others when it is waited for.
    pub fn irecv(
        &'scope self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: &'env mut [u8],
    ) -> Result<ScopedRequest<'scope, &'env mut [u8]>, Error> {
        self.irecv_with(from, tag, buffer, RecvOptions::new())
    }

    /// As [`Scope::irecv`], into any borrowed buffer (bytes, or a list of pieces) and in any way.
    ///
    /// # Errors
    /// As [`Scope::irecv`]; [`Error::BadLayout`].
    pub fn irecv_with<B: Borrowed + BufferMut + 'env>(
        &'scope self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: B,
        options: impl Into<RecvOptions>,
    ) -> Result<ScopedRequest<'scope, B>, Error> {
        let mut request = self.recv_init(from, tag, buffer, options)?;
        request.begin(self.session.inner())?;
        Ok(request)
    }

    /// As [`Scope::irecv_with`], idle: [`Request::start`] starts it, any number of times.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    pub fn recv_init<B: Borrowed + BufferMut + 'env>(
        &'scope self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: B,
        options: impl Into<RecvOptions>,
    ) -> Result<ScopedRequest<'scope, B>, Error> {
        let (from, tag) = self.session.check_source(from.into(), tag.into())?;
        Ok(Request::recv(self.keeper(), from, tag, buffer, options.into()))
    }

    /// As [`Scope::isend`], over a tag of the library's, and any session.
    pub(crate) fn isend_reserved(
        &'scope self,
        session: &Session,
        to: u32,
        tag: u64,
        data: &'env [u8],
    ) -> ScopedRequest<'scope, &'env [u8]> {
        Request::send(self.keeper(), to, tag, data, SendOptions::new()).begun(session.inner())
    }

    /// As [`Scope::irecv`], over a tag of the library's, and any session.
    pub(crate) fn irecv_reserved(
        &'scope self,
        session: &Session,
        from: u32,
        tag: u64,
        buffer: &'env mut [u8],
    ) -> ScopedRequest<'scope, &'env mut [u8]> {
        let options = RecvOptions::new();
        Request::recv(self.keeper(), from, (tag, EXACT), buffer, options).begun(session.inner())
    }

    fn keeper(&'scope self) -> InScope<'scope> {
        InScope { requests: &self.requests, request: None }
    }

    /// Waits for everything; the first error that the program was not told of.
    fn finish(&self) -> Result<(), Error> {
        let mut result = Ok(());
        for request in self.requests.borrow().iter() {
            let done = request.wait();
            if !request.is_told() && result.is_ok() {
                result = done.map(drop);
            }
        }
        result
    }
}

impl Session {
    /// Runs `f`, in which requests may use borrowed buffers, and waits for all of them, even if `f` fails or
    /// panics (then receives that nothing has matched are taken back).
    ///
    /// ```
    /// newmad::run(|session| {
    ///     let (data, mut buffer) = ([1, 2, 3], [0; 8]);
    ///     let (received, status) = session.scope(|scope| {
    ///         let receive = scope.irecv(0, 5, &mut buffer)?;
    ///         let _sent = scope.isend(0, 5, &data)?; // the scope waits for it
    ///         receive.wait()
    ///     })?;
    ///     assert_eq!(&received[..status.len], [1, 2, 3]);
    ///     Ok::<(), newmad::Error>(())
    /// })??;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Blocking
    /// The calling thread, until every request of the scope is over.
    /// # Errors
    /// Those of `f`; otherwise the first error of a request that `f` did not wait for.
    pub fn scope<'env, T>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let scope = Scope::new(self);
        let result = f(&scope);
        let rest = if result.is_ok() { scope.finish() } else { Ok(()) };
        let value = result?;
        rest.map(|()| value)
    }
}

impl std::fmt::Debug for InScope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InScope")
    }
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}
