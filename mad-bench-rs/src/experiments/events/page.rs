//! The page that both sides share.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What both sides see. Each part has cache lines of its own.
#[repr(C, align(128))]
#[derive(Default)]
pub(super) struct Page {
    /// How many events the receiver has been ready for.
    pub(super) ready: Aligned<AtomicU64>,
    /// When the last event was raised.
    pub(super) raised: Aligned<AtomicU64>,
    /// The word of the mechanisms that have one.
    pub(super) flag: Aligned<AtomicU32>,
}

#[repr(align(128))]
#[derive(Default)]
pub(super) struct Aligned<T>(T);

impl<T> Deref for Aligned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
