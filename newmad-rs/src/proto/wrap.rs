//! The packet of one message: whole, a part of it, or its announcement.

use crate::memory::span::Span;
use crate::request::Ref;
use crate::wire::{Envelope, Header, Kind, SENDER_WAITS};

/// What a packet may hold.
pub(crate) struct Limits {
    /// Most payload bytes of one packet of the small track.
    pub(crate) mtu: usize,
    /// Longer messages use rendezvous.
    pub(crate) threshold: usize,
    /// Senders of messages that are announced are expected to wait at once.
    pub(crate) waits: bool,
}

/// The next packet of one message whose bytes are in a row: header and payload.
#[inline]
pub(crate) fn wrap(request: Ref, limits: &Limits) -> (Header, Span) {
    let data = request.span();
    if request.is_announced(limits.threshold) {
        let header = Header {
            flags: if request.is_waiting() || limits.waits { SENDER_WAITS } else { 0 },
            tag: request.tag,
            ends: request.envelope().ends,
            len: data.len() as u64,
            id: request.id.get(),
            addr: data.as_ptr() as u64,
            ..Header::new(Kind::Rts)
        };
        return (header, Span::EMPTY);
    }
    let payload = data.part(request.moved.get(), limits.mtu);
    (eager(request, payload.len()), payload)
}

/// The header of a message's next packet, which carries so many bytes of it.
#[inline]
pub(crate) fn eager(request: Ref, bytes: usize) -> Header {
    let (kind, len) = match request.moved.get() {
        0 if bytes == request.capacity => (Kind::Eager, request.capacity),
        0 => (Kind::First, request.capacity),
        moved => (Kind::Next, moved),
    };
    let Envelope { tag, ends } = request.envelope();
    Header { tag, ends, len: len as u64, payload: bytes as u32, ..Header::new(kind) }
}
