//! Copying between elements in memory and their packed form: the bytes of their data, in order.

use super::flat::Strip;
use super::shape::Shape;

/// Packs `count` elements.
///
/// # Safety
/// They are readable at `from`; `to` has room for their size; the two do not overlap.
pub(crate) unsafe fn pack(shape: &Shape, from: *const u8, count: usize, to: *mut u8) {
    let mut to = to;
    shape.part.flat.strips(count, shape.extent, usize::MAX, |strip| {
        // SAFETY: the caller's promise; strips are inside of the elements, and their bytes together those of the room.
        unsafe {
            strips(from.wrapping_offset(strip.at), strip.stride, to, strip.len as isize, strip);
            to = to.add(strip.count * strip.len);
        }
    });
}

/// Unpacks the first `bytes` of up to `count` elements; the others stay as they are.
///
/// # Safety
/// `from` has so many bytes; the elements at `to` are writable; the two do not overlap.
pub(crate) unsafe fn unpack(
    shape: &Shape,
    from: *const u8,
    bytes: usize,
    to: *mut u8,
    count: usize,
) {
    let mut from = from;
    shape.part.flat.strips(count, shape.extent, bytes, |strip| {
        // SAFETY: as in `pack`.
        unsafe {
            strips(from, strip.len as isize, to.wrapping_offset(strip.at), strip.stride, strip);
            from = from.add(strip.count * strip.len);
        }
    });
}

/// Copies the runs of a strip, `from_stride` and `to_stride` apart. The usual lengths are single moves.
///
/// # Safety
/// All runs are readable, or writable.
#[inline]
unsafe fn strips(from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize, strip: Strip) {
    macro_rules! fixed {
        ($($len:literal)*) => {
            match strip.len {
                $($len => {
                    for index in 0..strip.count as isize {
                        let from = from.wrapping_offset(index.wrapping_mul(from_stride));
                        let to = to.wrapping_offset(index.wrapping_mul(to_stride));
                        // SAFETY: the caller's promise; no alignment is needed.
                        unsafe {
                            to.cast::<[u8; $len]>().write_unaligned(from.cast::<[u8; $len]>().read_unaligned());
                        }
                    }
                })*
                len => {
                    for index in 0..strip.count as isize {
                        let from = from.wrapping_offset(index.wrapping_mul(from_stride));
                        let to = to.wrapping_offset(index.wrapping_mul(to_stride));
                        // SAFETY: the caller's promise.
                        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
                    }
                }
            }
        };
    }
    fixed!(1 2 4 8 12 16 24 32 64)
}
