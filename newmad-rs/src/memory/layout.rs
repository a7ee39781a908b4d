//! Scattered data: messages that are gathered from several pieces of memory, or spread over several.
//!
//! The engine sees a request as so many bytes in a row, and asks where those from some offset on lie: a *run*, as far
//! as they are together. Most requests have one run, and pay one branch for the others. On either side a layout may be
//! anything, whatever the other has: what travels is the bytes in their order.
//!
//! | way | scattered sender | scattered receiver |
//! |---|---|---|
//! | small track | gathered by the driver, up to [`crate::net::GATHER_MAX`] runs a packet | stored run by run |
//! | copies between address spaces | it copies run by run, if they are long | it copies run by run, if they are long |
//! | large track | through a stage of the engine's, once more in the cache | the same |
//!
//! Rejected: packing when the request is made (memory as large as the message, and a copy before anything leaves);
//! descriptions of layouts on the wire (the other side would have to believe them).

use core::cell::Cell;

use crate::memory::span::Span;

/// From this length on a run is worth a system call of its own.
const LONG_RUN: usize = if cfg!(test) { 16 } else { 4096 };

/// Blocks of equal length at equal distances: a column of a matrix, say.
///
/// ```
/// use newmad::Strided;
/// newmad::run(|session| {
///     // The second column of a matrix of three by three, into the last of another.
///     let from = [1, 2, 3, 4, 5, 6, 7, 8, 9];
///     let mut to = [0; 9];
///     let column = Strided { block: 1, stride: 3, count: 3 };
///     session.scope(|scope| {
///         let receive = scope.irecv_with(0, 1, &mut to[2..], column)?;
///         scope.isend_with(0, 1, &from[1..], column)?;
///         receive.wait()
///     })?;
///     assert_eq!(to, [0, 0, 2, 0, 0, 5, 0, 0, 8]);
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Bytes of a block.
    pub block: usize,
    /// Bytes from the beginning of a block to that of the next; no less than a block.
    pub stride: usize,
    /// Number of blocks.
    pub count: usize,
}

impl Strided {
    /// Bytes of the message. `None`: blocks overlap, or are not inside `memory` bytes.
    pub(crate) fn len(self, memory: usize) -> Option<usize> {
        let Strided { block, stride, count } = self;
        let end = match count {
            0 => Some(0),
            count => (count - 1).checked_mul(stride).and_then(|last| last.checked_add(block)),
        };
        match end {
            Some(end) if end <= memory && (stride >= block || count < 2) => Some(block * count),
            _ => None,
        }
    }
}

/// Where the bytes of a scattered request lie.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Strided { base: *mut u8, block: usize, stride: usize },
    List { pieces: *const libc::iovec, count: usize },
}

/// A shape, and where it was last looked at.
pub(crate) struct Layout {
    shape: Shape,
    /// Bytes of the message.
    len: usize,
    /// A piece of the list, and the offset of its first byte.
    cursor: Cell<(usize, usize)>,
}

impl Layout {
    pub(crate) fn strided(base: *mut u8, layout: Strided, len: usize) -> Layout {
        let Strided { block, stride, .. } = layout;
        Layout { shape: Shape::Strided { base, block, stride }, len, cursor: Cell::new((0, 0)) }
    }

