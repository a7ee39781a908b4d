//! The data of a message in memory, as newmad wants them.
//!
//! | layout | sent and received |
//! |---|---|
//! | bytes in a row | in place |
//! | a few pieces, or long ones | in place: newmad gathers and scatters them |
//! | many short pieces | through a copy: `pack` before, `unpack` afterwards |
//!
//! A piece costs a list entry, and some nanoseconds wherever the list is walked; below [`SHORT_PIECE`] bytes on average a
//! copy is cheaper, and it is made here in strips rather than piece by piece. Of a large message newmad copies pieces itself
//! if they are not worth a system call each, so there they have to be longer. (Measured, lists against copies: 1 MiB in
//! pieces of 256 bytes to 1 KiB takes 1.8 to 2 times as long over tcp, 1.1 to 1.3 times over shm; 4 KiB in pieces of 256
//! bytes half as long over shm.)

use core::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use newmad::raw::Memory;

use super::copy;
use super::object::Datatype;
use super::shape::Shape;
use crate::abi::*;
use crate::error::Fault;

/// So many pieces are a list whatever their length.
const FEW_PIECES: usize = 4;
/// No list is longer.
const MANY_PIECES: usize = 16 * 1024;
/// Pieces that are shorter on average are copied.
const SHORT_PIECE: usize = if cfg!(test) { 8 } else { 256 };

/// The same for messages of more than [`LARGE`] bytes.
const SHORT_PIECE_OF_LARGE: usize = if cfg!(test) { 16 } else { 4096 };
const LARGE: usize = if cfg!(test) { 128 } else { 64 * 1024 };

/// The data of a message in memory.
pub(crate) enum Data {
    /// So many bytes in a row.
    Whole(*mut u8, usize),
    /// Pieces, the first ones first, that are `len` bytes together.
    Pieces { list: Box<[libc::iovec]>, len: usize },
    /// To be packed before they are sent, and unpacked after they came.
    Packed(Box<PackedCopy>),
}

/// Data that travel as a copy.
pub(crate) struct PackedCopy {
    room: Box<[MaybeUninit<u8>]>,
    at: *mut u8,
    count: usize,
    shape: Arc<Shape>,
}

// SAFETY: what the addresses name is the program's, which looks after it; this only says where it is.
unsafe impl Send for Data {}
// SAFETY: as above; nothing is written through a shared one but the program's memory, by `unpack`, which is unsafe.
unsafe impl Sync for Data {}

impl Data {
    /// The data of `count` elements at `buf`. Nothing is copied yet: see [`Data::pack`] and [`Data::outgoing`].
    ///
    /// # Errors
    /// The count is negative, or too large; the type is not committed; the buffer is null and the type has no absolute
    /// addresses.
    #[inline]
    pub(crate) fn of(buf: *const c_void, count: i64, datatype: &Datatype) -> Result<Data, Fault> {
        if count < 0 {
            return Err(negative(count));
        }
        if !datatype.is_committed() {
            return Err(uncommitted());
        }
        let Some(len) = datatype.size.checked_mul(count as usize) else { return Err(huge(count)) };
        let at = buf.cast_mut().cast::<u8>();
        if datatype.contiguous && !at.is_null() || len == 0 {
            return Ok(Data::Whole(at, len));
        }
        Data::scattered(at, count as usize, len, datatype.shape())
    }

    /// As [`Data::of`], packed if need be: ready to be sent.
    ///
    /// # Safety
    /// The elements are readable.
    ///
    /// # Errors
    /// As [`Data::of`].
    #[inline]
    pub(crate) unsafe fn outgoing(
        buf: *const c_void,
        count: i64,
        datatype: &Datatype,
    ) -> Result<Data, Fault> {
        let mut data = Data::of(buf, count, datatype)?;
        // SAFETY: the caller's promise.
        unsafe { data.pack() };
        Ok(data)
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
            let mut room = Vec::new();
            if room.try_reserve_exact(len).is_err() {
                let why = "no memory for a copy of the data, which are too scattered to travel without one";
                return Err(Fault::new(MPI_ERR_NO_MEM, why));
            }
            room.resize_with(len, MaybeUninit::uninit);
            let room = room.into_boxed_slice();
            return Ok(Data::Packed(Box::new(PackedCopy {
                room,
                at,
                count,
                shape: shape.clone(),
            })));
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

    /// For newmad. Valid as long as this is, wherever it is moved to.
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

    /// Before sending: copies the elements, if they travel as a copy.
    ///
    /// # Safety
    /// The elements are readable.
    #[inline]
    pub(crate) unsafe fn pack(&mut self) {
        if let Data::Packed(packed) = self {
            let PackedCopy { room, at, count, shape } = &mut **packed;
            // SAFETY: the room has their size; the caller's promise.
            unsafe { copy::pack(shape, *at, *count, room.as_mut_ptr().cast()) };
        }
    }

    /// After receiving: copies the first `bytes` to where they belong, if they came as a copy.
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

/// Addresses relative to null are right if the type has absolute ones.
pub(crate) fn check(at: *mut u8, shape: &Shape) -> Result<(), Fault> {
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
fn negative(count: i64) -> Fault {
    Fault::argument(MPI_ERR_COUNT, "count", count, "it is not negative")
}

#[cold]
fn huge(count: i64) -> Fault {
    Fault::argument(MPI_ERR_COUNT, "count", count, "so much memory does not exist")
}

#[cold]
fn uncommitted() -> Fault {
    let why = "MPI_Type_commit comes before its use in a message";
    Fault::argument(MPI_ERR_TYPE, "datatype", "not committed", why)
}
