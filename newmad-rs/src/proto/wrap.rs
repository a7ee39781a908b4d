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

impl Limits {
    /// Most bytes of one packet of a message of that length. One that takes several goes in equal parts: the receiver copies one
    /// while the next is on its way.
    #[inline]
    pub(crate) fn part(&self, len: usize) -> usize {
        if len <= self.mtu { self.mtu } else { len.div_ceil(len.div_ceil(self.mtu)) }
    }
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
    let payload = data.part(request.moved.get(), limits.part(data.len()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_packets_goes_in_equal_parts() {
        let limits = Limits { mtu: 1000, threshold: 5000, waits: false };
        for (len, part) in [(0, 1000), (1000, 1000), (1001, 501), (2000, 1000), (2001, 667)] {
            assert_eq!(limits.part(len), part, "{len}");
        }
    }
}
