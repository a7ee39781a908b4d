//! Slots that exist for ever and are reused, and the handles that name what is in them.
//!
//! A handle is a number of 31 bits, so that it is also a Fortran integer:
//! `generation (10 bits) | slot + FIRST (21 bits)`. The numbers below `FIRST` are the ABI's constants, and what else a
//! table keeps for itself. A slot that is freed gets another generation, so that a stale handle is noticed.

use std::sync::OnceLock;

const SLOT_BITS: u32 = 21;
const GENERATIONS: u32 = 1 << (31 - SLOT_BITS);
/// The first chunk has this many slots, each further one twice as many.
const CHUNK: u32 = 64;
const CHUNKS: usize = 15;

/// The slots of a table.
pub(crate) struct Slots<S, const FIRST: u32>([OnceLock<Box<[S]>>; CHUNKS]);

/// The chunk of a slot, and the first slot of that chunk.
#[inline]
fn place(index: u32) -> (usize, u32) {
    let chunk = (index / CHUNK + 1).ilog2();
    (chunk as usize, CHUNK * ((1 << chunk) - 1))
}

impl<S, const FIRST: u32> Slots<S, FIRST> {
    /// As many slots as there can be: two million.
    pub(crate) const MOST: u32 = (1 << SLOT_BITS) - FIRST;

    pub(crate) const fn new() -> Slots<S, FIRST> {
        Slots([const { OnceLock::new() }; CHUNKS])
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&S> {
        let (chunk, start) = place(index);
        self.0.get(chunk)?.get()?.get((index - start) as usize)
    }

    /// One slot more than the `made` ones: its number. `None`: there are [`Slots::MOST`] already.
    pub(crate) fn grow(&self, made: &mut u32, slot: impl Fn() -> S) -> Option<u32> {
        let index = *made;
        if index == Self::MOST {
            return None;
        }
        *made += 1;
        let (chunk, _) = place(index);
        self.0[chunk].get_or_init(|| (0..CHUNK << chunk).map(|_| slot()).collect());
        Some(index)
    }

    /// The handle for a slot in one of its generations.
    #[inline]
    pub(crate) fn handle(index: u32, generation: u32) -> usize {
        (generation << SLOT_BITS | (index + FIRST)) as usize
    }

    /// The slot and the generation that a handle names.
    #[inline]
    pub(crate) fn named(handle: usize) -> Option<(u32, u32)> {
        let handle = u32::try_from(handle).ok()?;
        let index = (handle & ((1 << SLOT_BITS) - 1)).checked_sub(FIRST)?;
        Some((index, handle >> SLOT_BITS))
    }
}

/// The generation after that one.
#[inline]
pub(crate) fn next(generation: u32) -> u32 {
    (generation + 1) % GENERATIONS
}
