//! Strategy: what goes into the next packet of a gate when its small track is free.

use crate::collect::queue::Queue;
use crate::proto::{Header, Kind, SENDER_WAITS};
use crate::request::Ref;
use crate::request::span::Span;

/// A packet wrapper: what the transfer layer is given.
pub(crate) struct Wrapper {
    pub(crate) request: Ref,
    pub(crate) header: Header,
    pub(crate) payload: Span,
}

/// What a strategy may choose from.
pub(crate) struct Limits {
    /// Most payload bytes of one packet of the small track.
    pub(crate) mtu: usize,
    /// Longer messages use rendezvous.
    pub(crate) threshold: usize,
}

/// Builds the next packet of a gate from the messages that wait there.
pub(crate) trait Strategy {
    /// The next packet; `None` when nothing waits. Called again, with the queue as it is then, when the packet
    /// could not be posted. Progress path.
    fn next(&self, waiting: &Queue, limits: &Limits) -> Option<Wrapper>;
}

/// Messages leave one by one, in order, in as few packets as the track allows.
pub(crate) struct Default;

impl Strategy for Default {
    #[inline]
    fn next(&self, waiting: &Queue, limits: &Limits) -> Option<Wrapper> {
        waiting.front().map(|request| wrap(request, limits))
    }
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
        return Wrapper { request, header, payload: Span::EMPTY };
    }
    let moved = request.moved.get();
    let payload = data.part(moved, limits.mtu);
    let size = payload.len() as u32;
    let header = if data.len() <= limits.mtu {
        Header { tag, len, payload: size, ..Header::new(Kind::Eager) }
    } else if moved == 0 {
        Header { tag, len, payload: size, ..Header::new(Kind::First) }
    } else {
        Header { tag, len: moved as u64, payload: size, ..Header::new(Kind::Next) }
    };
    Wrapper { request, header, payload }
}
