//! A request in a box of its own: what the handles of requests that do not wait are made of.

use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use pioman::plumbing::{call_foreign, report};

use crate::Status;
use crate::callback::CallbackRequest;
use crate::error::Error;
use crate::request::Request as EngineRequest;
use crate::session::Inner;
use crate::strategy::selection::{assert_caller, is_asked};

/// What a request without a handle calls at its end.
type End = Box<dyn FnOnce(Result<Status, Error>) + Send>;

/// Dropping it waits for the request (or takes back a receive that no message has matched); forgetting it leaks it with
/// everything that it needs.
#[repr(transparent)]
pub(crate) struct Owned(NonNull<Boxed>);

#[repr(C)]
struct Boxed {
    callback: CallbackRequest,
    end: Cell<Option<End>>,
    /// A scope's request: the program was told how it ended.
    told: Cell<bool>,
    /// Given up with the handle: see [`Owned::detach`].
    session: ManuallyDrop<Arc<Inner>>,
}

// SAFETY: the handle's own accesses are atomic, or follow the end of the request.
unsafe impl Send for Owned {}
// SAFETY: `&Owned` only reads atomics; `told` belongs to a scope, which stays in its thread.
unsafe impl Sync for Owned {}

impl Owned {
    /// Submits a request, which `fill` writes into the box of the last one, if there was one of that session, else into a
    /// box of its own: that is returned.
    ///
    /// # Safety
    /// The last one is over, and not in use elsewhere. The memory that the request names stays valid and untouched until
    /// the request is finished, even if the handle is forgotten.
    #[inline(always)]
    pub(crate) unsafe fn submit(
        last: Option<&Owned>,
        session: &Arc<Inner>,
        fill: impl FnOnce(&mut MaybeUninit<EngineRequest>) -> &mut EngineRequest,
    ) -> Option<Owned> {
        let (boxed, new) = match last.filter(|owned| owned.is_of(session)) {
            Some(last) => (last.0, None),
            None => {
                let new = Owned::new(session);
                (new.0, Some(new))
            }
        };
        let pointer = CallbackRequest::pointer(boxed.cast());
        // SAFETY: the last one is over, so the box is ours; it stays where it is, and is not freed, until this one is over.
        // The rest is the caller's promise.
        unsafe {
            boxed.as_ref().told.set(false);
            CallbackRequest::forget_waker(boxed.cast());
            const { assert!(!std::mem::needs_drop::<EngineRequest>()) };
            let request = fill(pointer.cast().as_mut());
            request.attended.set(true);
            request.mine.set(session.mine());
            session.engine.submit_then_compute(pointer, &session.manager);
        }
        new
    }

    /// A box without a request: one is submitted before it is dropped.
    #[inline(never)]
    fn new(session: &Arc<Inner>) -> Owned {
        let none = EngineRequest::close();
        Owned(NonNull::from(Box::leak(Box::new(Boxed {
            callback: CallbackRequest::new(&session.engine, session.mine(), none),
            end: Cell::new(None),
            told: Cell::new(false),
            session: ManuallyDrop::new(session.clone()),
        }))))
    }

    /// Another name of the same box, which does nothing when it is dropped.
    ///
    /// # Safety
    /// It is not used after `self` is dropped.
    pub(crate) unsafe fn alias(&self) -> ManuallyDrop<Owned> {
        ManuallyDrop::new(Owned(self.0))
    }

