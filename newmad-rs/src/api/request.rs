//! The handle of a message that does not make its caller wait.
//!
//! ```text
//!            start                       the message is over,
//!   idle ─────────────▶ active ─────────────────────────────▶ idle
//!                                   and its owner was told
//! ```
//! While a request is active its buffer is the engine's: the type has no way to it. Where the engine's part of the
//! request lies, and what happens to it when the handle is dropped, says the second parameter:
//!
//! | | dropped while it is active | forgotten |
//! |---|---|---|
//! | [`Owner`] | waits for a send, takes back a receive that no message has matched | buffer and request leak |
//! | [`InScope`](crate::api::scope::InScope) | nothing: the scope waits | nothing: the scope waits |
//!
//! A message that is over at once has no part in the engine, and allocates nothing; neither does the second start of a
//! request.

use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use marcel::plumbing::budget;

use crate::Status;
use crate::api::buffer::{Buffer, BufferMut, Memory, Trusted};
use crate::api::options::{RecvOptions, SendOptions};
use crate::api::owned::Owned;
use crate::api::several::{Awaited, Seal, Waited, What};
use crate::error::Error;
use crate::memory::layout::Strided;
use crate::request::Request as EngineRequest;
use crate::session::{Inner, Session};
use crate::strategy::selection::is_asked;

/// Keeps the engine's part of a request.
pub(crate) trait Keep {
    /// It, if there was one yet.
    fn get(&self) -> Option<&Owned>;

    /// Submits another, which `fill` writes where the last one was if there was one.
    ///
    /// # Safety
    /// The last one is over. What the request names stays valid until it is over, even if the keeper is forgotten.
    unsafe fn submit(
        &mut self,
        session: &Arc<Inner>,
        fill: impl FnOnce(&mut MaybeUninit<EngineRequest>) -> &mut EngineRequest,
    );

    /// The program knows how it ended.
    fn tell(&self) {}
}

/// What keeps a request: its handle ([`Owner`]), or a scope ([`InScope`](crate::api::scope::InScope)).
#[allow(private_bounds, reason = "the library's alone to implement")]
pub trait Keeper: Keep {}
impl<K: Keep> Keeper for K {}

/// The handle keeps the request: to drop it waits for a send, or takes back a receive that no message has matched.
#[derive(Debug)]
pub struct Owner(Option<Owned>);

impl Owner {
    pub(crate) const NEW: Owner = Owner(None);
}

impl Keep for Owner {
    #[inline]
    fn get(&self) -> Option<&Owned> {
        self.0.as_ref()
    }

    #[inline(always)]
    unsafe fn submit(
        &mut self,
        session: &Arc<Inner>,
        fill: impl FnOnce(&mut MaybeUninit<EngineRequest>) -> &mut EngineRequest,
    ) {
        // SAFETY: the caller's promise.
        if let Some(new) = unsafe { Owned::submit(self.0.as_ref(), session, fill) } {
            self.0 = Some(new);
        }
    }
}

/// A buffer whose memory may be the engine's: the compiler makes no assumption about what is in it.
struct Lent<B>(Option<MaybeUninit<B>>);

impl<B> Lent<B> {
    const fn new(buffer: B) -> Lent<B> {
        Lent(Some(MaybeUninit::new(buffer)))
    }

    /// For when it is not lent now.
    #[inline]
    fn get(&mut self) -> Option<&mut B> {
        // SAFETY: initialised in `new`.
        self.0.as_mut().map(|buffer| unsafe { buffer.assume_init_mut() })
    }

    /// For when it is not lent now.
    fn take(&mut self) -> Option<B> {
        // SAFETY: initialised in `new`.
        self.0.take().map(|buffer| unsafe { buffer.assume_init() })
    }
}

impl<B> Drop for Lent<B> {
    fn drop(&mut self) {
        // A strategy cannot wait for the request that has it, which is leaked: the engine may go on to use the buffer.
        if std::mem::needs_drop::<B>() && !is_asked() {
            drop(self.take());
        }
    }
}

/// What is done, again at each start.
#[derive(Clone, Copy)]
enum Operation {
    Send { to: u32, tag: u64, options: SendOptions },
    Recv { from: u32, tag: u64, mask: u64, layout: Option<Strided> },
}

