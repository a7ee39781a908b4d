//! Messages that nobody waits for: their memory is freed, and what they keep is dropped, at their end.

use std::sync::Arc;

use crate::api::handle::{RecvRequest, SendRequest};
use crate::request::Request;
use crate::session::Inner;

/// Starts to receive over a tag of the library's.
pub(crate) fn receive(session: &Arc<Inner>, from: u32, tag: u64, buffer: Vec<u8>) -> RecvRequest {
    RecvRequest::start(session, buffer, |memory| {
        // SAFETY: the promise of `RecvRequest::start`.
        unsafe { Request::recv(from, tag, memory, false) }
    })
}

/// Sends `data`; drops `keep` when that is over, however it ends. Never blocks. `keep`'s destructor must not block: it
/// runs where completion callbacks do.
pub(crate) fn send(
    session: &Arc<Inner>,
    to: u32,
    tag: u64,
    data: Vec<u8>,
    keep: impl Send + 'static,
) {
    SendRequest::plain(session, to, tag, data).on_done(move |_| drop(keep));
}

/// Takes a message that nobody wants, without room for it: its sender is free of it. Drops `keep` then, as [`send`].
pub(crate) fn discard(session: &Arc<Inner>, from: u32, tag: u64, keep: impl Send + 'static) {
    receive(session, from, tag, Vec::new()).on_done(move |_| drop(keep));
}