    /// Whether its memory is that session's.
    #[inline]
    pub(crate) fn is_of(&self, session: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.boxed().session, session)
    }

    /// Its request, which may be under way.
    #[inline]
    pub(crate) fn request(&self) -> &EngineRequest {
        self.boxed().callback.request()
    }

    #[inline]
    pub(crate) fn session(&self) -> &Inner {
        &self.boxed().session
    }

    /// Its request and session, for a wait for several.
    pub(crate) fn parts(&self) -> (NonNull<EngineRequest>, &Inner) {
        (self.pointer(), self.session())
    }

    #[inline]
    fn boxed(&self) -> &Boxed {
        // SAFETY: freed by `drop`, or given up by `detach`, only.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn pointer(&self) -> NonNull<EngineRequest> {
        CallbackRequest::pointer(self.0.cast())
    }

    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.request().is_finished()
    }

    /// How it ended. `None`: it has not.
    pub(crate) fn result(&self) -> Option<Result<Status, Error>> {
        self.is_finished().then(|| self.request().result())
    }

    /// Whether it is over, after a look for events if it is not.
    pub(crate) fn test(&self) -> bool {
        self.is_finished() || (self.session().look() && self.is_finished())
    }

    /// Waits for its end. One thread does so at a time.
    ///
    /// # Panics
    /// The caller is a strategy.
    pub(crate) fn wait(&self) -> Result<Status, Error> {
        assert_caller();
        // SAFETY: we are its owner, and it lives until `drop`.
        unsafe { self.session().engine.wait(self.pointer(), &self.session().manager) };
        self.request().result()
    }

    /// Waits for its end, or until it is alarmed. One thread does so at a time.
    ///
    /// # Panics
    /// The caller is a strategy.
    pub(crate) fn wait_or_alarm(&self) {
        assert_caller();
        // SAFETY: as in `wait`.
        unsafe { self.session().engine.wait_or_alarm(self.pointer(), &self.session().manager) };
    }

    /// Takes a receive back; whether that was possible.
    pub(crate) fn cancel(&self) -> bool {
        // SAFETY: we are its owner.
        unsafe { self.session().engine.cancel(self.pointer()) }
    }

    /// Takes a send back, or asks its receiver to give it back.
    pub(crate) fn take_back(&self) {
        // SAFETY: we are its owner.
        unsafe { self.session().engine.take_back(self.pointer()) }
    }

    /// The program knows how it ended. For a scope's, in the scope's thread.
    pub(crate) fn tell(&self) {
        self.boxed().told.set(true);
    }

    /// Whether the program knows how it ended. For a scope's, in the scope's thread.
    pub(crate) fn is_told(&self) -> bool {
        self.boxed().told.get()
    }

    /// Whether it is over; if not, the waker is called when it is worth another look.
    ///
    /// # Safety
    /// No other thread waits for it, or polls it.
    pub(crate) unsafe fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Status, Error>> {
        let attended = self.request().attended.get();
        // SAFETY: the caller's promise, and the box stays until it is over.
        if unsafe { self.boxed().callback.poll(context) } {
            return Poll::Ready(self.request().result());
        }
        if attended {
            // Its waker is to be called from now on, by any thread that finds its end.
            self.session().engine.have_watched(&self.session().manager);
        }
        Poll::Pending
    }

    /// Gives the request up; `end` is called when it is over, at once if it is. Without a handle it does not keep its
    /// session open.
    pub(crate) fn detach(self, end: End) {
        let this = ManuallyDrop::new(self);
        // SAFETY: moved out once: neither `ended` nor `Owned::drop`, which does not run, touches it.
        let session = unsafe { core::ptr::read(&raw const (*this.0.as_ptr()).session) };
        let session = ManuallyDrop::into_inner(session);
        // SAFETY: boxed in `new`; there is no handle any more; `ended` frees it, here or from `ended_later`.
        unsafe {
            this.boxed().end.set(Some(end));
            this.request().detach();
            // What the waker of a future waited for is not asked for any more.
            CallbackRequest::forget_waker(this.0.cast());
            if CallbackRequest::watch(this.0.cast(), &session.manager, ended_later) {
                ended(this.0.cast());
            }
        }
    }
}

/// Calls what is called at the end of a detached request. A panic in it is reported, and goes no further. The unwinding of a
/// green thread that waited in it, whose runtime ends, goes on: `pioman`, which calls this, expects it.
///
/// # Safety
/// As [`ended`].
unsafe fn ended_later(callback: NonNull<CallbackRequest>) {
    // SAFETY: the caller's promise.
    let called = call_foreign(|| unsafe { ended(callback) });
    if let Some(message) = called.message().filter(|_| !called.is_unwinding()) {
        report("function", "on_done", format_args!("of a newmad request panicked: {message}"));
    }
    if let Some(unwinding) = called.into_unwinding() {
        std::panic::resume_unwind(unwinding);
    }
}

/// A detached request is over.
///
/// # Safety
/// As [`crate::callback::Then`]; the request is the first field of a `Boxed` that was detached.
unsafe fn ended(callback: NonNull<CallbackRequest>) {
    // SAFETY: boxed in `new`, given up by `detach`.
    let boxed = unsafe { Box::from_raw(callback.cast::<Boxed>().as_ptr()) };
    let (result, end) = (boxed.callback.result(), boxed.end.take());
    drop(boxed);
    if let Some(end) = end {
        end(result);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.is_finished() && is_asked() {
            // The caller holds the lock by which the request would end: it is leaked.
            return;
        }
        let finished = Finished(self.0);
        if !self.is_finished() {
            // SAFETY: we are its owner.
            unsafe {
                self.session().engine.cancel(self.pointer());
                self.session().engine.wait_out(self.pointer(), &self.session().manager);
            }
        }
        drop(finished);
    }
}

/// A request that is over when this is dropped, by return or by unwinding, and is freed then.
struct Finished(NonNull<Boxed>);

impl Drop for Finished {
    fn drop(&mut self) {
        // SAFETY: boxed in `new`, finished, and owned by nothing else.
        let mut boxed = unsafe { Box::from_raw(self.0.as_ptr()) };
        // SAFETY: moved out once; the box goes first, and its field does nothing then.
        let session = unsafe { ManuallyDrop::take(&mut boxed.session) };
        drop(boxed);
        drop(session);
    }
}

impl std::fmt::Debug for Owned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Owned")
    }
}