    /// `count` pieces that are `len` bytes together.
    pub(crate) fn list(pieces: *const libc::iovec, count: usize, len: usize) -> Layout {
        Layout { shape: Shape::List { pieces, count }, len, cursor: Cell::new((0, 0)) }
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether its runs are worth a system call each, on the whole.
    pub(crate) fn has_long_runs(&self) -> bool {
        match self.shape {
            Shape::Strided { block, .. } => block >= LONG_RUN,
            Shape::List { count, .. } => self.len / count.max(1) >= LONG_RUN,
        }
    }

    /// Where the byte at `offset` is, and how many there are from there on: none at the end only.
    ///
    /// # Safety
    /// The list that it was made of is there.
    pub(crate) unsafe fn run(&self, offset: usize) -> (*mut u8, usize) {
        if offset >= self.len {
            return (core::ptr::dangling_mut(), 0);
        }
        match self.shape {
            Shape::Strided { base, block, stride } => {
                let (index, within) = (offset / block, offset % block);
                // SAFETY: the blocks are inside the memory that `Strided::len` has seen.
                (unsafe { base.add(index * stride + within) }, block - within)
            }
            Shape::List { pieces, count } => {
                let (mut index, mut start) = self.cursor.get();
                if start > offset {
                    (index, start) = (0, 0);
                }
                while index < count {
                    // SAFETY: inside the list.
                    let piece = unsafe { *pieces.add(index) };
                    if offset < start + piece.iov_len {
                        self.cursor.set((index, start));
                        // SAFETY: inside the piece.
                        let at = unsafe { piece.iov_base.cast::<u8>().add(offset - start) };
                        return (at, start + piece.iov_len - offset);
                    }
                    start += piece.iov_len;
                    index += 1;
                }
                (core::ptr::dangling_mut(), 0)
            }
        }
    }

    /// The runs from `offset` on, as many as there are places and no more than `most` bytes; how many, and their bytes.
    ///
    /// # Safety
    /// The list that it was made of, and the memory that it names, are there as long as the parts are used.
    pub(crate) unsafe fn gather(
        &self,
        offset: usize,
        most: usize,
        parts: &mut [Span],
    ) -> (usize, usize) {
        let mut bytes = 0;
        for (count, part) in parts.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let (at, len) = unsafe { self.run(offset + bytes) };
            let len = len.min(most - bytes);
            if len == 0 {
                return (count, bytes);
            }
            // SAFETY: a run; the caller's promise.
            *part = unsafe { Span::new(at, len) };
            bytes += len;
        }
        (parts.len(), bytes)
    }

    /// Copies bytes from `offset` on to `to`, at most `most` of them.
    ///
    /// # Safety
    /// As [`Layout::run`]; `most` bytes at `to` are writable and apart from the layout's memory.
    pub(crate) unsafe fn copy_out(&self, offset: usize, to: *mut u8, most: usize) -> usize {
        let mut copied = 0;
        while copied < most {
            // SAFETY: the caller's promise.
            let (at, len) = unsafe { self.run(offset + copied) };
            let len = len.min(most - copied);
            if len == 0 {
                break;
            }
            // SAFETY: a run; the caller's promise.
            unsafe { core::ptr::copy_nonoverlapping(at, to.add(copied), len) };
            copied += len;
        }
        copied
    }

    /// Copies `data` to where the bytes from `offset` on lie, as far as there are any.
    ///
    /// # Safety
    /// As [`Layout::run`]; the layout's memory is writable, and apart from `data`.
    pub(crate) unsafe fn copy_in(&self, offset: usize, data: Span) {
        let mut copied = 0;
        while copied < data.len() {
            // SAFETY: the caller's promise.
            let (at, len) = unsafe { self.run(offset + copied) };
            let part = data.part(copied, len);
            if part.len() == 0 {
                break;
            }
            // SAFETY: a run; the caller's promise.
            unsafe { part.copy_to(at) };
            copied += part.len();
        }
    }
}

