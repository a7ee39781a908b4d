//! A piece of memory that packets are copied from or to, known by address and length only.
//!
//! User buffers belong to requests and incoming payloads lie in memory that another process may still be
//! writing to, so neither is ever a Rust reference here: both are moved by raw copies whose bounds have been
//! checked against values read once.

/// Address and length of readable memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    ptr: *const u8,
    len: usize,
}

// SAFETY: an address and a length; whoever makes a span promises that its memory may be read where it is used.
unsafe impl Send for Span {}

impl Span {
    /// No memory.
    pub(crate) const EMPTY: Span = Span { ptr: core::ptr::NonNull::dangling().as_ptr(), len: 0 };

    /// # Safety
    /// `len` bytes at `ptr` stay readable as long as the span (or a copy of it) is used.
    #[inline]
    pub(crate) unsafe fn new(ptr: *const u8, len: usize) -> Span {
        Span { ptr, len }
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Its address.
    #[inline]
    pub(crate) fn as_ptr(self) -> *const u8 {
        self.ptr
    }

    /// The part from `from` on, at most `len` bytes of it; empty when `from` is beyond the end.
    #[inline]
    pub(crate) fn part(self, from: usize, len: usize) -> Span {
        let from = from.min(self.len);
        // SAFETY: `from` is at most the length, so the address stays inside (or one past) the span.
        Span { ptr: unsafe { self.ptr.add(from) }, len: len.min(self.len - from) }
    }

    /// Copies the whole span.
    ///
    /// # Safety
    /// `self.len()` bytes at `to` are writable and do not overlap the span.
    #[inline]
    pub(crate) unsafe fn copy_to(self, to: *mut u8) {
        // SAFETY: readable by the span's construction, writable by the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(self.ptr, to, self.len) }
    }
}
