//! The data of a message in memory, as newmad takes them.
//!
//! | layout | sent and received |
//! |---|---|
//! | bytes in a row | in place |
//! | a few pieces, or long ones | in place: newmad gathers and scatters them |
//! | many short pieces | through a copy: `pack` before, `unpack` afterwards |
//!
//! A piece costs a list entry, and some nanoseconds wherever the list is walked. Below [`SHORT_PIECE`] bytes on
//! average a copy is cheaper; it is made here in strips rather than piece by piece. newmad copies the pieces of a
//! large message itself if they are not worth a system call each, so there they have to be longer. Measured, lists
//! against copies: 1 MiB in pieces of 256 bytes to 1 KiB takes 1.8 to 2 times as long over tcp, 1.1 to 1.3 times over
//! shm; 4 KiB in pieces of 256 bytes takes half as long over shm.

use core::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use newmad::raw::Memory;

use super::copy;
use super::object::Datatype;
use super::shape::Shape;
use crate::abi::*;
use crate::error::Fault;

/// Up to so many pieces are a list whatever their length.
const FEW_PIECES: usize = 4;
/// No list is longer.
const MANY_PIECES: usize = 16 * 1024;
/// Pieces that are shorter on average go through a copy.
const SHORT_PIECE: usize = if cfg!(test) { 8 } else { 256 };

/// The same limit for messages of more than [`LARGE`] bytes.
const SHORT_PIECE_OF_LARGE: usize = if cfg!(test) { 16 } else { 4096 };
const LARGE: usize = if cfg!(test) { 128 } else { 64 * 1024 };

/// The data of a message in memory.
pub(crate) enum Data {
    /// Bytes in a row.
    Whole(*mut u8, usize),
    /// Pieces in order, `len` bytes together.
    Pieces { list: Box<[libc::iovec]>, len: usize },
    /// A copy: packed before it is sent, unpacked after it came.
    Packed(Box<PackedCopy>),
}

/// Data of which it is known how they lie, or not.
pub(crate) trait Described: Into<Data> {
    /// As [`Data::memory`].
    fn memory(&self) -> Memory;
}

impl Described for Data {
    #[inline]
    fn memory(&self) -> Memory {
        Data::memory(self)
    }
}

/// Bytes in a row: [`Data::Whole`], where the compiler is to know that it is nothing else.
#[derive(Clone, Copy)]
pub(crate) struct InRow(*mut u8, usize);

impl Described for InRow {
    #[inline(always)]
    fn memory(&self) -> Memory {
        Memory::Whole(self.0, self.1)
    }
}

impl From<InRow> for Data {
    #[inline(always)]
    fn from(InRow(at, len): InRow) -> Data {
        Data::Whole(at, len)
    }
}

/// Data that go through a copy.
pub(crate) struct PackedCopy {
    room: Box<[MaybeUninit<u8>]>,
    at: *mut u8,
    count: usize,
    shape: Arc<Shape>,
}

impl PackedCopy {
    /// Room for a copy of elements of `len` bytes.
    ///
    /// # Errors
    /// There is no memory for it.
    fn new(at: *mut u8, count: usize, len: usize, shape: &Arc<Shape>) -> Result<PackedCopy, Fault> {
        let mut room = Vec::new();
        if room.try_reserve_exact(len).is_err() {
            let why = "no memory for a copy of data that are too scattered, or are sent from where others arrive";
            return Err(Fault::new(MPI_ERR_NO_MEM, why));
        }
        room.resize_with(len, MaybeUninit::uninit);
        Ok(PackedCopy { room: room.into(), at, count, shape: shape.clone() })
    }

    /// Packs the elements.
    ///
    /// # Safety
    /// They are readable.
    #[cold]
    unsafe fn fill(&mut self) {
        // SAFETY: the room has their size; the caller's promise.
        unsafe { copy::pack(&self.shape, self.at, self.count, self.room.as_mut_ptr().cast()) };
    }
}

// SAFETY: the addresses name memory that the program has left to the operation; this only says where it is.
unsafe impl Send for Data {}
// SAFETY: as above; through a shared reference only `unpack`, which is unsafe, writes, to the program's memory.
unsafe impl Sync for Data {}

impl Data {
    /// Describes the data of `count` elements at `buf`, without copying.
    ///
    /// # Errors
    /// The count is negative, or too large; the type is not committed; the buffer is null and the type has no absolute
    /// addresses.
    #[inline(always)]
    pub(crate) fn of(buf: *const c_void, count: i64, datatype: &Datatype) -> Result<Data, Fault> {
        match Data::row(buf, count, datatype) {
            Some(row) => Ok(row.into()),
            None => Data::of_others(buf, count, datatype),
        }
    }

    /// The data of elements that lie in a row, as most do. `None`: [`Data::of`] says more.
    #[inline(always)]
    pub(crate) fn row(buf: *const c_void, count: i64, datatype: &Datatype) -> Option<InRow> {
        let len = datatype.size.checked_mul(usize::try_from(count).ok()?)?;
        let in_row = datatype.contiguous && !buf.is_null() && datatype.is_committed();
        in_row.then_some(InRow(buf.cast_mut().cast(), len))
    }

