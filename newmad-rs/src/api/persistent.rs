//! Persistent requests: made once, started many times. A start allocates nothing.
//!
//! ```text
//!   idle ──start──▶ active ──over, and waited for──▶ idle
//! ```
//! The buffer is the program's while the request is idle, and the engine's otherwise.

use crate::api::handle::{Lent, Owned};
use crate::api::scope::{Scope, ScopedRequest};
use crate::api::several::{self, Awaited, Seal, Waited};
use crate::error::Error;
use crate::request::Request;
use crate::session::Session;
use crate::{Origin, Status, Tag};

/// What is done again and again.
#[derive(Clone, Copy)]
enum What {
    Send { to: u32, tag: u64, synchronous: bool },
    Recv { from: u32, tag: u64, mask: u64 },
}

impl What {
    /// # Safety
    /// As [`Request::send`] or [`Request::recv`].
    unsafe fn with(self, memory: *mut [u8]) -> Request {
        match self {
            What::Send { to, tag, synchronous } => {
                // SAFETY: the caller's promise.
                let request = unsafe { Request::send(to, tag, memory, false) };
                if synchronous { request.synchronous() } else { request }
            }
            What::Recv { from, tag, mask } => {
                // SAFETY: the caller's promise.
                unsafe { Request::recv(from, tag, memory, false) }.masked(mask)
            }
        }
    }
}

/// A send or receive that is made once and started many times: [`Session::send_init`], [`Session::recv_init`].
/// Dropping an active one waits for a send, and takes a receive back that nothing has matched.
///
/// ```
/// newmad::run(|session| {
///     let mut send = session.send_init(0, 1, vec![0; 4])?;
///     let mut receive = session.recv_init(0, 1, vec![0; 4])?;
///     for round in 0..10 {
///         receive.start()?;
///         send.buffer()?.fill(round);
///         send.start()?;
///         assert_eq!(receive.wait()?.len, 4);
///         assert_eq!(receive.buffer()?, [round; 4]);
///         send.wait()?;
///     }
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
pub struct PersistentRequest {
    // Dropped first: waits until the buffer is free again.
    owned: Option<Owned>,
    buffer: Lent,
    what: What,
    active: bool,
}

impl PersistentRequest {
    fn new(session: &Session, what: What, buffer: Vec<u8>) -> PersistentRequest {
        let owned = Some(Owned::idle(session.inner()));
        PersistentRequest { owned, buffer: Lent::new(buffer), what, active: false }
    }

    /// Starts it.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::Active`]; others when it is waited for.
    pub fn start(&mut self) -> Result<(), Error> {
        let Some(owned) = self.owned.as_ref().filter(|_| !self.active) else {
            return Err(Error::Active);
        };
        let memory = self.buffer.memory();
        // SAFETY: the vector's memory neither moves nor is freed nor touched before the request's end: `buffer` refuses
        // until then, the handle's drop waits first, and forgetting the handle leaks the vector too.
        self.active = unsafe { owned.restart(self.what.with(memory)) };
        if self.active { Ok(()) } else { Err(Error::Active) }
    }

    /// Waits for what was started; then it can be started again.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread, as [`crate::SendRequest::wait`] and [`crate::RecvRequest::wait`].
    /// # Errors
    /// [`Error::NotStarted`], and those of the operation.
    pub fn wait(&mut self) -> Result<Status, Error> {
        let Some(owned) = self.owned.as_ref().filter(|_| self.active) else {
            return Err(Error::NotStarted);
        };
        let result = owned.wait();
        self.active = false;
        result
    }

    /// Whether it is over, or not started. Looks for events if it is under way.
    pub fn test(&mut self) -> bool {
        !self.active || self.owned.as_ref().is_none_or(Owned::test)
    }

    /// Its buffer, while it is not under way: the next message to send, or the last one that came.
    ///
    /// # Errors
    /// [`Error::Active`]: it was started, and not waited for.
    pub fn buffer(&mut self) -> Result<&mut [u8], Error> {
        if self.active { Err(Error::Active) } else { Ok(self.buffer.get()) }
    }

    /// Ends it, as dropping it does, and gives the buffer back.
    ///
    /// # Blocking
    /// The calling thread, until a request that is under way is over.
    pub fn into_buffer(mut self) -> Vec<u8> {
        drop(self.owned.take());
        self.buffer.take()
    }
}

impl Drop for PersistentRequest {
    fn drop(&mut self) {
        drop(self.owned.take());
        drop(self.buffer.take());
    }
}

impl Waited for PersistentRequest {
    fn awaited(&self, _: Seal) -> Awaited<'_> {
        several::What::of(self.owned.as_ref())
    }
}

impl std::fmt::Debug for PersistentRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersistentRequest").field("active", &self.active).finish()
    }
}

