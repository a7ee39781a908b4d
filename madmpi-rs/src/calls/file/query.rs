//! What the program asks of a file, and its error handler.

use core::ffi::c_int;
use std::sync::Arc;

use super::on;
use crate::abi::*;
use crate::args::{Out, out};
use crate::calls::entry::mpi;
use crate::calls::errhandler::called;
use crate::errhandler::{self, Files, Kind, files, invoke};
use crate::error::HandlesErrors;
use crate::{file, group, info};

mpi! {
    fn MPI_File_get_group(fh: MPI_File, group: Out<MPI_Group>) {
        on(fh, |file| group.made("group", MPI_GROUP_NULL, || group::handle(file.comm.group.clone())))
    }

    fn MPI_File_get_amode(fh: MPI_File, amode: Out<c_int>) { on(fh, |file| out(amode, "amode", file.amode)) }

    fn MPI_File_get_info(fh: MPI_File, info_used: Out<MPI_Info>) {
        on(fh, |file| info_used.made("info_used", MPI_INFO_NULL, || info::handle(file.hints_in_use())))
    }

    fn MPI_File_get_atomicity(fh: MPI_File, flag: Out<c_int>) {
        on(fh, |file| out(flag, "flag", c_int::from(file.is_atomic())))
    }

    fn MPI_File_get_position(fh: MPI_File, offset: Out<MPI_Offset>) {
        on(fh, |file| out(offset, "offset", file.tell()?))
    }

    fn MPI_File_get_position_shared(fh: MPI_File, offset: Out<MPI_Offset>) {
        on(fh, |file| out(offset, "offset", file.tell_shared()?))
    }

    fn MPI_File_get_byte_offset(fh: MPI_File, offset: MPI_Offset, disp: Out<MPI_Offset>) {
        on(fh, |file| out(disp, "disp", file.byte_offset(offset)?))
    }

    fn MPI_File_get_type_extent / MPI_File_get_type_extent_c (
        fh: MPI_File, datatype: MPI_Datatype, extent: Out<B>,
    ) {
        on(fh, |file| out(extent, "extent", file.type_extent(datatype)? as B))
    }

    /// That of `MPI_FILE_NULL` is the handler that files have at first.
    fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) {
        if file == MPI_FILE_NULL {
            let errhandler = errhandler::get(errhandler, Kind::File);
            errhandler::set_files(errhandler.map_err(|fault| fault.on(Arc::new(Files)))?);
            return Ok(());
        }
        on(file, |file| {
            file.set_errhandler(errhandler::get(errhandler, Kind::File)?);
            Ok(())
        })
    }

    fn MPI_File_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) {
        if file == MPI_FILE_NULL {
            return errhandler.made("errhandler", MPI_ERRHANDLER_NULL, || files().handle());
        }
        on(file, |file| errhandler.made("errhandler", MPI_ERRHANDLER_NULL, || file.errhandler().handle()))
    }

    fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) {
        match fh {
            MPI_FILE_NULL => drop(Files.handle_error(errorcode, &called(errorcode))),
            _ => {
                let file = file::get(fh)?;
                invoke(&file.errhandler(), fh.0, errorcode, &called(errorcode));
            }
        }
        Ok(())
    }
}
