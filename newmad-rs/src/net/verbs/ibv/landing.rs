//! Memory of this process into which a peer's adapter writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Adapter;
use super::pages::Pages;
use crate::memory::span::Span;

/// See the module. It is filled with zeros at first.
pub(in crate::net::verbs) struct Landing {
    // In this order.
    pages: Pages,
    _adapter: Arc<Adapter>,
}

impl Landing {
    /// # Errors
    /// The kernel refuses memory, or to lock it.
    pub(in crate::net::verbs) fn new(adapter: &Arc<Adapter>, len: usize) -> io::Result<Landing> {
        Ok(Landing { pages: adapter.pages_for_peers(len)?, _adapter: adapter.clone() })
    }

    /// Its address, and the key by which a peer writes there.
    pub(in crate::net::verbs) fn place(&self) -> (u64, u32) {
        self.pages.remote()
    }

    /// The eight bytes at `at`, in this machine's order. All that a peer has written in the same request at lower
    /// addresses is visible to the caller afterwards.
    #[inline]
    pub(in crate::net::verbs) fn word(&self, at: usize) -> u64 {
        match self.pages.at(at, 8) {
            // SAFETY: inside the memory, which lives as long as this, and aligned.
            Some((start, _)) if start.addr().is_multiple_of(8) => unsafe {
                (*start.cast::<AtomicU64>()).load(Ordering::Acquire)
            },
            _ => 0,
        }
    }

    /// The bytes there; none, if they are not inside.
    ///
    /// # Safety
    /// The span is not used after the peer was told that it may write there.
    #[inline]
    pub(in crate::net::verbs) unsafe fn bytes(&self, at: usize, len: usize) -> Span {
        match self.pages.at(at, len) {
            // SAFETY: inside the memory. A peer that keeps to the protocol does not write there now; one that does not
            // changes bytes that are read through raw pointers only.
            Some((start, _)) => unsafe { Span::new(start, len) },
            None => Span::EMPTY,
        }
    }
}