    #[inline(never)]
    fn of_others(buf: *const c_void, count: i64, datatype: &Datatype) -> Result<Data, Fault> {
        if count < 0 {
            return Err(negative(count));
        }
        if !datatype.is_committed() {
            return Err(uncommitted());
        }
        let Some(len) = datatype.size.checked_mul(count as usize) else { return Err(huge(count)) };
        let at = buf.cast_mut().cast::<u8>();
        if len == 0 {
            return Ok(Data::Whole(at, len));
        }
        Data::scattered(at, count as usize, len, datatype.shape())
    }

    /// Describes the data of elements that are to be sent: packed, if they go through a copy.
    ///
    /// # Safety
    /// The elements are readable.
    ///
    /// # Errors
    /// As [`Data::of`].
    #[inline(always)]
    pub(crate) unsafe fn outgoing(
        buf: *const c_void,
        count: i64,
        datatype: &Datatype,
    ) -> Result<Data, Fault> {
        let mut data = Data::of(buf, count, datatype)?;
        if let Data::Packed(packed) = &mut data {
            // SAFETY: the caller's promise.
            unsafe { packed.fill() };
        }
        Ok(data)
    }

    /// Describes a packed copy of elements, which is made now.
    ///
    /// # Safety
    /// The elements are readable.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) unsafe fn copied(
        buf: *const c_void,
        count: usize,
        datatype: &Datatype,
    ) -> Result<Data, Fault> {
        let at = buf.cast_mut().cast::<u8>();
        let mut copy = PackedCopy::new(at, count, datatype.size * count, datatype.shape())?;
        // SAFETY: the caller's promise.
        unsafe { copy.fill() };
        Ok(Data::Packed(Box::new(copy)))
    }

    #[cold]
    fn scattered(at: *mut u8, count: usize, len: usize, shape: &Arc<Shape>) -> Result<Data, Fault> {
        check(at, shape)?;
        let flat = &shape.part.flat;
        if let Some((begin, size)) = flat.single()
            && (count == 1 || shape.extent == size as isize)
        {
            return Ok(Data::Whole(at.wrapping_offset(begin), len));
        }
        let pieces = flat.runs().saturating_mul(count);
        let short = if len > LARGE { SHORT_PIECE_OF_LARGE } else { SHORT_PIECE };
        if pieces > FEW_PIECES && (pieces > MANY_PIECES || len / pieces < short) {
            return PackedCopy::new(at, count, len, shape).map(Box::new).map(Data::Packed);
        }
        let mut list: Vec<libc::iovec> = Vec::with_capacity(pieces);
        flat.strips(count, shape.extent, len, |strip| {
            for index in 0..strip.count {
                let begin = strip.at.wrapping_add(strip.stride.wrapping_mul(index as isize));
                let begin = at.wrapping_offset(begin);
                match list.last_mut() {
                    Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == begin.cast() => {
                        last.iov_len += strip.len;
                    }
                    _ => list.push(libc::iovec { iov_base: begin.cast(), iov_len: strip.len }),
                }
            }
        });
        Ok(match &list[..] {
            [one] => Data::Whole(one.iov_base.cast(), one.iov_len),
            _ => Data::Pieces { list: list.into(), len },
        })
    }

    /// The memory for newmad: valid as long as this value exists, even if it is moved.
    #[inline]
    pub(crate) fn memory(&self) -> Memory {
        match self {
            Data::Whole(at, len) => Memory::Whole(*at, *len),
            Data::Pieces { list, len } => {
                Memory::Pieces { list: list.as_ptr(), count: list.len(), len: *len }
            }
            Data::Packed(packed) => {
                Memory::Whole(packed.room.as_ptr().cast_mut().cast(), packed.room.len())
            }
        }
    }

    /// Bytes of data.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Data::Whole(_, len) | Data::Pieces { len, .. } => *len,
            Data::Packed(packed) => packed.room.len(),
        }
    }

    /// Unpacks the first `bytes` of what came, if they went through a copy.
    ///
    /// # Safety
    /// The elements are writable; so many bytes came.
    #[inline]
    pub(crate) unsafe fn unpack(&self, bytes: usize) {
        if let Data::Packed(packed) = self {
            let PackedCopy { room, at, count, shape } = &**packed;
            // SAFETY: not more than there are; the caller's promise.
            unsafe {
                copy::unpack(shape, room.as_ptr().cast(), bytes.min(room.len()), *at, *count)
            };
        }
    }
}

/// Refuses a null address, unless the type has absolute addresses.
pub(super) fn check(at: *mut u8, shape: &Shape) -> Result<(), Fault> {
    // No program has data in its first page.
    if at.is_null() && (0..4096).contains(&shape.part.true_bounds().0) {
        return Err(Fault::argument(
            MPI_ERR_BUFFER,
            "buf",
            "null",
            "there are elements, and their datatype has no absolute addresses",
        ));
    }
    Ok(())
}

#[cold]
pub(super) fn negative(count: i64) -> Fault {
    Fault::argument(MPI_ERR_COUNT, "count", count, "it must not be negative")
}

#[cold]
fn huge(count: i64) -> Fault {
    Fault::argument(MPI_ERR_COUNT, "count", count, "no memory is so large")
}

#[cold]
fn uncommitted() -> Fault {
    let why = "call MPI_Type_commit before using it in a message";
    Fault::argument(MPI_ERR_TYPE, "datatype", "not committed", why)
}