/// As [`PersistentRequest`], on a buffer that is borrowed for longer than the [`Scope`], which waits for it.
///
/// ```
/// newmad::run(|session| {
///     let (mut out, mut inward) = ([0; 4], [0; 4]);
///     session.scope(|scope| {
///         let mut send = scope.send_init(0, 1, &mut out)?;
///         let mut receive = scope.recv_init(0, 1, &mut inward)?;
///         for round in 0..10 {
///             receive.start()?;
///             send.buffer()?.fill(round);
///             send.start()?;
///             receive.wait()?;
///             assert_eq!(receive.buffer()?, [round; 4]);
///             send.wait()?;
///         }
///         Ok(())
///     })
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
pub struct ScopedPersistent<'scope, 'env: 'scope> {
    request: ScopedRequest<'scope, 'env>,
    /// Borrowed for 'env by whoever made this, and lent on to the engine while it is active.
    memory: *mut [u8],
    what: What,
    active: bool,
}

impl ScopedPersistent<'_, '_> {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::Active`]; others when it is waited for.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.active {
            return Err(Error::Active);
        }
        // SAFETY: borrowed exclusively for 'env; not touched while it is active (`buffer`); the scope waits for it.
        self.active = unsafe { self.request.restart(self.what.with(self.memory)) };
        if self.active { Ok(()) } else { Err(Error::Active) }
    }

    /// Waits for what was started; then it can be started again.
    ///
    /// # Context, Blocking, Errors
    /// As [`PersistentRequest::wait`].
    pub fn wait(&mut self) -> Result<Status, Error> {
        if !self.active {
            return Err(Error::NotStarted);
        }
        let result = self.request.wait_once();
        self.active = false;
        result
    }

    /// Whether it is over, or not started. Looks for events if it is under way.
    pub fn test(&mut self) -> bool {
        !self.active || self.request.test()
    }

    /// Its buffer, while it is not under way.
    ///
    /// # Errors
    /// [`Error::Active`]: it was started, and not waited for.
    pub fn buffer(&mut self) -> Result<&mut [u8], Error> {
        if self.active {
            return Err(Error::Active);
        }
        // SAFETY: borrowed exclusively for 'env, and the engine's no more since the last wait.
        Ok(unsafe { &mut *self.memory })
    }
}

impl std::fmt::Debug for ScopedPersistent<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScopedPersistent").field("active", &self.active).finish()
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Makes a send that can be started many times; each sends what is in `buffer` then.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    pub fn send_init(
        &'scope self,
        to: u32,
        tag: u64,
        buffer: &'env mut [u8],
    ) -> Result<ScopedPersistent<'scope, 'env>, Error> {
        self.session().check(Some(to), tag)?;
        Ok(self.persistent(What::Send { to, tag, synchronous: false }, buffer))
    }

    /// Makes a receive that can be started many times; each receives into `buffer`.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    pub fn recv_init(
        &'scope self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: &'env mut [u8],
    ) -> Result<ScopedPersistent<'scope, 'env>, Error> {
        let (from, (tag, mask)) = self.session().check_source(from.into(), tag.into())?;
        Ok(self.persistent(What::Recv { from, tag, mask }, buffer))
    }

    fn persistent(
        &'scope self,
        what: What,
        buffer: &'env mut [u8],
    ) -> ScopedPersistent<'scope, 'env> {
        let request = self.keep(Owned::idle(self.session().inner()));
        ScopedPersistent { request, memory: buffer, what, active: false }
    }
}

impl Session {
    /// Makes a send of `data` that can be started many times; what it sends is changed in between by
    /// [`PersistentRequest::buffer`].
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    pub fn send_init(
        &self,
        to: u32,
        tag: u64,
        data: impl Into<Vec<u8>>,
    ) -> Result<PersistentRequest, Error> {
        self.check(Some(to), tag)?;
        let what = What::Send { to, tag, synchronous: false };
        Ok(PersistentRequest::new(self, what, data.into()))
    }

    /// As [`Session::send_init`]; each send is over only when a receive has matched it.
    ///
    /// # Errors
    /// As [`Session::send_init`].
    pub fn ssend_init(
        &self,
        to: u32,
        tag: u64,
        data: impl Into<Vec<u8>>,
    ) -> Result<PersistentRequest, Error> {
        self.check(Some(to), tag)?;
        let what = What::Send { to, tag, synchronous: true };
        Ok(PersistentRequest::new(self, what, data.into()))
    }

    /// Makes a receive into `buffer`, whose length is its capacity, that can be started many times.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`].
    pub fn recv_init(
        &self,
        from: impl Into<Origin>,
        tag: impl Into<Tag>,
        buffer: Vec<u8>,
    ) -> Result<PersistentRequest, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        Ok(PersistentRequest::new(self, What::Recv { from, tag, mask }, buffer))
    }
}
