//! How a type was made: `MPI_Type_get_envelope`, `MPI_Type_get_contents`.

use core::ffi::c_int;
use std::sync::Arc;

use super::shape::{Made, Shape};
use super::{Datatype, get, insert, remove};
use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, array_mut, out};

/// # Errors
/// There are large counts, and the function has no place for them.
fn no_counts(made: &Made, other: &str) -> Result<(), Fault> {
    if made.counts.is_empty() {
        return Ok(());
    }
    let why = format!("it was made by a function for large counts, which {other} tells");
    Err(Fault::argument(MPI_ERR_TYPE, "datatype", "large", &why))
}

/// Copies what was recorded to the program.
///
/// # Errors
/// It has not enough room.
fn copy<T: Copy>(place: *mut T, most: i64, name: &str, values: &[T]) -> Result<(), Fault> {
    if most < values.len() as i64 {
        let why = format!("there are {}, as MPI_Type_get_envelope says", values.len());
        return Err(Fault::argument(MPI_ERR_ARG, name, most, &why));
    }
    array_mut(place, values.len() as i64, name)?.copy_from_slice(values);
    Ok(())
}

/// Handles of the types that a type was made of: new ones, but for those that are always there.
fn handles(types: &[Arc<Shape>]) -> Result<Vec<MPI_Datatype>, Fault> {
    let mut handles = Vec::with_capacity(types.len());
    for shape in types {
        let handle = match shape.fixed.get() {
            Some(handle) => Ok(*handle),
            None => insert(Datatype::new(shape.clone(), true, None)),
        };
        match handle {
            Ok(handle) => handles.push(handle),
            Err(fault) => {
                // Those that are always there refuse.
                handles.into_iter().for_each(|handle| drop(remove(handle)));
                return Err(fault);
            }
        }
    }
    Ok(handles)
}

/// # Errors
/// It is one of the standard's own types.
fn derived(made: &Made) -> Result<(), Fault> {
    if made.combiner != MPI_COMBINER_NAMED {
        return Ok(());
    }
    let why = "the standard's own types are made of nothing";
    Err(Fault::argument(MPI_ERR_TYPE, "datatype", "a named one", why))
}

mpi! {
    fn MPI_Type_get_envelope(
        datatype: MPI_Datatype, num_integers: *mut c_int, num_addresses: *mut c_int,
        num_datatypes: *mut c_int, combiner: *mut c_int,
    ) {
        let datatype = get(datatype)?;
        let made = &datatype.shape().made;
        no_counts(made, "MPI_Type_get_envelope_c")?;
        out(num_integers, "num_integers", made.integers.len() as c_int)?;
        out(num_addresses, "num_addresses", made.addresses.len() as c_int)?;
        out(num_datatypes, "num_datatypes", made.types.len() as c_int)?;
        out(combiner, "combiner", made.combiner)
    }

    fn MPI_Type_get_envelope_c(
        datatype: MPI_Datatype, num_integers: *mut MPI_Count, num_addresses: *mut MPI_Count,
        num_large_counts: *mut MPI_Count, num_datatypes: *mut MPI_Count, combiner: *mut c_int,
    ) {
        let datatype = get(datatype)?;
        let made = &datatype.shape().made;
        out(num_integers, "num_integers", made.integers.len() as MPI_Count)?;
        out(num_addresses, "num_addresses", made.addresses.len() as MPI_Count)?;
        out(num_large_counts, "num_large_counts", made.counts.len() as MPI_Count)?;
        out(num_datatypes, "num_datatypes", made.types.len() as MPI_Count)?;
        out(combiner, "combiner", made.combiner)
    }

    fn MPI_Type_get_contents(
        datatype: MPI_Datatype, max_integers: c_int, max_addresses: c_int, max_datatypes: c_int,
        array_of_integers: *mut c_int, array_of_addresses: *mut MPI_Aint,
        array_of_datatypes: *mut MPI_Datatype,
    ) {
        let datatype = get(datatype)?;
        let made = &datatype.shape().made;
        derived(made)?;
        no_counts(made, "MPI_Type_get_contents_c")?;
        copy(array_of_integers, max_integers.into(), "array_of_integers", &made.integers)?;
        copy(array_of_addresses, max_addresses.into(), "array_of_addresses", &made.addresses)?;
        let nothing = vec![MPI_DATATYPE_NULL; made.types.len()];
        copy(array_of_datatypes, max_datatypes.into(), "array_of_datatypes", &nothing)?;
        let types = handles(&made.types)?;
        copy(array_of_datatypes, max_datatypes.into(), "array_of_datatypes", &types)
    }

    fn MPI_Type_get_contents_c(
        datatype: MPI_Datatype, max_integers: MPI_Count, max_addresses: MPI_Count,
        max_large_counts: MPI_Count, max_datatypes: MPI_Count, array_of_integers: *mut c_int,
        array_of_addresses: *mut MPI_Aint, array_of_large_counts: *mut MPI_Count,
        array_of_datatypes: *mut MPI_Datatype,
    ) {
        let datatype = get(datatype)?;
        let made = &datatype.shape().made;
        derived(made)?;
        copy(array_of_integers, max_integers, "array_of_integers", &made.integers)?;
        copy(array_of_addresses, max_addresses, "array_of_addresses", &made.addresses)?;
        copy(array_of_large_counts, max_large_counts, "array_of_large_counts", &made.counts)?;
        let nothing = vec![MPI_DATATYPE_NULL; made.types.len()];
        copy(array_of_datatypes, max_datatypes, "array_of_datatypes", &nothing)?;
        let types = handles(&made.types)?;
        copy(array_of_datatypes, max_datatypes, "array_of_datatypes", &types)
    }
}
