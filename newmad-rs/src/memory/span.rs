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

// SAFETY: an address and a length; its maker promises that the memory may be read where it is used.
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
        unsafe {
            match self.len {
                0..=16 => copy_few(self.ptr, to, self.len),
                len => core::ptr::copy_nonoverlapping(self.ptr, to, len),
            }
        }
    }
}

/// Copies up to 16 bytes without a call: two words that may overlap.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn copy_few(from: *const u8, to: *mut u8, len: usize) {
    /// Copies the first and the last `T` of what is at least one long.
    #[inline(always)]
    unsafe fn ends<T>(from: *const u8, to: *mut u8, len: usize) {
        let last = len - size_of::<T>();
        // SAFETY: inside, as `len` is at least the size; both are read before either is written.
        unsafe {
            let (head, tail) =
                (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
            to.cast::<T>().write_unaligned(head);
            to.add(last).cast::<T>().write_unaligned(tail);
        }
    }
    // SAFETY: the caller's promise; each width is at most the length.
    unsafe {
        // A word and more first: that is what most short messages are.
        if len >= 8 {
            return ends::<u64>(from, to, len);
        }
        match len {
            0 => {}
            1 => to.write(from.read()),
            2..=3 => ends::<u16>(from, to, len),
            _ => ends::<u32>(from, to, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_nothing_beside_it() {
        let from: Vec<u8> = (1..=40).collect();
        for len in 0..=32 {
            let mut to = [0; 40];
            // SAFETY: both are long enough.
            unsafe { Span::new(from.as_ptr(), len).copy_to(to.as_mut_ptr().add(3)) };
            assert_eq!(to[3..3 + len], from[..len]);
            assert!(to[..3].iter().chain(&to[3 + len..]).all(|&byte| byte == 0), "{len}");
        }
    }
}
