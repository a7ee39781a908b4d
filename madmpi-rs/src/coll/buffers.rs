//! The buffers of a collective: where the bytes lie that newmad moves.
//!
//! newmad takes bytes in a row, or blocks of a row. Data of contiguous types are lent where they lie; others go
//! through a stage, packed block after block.

use std::mem::MaybeUninit;

use newmad::coll::Blocks;

use crate::abi::*;
use crate::datatype::{Choice, Data, Elements};
use crate::error::Fault;

/// Counts and displacements, whatever their type in C.
pub(crate) trait Wide: Copy {
    fn wide(self) -> i64;
}

macro_rules! wide {
    ($($number:ty)*) => {$(
        impl Wide for $number {
            fn wide(self) -> i64 {
                self as i64
            }
        }
    )*};
}
wide! { i32 i64 isize }

/// A buffer of the program that has a block for each of several ranks.
#[derive(Clone, Copy)]
pub(crate) enum Layout<'a> {
    /// One block after the other: each has as many elements as the buffer.
    Even(Choice),
    /// Each block is the whole buffer.
    Same(Choice),
    /// Blocks that arrays describe, for as many ranks as `blocks` is called with. Where a rank has no use for the
    /// arrays it is not called: they need not exist there.
    Described { in_place: bool, blocks: &'a dyn Fn(u32) -> Result<Vec<Elements>, Fault> },
}

impl Layout<'_> {
    pub(super) fn is_in_place(self) -> bool {
        match self {
            Layout::Even(buffer) | Layout::Same(buffer) => buffer.is_in_place(),
            Layout::Described { in_place, .. } => in_place,
        }
    }

    /// Whether all blocks have one length, so that no gaps are between them.
    pub(super) fn is_even(self) -> bool {
        matches!(self, Layout::Even(_))
    }

    /// The block of each rank.
    ///
    /// # Errors
    /// As [`one`].
    pub(super) fn blocks(self, ranks: u32) -> Result<Vec<Elements>, Fault> {
        match self {
            Layout::Even(buffer) => {
                let first = buffer.elements()?;
                let place = |rank: u32| first.count.wrapping_mul(rank.into());
                (0..ranks).map(|rank| first.part(place(rank), first.count).checked()).collect()
            }
            // Without a rank there need not be a buffer.
            Layout::Same(_) if ranks == 0 => Ok(Vec::new()),
            Layout::Same(buffer) => Ok(vec![buffer.elements()?.checked()?; ranks as usize]),
            Layout::Described { blocks, .. } => blocks(ranks),
        }
    }

    /// The blocks as newmad takes them: a row with offsets, or a stage.
    ///
    /// # Errors
    /// As [`one`].
    pub(super) fn buffer(self, ranks: u32) -> Result<(Buffer, Blocks), Fault> {
        let Layout::Even(buffer) = self else { return of_blocks(self.blocks(ranks)?) };
        let each = buffer.count()?;
        let len = buffer.datatype()?.size * each;
        let all = buffer.with_count(buffer.count.saturating_mul(i64::from(ranks)));
        Ok((one(all)?, Blocks::Even(len)))
    }
}

/// What a collective sends from, or receives into.
pub(super) enum Buffer {
    /// No data.
    Nothing,
    /// Bytes in a row, or blocks of it, where they lie.
    Direct { at: usize, len: usize },
    /// Elements that are packed into a stage, block after block.
    Staged { blocks: Vec<Elements>, len: usize },
}

/// Memory for one run of a collective; the stage lives as long as this value.
pub(super) struct Memory {
    /// A vector, not a box: moving a box would claim the memory that newmad has a pointer to.
    stage: Option<Vec<MaybeUninit<u8>>>,
    at: usize,
    len: usize,
}

/// The elements of a buffer.
///
/// # Errors
/// The count is negative, the type not committed, the address null or `MPI_IN_PLACE`.
#[inline]
pub(super) fn one(buffer: Choice) -> Result<Buffer, Fault> {
    buffer.check_memory()?;
    if let Data::Whole(at, len) = buffer.data()? {
        return Ok(Buffer::Direct { at: at.expose_provenance(), len });
    }
    let elements = buffer.elements()?;
    Ok(Buffer::Staged { len: elements.len(), blocks: vec![elements] })
}

/// The blocks that counts and displacements in elements describe. `buffer` has the address and the datatype.
///
/// # Errors
/// As [`one`].
pub(crate) fn described<N: Wide, D: Wide>(
    buffer: Choice,
    counts: &[N],
    displs: &[D],
) -> Result<Vec<Elements>, Fault> {
    // The type may be none where all counts are 0.
    let most = counts.iter().map(|count| count.wide()).max().unwrap_or(0);
    let base = buffer.with_count(most).elements()?;
    let block = |(&count, displ): (&N, &D)| base.part(displ.wide(), count.wide()).checked();
    counts.iter().zip(displs).map(block).collect()
}

