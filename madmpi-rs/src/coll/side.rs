//! The data of a collective in memory: where the bytes are that newmad moves.
//!
//! newmad wants them in a row, or in blocks of a row. Data of contiguous types are taken where they lie; others go through a
//! stage, packed block behind block.

use core::ffi::c_void;
use std::mem::MaybeUninit;

use newmad::coll::Blocks;

use crate::abi::*;
use crate::datatype::{self, Data, Datatype};
use crate::error::{Fault, array};
use crate::handle::Held;

/// Numbers of arrays, whatever their type in C.
pub(super) trait Whole: Copy {
    fn wide(self) -> i64;
}

impl Whole for i32 {
    fn wide(self) -> i64 {
        i64::from(self)
    }
}

impl Whole for i64 {
    fn wide(self) -> i64 {
        self
    }
}

impl Whole for isize {
    fn wide(self) -> i64 {
        self as i64
    }
}

/// Elements of a type, at an address.
#[derive(Clone)]
pub(super) struct Block {
    at: usize,
    pub(super) count: i64,
    datatype: Held<Datatype>,
}

/// The data of one side of a collective.
pub(super) enum Side {
    /// There are none.
    Nothing,
    /// In a row, or blocks of it, where they are.
    Direct { at: usize, len: usize },
    /// To be packed, block behind block.
    Staged { blocks: Vec<Block>, len: usize },
}

/// Memory that a collective is given, as long as this is there.
pub(super) struct Lent {
    stage: Option<Box<[MaybeUninit<u8>]>>,
    at: usize,
    len: usize,
}

impl Block {
    /// # Errors
    /// The count is negative, the type not committed, the address null.
    pub(super) fn new(
        at: *const c_void,
        count: i64,
        datatype: &Held<Datatype>,
    ) -> Result<Block, Fault> {
        Data::of(at, count, datatype)?;
        Ok(Block { at: at.expose_provenance(), count, datatype: datatype.clone() })
    }

    pub(super) fn address(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.at)
    }

    /// # Errors
    /// As [`Block::new`].
    pub(super) fn data(&self) -> Result<Data, Fault> {
        Data::of(self.address(), self.count, &self.datatype)
    }

    pub(super) fn len(&self) -> usize {
        self.datatype.size * self.count as usize
    }
}

/// `count` elements at `buf`.
///
/// # Errors
/// As [`Block::new`].
pub(super) fn one(buf: *const c_void, count: i64, datatype: MPI_Datatype) -> Result<Side, Fault> {
    if count < 0 {
        return Err(Fault::argument(MPI_ERR_COUNT, "count", count, "it is not negative"));
    }
    let block = Block::new(buf, count, &datatype::get(datatype)?)?;
    Ok(match block.data()? {
        Data::Whole(at, len) => Side::Direct { at: at.expose_provenance(), len },
        _ => Side::Staged { len: block.len(), blocks: vec![block] },
    })
}

/// `each` elements for each of `ranks`, one after the other.
///
/// # Errors
/// As [`one`].
pub(super) fn even(
    buf: *const c_void,
    each: i64,
    ranks: u32,
    datatype: MPI_Datatype,
) -> Result<(Side, Blocks), Fault> {
    if each < 0 {
        return Err(Fault::argument(MPI_ERR_COUNT, "count", each, "it is not negative"));
    }
    let len = datatype::get(datatype)?.size * each as usize;
    Ok((one(buf, each.saturating_mul(i64::from(ranks)), datatype)?, Blocks::Even(len)))
}

/// The blocks that arrays describe: counts, and displacements in elements.
///
/// # Errors
/// As [`Block::new`]; an array is null.
pub(super) fn described<N: Whole, D: Whole>(
    buf: *const c_void,
    counts: *const N,
    displs: *const D,
    ranks: u32,
    datatype: MPI_Datatype,
) -> Result<Vec<Block>, Fault> {
    let datatype = datatype::get(datatype)?;
    let counts = array(counts, i64::from(ranks), "counts")?;
    let displs = array(displs, i64::from(ranks), "displs")?;
    let block = |(count, displ): (&N, &D)| {
        let at = buf.wrapping_byte_offset((displ.wide() as isize).wrapping_mul(datatype.extent));
        Block::new(at, count.wide(), &datatype)
    };
    counts.iter().zip(displs).map(block).collect()
}

