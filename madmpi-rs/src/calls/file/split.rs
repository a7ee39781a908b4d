//! Split collectives.

use core::ffi::c_void;

use super::on;
use crate::abi::*;
use crate::args::StatusOut;
use crate::calls::entry::mpi;
use crate::datatype::{Choice, choice};
use crate::error::Fault;
use crate::file::access::{Access, Place};
use crate::file::{SplitKind as Kind, split};

fn begin(fh: MPI_File, kind: Kind, place: Place, choice: Choice) -> Result<(), Fault> {
    let writes = matches!(kind, Kind::WriteAtAll | Kind::WriteAll | Kind::WriteOrdered);
    let access = Access { writes, place, collective: true };
    on(fh, |file| split::begin(file, kind, access, choice))
}

fn end(fh: MPI_File, kind: Kind, status: StatusOut) -> Result<(), Fault> {
    on(fh, |file| {
        status.put(split::end(file, kind)?);
        Ok(())
    })
}

mpi! {
    fn MPI_File_read_at_all_begin / MPI_File_read_at_all_begin_c (
        fh: MPI_File, offset: MPI_Offset, buf: *mut c_void, count: N, datatype: MPI_Datatype,
    ) {
        begin(fh, Kind::ReadAtAll, Place::At(offset), choice!(buf, count, datatype))
    }

    fn MPI_File_read_at_all_end(fh: MPI_File, _buf: *mut c_void, status: StatusOut) { end(fh, Kind::ReadAtAll, status) }

    fn MPI_File_read_all_begin / MPI_File_read_all_begin_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
    ) {
        begin(fh, Kind::ReadAll, Place::Own, choice!(buf, count, datatype))
    }

    fn MPI_File_read_all_end(fh: MPI_File, _buf: *mut c_void, status: StatusOut) { end(fh, Kind::ReadAll, status) }

    fn MPI_File_read_ordered_begin / MPI_File_read_ordered_begin_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
    ) {
        begin(fh, Kind::ReadOrdered, Place::Ordered, choice!(buf, count, datatype))
    }

    fn MPI_File_read_ordered_end(fh: MPI_File, _buf: *mut c_void, status: StatusOut) { end(fh, Kind::ReadOrdered, status) }

    fn MPI_File_write_at_all_begin / MPI_File_write_at_all_begin_c (
        fh: MPI_File, offset: MPI_Offset, buf: *const c_void, count: N, datatype: MPI_Datatype,
    ) {
        begin(fh, Kind::WriteAtAll, Place::At(offset), choice!(buf, count, datatype))
    }

    fn MPI_File_write_at_all_end(fh: MPI_File, _buf: *const c_void, status: StatusOut) { end(fh, Kind::WriteAtAll, status) }

    fn MPI_File_write_all_begin / MPI_File_write_all_begin_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
    ) {
        begin(fh, Kind::WriteAll, Place::Own, choice!(buf, count, datatype))
    }

    fn MPI_File_write_all_end(fh: MPI_File, _buf: *const c_void, status: StatusOut) { end(fh, Kind::WriteAll, status) }

    fn MPI_File_write_ordered_begin / MPI_File_write_ordered_begin_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
    ) {
        begin(fh, Kind::WriteOrdered, Place::Ordered, choice!(buf, count, datatype))
    }

    fn MPI_File_write_ordered_end(fh: MPI_File, _buf: *const c_void, status: StatusOut) { end(fh, Kind::WriteOrdered, status) }
}
