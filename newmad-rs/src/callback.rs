//! A request with a callback: in memory that stays, it calls a waker at its end, or a function.
//!
//! It lies in the memory of its owner (a handle's box, a step of a collective, a request of a group's end), so that
//! nothing is allocated per message. It can be started again when it is over.
//!
//! ```text
//!          ┌─ over before it was watched: `start` says so, the function is not called
//!   start ─┤
//!          └─ the waker is listed: STARTING ──start is done with it──▶ WATCHED ──woken──▶ the function is called
//!                                  STARTING ──woken meanwhile──▶ WOKEN: `start` says that it is over
//! ```
//!
//! The function is called where wakers are (`pioman`): by the thread that found the end, without the engine's lock, or
//! by a kernel thread of the library's; never in a signal handler. So it may allocate, free, and start further
//! requests; it must not block. It may free the request: the caller does not touch that any more.
//!
//! A nudge (see [`crate::request`]) wakes too: a waker that finds the request not over helps the engine, and watches
//! again.

use std::cell::{Cell, UnsafeCell};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use pioman::{Manager, Wait};

use crate::Status;
use crate::engine::Engine;
use crate::error::Error;
use crate::request::Request;

const STARTING: u8 = 0;
const WATCHED: u8 = 1;
const WOKEN: u8 = 2;

/// What is called at a request's end, with its address.
///
/// Sound when called once per start, by any thread.
pub(crate) type Then = unsafe fn(NonNull<CallbackRequest>);

/// See the module.
pub(crate) struct CallbackRequest {
    // Before the request, of which it borrows: dropped first.
    wait: UnsafeCell<Option<Wait<'static>>>,
    request: UnsafeCell<Request>,
    engine: Arc<Engine>,
    /// The place of its rank in its process.
    mine: u16,
    state: AtomicU8,
    then: Cell<Option<Then>>,
}

// SAFETY: touched by its owner while it is not under way, and then by one thread at a time: the starter, until its swap
// of `state`, or the thread that is woken, after its own.
unsafe impl Send for CallbackRequest {}
// SAFETY: as above.
unsafe impl Sync for CallbackRequest {}

impl CallbackRequest {
    /// For that request, which is not submitted yet, of the rank at this place of its process.
    pub(crate) fn new(engine: &Arc<Engine>, mine: u16, request: Request) -> CallbackRequest {
        CallbackRequest {
            wait: UnsafeCell::new(None),
            request: UnsafeCell::new(request.of_rank(mine)),
            engine: engine.clone(),
            mine,
            state: AtomicU8::new(STARTING),
            then: Cell::new(None),
        }
    }

    /// The address of its request.
    #[inline]
    pub(crate) fn pointer(this: NonNull<CallbackRequest>) -> NonNull<Request> {
        // SAFETY: a field's address; the pointer is valid.
        unsafe { NonNull::new_unchecked((*this.as_ptr()).request.get()) }
    }

    /// The request, which may be under way: what others change meanwhile is in cells that only the engine looks at.
    #[inline]
    pub(crate) fn request(&self) -> &Request {
        // SAFETY: replaced by its owner only, while nothing borrows it (`start`).
        unsafe { &*self.request.get() }
    }

    /// Submits `request` and has `then` called at its end. True: it is over already, and `then` is not called. False:
    /// `then` is, or was, called once; it may be gone when this returns.
    ///
    /// # Context
    /// Anywhere but the progress path.
    ///
    /// # Safety
    /// The request is not under way, nor borrowed. Until it is over it stays at its address, and its buffer keeps
    /// the promise that was made when the request was built. See [`Then`].
    #[must_use = "what is over already is not told of in another way"]
    pub(crate) unsafe fn start(
        this: NonNull<CallbackRequest>,
        manager: &Manager,
        request: Request,
        then: Then,
    ) -> bool {
        // SAFETY: the caller's promise: it is ours alone until it is submitted, and stays until it is over.
        unsafe {
            CallbackRequest::forget_waker(this);
            *(*this.as_ptr()).request.get() = request.of_rank((*this.as_ptr()).mine);
            this.as_ref().engine.submit(CallbackRequest::pointer(this));
            CallbackRequest::watch(this, manager, then)
        }
    }