/// The blocks that counts, displacements in bytes and datatypes describe. `buffer` has the address.
///
/// # Errors
/// As [`described`].
pub(crate) fn described_apart<N: Wide, D: Wide>(
    buffer: Choice,
    counts: &[N],
    displs: &[D],
    types: &[MPI_Datatype],
) -> Result<Vec<Elements>, Fault> {
    let block = |((&count, displ), &datatype): ((&N, &D), &MPI_Datatype)| {
        let base = buffer.with_type(datatype).with_count(count.wide()).elements()?;
        base.moved(displ.wide() as isize, count.wide()).checked()
    };
    counts.iter().zip(displs).zip(types).map(block).collect()
}

/// Blocks as newmad takes them: a row with offsets, or a stage.
///
/// # Errors
/// As [`one`].
fn of_blocks(blocks: Vec<Elements>) -> Result<(Buffer, Blocks), Fault> {
    let mut places = Vec::with_capacity(blocks.len());
    for block in &blocks {
        match block.data()? {
            Data::Whole(_, 0) => places.push((0, 0)),
            Data::Whole(at, len) => places.push((at.expose_provenance(), len)),
            _ => {
                let len = blocks.iter().map(Elements::len).sum();
                let lengths = Blocks::of_lengths(blocks.iter().map(Elements::len));
                return Ok((Buffer::Staged { blocks, len }, lengths));
            }
        }
    }
    let used = || places.iter().filter(|place| place.1 > 0);
    let base = used().map(|place| place.0).min().unwrap_or(0);
    let end = used().map(|place| place.0 + place.1).max().unwrap_or(0);
    let offsets = places.iter().map(|&(at, len)| (if len > 0 { at - base } else { 0 }, len));
    let offsets = Blocks::Each(offsets.collect());
    Ok((Buffer::Direct { at: base, len: end - base }, offsets))
}

impl Buffer {
    /// Bytes in a row.
    pub(super) fn of_bytes(memory: *mut [u8]) -> Buffer {
        Buffer::Direct { at: memory.cast::<u8>().expose_provenance(), len: memory.len() }
    }

    /// Room for what nobody looks at.
    pub(super) fn unused(len: usize) -> Buffer {
        Buffer::Staged { blocks: Vec::new(), len }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Buffer::Nothing => 0,
            Buffer::Direct { len, .. } | Buffer::Staged { len, .. } => *len,
        }
    }

    /// The memory, where it needs no stage.
    #[inline]
    pub(super) fn unstaged(&self) -> Option<*mut [u8]> {
        match self {
            Buffer::Nothing => Some(in_a_row(0, 0)),
            Buffer::Direct { at, len } => Some(in_a_row(*at, *len)),
            Buffer::Staged { .. } => None,
        }
    }

    /// Lends the memory for one run; a stage is packed first if `filled`.
    ///
    /// # Errors
    /// There is no memory for a stage.
    pub(super) fn lend(&self, filled: bool) -> Result<Memory, Fault> {
        match self {
            Buffer::Nothing => Ok(Memory { stage: None, at: 0, len: 0 }),
            Buffer::Direct { at, len } => Ok(Memory { stage: None, at: *at, len: *len }),
            Buffer::Staged { blocks, len } => {
                let mut room = Vec::new();
                if room.try_reserve_exact(*len).is_err() {
                    return Err(Fault::new(
                        MPI_ERR_NO_MEM,
                        "no memory for a copy of scattered data",
                    ));
                }
                room.resize_with(*len, MaybeUninit::uninit);
                let mut left = &mut room[..];
                for block in blocks.iter().filter(|_| filled) {
                    let (to, rest) = left.split_at_mut(block.len());
                    block.pack_into(to);
                    left = rest;
                }
                let at = room.as_mut_ptr().expose_provenance();
                Ok(Memory { stage: Some(room), at, len: *len })
            }
        }
    }
}

impl Memory {
    /// Unpacks a stage into the elements.
    ///
    /// # Safety
    /// The stage is full, unless there are no blocks.
    pub(super) unsafe fn unpack_into(&self, blocks: &[Elements]) {
        let Some(stage) = self.stage.as_ref().filter(|_| !blocks.is_empty()) else { return };
        // SAFETY: the caller's promise.
        let mut left = unsafe { std::slice::from_raw_parts(stage.as_ptr().cast(), stage.len()) };
        for block in blocks {
            let (from, rest) = left.split_at(block.len());
            block.unpack_from(from);
            left = rest;
        }
    }

    pub(super) fn memory(&self) -> *mut [u8] {
        in_a_row(self.at, self.len)
    }
}

#[inline]
fn in_a_row(at: usize, len: usize) -> *mut [u8] {
    let at = match len {
        0 => std::ptr::dangling_mut(),
        _ => std::ptr::with_exposed_provenance_mut(at),
    };
    std::ptr::slice_from_raw_parts_mut(at, len)
}
