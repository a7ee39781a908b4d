//! Messages without a waiter: their memory is freed, and what they keep is dropped, at their end.

use std::sync::Arc;

use crate::api::options::{RecvOptions, SendOptions};
use crate::api::request::{Owner, Request};
use crate::request::tag::EXACT;
use crate::session::Inner;

/// Starts to send over a tag of the library's.
pub(crate) fn isend(session: &Arc<Inner>, to: u32, tag: u64, data: Vec<u8>) -> Request {
    Request::send(Owner::NEW, to, tag, data, SendOptions::new()).begun(session)
}

/// Starts to receive over a tag of the library's.
pub(crate) fn irecv(session: &Arc<Inner>, from: u32, tag: u64, buffer: Vec<u8>) -> Request {
    let mut request = Request::recv(Owner::NEW, from, (tag, EXACT), buffer, RecvOptions::new());
    let _never_fails = request.begin_with(session, |_| ());
    request
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
    isend(session, to, tag, data).on_done(move |_| drop(keep));
}

/// Takes a message that is not wanted, without room for it: its sender is free of it. Drops `keep` then, as [`send`].
pub(crate) fn discard(session: &Arc<Inner>, from: u32, tag: u64, keep: impl Send + 'static) {
    irecv(session, from, tag, Vec::new()).on_done(move |_| drop(keep));
}
