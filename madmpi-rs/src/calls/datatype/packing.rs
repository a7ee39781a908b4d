//! Packing by the program: `MPI_Pack*`, `MPI_Unpack*`.

use core::ffi::c_void;
use std::mem::MaybeUninit;

use crate::abi::*;
use crate::args::{
    Array, ArrayMut, InOut, Out, Text, array, array_mut, out, read, size_or_undefined,
};
use crate::calls::entry::mpi;
use crate::datatype::external::{self, external};
use crate::datatype::{choice, get, packing};
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

/// The next `bytes` of a packed buffer that is written.
fn room<T>(
    buffer: ArrayMut<'_, T>,
    len: i64,
    position: i64,
    bytes: usize,
) -> Result<&mut [T], Fault> {
    let range = packing::room(len, position, bytes, MPI_ERR_ARG)?;
    present(buffer.address(), bytes)?;
    if bytes == 0 { Ok(&mut []) } else { Ok(&mut array_mut!(buffer[len])?[range]) }
}

/// The next `bytes` of a packed buffer that is read.
fn data(buffer: Array<'_, u8>, len: i64, position: i64, bytes: usize) -> Result<&[u8], Fault> {
    let range = packing::room(len, position, bytes, MPI_ERR_TRUNCATE)?;
    present(buffer.address(), bytes)?;
    if bytes == 0 { Ok(&[]) } else { Ok(&array!(buffer[len])?[range]) }
}

fn present(address: usize, bytes: usize) -> Result<(), Fault> {
    match address == 0 && bytes > 0 {
        true => Err(Fault::argument(MPI_ERR_BUFFER, "the packed buffer", "null", "it has data")),
        false => Ok(()),
    }
}

mpi! {
    fn MPI_Pack / MPI_Pack_c (
        inbuf: *const c_void, incount: N, datatype: MPI_Datatype, outbuf: ArrayMut<MaybeUninit<u8>>, outsize: N,
        position: InOut<N>, comm: MPI_Comm,
    ) on comm {
        let elements = choice!(inbuf, incount, datatype).elements()?;
        let bytes = packing::size(elements.count, elements.datatype.size)?;
        let begin = read(position, "position")?;
        let to = room(outbuf, outsize.into(), begin.into(), bytes)?;
        if bytes > 0 {
            elements.check_address()?;
            elements.pack_into(to);
        }
        out(position, "position", begin + bytes as N)
    }

    fn MPI_Unpack / MPI_Unpack_c (
        inbuf: Array<u8>, insize: N, position: InOut<N>, outbuf: *mut c_void, outcount: N,
        datatype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let elements = choice!(outbuf, outcount, datatype).elements()?;
        let bytes = packing::size(elements.count, elements.datatype.size)?;
        let begin = read(position, "position")?;
        let from = data(inbuf, insize.into(), begin.into(), bytes)?;
        if bytes > 0 {
            elements.check_address()?;
            elements.unpack_from(from);
        }
        out(position, "position", begin + bytes as N)
    }

    fn MPI_Pack_size / MPI_Pack_size_c (
        incount: N, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<N>,
    ) on comm {
        let bytes = packing::size(incount.into(), get(datatype)?.size)?;
        size_or_undefined(size, bytes)
    }

    fn MPI_Pack_external / MPI_Pack_external_c (
        datarep: Text, inbuf: *const c_void, incount: N, datatype: MPI_Datatype,
        outbuf: ArrayMut<u8>, outsize: B, position: InOut<B>,
    ) {
        known(datarep)?;
        let elements = choice!(inbuf, incount, datatype).elements()?;
        let bytes = packing::size(elements.count, external(elements.datatype.shape()))?;
        let begin = read(position, "position")?;
        let to = room(outbuf, outsize as i64, begin as i64, bytes)?;
        if bytes > 0 {
            elements.check_address()?;
            external::pack(&elements, to)?;
        }
        out(position, "position", begin + bytes as B)
    }

    fn MPI_Unpack_external / MPI_Unpack_external_c (
        datarep: Text, inbuf: Array<u8>, insize: B, position: InOut<B>, outbuf: *mut c_void,
        outcount: N, datatype: MPI_Datatype,
    ) {
        known(datarep)?;
        let elements = choice!(outbuf, outcount, datatype).elements()?;
        let bytes = packing::size(elements.count, external(elements.datatype.shape()))?;
        let begin = read(position, "position")?;
        let from = data(inbuf, insize as i64, begin as i64, bytes)?;
        if bytes > 0 {
            elements.check_address()?;
            external::unpack(&elements, from);
        }
        out(position, "position", begin + bytes as B)
    }

    fn MPI_Pack_external_size / MPI_Pack_external_size_c (
        datarep: Text, incount: N, datatype: MPI_Datatype, size: Out<B>,
    ) {
        known(datarep)?;
        let bytes = packing::size(incount.into(), external(get(datatype)?.shape()))?;
        size_out(size, "size", bytes)
    }
}