/// Bytes of the slices together.
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A layout over `memory`, and the offsets of its bytes there, in order.
    fn both(
        memory: &mut [u8],
        strided: Option<Strided>,
        cuts: &[usize],
    ) -> (Layout, Vec<usize>, Vec<libc::iovec>) {
        let base = memory.as_mut_ptr();
        if let Some(strided) = strided {
            let len = strided.len(memory.len()).unwrap();
            let places = (0..strided.count)
                .flat_map(|block| (0..strided.block).map(move |at| block * strided.stride + at));
            return (Layout::strided(base, strided, len), places.collect(), Vec::new());
        }
        // Every second of the ranges between the cuts, the last one first.
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (memory.len() + 1)).collect();
        ends.sort_unstable();
        let (mut places, mut pieces) = (Vec::new(), Vec::new());
        for range in ends.chunks_exact(2).rev() {
            // SAFETY: inside the memory.
            let at = unsafe { base.add(range[0]) };
            pieces.push(libc::iovec { iov_base: at.cast(), iov_len: range[1] - range[0] });
            places.extend(range[0]..range[1]);
        }
        (Layout::list(pieces.as_ptr(), pieces.len(), places.len()), places, pieces)
    }

    proptest! {
        #[test]
        fn a_layout_is_its_packed_copy(
            strided: Option<(usize, usize, usize)>,
            cuts in proptest::collection::vec(0usize..300, 0..12),
            looks in proptest::collection::vec((0usize..300, 0usize..300, 1usize..9), 1..20),
        ) {
            let strided = strided.map(|(block, gap, count)| {
                let block = block % 20;
                Strided { block, stride: block + gap % 10, count: count % 10 }
            });
            let mut memory: Vec<u8> = (0..300).map(|at| (at * 7 % 251) as u8).collect();
            let before = memory.clone();
            let (layout, places, _pieces) = both(&mut memory, strided, &cuts);
            let packed: Vec<u8> = places.iter().map(|&at| before[at]).collect();
            prop_assert_eq!(layout.len(), packed.len());
            for (offset, most, count) in looks {
                let rest = packed.get(offset..).unwrap_or(&[]);
                let rest = &rest[..rest.len().min(most)];
                let mut out = vec![0; most];
                // SAFETY: `out` has room for `most`, memory and pieces are alive.
                let copied = unsafe { layout.copy_out(offset, out.as_mut_ptr(), most) };
                prop_assert_eq!(&out[..copied], rest);
                let mut parts = vec![Span::EMPTY; count];
                // SAFETY: as above.
                let (used, bytes) = unsafe { layout.gather(offset, most, &mut parts) };
                let mut gathered = Vec::new();
                for part in &parts[..used] {
                    let from = gathered.len();
                    gathered.resize(from + part.len(), 0);
                    // SAFETY: just resized.
                    unsafe { part.copy_to(gathered.as_mut_ptr().add(from)) };
                }
                prop_assert_eq!(gathered.len(), bytes);
                prop_assert_eq!(&gathered[..], &rest[..bytes]);
                prop_assert!(used == count || bytes == rest.len());
            }
            // The other direction, in two parts.
            let fresh: Vec<u8> = (0..packed.len() + 3).map(|at| (at * 3 % 255) as u8).collect();
            let half = packed.len() / 2;
            // SAFETY: memory and pieces are alive, `fresh` is apart from them.
            unsafe {
                layout.copy_in(half, Span::new(fresh.as_ptr().add(half), fresh.len() - half));
                layout.copy_in(0, Span::new(fresh.as_ptr(), half));
            }
            let mut expected = before;
            for (&place, &byte) in places.iter().zip(&fresh) {
                expected[place] = byte;
            }
            prop_assert_eq!(memory, expected);
        }
    }

    #[test]
    fn blocks_that_overlap_or_lie_outside_are_refused() {
        let of = |block, stride, count| Strided { block, stride, count };
        assert_eq!(of(2, 3, 4).len(11).unwrap(), 8);
        assert!(of(2, 3, 4).len(10).is_none());
        assert!(of(3, 2, 4).len(100).is_none());
        assert!(of(1, usize::MAX, 3).len(100).is_none());
        assert!(of(usize::MAX, usize::MAX, 2).len(100).is_none());
        assert_eq!(of(5, 0, 1).len(5).unwrap(), 5);
        assert_eq!(of(5, 5, 0).len(0).unwrap(), 0);
        assert_eq!(of(0, 0, 9).len(0).unwrap(), 0);
    }
}