impl Operation {
    #[inline]
    fn layout(&self) -> Option<Strided> {
        match *self {
            Operation::Send { options, .. } => options.layout,
            Operation::Recv { layout, .. } => layout,
        }
    }
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    /// It was over at once, and left nothing in the keeper.
    AtOnce(Status),
    /// The keeper has it.
    Submitted,
}

/// A message that is being sent or received, and its buffer `B`, which comes back at its end.
///
/// [`Session::isend`] and [`Session::irecv`] make one that is active and owns its buffer; dropping that waits for a
/// send, and takes back a receive that no message has matched. Those of a [`Scope`](crate::Scope) borrow their buffers,
/// and dropping them does nothing, as the scope waits. A request that owns its buffer is also a future.
///
/// A request can be started again when it is idle, and then allocates nothing:
/// ```
/// newmad::run(|session| {
///     let mut send = session.send_init(0, 1, vec![0; 4], newmad::SendOptions::new())?;
///     let mut receive = session.irecv(0, 1, vec![0; 4])?;
///     for round in 0..10 {
///         send.buffer()?.fill(round);
///         send.start(session)?;
///         assert_eq!(receive.wait_idle()?.len, 4);
///         assert_eq!(*receive.buffer()?, [round; 4]);
///         send.wait_idle()?;
///         receive.start(session)?;
///     }
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
///
/// The buffer of an active request cannot be touched:
/// ```compile_fail
/// # fn f(session: &newmad::Session) -> Result<(), newmad::Error> {
/// let buffer = vec![0; 8];
/// let receive = session.irecv(0, 1, buffer)?;
/// drop(buffer);
/// # Ok(())
/// # }
/// ```
/// and only a scope takes one that is borrowed:
/// ```compile_fail
/// # fn f(session: &newmad::Session) -> Result<(), newmad::Error> {
/// let mut buffer = [0; 8];
/// let receive = session.irecv_with(0, 1, &mut buffer, newmad::RecvOptions::new())?;
/// std::mem::forget(receive);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a send waits for its end, and dropping a receive takes it back"]
pub struct Request<B = Vec<u8>, K = Owner> {
    // Dropped first: waits until the buffer is free again.
    keeper: K,
    state: State,
    operation: Operation,
    memory: fn(&mut B) -> Memory,
    buffer: Lent<B>,
}

impl<B, K: Keeper> Request<B, K> {
    /// An idle send.
    #[inline]
    pub(crate) fn send(keeper: K, to: u32, tag: u64, buffer: B, options: SendOptions) -> Self
    where
        B: Buffer,
    {
        let operation = Operation::Send { to, tag, options };
        let memory = |buffer: &mut B| buffer.memory();
        Request { keeper, state: State::Idle, operation, memory, buffer: Lent::new(buffer) }
    }

    /// An idle receive.
    #[inline]
    pub(crate) fn recv(
        keeper: K,
        from: u32,
        (tag, mask): (u64, u64),
        buffer: B,
        options: RecvOptions,
    ) -> Self
    where
        B: BufferMut,
    {
        let operation = Operation::Recv { from, tag, mask, layout: options.layout };
        let memory = |buffer: &mut B| buffer.memory_mut();
        Request { keeper, state: State::Idle, operation, memory, buffer: Lent::new(buffer) }
    }

    /// Has an idle request done, without a part in the engine if it is a short message for which the way is free, or
    /// that is there.
    ///
    /// # Errors
    /// [`Error::BadLayout`].
    #[inline]
    pub(crate) fn begin(&mut self, session: &Arc<Inner>) -> Result<(), Error> {
        debug_assert!(matches!(self.state, State::Idle));
        let memory = self.lend()?;
        if let Some(status) = self.at_once(session, memory) {
            self.state = State::AtOnce(status);
            return Ok(());
        }
        self.submit(session, memory, |_| ())
    }

    /// As [`Request::begin`], by the engine, after `with` has changed the engine's request.
    ///
    /// # Errors
    /// [`Error::BadLayout`].
    #[inline(always)]
    pub(crate) fn begin_with(
        &mut self,
        session: &Arc<Inner>,
        with: impl FnOnce(&mut EngineRequest),
    ) -> Result<(), Error> {
        let memory = self.lend()?;
        self.submit(session, memory, with)
    }

