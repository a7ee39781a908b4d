//! A send lease: the sending end of a gate's small track, apart from the driver. Its holder sends without the engine.

use std::sync::Arc;

use crate::memory::span::Span;
use crate::net::rings::Rings;
use crate::net::segment::Segment;
use crate::net::segment::bell::Bell;
use crate::net::segment::peer_bell::PeerBell;
use crate::net::segment::track::Sender;
use crate::wire::Envelope;

/// See the module. Only shared memory grants leases.
pub(crate) struct SendLease {
    pub(in crate::net) sender: Sender,
    /// The peer's.
    pub(in crate::net) segment: Arc<Segment>,
    pub(in crate::net) bell: Arc<PeerBell>,
    /// This side's, which counts the rings.
    pub(in crate::net) own: Arc<Bell>,
    pub(in crate::net) to: u32,
}

impl SendLease {
    /// Sends a message as the driver's `post_eager` does. False: the track is full now.
    #[inline]
    pub(crate) fn post_eager(
        &mut self,
        numbers: (u32, u32),
        envelope: Envelope,
        data: Span,
    ) -> bool {
        let posted = self.sender.post_eager(numbers, envelope, data);
        let rings = if posted { Rings::MESSAGE } else { Rings::CONTROL };
        // Not later: if the track is full, the engine is asked next.
        self.own.ring(self.to, &self.segment, &self.bell, rings);
        posted
    }
}
