//! Packing by the program: `MPI_Pack`, `MPI_Unpack`.
//!
//! A packed buffer is the bytes of the data in their order, without anything around them: what is packed may be sent as
//! `MPI_PACKED` and received as what it was made of, and the other way round.

use core::ffi::{c_int, c_void};

use super::construct::number;
use super::data::check;
use super::{Datatype, get};
use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, out, read};

/// Bytes of `count` packed elements.
///
/// # Errors
/// The count is negative, or too large.
fn size(count: i64, datatype: &Datatype) -> Result<usize, Fault> {
    let bytes = number(count, "count")?.checked_mul(datatype.size);
    bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(|| {
        Fault::argument(MPI_ERR_COUNT, "count", count, "so much memory does not exist")
    })
}

/// Where in a packed buffer of `len` bytes the next `bytes` are.
///
/// # Errors
/// They are not inside.
pub(super) fn room(
    buffer: *const c_void,
    len: i64,
    position: i64,
    bytes: usize,
    class: c_int,
) -> Result<*mut u8, Fault> {
    let inside = number(len, "size of the packed buffer")?;
    let at = usize::try_from(position).ok().filter(|&at| at <= inside).ok_or_else(|| {
        let why = format!("it is inside the buffer, whose size is {len}");
        Fault::argument(MPI_ERR_ARG, "position", position, &why)
    })?;
    if bytes > inside - at {
        let why = format!("{bytes} bytes are needed from position {position} on");
        return Err(Fault::argument(class, "size of the packed buffer", len, &why));
    }
    if buffer.is_null() && bytes > 0 {
        return Err(Fault::argument(MPI_ERR_BUFFER, "the packed buffer", "null", "it has data"));
    }
    Ok(buffer.cast_mut().cast::<u8>().wrapping_add(at))
}

/// A size for the program.
///
/// # Errors
/// It is larger than the place for it.
pub(super) fn size_out<T: TryFrom<usize>>(
    place: *mut T,
    name: &str,
    size: usize,
) -> Result<(), Fault> {
    let value = T::try_from(size).map_err(|_| {
        let why = "the result does not fit; the function for large counts has room for it";
        Fault::argument(MPI_ERR_VALUE_TOO_LARGE, name, size, why)
    })?;
    out(place, name, value)
}

mpi! {
    fn MPI_Pack / MPI_Pack_c (
        inbuf: *const c_void, incount: N, datatype: MPI_Datatype, outbuf: *mut c_void, outsize: N,
        position: *mut N, comm: MPI_Comm,
    ) on comm {
        let datatype = get(datatype)?;
        let bytes = size(incount.into(), &datatype)?;
        let begin = read(position.cast_const(), "position")?;
        let to = room(outbuf, outsize.into(), begin.into(), bytes, MPI_ERR_ARG)?;
        if bytes > 0 {
            check(inbuf.cast_mut().cast(), datatype.shape())?;
            // SAFETY: there is room; the program's promise that the elements are there, apart from the buffer.
            unsafe { datatype.pack(inbuf.cast(), incount as usize, to) };
        }
        out(position, "position", begin + bytes as N)
    }

    fn MPI_Unpack / MPI_Unpack_c (
        inbuf: *const c_void, insize: N, position: *mut N, outbuf: *mut c_void, outcount: N,
        datatype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let datatype = get(datatype)?;
        let bytes = size(outcount.into(), &datatype)?;
        let begin = read(position.cast_const(), "position")?;
        let from = room(inbuf, insize.into(), begin.into(), bytes, MPI_ERR_TRUNCATE)?;
        if bytes > 0 {
            check(outbuf.cast(), datatype.shape())?;
            // SAFETY: the data are inside; the program's promise for the elements.
            unsafe { datatype.unpack(from, bytes, outbuf.cast(), outcount as usize) };
        }
        out(position, "position", begin + bytes as N)
    }

    fn MPI_Pack_size / MPI_Pack_size_c (
        incount: N, datatype: MPI_Datatype, comm: MPI_Comm, size: *mut N,
    ) on comm {
        let bytes = self::size(incount.into(), &*get(datatype)?)?;
        size_out(size, "size", bytes)
    }
}
