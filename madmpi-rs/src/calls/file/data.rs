//! Reads and writes: blocking ones, and those with requests.

use core::ffi::c_void;

use super::on;
use crate::abi::*;
use crate::args::{Out, StatusOut};
use crate::calls::entry::mpi;
use crate::datatype::{Choice, choice};
use crate::error::Fault;
use crate::file::access::{self, Access, Place};
use crate::file::background;
use crate::request;

fn run(fh: MPI_File, access: Access, choice: Choice, status: StatusOut) -> Result<(), Fault> {
    on(fh, |file| {
        status.put(access::run(file, access, choice)?);
        Ok(())
    })
}

fn begin(
    fh: MPI_File,
    access: Access,
    choice: Choice,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    on(fh, |file| request.make(|| request::new_operation(background::begin(file, access, choice)?)))
}

macro_rules! access {
    ($writes:literal, $place:expr, $collective:literal) => {
        Access { writes: $writes, place: $place, collective: $collective }
    };
}

mpi! {
    fn MPI_File_read_at / MPI_File_read_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(false, Place::At(offset), false);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iread_at / MPI_File_iread_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(false, Place::At(offset), false);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_read_at_all / MPI_File_read_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(false, Place::At(offset), true);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iread_at_all / MPI_File_iread_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(false, Place::At(offset), true);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_read / MPI_File_read_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(false, Place::Own, false);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iread / MPI_File_iread_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(false, Place::Own, false);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_read_all / MPI_File_read_all_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(false, Place::Own, true);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iread_all / MPI_File_iread_all_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(false, Place::Own, true);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_read_shared / MPI_File_read_shared_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(false, Place::Shared, false);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iread_shared / MPI_File_iread_shared_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(false, Place::Shared, false);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_read_ordered / MPI_File_read_ordered_c (
        fh: MPI_File, buf: *mut c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(false, Place::Ordered, true);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_write_at / MPI_File_write_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: *const c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(true, Place::At(offset), false);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iwrite_at / MPI_File_iwrite_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: *const c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(true, Place::At(offset), false);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_write_at_all / MPI_File_write_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: *const c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(true, Place::At(offset), true);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iwrite_at_all / MPI_File_iwrite_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: *const c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(true, Place::At(offset), true);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_write / MPI_File_write_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(true, Place::Own, false);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iwrite / MPI_File_iwrite_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(true, Place::Own, false);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_write_all / MPI_File_write_all_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(true, Place::Own, true);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iwrite_all / MPI_File_iwrite_all_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(true, Place::Own, true);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_write_shared / MPI_File_write_shared_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(true, Place::Shared, false);
        run(fh, access, choice!(buf, count, datatype), status)
    }

    fn MPI_File_iwrite_shared / MPI_File_iwrite_shared_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) {
        let access = access!(true, Place::Shared, false);
        begin(fh, access, choice!(buf, count, datatype), request)
    }

    fn MPI_File_write_ordered / MPI_File_write_ordered_c (
        fh: MPI_File, buf: *const c_void, count: N, datatype: MPI_Datatype,
        status: StatusOut,
    ) {
        let access = access!(true, Place::Ordered, true);
        run(fh, access, choice!(buf, count, datatype), status)
    }
}
