//! Cells for unexpected messages.
//!
//! A cell holds the payload of one unexpected message (or the announcement of a large one) in memory that was
//! allocated beforehand, by size class. [`Pool::take`] and [`Pool::put`] are for the progress path and never
//! allocate: when no cell is left the message stays in the driver. [`Pool::grow`] is for the callers' context.
//!
//! Memory comes in chunks of cells of one class. At the bound, chunks none of whose cells holds a message make room for
//! those of another class: else a program whose messages change their length would wait for memory that lies idle. Chunks
//! are small, so that a message that stays for long keeps no more than some others' cells. The cells of the beginning hold
//! shorter messages, too; those that were added do so only where there is no room for more of the right ones, since the
//! senders' credit counts on them (`gate/config.rs`).

use core::ptr::NonNull;

use crate::memory::span::Span;
use crate::request::Ref;

/// The index of no cell.
pub(crate) const NONE: u32 = u32::MAX;
/// Most cells a pool can hold.
const MOST: usize = (u32::MAX - 1) as usize;
/// Bytes of a chunk, if its cells are smaller, and most of its cells.
const CHUNK: usize = 64 * 1024;
const CELLS: usize = 256;
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
    chunk: u32,
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
    /// The first of its free cells, of those of the beginning.
    first: u32,
    /// The first of its free cells, of those that were added.
    added: u32,
    cells: usize,
}

impl Class {
    /// The first of its free cells, of those that stay, or of the others.
    fn free(&mut self, stays: bool) -> &mut u32 {
        if stays { &mut self.first } else { &mut self.added }
    }
}

/// Memory for some cells of one class. Those of the beginning stay.
struct Chunk {
    memory: Box<[u8]>,
    cells: Vec<u32>,
    /// How many of them are free.
    free: usize,
    stays: bool,
}

impl Chunk {
    fn is_idle(&self) -> bool {
        self.free > 0 && self.free == self.cells.len() && !self.stays
    }
}

/// See the module.
pub(crate) struct Pool {
    cells: Vec<Cell>,
    chunks: Vec<Chunk>,
    /// Places in `cells` and in `chunks` whose memory was given back.
    spare_cells: Vec<u32>,
    spare_chunks: Vec<u32>,
    /// How many chunks are idle, and where to look for one.
    idle: usize,
    next: usize,
    classes: [Class; 6],
    bytes: usize,
    max: usize,
    /// The shortest and the longest message that found no cell; none if the first is longer.
    wanted: (usize, usize),
}

/// No message has found no cell.
const NOTHING: (usize, usize) = (usize::MAX, 0);

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

/// Cells of a chunk.
fn of_each(size: usize) -> usize {
    (CHUNK / size).clamp(1, CELLS)
}

/// The list whose first cell is for a message of the first one of these classes; `tight`: any will do.
#[inline]
fn free_in(classes: &mut [Class], tight: bool) -> Option<&mut u32> {
    if classes[0].first == NONE && classes[0].added != NONE {
        return Some(&mut classes[0].added);
    }
    if let Some(at) = classes.iter().position(|class| class.first != NONE) {
        return Some(&mut classes[at].first);
    }
    classes.iter_mut().map(|class| &mut class.added).find(|added| tight && **added != NONE)
}

impl Pool {
    /// A pool for messages of up to `largest` bytes, that will hold `max` bytes at most (but always a few cells
    /// of each class).
    pub(crate) fn new(largest: usize, max: usize) -> Pool {
        let sizes = sizes(largest);
        let mut pool = Pool {
            cells: Vec::new(),
            chunks: Vec::new(),
            spare_cells: Vec::new(),
            spare_chunks: Vec::new(),
            idle: 0,
            next: 0,
            classes: sizes.map(|size| Class { size, first: NONE, added: NONE, cells: 0 }),
            bytes: 0,
            max,
            wanted: NOTHING,
        };
        for (class, cells) in first_cells(&sizes).into_iter().enumerate() {
            pool.add_chunk(class, cells, true);
        }
        pool
    }

    fn class_of(&self, len: usize) -> Option<usize> {
        self.classes.iter().position(|class| class.size >= len)
    }

