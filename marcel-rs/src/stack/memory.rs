//! One stack of a green thread: where it is, where it ends, how much of it was used.
//!
//! *Colouring*: were every stack to start at the same offset in its pages, the hot top lines of all threads
//! would fall into a few cache sets (measured: 32 ns a switch with 1 000 threads in turn against 14). So
//! neighbours, in a slab and in the next ones, start a different number of cache lines below their tops: over a quarter of a
//! page; over a whole page where stacks are large, since frames are, too.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Fewest bytes below a stack that cannot be touched, before they are rounded up to whole pages.
pub(crate) const MIN_GUARD: usize = 4096;
/// Smallest stack that a thread can be given.
pub(crate) const MIN_SIZE: usize = 16 * 1024;
const LINE: usize = 64;
/// How many cache lines a stack may start below its top.
const COLOURS: usize = 16;
/// The same from this size on.
const LARGE_COLOURS: usize = 64;
const LARGE: usize = 256 * 1024;
/// Colours between neighbours, and between the stacks of one place in neighbouring slabs: odd, and several lines, which is what
/// the hot part of a frame takes.
const STEP: usize = 9;
const SLAB_STEP: usize = 11 * STEP;

/// Bytes of a page of memory, 4 to 64 KiB. Async-signal-safe.
pub(crate) fn page() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            // SAFETY: no pointers.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// A place for a stack in a slab. Its holder owns it: see `slab`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// Where the guard begins.
    pub(super) bottom: usize,
    /// Bytes of the guard.
    pub(super) guard: usize,
    /// Bytes above the guard.
    pub(super) size: usize,
    /// Its slab, and its number there.
    pub(super) slab: u32,
    pub(super) index: u32,
}

impl Stack {
    /// Usable bytes; the colouring, under 1 KiB, or under 4 KiB of a large stack, and the context's frame are not subtracted.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Addresses of the guard.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.bottom..self.bottom + self.guard
    }

    /// Addresses of all of it, but for the guard.
    pub(crate) fn usable(&self) -> Range<usize> {
        self.guard().end..self.guard().end + self.size
    }

    /// Where it starts, coloured.
    pub(super) fn top(&self) -> usize {
        self.usable().end - self.colour() * LINE
    }

    fn colour(&self) -> usize {
        let colours = if self.size < LARGE { COLOURS } else { LARGE_COLOURS };
        (self.index as usize * STEP + self.slab as usize * SLAB_STEP) % colours
    }

    /// All of it, guard included.
    pub(super) fn whole(&self) -> Range<usize> {
        self.bottom..self.usable().end
    }

    /// Bytes, in whole pages, from the top down to the lowest page that is in memory: see [`touched`].
    pub(crate) fn touched(&self) -> usize {
        touched(self.usable())
    }
}

/// Bytes of the stack at `usable`, in whole pages, from the top down to the lowest page that is in memory: the most
/// that any thread has used of it since the kernel last had its memory. Pages that the kernel has swapped out
/// are not counted. One system call for each 512 pages that were not touched; async-signal-safe. An answer of no
/// meaning if it is a stack no more.
pub(crate) fn touched(usable: Range<usize>) -> usize {
    const PAGES: usize = 512;
    let page = page();
    let mut from = usable.start;
    while from < usable.end {
        let mut present = [0u8; PAGES];
        let pages = PAGES.min((usable.end - from) / page);
        // SAFETY: the kernel checks the pages; there is a byte for each. It fails for lack of kernel memory, or of the
        // stack.
        let ret =
            unsafe { libc::mincore(from as *mut libc::c_void, pages * page, present.as_mut_ptr()) };
        let first = present[..pages].iter().position(|state| state & 1 == 1);
        match first {
            Some(first) if ret == 0 => return usable.end - from - first * page,
            _ => from += PAGES * page,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(size: usize, slabs: u32, in_each: u32) -> Vec<usize> {
        let places = (0..slabs).flat_map(|slab| (0..in_each).map(move |index| (slab, index)));
        let stack = |(slab, index)| Stack { bottom: 0, guard: 4096, size, slab, index };
        places.map(|place| stack(place).colour()).collect()
    }

    #[test]
    fn stacks_that_are_near_start_at_different_lines() {
        let differ = |mut colours: Vec<usize>, most: usize| {
            let count = colours.len();
            assert!(colours.iter().all(|&colour| colour < most));
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), count.min(most));
        };
        differ(colours(MIN_SIZE, 1, 64), COLOURS);
        // Three stacks of 8 MiB, or one of 32, are in a slab.
        differ(colours(8 << 20, 6, 3), LARGE_COLOURS);
        differ(colours(32 << 20, 64, 1), LARGE_COLOURS);
        differ(colours(LARGE, 1, 64), LARGE_COLOURS);
    }
}