/// The same with displacements in bytes, and a type for each.
///
/// # Errors
/// As [`described`].
pub(super) fn described_apart<N: Whole, D: Whole>(
    buf: *const c_void,
    counts: *const N,
    displs: *const D,
    types: *const MPI_Datatype,
    ranks: u32,
) -> Result<Vec<Block>, Fault> {
    let counts = array(counts, i64::from(ranks), "counts")?;
    let displs = array(displs, i64::from(ranks), "displs")?;
    let types = array(types, i64::from(ranks), "types")?;
    let block = |((count, displ), datatype): ((&N, &D), &MPI_Datatype)| {
        let at = buf.wrapping_byte_offset(displ.wide() as isize);
        Block::new(at, count.wide(), &datatype::get(*datatype)?)
    };
    counts.iter().zip(displs).zip(types).map(block).collect()
}

/// Blocks as newmad wants them.
///
/// # Errors
/// None that making them did not have.
pub(super) fn of_blocks(blocks: Vec<Block>) -> Result<(Side, Blocks), Fault> {
    let mut places = Vec::with_capacity(blocks.len());
    for block in &blocks {
        match block.data()? {
            Data::Whole(_, 0) => places.push((0, 0)),
            Data::Whole(at, len) => places.push((at.expose_provenance(), len)),
            _ => {
                let len = blocks.iter().map(Block::len).sum();
                let lengths = Blocks::of_lengths(blocks.iter().map(Block::len));
                return Ok((Side::Staged { blocks, len }, lengths));
            }
        }
    }
    let used = || places.iter().filter(|place| place.1 > 0);
    let base = used().map(|place| place.0).min().unwrap_or(0);
    let end = used().map(|place| place.0 + place.1).max().unwrap_or(0);
    let offsets = places.iter().map(|&(at, len)| (if len > 0 { at - base } else { 0 }, len));
    let offsets = Blocks::Each(offsets.collect());
    Ok((Side::Direct { at: base, len: end - base }, offsets))
}

impl Side {
    pub(super) fn len(&self) -> usize {
        match self {
            Side::Nothing => 0,
            Side::Direct { len, .. } | Side::Staged { len, .. } => *len,
        }
    }

    /// The memory for one run; with the elements in it, if `filled`.
    ///
    /// # Safety
    /// The elements are readable.
    ///
    /// # Errors
    /// There is no memory for a stage.
    pub(super) unsafe fn lend(&self, filled: bool) -> Result<Lent, Fault> {
        match self {
            Side::Nothing => Ok(Lent { stage: None, at: 0, len: 0 }),
            Side::Direct { at, len } => Ok(Lent { stage: None, at: *at, len: *len }),
            Side::Staged { blocks, len } => {
                let mut room = Vec::new();
                if room.try_reserve_exact(*len).is_err() {
                    return Err(Fault::new(
                        MPI_ERR_NO_MEM,
                        "no memory for a copy of scattered data",
                    ));
                }
                room.resize_with(*len, MaybeUninit::uninit);
                let mut room: Box<[MaybeUninit<u8>]> = room.into();
                let mut to = room.as_mut_ptr();
                for block in blocks.iter().filter(|_| filled) {
                    // SAFETY: the room has the size of all blocks; the caller's promise.
                    unsafe {
                        block.datatype.pack(
                            block.address().cast(),
                            block.count as usize,
                            to.cast(),
                        );
                        to = to.add(block.len());
                    }
                }
                let at = room.as_mut_ptr().expose_provenance();
                Ok(Lent { stage: Some(room), at, len: *len })
            }
        }
    }

    /// Copies what has come to a stage to where it belongs.
    ///
    /// # Safety
    /// The elements are writable; the stage is full.
    pub(super) unsafe fn take_back(blocks: &[Block], lent: &Lent) {
        let Some(stage) = &lent.stage else { return };
        let mut from: *const u8 = stage.as_ptr().cast();
        for block in blocks {
            let len = block.len();
            // SAFETY: the stage has all blocks; the caller's promise.
            unsafe {
                block.datatype.unpack(from, len, block.address().cast(), block.count as usize);
                from = from.add(len);
            }
        }
    }
}

impl Lent {
    pub(super) fn memory(&self) -> *mut [u8] {
        let at = match self.len {
            0 => std::ptr::dangling_mut(),
            _ => std::ptr::with_exposed_provenance_mut(self.at),
        };
        std::ptr::slice_from_raw_parts_mut(at, self.len)
    }
}
