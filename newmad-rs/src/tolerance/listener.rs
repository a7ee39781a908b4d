//! The listener: a probe for control messages that takes hold of each, and starts again. The engine ends it, too, when a peer
//! fails or leaves.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use pioman::Manager;

use crate::api::message::Message;
use crate::callback::CallbackRequest;
use crate::error::Error;
use crate::request::tag::{CONTROL, EXACT};
use crate::request::{ANY_SOURCE, Request};
use crate::session::Inner;
use crate::tolerance::service::Service;

/// Longest control message that is believed.
const LONGEST: usize = 64 << 20;

#[repr(C)]
struct Listener {
    callback: CallbackRequest,
    /// It does not keep the session open.
    session: Weak<Inner>,
    manager: Arc<Manager>,
}

/// Begins to listen, unless that has begun.
pub(super) fn start(inner: &Arc<Inner>) {
    if !Service::of(inner).begin_to_listen() {
        return;
    }
    inner.engine.with(|core| core.listens = true);
    let callback = CallbackRequest::new(&inner.engine, inner.mine(), Request::close());
    let (session, manager) = (Arc::downgrade(inner), inner.manager.clone());
    let listener = Box::into_raw(Box::new(Listener { callback, session, manager }));
    // SAFETY: boxed, and freed by `listen` alone; no request is under way.
    unsafe { listen(listener) };
    Service::of(inner).look_at_ends(inner);
}

fn control() -> Request {
    Request::probe(ANY_SOURCE, CONTROL, true).masked(EXACT)
}

/// Starts the probe; does what is to be done if it is over at once.
///
/// # Safety
/// No probe is under way, and the caller does not touch the listener any more.
unsafe fn listen(listener: *mut Listener) {
    loop {
        // SAFETY: it is the caller's alone until the probe is submitted. Afterwards it is this function's again only if
        // the probe is over.
        unsafe {
            let (manager, session) = ((*listener).manager.clone(), (*listener).session.clone());
            let callback = NonNull::new_unchecked(listener.cast());
            let over = CallbackRequest::start(callback, &manager, control(), told);
            if !over {
                // A peer that ended while there was no probe has ended none.
                if let Some(inner) = session.upgrade() {
                    Service::of(&inner).look_at_ends(&inner);
                }
                return;
            }
            if !treat(listener) {
                return;
            }
        }
    }
}

/// The probe is over.
///
/// # Safety
/// As [`crate::callback::Then`]; the request is that of a [`Listener`].
unsafe fn told(callback: NonNull<CallbackRequest>) {
    let listener: *mut Listener = callback.as_ptr().cast();
    // SAFETY: over, so it is ours alone.
    unsafe {
        if treat(listener) {
            listen(listener);
        }
    }
}

/// Does what is to be done at the probe's end. False: the session is closed, and the listener freed.
///
/// # Safety
/// The probe is over.
unsafe fn treat(listener: *mut Listener) -> bool {
    // SAFETY: over, so it is ours alone.
    let (result, held, session) = unsafe {
        let callback = &(*listener).callback;
        (callback.result(), callback.request().held.take(), (*listener).session.upgrade())
    };
    let Some(inner) = session else {
        // SAFETY: as above; boxed by `start`.
        drop(unsafe { Box::from_raw(listener) });
        return false;
    };
    match (result, held) {
        (Ok(status), Some(cell)) => {
            // One that is too long is received without room, which is not believed either.
            let room = vec![0; if status.len > LONGEST { 0 } else { status.len }];
            let session = Arc::downgrade(&inner);
            Message::held(inner.clone(), cell, status).irecv(room).on_done(move |received| {
                if let (Some(inner), Ok((bytes, status))) = (session.upgrade(), received) {
                    let bytes = bytes.get(..status.len).unwrap_or_default();
                    Service::of(&inner).receive(&inner, status.source, bytes);
                }
            });
        }
        // A peer has ended. (Where this process has fallen, the error names the rank, and every other probe ends so, too.)
        (Err(Error::PeerDied { rank: ANY_SOURCE, .. }), _) | (Ok(_), None) => {
            Service::of(&inner).look_at_ends(&inner);
        }
        (Err(_), _) => {
            Service::of(&inner).close();
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(listener) });
            return false;
        }
    }
    true
}
