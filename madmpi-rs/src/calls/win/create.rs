//! Making and freeing windows, and the memory of dynamic ones.

use core::ffi::{c_int, c_void};

use super::on;
use crate::abi::*;
use crate::args::{InOut, Out, out, read};
use crate::calls::entry::mpi;
use crate::comm::Comm;
use crate::error::Fault;
use crate::win::create::{self, Wanted};
use crate::win::{self};

/// Makes a window of memory that the library allocates.
fn allocate(
    comm: &Comm,
    wanted: &Wanted,
    baseptr: Out<usize>,
    win: Out<MPI_Win>,
) -> Result<(), Fault> {
    baseptr.check("baseptr")?;
    out(win, "win", MPI_WIN_NULL)?;
    let new = create::create(comm, wanted)?;
    out(baseptr, "baseptr", win::get(new)?.own.base)?;
    out(win, "win", new)
}

mpi! {
    fn MPI_Win_create / MPI_Win_create_c (
        base: *mut c_void, size: MPI_Aint, disp_unit: N, info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>,
    ) on comm {
        let (base, size, unit) = (base.expose_provenance(), size as i64, i64::from(disp_unit));
        let wanted = Wanted { flavor: MPI_WIN_FLAVOR_CREATE, base, size, unit, info };
        win.made("win", MPI_WIN_NULL, || create::create(&comm, &wanted))
    }

    fn MPI_Win_allocate / MPI_Win_allocate_c (
        size: MPI_Aint, disp_unit: N, info: MPI_Info, comm: MPI_Comm, baseptr: Out<usize>, win: Out<MPI_Win>,
    ) on comm {
        let (size, unit) = (size as i64, i64::from(disp_unit));
        let wanted = Wanted { flavor: MPI_WIN_FLAVOR_ALLOCATE, base: 0, size, unit, info };
        allocate(&comm, &wanted, baseptr, win)
    }

    fn MPI_Win_allocate_shared / MPI_Win_allocate_shared_c (
        size: MPI_Aint, disp_unit: N, info: MPI_Info, comm: MPI_Comm, baseptr: Out<usize>, win: Out<MPI_Win>,
    ) on comm {
        let (size, unit) = (size as i64, i64::from(disp_unit));
        let wanted = Wanted { flavor: MPI_WIN_FLAVOR_SHARED, base: 0, size, unit, info };
        allocate(&comm, &wanted, baseptr, win)
    }

    fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>) on comm {
        let wanted = Wanted { flavor: MPI_WIN_FLAVOR_DYNAMIC, base: 0, size: 0, unit: 1, info };
        win.made("win", MPI_WIN_NULL, || create::create(&comm, &wanted))
    }

    fn MPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) {
        on(win, |win| win.attach(base.expose_provenance(), size))
    }

    fn MPI_Win_detach(win: MPI_Win, base: *const c_void) { on(win, |win| win.detach(base.addr())) }

    fn MPI_Win_free(win: InOut<MPI_Win>) {
        let handle = read(win, "win")?;
        let freed = on(handle, create::free);
        // It may be gone with an error.
        if win::get(handle).is_err() {
            out(win, "win", MPI_WIN_NULL)?;
        }
        freed
    }

    fn MPI_Win_shared_query(
        win: MPI_Win, rank: c_int, size: Out<MPI_Aint>, disp_unit: Out<c_int>, baseptr: Out<usize>,
    ) {
        on(win, |win| {
            let (bytes, unit, at) = win.shared(rank)?;
            out(size, "size", bytes as MPI_Aint)?;
            out(disp_unit, "disp_unit", unit as c_int)?;
            out(baseptr, "baseptr", at)
        })
    }

    fn MPI_Win_shared_query_c(
        win: MPI_Win, rank: c_int, size: Out<MPI_Aint>, disp_unit: Out<MPI_Aint>, baseptr: Out<usize>,
    ) {
        on(win, |win| {
            let (bytes, unit, at) = win.shared(rank)?;
            out(size, "size", bytes as MPI_Aint)?;
            out(disp_unit, "disp_unit", unit as MPI_Aint)?;
            out(baseptr, "baseptr", at)
        })
    }
}
