//! Opening, closing and deleting files; their size, views, pointers and representations.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use super::on;
use crate::abi::*;
use crate::args::{InOut, Out, Text, TextOut, out, read};
use crate::calls::entry::mpi;
use crate::datatype::{Datatype, contents};
use crate::errhandler::Files;
use crate::error::Fault;
use crate::file::registered::{Conversion, Convert, ConvertLarge, Extent, Registered};
use crate::file::representation::register;
use crate::file::{self, open};
use crate::handle::Ref;
use crate::{comm, info};

/// A handle of a type of a view, which the program frees unless the type is predefined.
fn handle(datatype: &Ref<Datatype>) -> Result<MPI_Datatype, Fault> {
    let handles = contents::handles(std::slice::from_ref(datatype.shape()))?;
    Ok(handles[0])
}

/// The fault of a call without a file.
fn of_none(fault: Fault) -> Fault {
    fault.on(Arc::new(Files))
}

fn registered(
    name: Text<'_>,
    read: Conversion,
    write: Conversion,
    extent: Option<Extent>,
    extra: *mut c_void,
) -> Result<(), Fault> {
    let name = name.bytes_below(MPI_MAX_DATAREP_STRING, MPI_ERR_ARG, "datarep")?;
    if extent.is_none() {
        let why = "a function is needed";
        return Err(Fault::argument(MPI_ERR_ARG, "dtype_file_extent_fn", "null", why));
    }
    let (name, extra) = (name.into(), extra.expose_provenance());
    register(Registered { name, read, write, extent, extra })
}

mpi! {
    fn MPI_File_open(comm: MPI_Comm, filename: Text, amode: c_int, info: MPI_Info, fh: Out<MPI_File>) {
        let open = || {
            let comm = comm::get(comm)?;
            open::open(&comm, filename.bytes_or(MPI_ERR_BAD_FILE, "filename"), amode, info)
        };
        fh.made("fh", MPI_FILE_NULL, open).map_err(of_none)
    }

    fn MPI_File_close(fh: InOut<MPI_File>) {
        let handle = read(fh, "fh").map_err(of_none)?;
        let closed = on(handle, |file| open::close(file));
        // It may be closed with an error.
        if file::get(handle).is_err() {
            out(fh, "fh", MPI_FILE_NULL)?;
        }
        closed
    }

    fn MPI_File_delete(filename: Text, info: MPI_Info) {
        let delete = || {
            info::check(info)?;
            open::delete_named(filename.bytes_or(MPI_ERR_BAD_FILE, "filename")?)
        };
        delete().map_err(of_none)
    }

    fn MPI_File_set_size(fh: MPI_File, size: MPI_Offset) { on(fh, |file| file.set_size(size)) }

    fn MPI_File_preallocate(fh: MPI_File, size: MPI_Offset) { on(fh, |file| file.preallocate(size)) }

    fn MPI_File_get_size(fh: MPI_File, size: Out<MPI_Offset>) {
        on(fh, |file| out(size, "size", file.size()? as MPI_Offset))
    }

    fn MPI_File_sync(fh: MPI_File) { on(fh, |file| file.sync()) }

    fn MPI_File_set_atomicity(fh: MPI_File, flag: c_int) { on(fh, |file| file.set_atomicity(flag != 0)) }

    fn MPI_File_set_info(fh: MPI_File, info: MPI_Info) { on(fh, |file| file.set_info(info)) }

    fn MPI_File_set_view(
        fh: MPI_File, disp: MPI_Offset, etype: MPI_Datatype, filetype: MPI_Datatype, datarep: Text, info: MPI_Info,
    ) {
        on(fh, |file| {
            // A name that is none is refused at all ranks.
            let name = datarep.bytes_below(MPI_MAX_DATAREP_STRING, MPI_ERR_ARG, "datarep").unwrap_or_default();
            file.set_view((disp, etype, filetype), name, info)
        })
    }

    fn MPI_File_get_view(
        fh: MPI_File, disp: Out<MPI_Offset>, etype: Out<MPI_Datatype>, filetype: Out<MPI_Datatype>,
        datarep: TextOut<{ MPI_MAX_DATAREP_STRING }>,
    ) {
        on(fh, |file| {
            let view = file.shown();
            out(disp, "disp", view.disp)?;
            datarep.put(&view.representation, "datarep")?;
            etype.made("etype", MPI_DATATYPE_NULL, || handle(&view.etype))?;
            filetype.made("filetype", MPI_DATATYPE_NULL, || handle(&view.filetype))
        })
    }

    fn MPI_File_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) { on(fh, |file| file.seek(offset, whence)) }

    fn MPI_File_seek_shared(fh: MPI_File, offset: MPI_Offset, whence: c_int) {
        on(fh, |file| file.seek_shared(offset, whence))
    }

    fn MPI_Register_datarep(
        datarep: Text, read_conversion_fn: Option<Convert>, write_conversion_fn: Option<Convert>,
        dtype_file_extent_fn: Option<Extent>, extra_state: *mut c_void,
    ) {
        let small = |convert: Option<Convert>| convert.map_or(Conversion::None, Conversion::Small);
        let (reads, writes) = (small(read_conversion_fn), small(write_conversion_fn));
        registered(datarep, reads, writes, dtype_file_extent_fn, extra_state).map_err(of_none)
    }

    fn MPI_Register_datarep_c(
        datarep: Text, read_conversion_fn: Option<ConvertLarge>, write_conversion_fn: Option<ConvertLarge>,
        dtype_file_extent_fn: Option<Extent>, extra_state: *mut c_void,
    ) {
        let large = |convert: Option<ConvertLarge>| convert.map_or(Conversion::None, Conversion::Large);
        let (reads, writes) = (large(read_conversion_fn), large(write_conversion_fn));
        registered(datarep, reads, writes, dtype_file_extent_fn, extra_state).map_err(of_none)
    }
}
