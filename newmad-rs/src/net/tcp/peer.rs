//! A gate over TCP: its two sockets.

use std::os::fd::OwnedFd;

use super::large::Large;
use super::small::Small;

/// One gate.
pub(crate) struct Peer {
    pub(super) small: Small,
    pub(super) large: Large,
}

impl Peer {
    pub(super) fn new(small: OwnedFd, large: OwnedFd) -> Peer {
        Peer { small: Small::new(small), large: Large::new(large) }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.small.socket.is_some()
    }

    /// Whether a part of a small packet waits for room. A piece on the large track has a request that waits.
    #[inline]
    pub(super) fn holds_back(&self) -> bool {
        self.small.backlog() && self.is_connected()
    }

    #[inline]
    pub(super) fn readable(&mut self) {
        self.small.ready = true;
        self.large.ready = true;
    }

    /// Closes the sockets. The buffers stay until the session is dropped: nothing is freed here.
    pub(super) fn close(&mut self) {
        self.small.socket = None;
        self.large.socket = None;
    }
}