    /// Has `then` called when the request, which is submitted, is over; answers as [`CallbackRequest::start`].
    ///
    /// # Safety
    /// As [`CallbackRequest::start`], and no other thread watches it.
    pub(crate) unsafe fn watch(
        this: NonNull<CallbackRequest>,
        manager: &Manager,
        then: Then,
    ) -> bool {
        // SAFETY: valid until `then` is called, so until the end of this block at least.
        let listed = unsafe {
            let callback = this.as_ref();
            callback.then.set(Some(then));
            callback.list()
        };
        if listed {
            manager.ensure_watched();
        } else {
            // SAFETY: over, and `then` is not called: it is the caller's.
            unsafe { this.as_ref().engine.watch_held_back(manager) };
        }
        !listed
    }

    /// Lists the own waker; false if the request is over, or was meanwhile. The callback may be gone when it says true.
    unsafe fn list(&self) -> bool {
        loop {
            self.state.store(STARTING, Ordering::Relaxed);
            // SAFETY: the functions of the table keep the rules of wakers; it stays until the `wake` that finds
            // it WATCHED.
            let waker =
                unsafe { Waker::from_raw(RawWaker::new((&raw const *self).cast(), &TABLE)) };
            // SAFETY: no other thread watches.
            let over = unsafe { self.poll(&mut Context::from_waker(&waker)) };
            if over {
                return false;
            }
            if self.state.swap(WATCHED, Ordering::AcqRel) != WOKEN {
                return true;
            }
            if self.request().is_finished() {
                return false;
            }
        }
    }

    /// Whether the request, which is submitted, is over; if not, the waker is called when it is worth another look.
    ///
    /// # Safety
    /// It stays at its address until it is over or `wait` was dropped. One thread at a time.
    pub(crate) unsafe fn poll(&self, context: &mut Context<'_>) -> bool {
        let request = self.request();
        loop {
            if request.is_finished() {
                return true;
            }
            self.engine.watched(request);
            // SAFETY: one thread at a time. The completion stays as long as this, whose drop begins with this field;
            // what is put there does not move.
            let ready = unsafe {
                let done: *const pioman::Completion = &raw const request.done;
                let done: &'static pioman::Completion = &*done;
                let wait = (*self.wait.get()).get_or_insert_with(|| done.into_future());
                Pin::new_unchecked(wait).poll(context).is_ready()
            };
            if !ready {
                return false;
            }
            self.over_or_nudged();
        }
    }

    /// The waker of an earlier [`CallbackRequest::poll`] is not called any more, unless it is being called.
    ///
    /// # Safety
    /// The caller is the only one to use it.
    #[inline]
    pub(crate) unsafe fn forget_waker(this: NonNull<CallbackRequest>) {
        // SAFETY: the caller's promise; dropped in place, the wait leaves its list.
        unsafe { *(*this.as_ptr()).wait.get() = None }
    }

    /// Its `wait` was woken: if that was not for the end, helps.
    fn over_or_nudged(&self) {
        // SAFETY: the woken thread is the only one; the wait has been fired.
        unsafe { *self.wait.get() = None };
        if !self.request().is_finished() {
            self.engine.nudged(CallbackRequest::pointer(NonNull::from(self)));
        }
    }

