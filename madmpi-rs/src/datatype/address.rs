//! Addresses: displacements from `MPI_BOTTOM`, which is null.

use core::ffi::c_void;

use crate::abi::*;
use crate::call::mpi;
use crate::error::out;

mpi! {
    anytime fn MPI_Get_address(location: *const c_void, address: *mut MPI_Aint) {
        out(address, "address", location as MPI_Aint)
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

#[unsafe(no_mangle)]
extern "C" fn PMPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

#[unsafe(no_mangle)]
extern "C" fn PMPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}