    /// Starts an idle request that has no layout, which cannot fail.
    #[inline]
    pub(crate) fn begun(mut self, session: &Arc<Inner>) -> Self {
        debug_assert!(!self.has_layout());
        let _never_fails = self.begin(session);
        self
    }

    fn has_layout(&self) -> bool {
        self.operation.layout().is_some()
    }

    #[inline]
    fn lend(&mut self) -> Result<Memory, Error> {
        self.buffer.get().map(self.memory).ok_or_else(|| Error::NotStarted)
    }

    #[inline]
    fn at_once(&self, session: &Inner, memory: Memory) -> Option<Status> {
        let engine = &session.engine;
        match self.operation {
            Operation::Send { to, tag, options } if options.is_plain() => {
                // SAFETY: as in `submit`, for this call.
                let data = unsafe { memory.bytes() }?;
                (!engine.offload.wants_send(data.len()) && session.send_now(to, tag, data))
                    .then_some(Status { source: session.rank(), tag, len: data.len() })
            }
            Operation::Recv { from, tag, mask, layout: None } => {
                // SAFETY: as in `submit`, for this call.
                let buffer = unsafe { memory.bytes_mut() }?;
                let len =
                    engine.recv_now(session.mine(), from, (tag, mask), buffer, &session.manager)?;
                Some(Status { source: from, tag, len })
            }
            _ => None,
        }
    }

    /// Inlined, as all on the way into the keeper's memory is, so that the request of the engine is written there once.
    #[inline(always)]
    fn submit(
        &mut self,
        session: &Arc<Inner>,
        memory: Memory,
        with: impl FnOnce(&mut EngineRequest),
    ) -> Result<(), Error> {
        // By value: what the compiler knows of it here it knows below.
        let (keeper, operation) = (&mut self.keeper, self.operation);
        let layout = memory.scattered(operation.layout())?;
        // SAFETY: the last one is over, as this one is idle. The memory is the buffer's, which promises ([`Buffer`],
        // [`BufferMut`]) that it stays until the buffer is touched or dropped. The handle does neither before the request's
        // end: `buffer` refuses while the request is active; a handle that is dropped waits first, or its buffer is a scope's,
        // which waits; one that is forgotten leaks the buffer.
        unsafe {
            keeper.submit(session, |place| {
                let request = match operation {
                    Operation::Send { to, tag, options } => {
                        let request = EngineRequest::send(to, tag, memory.row(), false);
                        let request = place.write(request);
                        options.apply(request);
                        request
                    }
                    Operation::Recv { from, tag, mask, .. } => {
                        let request = EngineRequest::recv(from, tag, memory.row(), false);
                        let request = place.write(request);
                        request.take_all(mask);
                        request
                    }
                };
                if let Some(layout) = layout {
                    request.scatter(layout);
                }
                with(request);
                request
            });
        }
        self.state = State::Submitted;
        Ok(())
    }

    #[inline]
    pub(crate) fn under_way(&self) -> Option<&Owned> {
        match self.state {
            State::Submitted => self.keeper.get(),
            State::Idle | State::AtOnce(_) => None,
        }
    }

    /// What the end of a send names as its source is this rank.
    #[inline]
    fn told(&self, session: &Inner, result: Result<Status, Error>) -> Result<Status, Error> {
        match self.operation {
            Operation::Send { .. } => {
                result.map(|status| Status { source: session.rank(), ..status })
            }
            Operation::Recv { .. } => result,
        }
    }

