//! Packing by the program: `MPI_Pack*`, `MPI_Unpack*`.

use core::ffi::c_void;

use crate::abi::*;
use crate::args::{InOut, Out, Text, out, read};
use crate::calls::entry::mpi;
use crate::datatype::data::check;
use crate::datatype::packing::{room, size};
use crate::datatype::{external, get};
use crate::error::Fault;

/// Gives the program a size.
///
/// # Errors
/// The size does not fit into the type of the result.
pub(super) fn size_out<T: TryFrom<usize>>(
    place: Out<T>,
    name: &str,
    size: usize,
) -> Result<(), Fault> {
    let value = T::try_from(size).map_err(|_| {
        let why = "the result does not fit; the function for large counts has room for it";
        Fault::argument(MPI_ERR_VALUE_TOO_LARGE, name, size, why)
    })?;
    out(place, name, value)
}

/// # Errors
/// It is not `external32`.
fn known(datarep: Text) -> Result<(), Fault> {
    match datarep.string("datarep")? {
        name if name == "external32" => Ok(()),
        name => Err(Fault::argument(
            MPI_ERR_UNSUPPORTED_DATAREP,
            "datarep",
            name,
            "only external32 is known",
        )),
    }
}

mpi! {
    fn MPI_Pack / MPI_Pack_c (
        inbuf: *const c_void, incount: N, datatype: MPI_Datatype, outbuf: *mut c_void, outsize: N,
        position: InOut<N>, comm: MPI_Comm,
    ) on comm {
        let datatype = get(datatype)?;
        let bytes = size(incount.into(), &datatype)?;
        let begin = read(position, "position")?;
        let to = room(outbuf, outsize.into(), begin.into(), bytes, MPI_ERR_ARG)?;
        if bytes > 0 {
            check(inbuf.cast_mut().cast(), datatype.shape())?;
            // SAFETY: there is room; the program's promise that the elements are there, apart from the buffer.
            unsafe { datatype.pack(inbuf.cast(), incount as usize, to) };
        }
        out(position, "position", begin + bytes as N)
    }

    fn MPI_Unpack / MPI_Unpack_c (
        inbuf: *const c_void, insize: N, position: InOut<N>, outbuf: *mut c_void, outcount: N,
        datatype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let datatype = get(datatype)?;
        let bytes = size(outcount.into(), &datatype)?;
        let begin = read(position, "position")?;
        let from = room(inbuf, insize.into(), begin.into(), bytes, MPI_ERR_TRUNCATE)?;
        if bytes > 0 {
            check(outbuf.cast(), datatype.shape())?;
            // SAFETY: the data are inside; the program's promise for the elements.
            unsafe { datatype.unpack(from, bytes, outbuf.cast(), outcount as usize) };
        }
        out(position, "position", begin + bytes as N)
    }

    fn MPI_Pack_size / MPI_Pack_size_c (
        incount: N, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<N>,
    ) on comm {
        let bytes = self::size(incount.into(), &*get(datatype)?)?;
        size_out(size, "size", bytes)
    }

    fn MPI_Pack_external / MPI_Pack_external_c (
        datarep: Text, inbuf: *const c_void, incount: N, datatype: MPI_Datatype,
        outbuf: *mut c_void, outsize: B, position: InOut<B>,
    ) {
        known(datarep)?;
        let datatype = get(datatype)?;
        let bytes = external::size(incount.into(), datatype.shape())?;
        let begin = read(position, "position")?;
        let to = room(outbuf, outsize as i64, begin as i64, bytes, MPI_ERR_ARG)?;
        if bytes > 0 {
            check(inbuf.cast_mut().cast(), datatype.shape())?;
            // SAFETY: there is room; the program's promise that the elements are there, apart from the buffer.
            unsafe { external::pack(datatype.shape(), inbuf.cast(), incount as usize, to)? };
        }
        out(position, "position", begin + bytes as B)
    }

    fn MPI_Unpack_external / MPI_Unpack_external_c (
        datarep: Text, inbuf: *const c_void, insize: B, position: InOut<B>, outbuf: *mut c_void,
        outcount: N, datatype: MPI_Datatype,
    ) {
        known(datarep)?;
        let datatype = get(datatype)?;
        let bytes = external::size(outcount.into(), datatype.shape())?;
        let begin = read(position, "position")?;
        let from = room(inbuf, insize as i64, begin as i64, bytes, MPI_ERR_TRUNCATE)?;
        if bytes > 0 {
            check(outbuf.cast(), datatype.shape())?;
            // SAFETY: the data are inside; the program's promise for the elements.
            unsafe { external::unpack(datatype.shape(), from, outbuf.cast(), outcount as usize) };
        }
        out(position, "position", begin + bytes as B)
    }

    fn MPI_Pack_external_size / MPI_Pack_external_size_c (
        datarep: Text, incount: N, datatype: MPI_Datatype, size: Out<B>,
    ) {
        known(datarep)?;
        size_out(size, "size", external::size(incount.into(), get(datatype)?.shape())?)
    }
}
