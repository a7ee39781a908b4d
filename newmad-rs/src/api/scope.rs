//! Requests on borrowed buffers, inside a scope that waits for them.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use crate::api::handle::Owned;
use crate::error::Error;
use crate::request::Request;
use crate::session::Session;
use crate::{Origin, Status, Tag};

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
    /// Every request of the scope, and whether the program was told how it ended.
    requests: RefCell<Vec<(Owned, Cell<bool>)>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// A request of a [`Scope`]. Dropping it does nothing: the scope waits for the request.
pub struct ScopedRequest<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    index: usize,
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
    ) -> Result<ScopedRequest<'scope, 'env>, Error> {
        self.session.check(Some(to), tag)?;
        // SAFETY: `data` is borrowed until the scope's end, which waits for the request.
        Ok(self.start(unsafe { Request::send(to, tag, data, false) }))
    }

    /// As [`Scope::isend`], but the request is over only when a receive has matched the message.
    ///
    /// # Errors
    /// As [`Scope::isend`].
    pub fn issend(
        &'scope self,
        to: u32,
        tag: u64,
        data: &'env [u8],
    ) -> Result<ScopedRequest<'scope, 'env>, Error> {
        self.session.check(Some(to), tag)?;
        // SAFETY: as in `isend`.
        Ok(self.start(unsafe { Request::send(to, tag, data, false) }.synchronous()))
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
    ) -> Result<ScopedRequest<'scope, 'env>, Error> {
        let (from, (tag, mask)) = self.session.check_source(from.into(), tag.into())?;
        // SAFETY: `buffer` is borrowed exclusively until the scope's end, which waits for the request.
        Ok(self.start(unsafe { Request::recv(from, tag, buffer, false) }.masked(mask)))
    }

    /// As [`Scope::isend`], over a tag of the library's, and any session.
    pub(crate) fn isend_reserved(
        &'scope self,
        session: &Session,
        to: u32,
        tag: u64,
        data: &'env [u8],
    ) -> ScopedRequest<'scope, 'env> {
        // SAFETY: as in `isend`.
        self.start_on(session, unsafe { Request::send(to, tag, data, false) })
    }

    /// As [`Scope::irecv`], over a tag of the library's, and any session.
    pub(crate) fn irecv_reserved(
        &'scope self,
        session: &Session,
        from: u32,
        tag: u64,
        buffer: &'env mut [u8],
    ) -> ScopedRequest<'scope, 'env> {
        // SAFETY: as in `irecv`.
        self.start_on(session, unsafe { Request::recv(from, tag, buffer, false) })
    }

    pub(crate) fn start(&'scope self, request: Request) -> ScopedRequest<'scope, 'env> {
        self.start_on(self.session, request)
    }

    fn start_on(&'scope self, session: &Session, request: Request) -> ScopedRequest<'scope, 'env> {
        // SAFETY: what the request names is borrowed for 'env; the scope owns the handle, cannot be forgotten by
        // safe code, and drops it, which waits for the request, before 'env ends.
        let owned = unsafe { Owned::submit(request, session.inner()) };
        self.keep(owned)
    }

    /// Takes care of a request of the scope's.
    pub(crate) fn keep(&'scope self, owned: Owned) -> ScopedRequest<'scope, 'env> {
        let mut requests = self.requests.borrow_mut();
        requests.push((owned, Cell::new(false)));
        ScopedRequest { scope: self, index: requests.len() - 1 }
    }

    pub(crate) fn session(&self) -> &'scope Session {
        self.session
    }

    /// Waits for everything; the first error that nobody was told of.
    fn finish(&self) -> Result<(), Error> {
        let mut result = Ok(());
        for (request, told) in self.requests.borrow().iter() {
            let done = request.wait();
            if !told.get() && result.is_ok() {
                result = done.map(drop);
            }
        }
        result
    }
}

impl ScopedRequest<'_, '_> {
    /// Waits for the request.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread, until the request is over.
    /// # Errors
    /// [`Error::Truncated`], [`Error::PeerDied`], [`Error::Closed`].
    pub fn wait(self) -> Result<Status, Error> {
        self.wait_once()
    }

    /// Submits another request in its place; false if the last is not over.
    ///
    /// # Safety
    /// As [`Request::send`] or [`Request::recv`]; what the request names is borrowed for 'env.
    pub(crate) unsafe fn restart(&self, request: Request) -> bool {
        let requests = self.scope.requests.borrow();
        let (owned, told) = &requests[self.index];
        // SAFETY: the caller's promise; the scope waits for it.
        let started = unsafe { owned.restart(request) };
        if started {
            told.set(false);
        }
        started
    }

    pub(crate) fn wait_once(&self) -> Result<Status, Error> {
        let requests = self.scope.requests.borrow();
        let (request, told) = &requests[self.index];
        let result = request.wait();
        told.set(true);
        result
    }

    /// Whether it is over. Looks for events if it is not.
    pub fn test(&mut self) -> bool {
        self.scope.requests.borrow()[self.index].0.test()
    }

    /// Takes a receive back if no message has matched it. True: it is over, with [`Error::Cancelled`], and no message went
    /// into its buffer. False: a message has matched it, or it was over already, or it is a send: those are not taken back.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// For as long as the engine is held by another thread.
    pub fn cancel(&mut self) -> bool {
        let requests = self.scope.requests.borrow();
        let (request, told) = &requests[self.index];
        let cancelled = request.cancel();
        if cancelled {
            told.set(true);
        }
        cancelled
    }
}

impl Session {
    /// Runs `f`, in which requests may use borrowed buffers, and waits for all of them, even if `f` fails or
    /// panics (then receives that nothing has matched are taken back).
    ///
    /// ```
    /// newmad::run(|session| {
    ///     let (data, mut buffer) = ([1, 2, 3], [0; 8]);
    ///     let status = session.scope(|scope| {
    ///         let receive = scope.irecv(0, 5, &mut buffer)?;
    ///         scope.isend(0, 5, &data)?;
    ///         receive.wait()
    ///     })?;
    ///     assert_eq!(&buffer[..status.len], [1, 2, 3]);
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

impl std::fmt::Debug for ScopedRequest<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScopedRequest")
    }
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}