    /// Whether it is over, or idle; does not look for events.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.under_way().is_none_or(Owned::is_finished)
    }

    /// Whether it is over, or idle. Looks for events if it is not.
    #[inline]
    pub fn test(&self) -> bool {
        self.under_way().is_none_or(Owned::test)
    }

    /// How it ended. `None`: it is under way, or idle.
    #[inline]
    pub fn result(&self) -> Option<Result<Status, Error>> {
        match self.state {
            State::Idle => None,
            State::AtOnce(status) => Some(Ok(status)),
            State::Submitted => {
                let owned = self.keeper.get()?;
                let result = owned.result()?;
                self.keeper.tell();
                Some(self.told(owned.session(), result))
            }
        }
    }

    /// Waits for its end, and gives the buffer back. Of a message that was received its first `Status::len` bytes are
    /// the message.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread, until a short message has left, a long one has been received, the message to receive is
    /// there.
    /// # Errors
    /// [`Error::Truncated`], [`Error::PeerDied`], [`Error::Cancelled`], [`Error::Closed`]; [`Error::NotStarted`].
    pub fn wait(mut self) -> Result<(B, Status), Error> {
        let status = self.wait_idle()?;
        Ok((self.buffer.take().ok_or(Error::NotStarted)?, status))
    }

    /// Waits for its end; it is idle then, and can be started again.
    ///
    /// # Context, Blocking, Errors
    /// As [`Request::wait`].
    pub fn wait_idle(&mut self) -> Result<Status, Error> {
        let result = match self.state {
            State::Idle => return Err(Error::NotStarted),
            State::AtOnce(status) => {
                budget::spend();
                Ok(status)
            }
            State::Submitted => {
                let owned = self.keeper.get().ok_or(Error::NotStarted)?;
                let result = owned.wait();
                self.told(owned.session(), result)
            }
        };
        self.end();
        result
    }

    /// The program has been told its end: it is idle.
    fn end(&mut self) {
        if matches!(self.state, State::Submitted) {
            self.keeper.tell();
        }
        self.state = State::Idle;
    }

    /// Takes a receive back if no message has matched it. True: it is over, with [`Error::Cancelled`], and no message
    /// went into its buffer. False: a message has matched it, or it was over already, or it is a send: those are not
    /// taken back.
    ///
    /// ```
    /// newmad::run(|session| {
    ///     let receive = session.irecv(0, 1, vec![0; 8])?;
    ///     assert!(receive.cancel());
    ///     assert_eq!(receive.into_buffer().unwrap().len(), 8);
    ///     let receive = session.irecv(0, 1, vec![0; 8])?;
    ///     session.send(0, 1, b"too late")?;
    ///     assert!(!receive.cancel());
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
    pub fn cancel(&self) -> bool {
        let cancelled = self.under_way().is_some_and(Owned::cancel);
        if cancelled {
            self.keeper.tell();
        }
        cancelled
    }

    /// Starts an idle request, with what is in the buffer now.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::Active`]: it was started, and not waited for. [`Error::BadRank`]: the session has no such rank.
    /// [`Error::BadLayout`]: the buffer has changed. Others when it is waited for.
    pub fn start(&mut self, session: &Session) -> Result<(), Error>
    where
        B: Buffer,
    {
        if !matches!(self.state, State::Idle) {
            return Err(Error::Active);
        }
        match self.operation {
            Operation::Send { to, .. } => {
                session.check(Some(to), 0)?;
                self.begin(session.inner())
            }
            Operation::Recv { from, .. } => {
                session.check((from != crate::request::ANY_SOURCE).then_some(from), 0)?;
                self.begin_with(session.inner(), |_| ())
            }
        }
    }

    /// Its buffer, while it is idle: the next message to send, or the last one that came.
    ///
    /// # Errors
    /// [`Error::Active`]: it was started, and not waited for. [`Error::NotStarted`]: as a future it has given its
    /// buffer back.
    pub fn buffer(&mut self) -> Result<&mut B, Error> {
        match self.state {
            State::Idle => self.buffer.get().ok_or(Error::NotStarted),
            _ => Err(Error::Active),
        }
    }

    /// Ends it, as dropping it does, and gives the buffer back. `None`: as a future it has done so already.
    ///
    /// # Blocking
    /// The calling thread, until a message that is under way is over.
    pub fn into_buffer(mut self) -> Option<B> {
        if let Some(owned) = self.under_way()
            && !owned.is_finished()
        {
            owned.cancel();
            // How it ended is not asked for.
            let _ = owned.wait();
        }
        self.end();
        self.buffer.take()
    }

    /// What there is to wait for, beside others.
    ///
    /// # Safety
    /// One thread at a time waits for the request.
    #[inline]
    pub unsafe fn awaited(&self) -> Awaited<'_> {
        What::of(self.under_way())
    }
}

