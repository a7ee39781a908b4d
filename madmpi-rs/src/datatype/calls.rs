//! What a program does with a datatype besides making it: commits it, frees it, asks for its size and its bounds, names it.

use core::ffi::{c_char, c_int};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{Datatype, get, name_of, remove};
use crate::abi::*;
use crate::call::mpi;
use crate::env::{text_in, text_out};
use crate::error::{Fault, out, read};
use crate::handle::Held;

/// The type that a handle stands for in memory of the program's.
fn at(place: *mut MPI_Datatype) -> Result<(MPI_Datatype, Held<Datatype>), Fault> {
    let handle = read(place.cast_const(), "datatype")?;
    Ok((handle, get(handle)?))
}

mpi! {
    fn MPI_Type_commit(datatype: *mut MPI_Datatype) {
        at(datatype)?.1.committed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn MPI_Type_free(datatype: *mut MPI_Datatype) {
        remove(at(datatype)?.0)?;
        out(datatype, "datatype", MPI_DATATYPE_NULL)
    }

    fn MPI_Type_size(datatype: MPI_Datatype, size: *mut c_int) {
        out(size, "size", c_int::try_from(get(datatype)?.size).unwrap_or(MPI_UNDEFINED))
    }

    fn MPI_Type_size_c(datatype: MPI_Datatype, size: *mut MPI_Count) {
        out(size, "size", get(datatype)?.size as MPI_Count)
    }

    fn MPI_Type_size_x(datatype: MPI_Datatype, size: *mut MPI_Count) {
        out(size, "size", get(datatype)?.size as MPI_Count)
    }

    fn MPI_Type_get_extent / MPI_Type_get_extent_c (datatype: MPI_Datatype, lb: *mut B, extent: *mut B) {
        let datatype = get(datatype)?;
        out(lb, "lb", datatype.lb() as B)?;
        out(extent, "extent", datatype.extent as B)
    }

    fn MPI_Type_get_extent_x(datatype: MPI_Datatype, lb: *mut MPI_Count, extent: *mut MPI_Count) {
        let datatype = get(datatype)?;
        out(lb, "lb", datatype.lb() as MPI_Count)?;
        out(extent, "extent", datatype.extent as MPI_Count)
    }

    fn MPI_Type_get_true_extent / MPI_Type_get_true_extent_c (
        datatype: MPI_Datatype, true_lb: *mut B, true_extent: *mut B,
    ) {
        let (low, high) = get(datatype)?.shape().part.true_bounds();
        out(true_lb, "true_lb", low as B)?;
        out(true_extent, "true_extent", (high - low) as B)
    }

    fn MPI_Type_get_true_extent_x(
        datatype: MPI_Datatype, true_lb: *mut MPI_Count, true_extent: *mut MPI_Count,
    ) {
        let (low, high) = get(datatype)?.shape().part.true_bounds();
        out(true_lb, "true_lb", low as MPI_Count)?;
        out(true_extent, "true_extent", (high - low) as MPI_Count)
    }

    fn MPI_Type_get_name(datatype: MPI_Datatype, type_name: *mut c_char, resultlen: *mut c_int) {
        let name = match datatype {
            MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL".to_owned(),
            _ => name_of(&*get(datatype)?),
        };
        text_out(name.as_bytes(), type_name, MPI_MAX_OBJECT_NAME, resultlen)
    }

    fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: *const c_char) {
        let datatype = get(datatype)?;
        let name = text_in(type_name, "type_name")?;
        *datatype.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        Ok(())
    }
}
