//! Keys and attributes, and the attributes that the standard defines.

use core::ffi::{c_int, c_void};
use std::collections::HashMap;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{InOut, Out, out, read};
use crate::attribute::{self, Keyval, Kind, keyval};
use crate::comm::TAG_UB;
use crate::error::Fault;
use crate::{datatype, errcode, job};
use marcel::plumbing::KernelMutex;

fn create(
    kind: Kind,
    functions: (usize, usize),
    key: Out<c_int>,
    extra: *mut c_void,
) -> Result<(), Fault> {
    out(key, "keyval", MPI_KEYVAL_INVALID)?;
    let new = Keyval::new(kind, functions.0, functions.1, extra);
    out(key, "keyval", attribute::insert(new)?)
}

fn free(kind: Kind, key: InOut<c_int>) -> Result<(), Fault> {
    let freed = read(key, "keyval")?;
    attribute::free(freed, kind)?;
    out(key, "keyval", MPI_KEYVAL_INVALID)
}

/// Gives the program the value of an attribute: the pointer that it set.
pub(super) fn give(value: Option<usize>, place: Out<usize>, flag: Out<c_int>) -> Result<(), Fault> {
    out(flag, "flag", c_int::from(value.is_some()))?;
    value.map_or(Ok(()), |value| out(place, "attribute_val", value))
}

/// Whether a key is one of the standard's for communicators.
fn is_standard(key: c_int) -> bool {
    (MPI_TAG_UB..=MPI_UNIVERSE_SIZE).contains(&key)
}

/// The address of the value of one of the standard's attributes, as C wants it.
fn standard(key: c_int) -> Result<Option<usize>, Fault> {
    let value = match key {
        MPI_TAG_UB => TAG_UB,
        // No process is the host of the others.
        MPI_HOST => MPI_PROC_NULL,
        // All processes can read and write as the language provides.
        MPI_IO => MPI_ANY_SOURCE,
        MPI_WTIME_IS_GLOBAL => 0,
        MPI_UNIVERSE_SIZE => job::universe()? as c_int,
        MPI_LASTUSEDCODE => errcode::last_used(),
        MPI_APPNUM => match job::program()? {
            Some(number) => number as c_int,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(kept(value) as usize))
}

/// An address that holds the value for ever. There are few values.
fn kept(value: c_int) -> *const c_int {
    static KEPT: KernelMutex<Option<HashMap<c_int, &'static c_int>>> = KernelMutex::new(None);
    let mut kept = KEPT.lock();
    let all = kept.get_or_insert_default();
    *all.entry(value).or_insert_with(|| Box::leak(Box::new(value)))
}

mpi! {
    fn MPI_Comm_create_keyval | MPI_Keyval_create (
        copy: usize, delete: usize, comm_keyval: Out<c_int>, extra_state: *mut c_void,
    ) {
        create(Kind::Comm, (copy, delete), comm_keyval, extra_state)
    }

    fn MPI_Type_create_keyval(copy: usize, delete: usize, type_keyval: Out<c_int>, extra_state: *mut c_void) {
        create(Kind::Type, (copy, delete), type_keyval, extra_state)
    }

    fn MPI_Win_create_keyval(copy: usize, delete: usize, win_keyval: Out<c_int>, extra_state: *mut c_void) {
        create(Kind::Win, (copy, delete), win_keyval, extra_state)
    }

    fn MPI_Comm_free_keyval | MPI_Keyval_free (comm_keyval: InOut<c_int>) { free(Kind::Comm, comm_keyval) }

    fn MPI_Type_free_keyval(type_keyval: InOut<c_int>) { free(Kind::Type, type_keyval) }

    fn MPI_Win_free_keyval(win_keyval: InOut<c_int>) { free(Kind::Win, win_keyval) }

    fn MPI_Comm_set_attr | MPI_Attr_put (
        comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void,
    ) on comm {
        let keyval = keyval(comm_keyval, Kind::Comm)?;
        comm.attributes.set(comm.handle().0, keyval, attribute_val as usize)
    }

    fn MPI_Comm_get_attr | MPI_Attr_get (
        comm: MPI_Comm, comm_keyval: c_int, attribute_val: Out<usize>, flag: Out<c_int>,
    ) on comm {
        let value = if is_standard(comm_keyval) {
            standard(comm_keyval)?
        } else {
            comm.attributes.get(&keyval(comm_keyval, Kind::Comm)?)
        };
        give(value, attribute_val, flag)
    }

    fn MPI_Comm_delete_attr | MPI_Attr_delete (comm: MPI_Comm, comm_keyval: c_int) on comm {
        comm.attributes.delete(comm.handle().0, &keyval(comm_keyval, Kind::Comm)?)
    }

    fn MPI_Type_set_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: *mut c_void) {
        let object = datatype::get(datatype)?;
        let keyval = keyval(type_keyval, Kind::Type)?;
        object.attributes().set(datatype.0, keyval, attribute_val as usize)
    }

    fn MPI_Type_get_attr(
        datatype: MPI_Datatype, type_keyval: c_int, attribute_val: Out<usize>, flag: Out<c_int>,
    ) {
        let object = datatype::get(datatype)?;
        let value = object.attributes().get(&keyval(type_keyval, Kind::Type)?);
        give(value, attribute_val, flag)
    }

    fn MPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) {
        let object = datatype::get(datatype)?;
        object.attributes().delete(datatype.0, &keyval(type_keyval, Kind::Type)?)
    }
}