impl Request<Trusted> {
    /// Idle, without memory.
    pub(crate) const EMPTY: Request<Trusted> = Request {
        keeper: Owner::NEW,
        state: State::Idle,
        operation: Operation::Send { to: 0, tag: 0, options: SendOptions::new() },
        memory: |buffer| buffer.memory(),
        buffer: Lent::new(Trusted::EMPTY),
    };

    /// Another request, idle, with the same keeper.
    ///
    /// # Errors
    /// [`Error::Active`]: the last one is not over.
    #[inline]
    pub(crate) fn replace(&mut self, by: impl FnOnce() -> Self) -> Result<(), Error> {
        if !self.is_over() {
            return Err(Error::Active);
        }
        let Request { state, operation, memory, buffer, .. } = by();
        (self.state, self.operation, self.memory, self.buffer) = (state, operation, memory, buffer);
        Ok(())
    }
}

impl<B: Send + 'static> Request<B> {
    /// Has `function` called when it is over, with what [`Request::wait`] would return: at once, if it is over
    /// already; or else by the thread that finds its end. It must not block: others wait behind it. It may use the
    /// session. Without a handle the request does not keep its rank's owner from closing the session; a receive gets what
    /// is sent until its sender has closed its own, and the function is told [`Error::Closed`], or that the sender has left,
    /// if nothing was. Not so, once its rank has closed: the messages of a process with which there is no connection yet, or that
    /// has announced another one which no receive takes; nor what the function receives in its turn.
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
    /// # Context
    /// The thread that finds the end, and its stack, are those of [`Op::new`](crate::coll::Op::new): a thread inside a
    /// call, an idle virtual processor, or a kernel thread of the library; never a signal handler.
    ///
    /// # Panics
    /// When `function` does, if it is called at once; later panics are reported and end there.
    pub fn on_done(self, function: impl FnOnce(Result<(B, Status), Error>) + Send + 'static) {
        let Request { keeper, state, operation, mut buffer, .. } = self;
        let (State::Submitted, Some(owned)) = (state, keeper.0) else {
            let State::AtOnce(status) = state else { return function(Err(Error::NotStarted)) };
            return function(buffer.take().ok_or(Error::NotStarted).map(|buffer| (buffer, status)));
        };
        let sender = matches!(operation, Operation::Send { .. }).then_some(owned.session().rank());
        owned.detach(Box::new(move |result| {
            let buffer = buffer.take().ok_or(Error::NotStarted);
            function(result.and_then(|status| {
                Ok((buffer?, Status { source: sender.unwrap_or(status.source), ..status }))
            }));
        }));
    }
}

// Its buffer is never pinned: it promises to stay where it is behind a pointer.
impl<B> Unpin for Request<B> {}

impl<B> Future for Request<B> {
    type Output = Result<(B, Status), Error>;

    /// As [`Request::wait`], for any executor. A future that has ended and is polled again has [`Error::NotStarted`].
    /// Dropped before its end it is taken back, or waits, as the request does.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match self.state {
            State::Idle => return Poll::Ready(Err(Error::NotStarted)),
            State::AtOnce(status) => Ok(status),
            State::Submitted => {
                let owned = self.keeper.get();
                // SAFETY: the handle is borrowed exclusively.
                match owned.map(|owned| (owned, unsafe { owned.poll(context) })) {
                    None => Err(Error::NotStarted),
                    Some((_, Poll::Pending)) => return Poll::Pending,
                    Some((owned, Poll::Ready(result))) => self.told(owned.session(), result),
                }
            }
        };
        self.end();
        let buffer = self.buffer.take().ok_or(Error::NotStarted);
        Poll::Ready(result.and_then(|status| Ok((buffer?, status))))
    }
}

impl<B, K: Keeper> Waited for Request<B, K> {
    fn awaited(&self, _: Seal) -> Awaited<'_> {
        What::of(self.under_way())
    }
}

impl<B, K: Keeper> std::fmt::Debug for Request<B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.operation {
            Operation::Send { .. } => "send",
            Operation::Recv { .. } => "receive",
        };
        f.debug_struct("Request").field("kind", &kind).field("over", &self.is_over()).finish()
    }
}
