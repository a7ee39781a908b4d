//! Cells for unexpected messages.
//!
//! A cell holds the payload of one unexpected message (or the announcement of a large one) in memory that was
//! allocated beforehand, by size class. [`Pool::take`] and [`Pool::put`] are for the progress path and never
//! allocate: when no cell is left the message stays in the driver. [`Pool::grow`] is for the callers' context.

use core::ptr::NonNull;

use crate::memory::span::Span;
use crate::request::Ref;

/// The index of no cell.
pub(crate) const NONE: u32 = u32::MAX;
/// Most cells a pool can hold.
const MOST: usize = (u32::MAX - 1) as usize;
/// Sizes of the classes below the largest one. A message counts for an eighth of its cell at least: see `gate/config.rs`.
const SMALLER: [usize; 5] = [64, 1024, 8192, 64 * 1024, 512 * 1024];
/// Cells of each class that there are from the beginning.
const FIRST: [usize; 6] = [512, 128, 32, 8, 2, 2];

/// What an unexpected message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The whole message, or what has come of it so far.
    Eager,
    /// The announcement of a message that waits with its sender.
    Announced { id: u64, addr: u64, sender_waits: bool },
}

/// One cell.
pub(crate) struct Cell {
    data: NonNull<u8>,
    class: u8,
    /// The process that it came from, its rank, and the place of the rank that it is for.
    pub(crate) gate: u32,
    pub(crate) source: u32,
    pub(crate) to: u16,
    pub(crate) tag: u64,
    /// Length of the message.
    pub(crate) len: usize,
    /// Bytes of it that have come.
    pub(crate) got: usize,
    pub(crate) content: Content,
    /// The receive that took it before it was complete.
    pub(crate) claimed: Option<Ref>,
    /// What the trace calls it.
    pub(crate) number: u64,
    /// Its number among the unexpected messages, in order of arrival.
    pub(crate) arrival: u64,
    /// Neighbours in the lists by (source, tag), by tag, and of all; `next[0]` is the free list's link too.
    pub(crate) next: [u32; 3],
    pub(crate) prev: [u32; 3],
}

struct Class {
    size: usize,
    free: u32,
    cells: usize,
}

/// See the module.
pub(crate) struct Pool {
    cells: Vec<Cell>,
    chunks: Vec<Box<[u8]>>,
    classes: [Class; 6],
    bytes: usize,
    max: usize,
    wanted: usize,
}

// SAFETY: the pointers lead into `chunks`, which the pool owns.
unsafe impl Send for Pool {}

/// The sizes of the classes of a pool for messages of up to `largest` bytes.
fn sizes(largest: usize) -> [usize; 6] {
    let largest = largest.next_multiple_of(64).max(SMALLER[2] * 2);
    let [tiny, short, middle, long, longer] = SMALLER.map(|size| size.min(largest));
    [tiny, short, middle, long, longer, largest]
}

/// How many cells of each class there are first; none of those that are no larger than the one before.
fn first_cells(sizes: &[usize; 6]) -> [usize; 6] {
    let is_larger = |class: usize| class == 0 || sizes[class] > sizes[class - 1];
    std::array::from_fn(|class| if is_larger(class) { FIRST[class] } else { 0 })
}

/// Bytes that a pool for messages of up to `largest` bytes has from the beginning.
pub(crate) fn first_bytes(largest: usize) -> usize {
    let sizes = sizes(largest);
    first_cells(&sizes).iter().zip(sizes).map(|(cells, size)| cells * size).sum()
}

impl Pool {
    /// A pool for messages of up to `largest` bytes, that will hold `max` bytes at most (but always a few cells
    /// of each class).
    pub(crate) fn new(largest: usize, max: usize) -> Pool {
        let sizes = sizes(largest);
        let mut pool = Pool {
            cells: Vec::new(),
            chunks: Vec::new(),
            classes: sizes.map(|size| Class { size, free: NONE, cells: 0 }),
            bytes: 0,
            max,
            wanted: 0,
        };
        for (class, cells) in first_cells(&sizes).into_iter().enumerate() {
            pool.add(class, cells);
        }
        pool
    }

    fn class_of(&self, len: usize) -> Option<usize> {
        self.classes.iter().position(|class| class.size >= len)
    }