    /// How it ended.
    ///
    /// # Errors
    /// As the request's.
    ///
    /// # Panics
    /// When it is not over.
    pub(crate) fn result(&self) -> Result<Status, Error> {
        self.request().result()
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |callback| RawWaker::new(callback, &TABLE),
    |callback| {
        // SAFETY: made by `list`, for one that stays until this call.
        unsafe { woken(callback) }
    },
    |callback| {
        // SAFETY: as above.
        unsafe { woken(callback) }
    },
    |_| (),
);

/// # Safety
/// The pointer is that of one that was listed, and this the only call for that.
unsafe fn woken(callback: *const ()) {
    // SAFETY: it stays until its function is called, here, or `list` says that it is over.
    unsafe {
        let this = NonNull::new_unchecked(callback.cast::<CallbackRequest>().cast_mut());
        if this.as_ref().state.swap(WOKEN, Ordering::AcqRel) != WATCHED {
            return;
        }
        this.as_ref().over_or_nudged();
        let over = this.as_ref().request().is_finished() || !this.as_ref().list();
        if over && let Some(then) = this.as_ref().then.get() {
            then(this);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;
    use pioman::{Completion, Hint, Manager};
    use std::sync::Arc;

    const TAG: u64 = 1 << 63 | 1 << 56;

    /// Throws a ball back and forth with its like of the other rank, by callbacks alone.
    #[repr(C)]
    struct Player {
        callback: CallbackRequest,
        session: Session,
        ball: [u8; 8],
        receives: bool,
        left: u32,
        over: Arc<Completion>,
    }

    impl Player {
        fn new(session: &Session, receives: bool, over: &Arc<Completion>) -> *mut Player {
            Box::into_raw(Box::new(Player {
                callback: CallbackRequest::new(&session.inner().engine, 0, Request::close()),
                session: session.clone(),
                ball: [7; 8],
                receives,
                left: 2000,
                over: over.clone(),
            }))
        }

        unsafe fn next(callback: NonNull<CallbackRequest>) {
            let player: *mut Player = callback.as_ptr().cast();
            // SAFETY: the player stays until it frees itself here; one request at a time touches it.
            unsafe {
                loop {
                    (*player).callback.result().unwrap();
                    if (*player).left == 0 {
                        return drop(Box::from_raw(player));
                    }
                    (*player).left -= 1;
                    (*player).receives = !(*player).receives;
                    if !Player::go(player) {
                        return;
                    }
                }
            }
        }

        unsafe fn go(player: *mut Player) -> bool {
            // SAFETY: the ball stays as long as the player.
            unsafe {
                let session = (*player).session.clone();
                let (peer, ball) = (1 - session.rank(), &raw mut (*player).ball);
                let request = if (*player).receives {
                    Request::recv(peer, TAG, ball, false)
                } else {
                    Request::send(peer, TAG, ball, false)
                };
                let (callback, manager) =
                    (NonNull::new_unchecked(player.cast()), session.manager());
                CallbackRequest::start(callback, manager, request, Player::next)
            }
        }
    }

    impl Drop for Player {
        fn drop(&mut self) {
            self.over.complete();
        }
    }

    #[test]
    fn requests_follow_each_other_by_callbacks_alone() {
        let manager = Manager::builder().build().unwrap();
        let sessions = Session::local_world(2, &manager).unwrap();
        let over: Vec<_> = (0..2).map(|_| Arc::new(Completion::new())).collect();
        for (rank, session) in sessions.iter().enumerate() {
            let player = Player::new(session, rank == 0, &over[rank]);
            // SAFETY: boxed; `next` frees it after the last one.
            unsafe {
                if Player::go(player) {
                    Player::next(NonNull::new_unchecked(player.cast()));
                }
            }
        }
        for over in &over {
            manager.wait(over, Hint::Short);
        }
    }

    #[test]
    fn a_request_with_a_callback_ends_with_its_session() {
        #[repr(C)]
        struct Alone(CallbackRequest, Completion);
        unsafe fn told(callback: NonNull<CallbackRequest>) {
            // SAFETY: the request is the first field of an `Alone`, which the test keeps.
            let alone = unsafe { &*callback.as_ptr().cast::<Alone>() };
            assert!(matches!(alone.0.result(), Err(Error::Closed)));
            alone.1.complete();
        }
        let manager = Manager::builder().build().unwrap();
        let session = Session::local_world(1, &manager).unwrap().pop().unwrap();
        let mut buffer = [0u8; 8];
        let callback = CallbackRequest::new(&session.inner().engine, 0, Request::close());
        let alone = Box::into_raw(Box::new(Alone(callback, Completion::new())));
        // SAFETY: box and buffer stay until the end of the test, which waits for it.
        unsafe {
            let request = Request::recv(0, TAG, &raw mut buffer, false);
            let callback = NonNull::new_unchecked(alone.cast());
            assert!(!CallbackRequest::start(callback, &manager, request, told));
            session.close().unwrap();
            manager.wait(&(*alone).1, Hint::Short);
            drop(Box::from_raw(alone));
        }
    }
}
