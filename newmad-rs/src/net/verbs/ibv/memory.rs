//! Registered memory that keeps its adapter.

use std::io;
use std::sync::Arc;

use super::Adapter;
use super::pages::Pages;

/// See the module.
pub(super) struct Memory {
    // In this order.
    pub(super) pages: Pages,
    _adapter: Arc<Adapter>,
}

impl Memory {
    /// # Errors
    /// The kernel refuses memory, or to lock it.
    pub(super) fn new(adapter: &Arc<Adapter>, len: usize) -> io::Result<Memory> {
        Ok(Memory { pages: adapter.pages(len)?, _adapter: adapter.clone() })
    }
}