    /// A cell for a message of `len` bytes; `None`: there is none, and [`Pool::grow`] will know.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<u32> {
        let first = self.class_of(len)?;
        for class in &mut self.classes[first..] {
            if class.free != NONE {
                let index = class.free;
                class.free = self.cells[index as usize].next[0];
                return Some(index);
            }
        }
        self.wanted = self.wanted.max(len);
        None
    }

    /// Whether any message of `len` bytes could ever have a cell.
    pub(crate) fn can_hold(&self, len: usize) -> bool {
        self.class_of(len).is_some()
    }

    /// Gives a cell back.
    #[inline]
    pub(crate) fn put(&mut self, index: u32) {
        let cell = &mut self.cells[index as usize];
        let class = &mut self.classes[usize::from(cell.class)];
        cell.claimed = None;
        cell.next[0] = class.free;
        class.free = index;
    }

    /// Makes room for what [`Pool::take`] could not hold. Allocates: not for the progress path.
    /// False: the bound is reached.
    pub(crate) fn grow(&mut self) -> bool {
        let wanted = core::mem::take(&mut self.wanted);
        let Some(class) = self.class_of(wanted) else { return false };
        if self.classes[class..].iter().any(|class| class.free != NONE) {
            return true;
        }
        let size = self.classes[class].size;
        let room = self.max.saturating_sub(self.bytes) / size;
        let cells =
            self.classes[class].cells.max(64 * 1024 / size).min(room).min(MOST - self.cells.len());
        self.add(class, cells);
        if cells == 0 {
            self.wanted = wanted;
        }
        cells > 0
    }

    fn add(&mut self, class: usize, cells: usize) {
        if cells == 0 {
            return;
        }
        let size = self.classes[class].size;
        self.bytes += size * cells;
        self.classes[class].cells += cells;
        let mut chunk = vec![0u8; size * cells].into_boxed_slice();
        let base = chunk.as_mut_ptr();
        self.chunks.push(chunk);
        for index in 0..cells {
            // SAFETY: inside the chunk, whose memory does not move with its box.
            let data = unsafe { NonNull::new_unchecked(base.add(index * size)) };
            self.cells.push(Cell {
                data,
                class: class as u8,
                gate: 0,
                source: 0,
                to: 0,
                tag: 0,
                len: 0,
                got: 0,
                content: Content::Eager,
                claimed: None,
                number: 0,
                arrival: 0,
                next: [self.classes[class].free, NONE, NONE],
                prev: [NONE; 3],
            });
            self.classes[class].free = (self.cells.len() - 1) as u32;
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Cell {
        &self.cells[index as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Cell {
        &mut self.cells[index as usize]
    }

    /// Appends to the message in the cell; the part that does not fit is dropped.
    #[inline]
    pub(crate) fn append(&mut self, index: u32, data: Span) {
        let cell = &mut self.cells[index as usize];
        let size = self.classes[usize::from(cell.class)].size;
        let part = data.part(0, size.saturating_sub(cell.got));
        // SAFETY: `part.len()` bytes from `got` are inside the cell, which nothing else points to.
        unsafe { part.copy_to(cell.data.as_ptr().add(cell.got)) };
        cell.got += part.len();
    }

    /// What has come of the message in the cell.
    #[inline]
    pub(crate) fn payload(&self, index: u32) -> Span {
        let cell = &self.cells[index as usize];
        // SAFETY: the first `got` bytes of the cell were written by `append`.
        unsafe { Span::new(cell.data.as_ptr(), cell.got) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_only_when_told_and_to_its_bound() {
        let mut pool = Pool::new(16 * 1024, 1 << 20);
        let mut taken = Vec::new();
        while let Some(cell) = pool.take(10_000) {
            taken.push(cell);
        }
        assert_eq!(taken.len(), 8);
        assert!(pool.grow());
        let before = taken.len();
        loop {
            match pool.take(10_000) {
                Some(cell) => taken.push(cell),
                None if pool.grow() => {}
                None => break,
            }
        }
        assert!(taken.len() > before);
        assert!(pool.bytes <= 1 << 20);
        for cell in taken.drain(..) {
            pool.put(cell);
        }
        assert!(pool.take(10_000).is_some());
        assert!(!pool.can_hold(1 << 20));
    }

    #[test]
    fn a_message_of_some_kilobytes_takes_no_cell_of_the_longest_ones() {
        let mut pool = Pool::new(256 * 1024, 1 << 24);
        let before = pool.bytes;
        for _ in 0..8 {
            pool.take(20_000).unwrap();
        }
        assert!(pool.take(20_000).is_some(), "one of the longest, where there is no other");
        pool.wanted = 20_000;
        pool.take(200_000).unwrap();
        assert!(pool.take(20_000).is_none() && pool.grow());
        assert!(pool.bytes - before <= 8 * 64 * 1024);
    }

    #[test]
    fn a_small_message_takes_a_larger_cell_when_its_class_is_empty() {
        let mut pool = Pool::new(16 * 1024, 1 << 20);
        let mut count = 0;
        while pool.take(1).is_some() {
            count += 1;
        }
        assert_eq!(count, 512 + 128 + 32 + 8);
    }
}