    /// A cell for a message of `len` bytes; `None`: there is none, and [`Pool::grow`] will know.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<u32> {
        let class = self.class_of(len)?;
        let tight = self.is_tight(class);
        let Some(free) = free_in(&mut self.classes[class..], tight) else {
            self.wanted = (self.wanted.0.min(len), self.wanted.1.max(len));
            return None;
        };
        let index = *free;
        let cell = &self.cells[index as usize];
        *free = cell.next[0];
        let chunk = &mut self.chunks[cell.chunk as usize];
        self.idle -= usize::from(chunk.is_idle());
        chunk.free -= 1;
        Some(index)
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
        let chunk = &mut self.chunks[cell.chunk as usize];
        cell.claimed = None;
        cell.next[0] = core::mem::replace(class.free(chunk.stays), index);
        chunk.free += 1;
        self.idle += usize::from(chunk.is_idle());
    }

    /// Makes room for what [`Pool::take`] could not hold. Allocates: not for the progress path.
    /// False: the bound is reached.
    pub(crate) fn grow(&mut self) -> bool {
        let (shortest, longest) = core::mem::replace(&mut self.wanted, NOTHING);
        if shortest > longest {
            return false;
        }
        let grown = self.grow_for(longest) || self.grow_for(shortest);
        if !grown {
            self.wanted = (shortest, longest);
        }
        grown
    }

    /// Sees to a free cell for a message of that length.
    fn grow_for(&mut self, len: usize) -> bool {
        let Some(class) = self.class_of(len) else { return false };
        let tight = self.is_tight(class);
        if free_in(&mut self.classes[class..], tight).is_some() {
            return true;
        }
        let Class { size, cells, .. } = self.classes[class];
        let more = cells.max(of_each(size));
        if self.room() < size {
            self.give_back(more * size);
        }
        let more = more.min(self.room() / size).min(MOST - self.cells.len());
        self.add(class, more);
        more > 0 || free_in(&mut self.classes[class..], true).is_some()
    }

    /// Whether there is no room for a cell of this class, and nothing to be given back.
    fn is_tight(&self, class: usize) -> bool {
        self.idle == 0 && self.room() < self.classes[class].size
    }

    /// Bytes up to the bound.
    fn room(&self) -> usize {
        self.max.saturating_sub(self.bytes)
    }

    /// Frees idle chunks until there is room for `bytes`, or no more of them.
    fn give_back(&mut self, bytes: usize) {
        if self.idle == 0 {
            return;
        }
        for _ in 0..self.chunks.len() {
            if self.idle == 0 || self.room() >= bytes {
                break;
            }
            let number = self.next % self.chunks.len();
            self.next = number + 1;
            let chunk = &mut self.chunks[number];
            if !chunk.is_idle() {
                continue;
            }
            let class = &mut self.classes[usize::from(self.cells[chunk.cells[0] as usize].class)];
            class.cells -= chunk.cells.len();
            self.bytes -= chunk.memory.len();
            self.spare_cells.append(&mut chunk.cells);
            self.spare_chunks.push(number as u32);
            (chunk.memory, chunk.free) = (Box::default(), 0);
            self.idle -= 1;
        }
        // Cells without memory are no free ones.
        for class in &mut self.classes {
            let mut rest = core::mem::replace(&mut class.added, NONE);
            while rest != NONE {
                let cell = &mut self.cells[rest as usize];
                let next = cell.next[0];
                if !self.chunks[cell.chunk as usize].cells.is_empty() {
                    cell.next[0] = core::mem::replace(&mut class.added, rest);
                }
                rest = next;
            }
        }
    }

    fn add(&mut self, class: usize, cells: usize) {
        let of_each = of_each(self.classes[class].size);
        for from in (0..cells).step_by(of_each) {
            self.add_chunk(class, of_each.min(cells - from), false);
        }
    }

    fn add_chunk(&mut self, class: usize, cells: usize, stays: bool) {
        if cells == 0 {
            return;
        }
        let size = self.classes[class].size;
        self.bytes += size * cells;
        self.classes[class].cells += cells;
        let mut memory = vec![0u8; size * cells].into_boxed_slice();
        let base = memory.as_mut_ptr();
        let chunk = self.spare_chunks.pop().unwrap_or(self.chunks.len() as u32);
        let free = self.classes[class].free(stays);
        let mut indices = Vec::with_capacity(cells);
        for number in 0..cells {
            // SAFETY: inside the chunk, whose memory does not move with its box.
            let data = unsafe { NonNull::new_unchecked(base.add(number * size)) };
            let cell = Cell {
                data,
                chunk,
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
                next: [*free, NONE, NONE],
                prev: [NONE; 3],
            };
            let index = match self.spare_cells.pop() {
                Some(index) => {
                    self.cells[index as usize] = cell;
                    index
                }
                None => {
                    self.cells.push(cell);
                    (self.cells.len() - 1) as u32
                }
            };
            *free = index;
            indices.push(index);
        }
        let made = Chunk { memory, cells: indices, free: cells, stays };
        self.idle += usize::from(made.is_idle());
        match self.chunks.get_mut(chunk as usize) {
            Some(place) => *place = made,
            None => self.chunks.push(made),
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
        taken.extend(fill(&mut pool, 10_000));
        assert!(taken.len() > before);
        assert!(pool.bytes <= 1 << 20);
        for cell in taken.drain(..) {
            pool.put(cell);
        }
        assert!(pool.take(10_000).is_some());
        assert!(!pool.can_hold(1 << 20));
    }

    fn fill(pool: &mut Pool, len: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        loop {
            match pool.take(len) {
                Some(cell) => taken.push(cell),
                None if pool.grow() => {}
                None => return taken,
            }
        }
    }

    #[test]
    fn memory_that_holds_nothing_serves_messages_of_other_lengths() {
        let max = 4 << 20;
        let mut pool = Pool::new(16 * 1024, max);
        let first = pool.bytes;
        for len in [1000, 10_000, 60, 5000, 1000, 60, 10_000] {
            let mut taken = fill(&mut pool, len);
            let size = pool.classes[pool.class_of(len).unwrap()].size;
            assert!(taken.len() * size >= max - first - 2 * CHUNK, "{len}: {}", taken.len());
            assert!(pool.bytes <= max);
            for &cell in &taken {
                pool.get_mut(cell).got = 0;
                let mark = cell.to_ne_bytes();
                // SAFETY: the bytes are there during the call.
                pool.append(cell, unsafe { Span::new(mark.as_ptr(), mark.len()) });
            }
            // What stays is not touched.
            let kept = taken.swap_remove(taken.len() / 2);
            taken.drain(..).for_each(|cell| pool.put(cell));
            let others = fill(&mut pool, 500);
            let mut mark = [0; 4];
            // SAFETY: four bytes were written above.
            unsafe { pool.payload(kept).copy_to(mark.as_mut_ptr()) };
            assert_eq!(mark, kept.to_ne_bytes());
            others.into_iter().chain([kept]).for_each(|cell| pool.put(cell));
            let free: usize = pool.chunks.iter().map(|chunk| chunk.free).sum();
            assert_eq!(free, pool.classes.iter().map(|class| class.cells).sum());
        }
    }

    #[test]
    fn where_nothing_can_be_given_back_a_message_takes_a_larger_cell() {
        let mut pool = Pool::new(16 * 1024, 1 << 20);
        let taken = fill(&mut pool, 1000);
        let mut kept = 0;
        // One of each chunk stays.
        for (number, cell) in taken.into_iter().enumerate() {
            if number % 8 != 0 {
                pool.put(cell);
                kept += 1;
            }
        }
        let announcements = fill(&mut pool, 0).len();
        assert!(announcements >= kept, "{announcements} of {kept}");
        // A longer one that finds none holds up no shorter one.
        assert!(pool.take(10_000).is_none() && pool.take(500).is_none() && !pool.grow());
        pool.put(0);
        assert!(pool.take(10_000).is_none() && pool.take(0).is_some());
    }

    #[test]
    fn a_message_of_some_kilobytes_takes_no_cell_of_the_longest_ones() {
        let mut pool = Pool::new(256 * 1024, 1 << 24);
        let before = pool.bytes;
        for _ in 0..8 {
            pool.take(20_000).unwrap();
        }
        assert!(pool.take(20_000).is_some(), "one of the longest, where there is no other");
        pool.wanted = (20_000, 20_000);
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
