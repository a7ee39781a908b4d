//! The sending end of a gate's small track, apart from the driver: whoever has it sends without the engine.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::bell::Bell;
use super::segment::Segment;
use super::track::Sender;
use crate::net::Rings;
use crate::request::span::Span;

/// See the module.
pub(crate) struct Outlet {
    pub(super) sender: Sender,
    /// The peer's.
    pub(super) segment: Arc<Segment>,
    pub(super) bell: Arc<OwnedFd>,
    /// This side's, which counts the rings.
    pub(super) own: Arc<Bell>,
    pub(super) to: u32,
}

impl Outlet {
    /// As the driver's `post_eager`. False: there is no room now.
    #[inline]
    pub(crate) fn post_eager(&mut self, numbers: (u32, u32), tag: u64, data: Span) -> bool {
        let posted = self.sender.post_eager(numbers, tag, data);
        let rings = if posted { Rings::MESSAGE } else { Rings::CONTROL };
        self.own.ring(self.to, &self.segment, &self.bell, rings);
        posted
    }
}
