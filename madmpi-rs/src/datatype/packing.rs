//! Packed buffers: `MPI_Pack`, `MPI_Unpack`.
//!
//! A packed buffer is the bytes of the data in order and nothing else: it may be sent as `MPI_PACKED` and received as
//! the types that it was made of, and the other way round.

use core::ffi::c_int;
use std::ops::Range;

use super::construct::number;
use crate::abi::*;
use crate::error::Fault;

/// Bytes of `count` packed elements that have `each` bytes.
///
/// # Errors
/// The count is negative, or too large.
pub(crate) fn size(count: i64, each: usize) -> Result<usize, Fault> {
    let bytes = number(count, "count")?.checked_mul(each);
    bytes
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| Fault::argument(MPI_ERR_COUNT, "count", count, "no memory is so large"))
}

/// The place of the next `bytes` in a packed buffer of `len` bytes.
///
/// # Errors
/// They are not inside: of that class.
pub(crate) fn room(
    len: i64,
    position: i64,
    bytes: usize,
    class: c_int,
) -> Result<Range<usize>, Fault> {
    let inside = number(len, "size of the packed buffer")?;
    let at = usize::try_from(position).ok().filter(|&at| at <= inside).ok_or_else(|| {
        let why = format!("it must lie inside the buffer, whose size is {len}");
        Fault::argument(MPI_ERR_ARG, "position", position, &why)
    })?;
    if bytes > inside - at {
        let why = format!("{bytes} bytes are needed from position {position} on");
        return Err(Fault::argument(class, "size of the packed buffer", len, &why));
    }
    Ok(at..at + bytes)
}
