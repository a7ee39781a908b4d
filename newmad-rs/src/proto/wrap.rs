//! The packet of one message: whole, a part of it, or its announcement.

use crate::memory::span::Span;
use crate::request::Ref;
use crate::wire::{Header, Kind, SENDER_WAITS};

/// A packet wrapper: what the transfer layer is given.
pub(crate) struct Wrapper {
    pub(crate) header: Header,
    pub(crate) payload: Span,
}

/// What a packet may hold.
pub(crate) struct Limits {
    /// Most payload bytes of one packet of the small track.
    pub(crate) mtu: usize,
    /// Longer messages use rendezvous.
    pub(crate) threshold: usize,
}

/// The next packet of one message.
#[inline]
pub(crate) fn wrap(request: Ref, limits: &Limits) -> Wrapper {
    let data = request.span();
    let tag = request.tag;
    let len = data.len() as u64;
    if request.is_announced(limits.threshold) {
        let header = Header {
            flags: if request.is_waiting() { SENDER_WAITS } else { 0 },
            tag,
            len,
            id: request.id.get(),
            addr: data.as_ptr() as u64,
            ..Header::new(Kind::Rts)
        };
        return Wrapper { header, payload: Span::EMPTY };
    }
    let moved = request.moved.get();
    let payload = data.part(moved, limits.mtu);
    let size = payload.len() as u32;
    let header = if moved > 0 {
        // Whatever the track is like by now.
        Header { tag, len: moved as u64, payload: size, ..Header::new(Kind::Next) }
    } else if data.len() <= limits.mtu {
        Header { tag, len, payload: size, ..Header::new(Kind::Eager) }
    } else {
        Header { tag, len, payload: size, ..Header::new(Kind::First) }
    };
    Wrapper { header, payload }
}
