//! Statuses, and the lengths of messages in elements.

use core::ffi::c_int;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{In, InOut, Out, out, read};
use crate::datatype;
use crate::error::Fault;

/// Changes a status of the program.
fn change(status: InOut<MPI_Status>, how: impl FnOnce(&mut MPI_Status)) -> Result<(), Fault> {
    let mut changed = read(status, "status")?;
    how(&mut changed);
    out(status, "status", changed)
}

/// The number of elements in a message. `None`: the last one is not whole.
fn count(bytes: usize, size: usize) -> Option<usize> {
    match size {
        0 => (bytes == 0).then_some(0),
        _ => bytes.is_multiple_of(size).then_some(bytes / size),
    }
}

mpi! {
    /// Gives `MPI_UNDEFINED` also where the number is too large for its type, as the standard says.
    fn MPI_Get_count / MPI_Get_count_c (status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<N>) {
        let found = self::count(read(status, "status")?.bytes(), datatype::get(datatype)?.size);
        let found = found.and_then(|found| N::try_from(found).ok());
        out(count, "count", found.unwrap_or(MPI_UNDEFINED as N))
    }

    fn MPI_Get_elements / MPI_Get_elements_c | MPI_Get_elements_x (
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<N>,
    ) {
        let bytes = read(status, "status")?.bytes();
        let found = datatype::get(datatype)?.elements(bytes).and_then(|found| N::try_from(found).ok());
        out(count, "count", found.unwrap_or(MPI_UNDEFINED as N))
    }

    fn MPI_Status_set_elements / MPI_Status_set_elements_c | MPI_Status_set_elements_x (
        status: InOut<MPI_Status>, datatype: MPI_Datatype, count: N,
    ) {
        let datatype = datatype::get(datatype)?;
        let wrong = |why| Fault::argument(MPI_ERR_COUNT, "count", count, why);
        let count = usize::try_from(count).map_err(|_| wrong("it must not be negative"))?;
        let bytes = datatype.bytes(count);
        let bytes = bytes.ok_or_else(|| wrong("the type has no such number of elements"))?;
        change(status, |status| status.set_bytes(bytes))
    }

    anytime fn MPI_Status_get_source(status: In<MPI_Status>, source: Out<c_int>) {
        out(source, "source", read(status, "status")?.MPI_SOURCE)
    }

    anytime fn MPI_Status_get_tag(status: In<MPI_Status>, tag: Out<c_int>) {
        out(tag, "tag", read(status, "status")?.MPI_TAG)
    }

    anytime fn MPI_Status_get_error(status: In<MPI_Status>, error: Out<c_int>) {
        out(error, "error", read(status, "status")?.MPI_ERROR)
    }

    anytime fn MPI_Status_set_source(status: InOut<MPI_Status>, source: c_int) {
        change(status, |status| status.MPI_SOURCE = source)
    }

    anytime fn MPI_Status_set_tag(status: InOut<MPI_Status>, tag: c_int) {
        change(status, |status| status.MPI_TAG = tag)
    }

    anytime fn MPI_Status_set_error(status: InOut<MPI_Status>, error: c_int) {
        change(status, |status| status.MPI_ERROR = error)
    }

    anytime fn MPI_Test_cancelled(status: In<MPI_Status>, flag: Out<c_int>) {
        out(flag, "flag", c_int::from(read(status, "status")?.is_cancelled()))
    }

    anytime fn MPI_Status_set_cancelled(status: InOut<MPI_Status>, flag: c_int) {
        change(status, |status| status.set_cancelled(flag != 0))
    }
}
