//! What a program does with a datatype once it is made: commit, free, name it, ask for its size, bounds and contents.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::args::{ArrayMut, InOut, Out, Text, TextOut, array_mut, out, read, size_or_undefined};
use crate::calls::entry::{mpi, twins};
use crate::datatype::{
    Datatype,
    contents::{derived, handles, no_counts},
    get, remove,
};
use crate::error::Fault;
use crate::handle::Ref;

/// The handle that the program's memory has, and its datatype.
fn at(place: InOut<MPI_Datatype>) -> Result<(MPI_Datatype, Ref<Datatype>), Fault> {
    let handle = read(place, "datatype")?;
    Ok((handle, get(handle)?))
}

mpi! {
    fn MPI_Type_commit(datatype: InOut<MPI_Datatype>) {
        at(datatype)?.1.commit();
        Ok(())
    }

    fn MPI_Type_free(datatype: InOut<MPI_Datatype>) {
        remove(at(datatype)?.0)?;
        out(datatype, "datatype", MPI_DATATYPE_NULL)
    }

    fn MPI_Type_size / MPI_Type_size_c | MPI_Type_size_x (datatype: MPI_Datatype, size: Out<N>) {
        size_or_undefined(size, get(datatype)?.size)
    }

    fn MPI_Type_get_extent / MPI_Type_get_extent_c | MPI_Type_get_extent_x (
        datatype: MPI_Datatype, lb: Out<B>, extent: Out<B>,
    ) {
        let datatype = get(datatype)?;
        out(lb, "lb", datatype.lb() as B)?;
        out(extent, "extent", datatype.extent as B)
    }

    fn MPI_Type_get_true_extent / MPI_Type_get_true_extent_c | MPI_Type_get_true_extent_x (
        datatype: MPI_Datatype, true_lb: Out<B>, true_extent: Out<B>,
    ) {
        let (low, high) = get(datatype)?.shape().part.true_bounds();
        out(true_lb, "true_lb", low as B)?;
        out(true_extent, "true_extent", (high - low) as B)
    }

    fn MPI_Type_get_name(datatype: MPI_Datatype, type_name: TextOut<{ MPI_MAX_OBJECT_NAME }>, resultlen: Out<c_int>) {
        let name = match datatype {
            MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL".to_vec(),
            _ => get(datatype)?.name(),
        };
        out(resultlen, "resultlen", type_name.put(&name, "type_name")?)
    }

    fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: Text) {
        get(datatype)?.set_name(type_name.object_name("type_name")?);
        Ok(())
    }
}

/// The room for `len` recorded values.
///
/// # Errors
/// The program has less room.
fn room<'a, T>(
    array: ArrayMut<'a, T>,
    most: i64,
    len: usize,
    name: &str,
) -> Result<&'a mut [T], Fault> {
    if most < len as i64 {
        let why = format!("there are {len}, as MPI_Type_get_envelope says");
        return Err(Fault::argument(MPI_ERR_ARG, name, most, &why));
    }
    array_mut!(array[len as i64], name)
}

/// Gives the program recorded values.
fn give<T: Copy>(values: &[T], array: ArrayMut<T>, most: i64, name: &str) -> Result<(), Fault> {
    room(array, most, values.len(), name)?.copy_from_slice(values);
    Ok(())
}

mpi! {
    fn MPI_Type_get_envelope(
        datatype: MPI_Datatype, num_integers: Out<c_int>, num_addresses: Out<c_int>,
        num_datatypes: Out<c_int>, combiner: Out<c_int>,
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
        datatype: MPI_Datatype, num_integers: Out<MPI_Count>, num_addresses: Out<MPI_Count>,
        num_large_counts: Out<MPI_Count>, num_datatypes: Out<MPI_Count>, combiner: Out<c_int>,
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
        array_of_integers: ArrayMut<c_int>, array_of_addresses: ArrayMut<MPI_Aint>,
        array_of_datatypes: ArrayMut<MPI_Datatype>,
    ) {
        let datatype = get(datatype)?;
        let made = &datatype.shape().made;
        derived(made)?;
        no_counts(made, "MPI_Type_get_contents_c")?;
        give(&made.integers, array_of_integers, max_integers.into(), "array_of_integers")?;
        give(&made.addresses, array_of_addresses, max_addresses.into(), "array_of_addresses")?;
        let types = room(array_of_datatypes, max_datatypes.into(), made.types.len(), "array_of_datatypes")?;
        types.fill(MPI_DATATYPE_NULL);
        types.copy_from_slice(&handles(&made.types)?);
        Ok(())
    }

    fn MPI_Type_get_contents_c(
        datatype: MPI_Datatype, max_integers: MPI_Count, max_addresses: MPI_Count,
        max_large_counts: MPI_Count, max_datatypes: MPI_Count, array_of_integers: ArrayMut<c_int>,
        array_of_addresses: ArrayMut<MPI_Aint>, array_of_large_counts: ArrayMut<MPI_Count>,
        array_of_datatypes: ArrayMut<MPI_Datatype>,
    ) {
        let datatype = get(datatype)?;
        let made = &datatype.shape().made;
        derived(made)?;
        give(&made.integers, array_of_integers, max_integers, "array_of_integers")?;
        give(&made.addresses, array_of_addresses, max_addresses, "array_of_addresses")?;
        give(&made.counts, array_of_large_counts, max_large_counts, "array_of_large_counts")?;
        let types = room(array_of_datatypes, max_datatypes, made.types.len(), "array_of_datatypes")?;
        types.fill(MPI_DATATYPE_NULL);
        types.copy_from_slice(&handles(&made.types)?);
        Ok(())
    }
}

mpi! {
    anytime fn MPI_Get_address(location: *const c_void, address: Out<MPI_Aint>) {
        out(address, "address", location as MPI_Aint)
    }
}

const _: () = {
    twins!(MPI_Aint_add, (base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint, { base.wrapping_add(disp) });
};
const _: () = {
    twins!(MPI_Aint_diff, (addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint, { addr1.wrapping_sub(addr2) });
};
