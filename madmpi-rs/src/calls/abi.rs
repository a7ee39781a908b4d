//! Queries about the binary interface, and Fortran's part of it.

use core::ffi::c_int;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Array, ArrayMut, Out, array, array_mut, out};
use crate::datatype;
use crate::error::Fault;
use crate::info::{self, Entries};
use marcel::plumbing::KernelMutex;

/// Fortran types that a compiler may lack.
const OPTIONAL: [(&str, MPI_Datatype); 19] = [
    ("logical1", MPI_LOGICAL1),
    ("logical2", MPI_LOGICAL2),
    ("logical4", MPI_LOGICAL4),
    ("logical8", MPI_LOGICAL8),
    ("logical16", MPI_LOGICAL16),
    ("integer1", MPI_INTEGER1),
    ("integer2", MPI_INTEGER2),
    ("integer4", MPI_INTEGER4),
    ("integer8", MPI_INTEGER8),
    ("integer16", MPI_INTEGER16),
    ("real2", MPI_REAL2),
    ("real4", MPI_REAL4),
    ("real8", MPI_REAL8),
    ("real16", MPI_REAL16),
    ("complex4", MPI_COMPLEX4),
    ("complex8", MPI_COMPLEX8),
    ("complex16", MPI_COMPLEX16),
    ("complex32", MPI_COMPLEX32),
    ("double_complex", MPI_DOUBLE_COMPLEX),
];

const SIZED: [(&str, MPI_Datatype); 4] = [
    ("logical", MPI_LOGICAL),
    ("integer", MPI_INTEGER),
    ("real", MPI_REAL),
    ("double_precision", MPI_DOUBLE_PRECISION),
];

/// Fortran's true and false, of 1, 2, 4, 8 and 16 bytes, once the program has set them.
static BOOLEANS: KernelMutex<[Option<[[u8; 16]; 2]>; 5]> = KernelMutex::new([None; 5]);

/// The Fortran types and their sizes, from the table of datatypes.
fn fortran() -> Result<Entries, Fault> {
    let mut entries = Entries::default();
    for (name, handle) in SIZED {
        let size = datatype::get(handle)?.size.to_string();
        entries.set(format!("mpi_{name}_size").as_bytes(), size.as_bytes());
    }
    for (name, handle) in OPTIONAL {
        let supported = datatype::get(handle).is_ok().to_string();
        entries.set(format!("mpi_{name}_supported").as_bytes(), supported.as_bytes());
    }
    Ok(entries)
}

fn place_of(size: c_int) -> Result<usize, Fault> {
    [1, 2, 4, 8, 16].iter().position(|&known| known == size).ok_or_else(|| {
        let why = "truth values have 1, 2, 4, 8 or 16 bytes";
        Fault::argument(MPI_ERR_ARG, "logical_size", size, why)
    })
}

mpi! {
    anytime fn MPI_Abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) {
        out(abi_major, "abi_major", MPI_ABI_VERSION)?;
        out(abi_minor, "abi_minor", MPI_ABI_SUBVERSION)
    }

    anytime fn MPI_Abi_get_info(info: Out<MPI_Info>) {
        let mut entries = Entries::default();
        let sizes = [("aint", size_of::<MPI_Aint>()), ("count", size_of::<MPI_Count>()), ("offset", 8)];
        for (name, size) in sizes {
            entries.set(format!("mpi_{name}_size").as_bytes(), size.to_string().as_bytes());
        }
        info.made("info", MPI_INFO_NULL, || info::handle(entries))
    }

    anytime fn MPI_Abi_get_fortran_info(info: Out<MPI_Info>) {
        info.made("info", MPI_INFO_NULL, || info::handle(fortran()?))
    }

    /// Refuses whatever differs from the table of datatypes.
    anytime fn MPI_Abi_set_fortran_info(info: MPI_Info) {
        let (said, known) = (info::get(info)?, fortran()?);
        let said = said.entries();
        let other = said.iter().find(|(key, value)| known.get(key).is_some_and(|known| known != *value));
        let Some((key, value)) = other else { return Ok(()) };
        let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        let has = known.get(key.as_bytes()).map(String::from_utf8_lossy).unwrap_or_default();
        let why = format!("this library was built for {key} = {has}");
        Err(Fault::argument(MPI_ERR_ABI, "info", format_args!("{key} = {value}"), &why))
    }

    anytime fn MPI_Abi_set_fortran_booleans(
        logical_size: c_int, logical_true: Array<u8>, logical_false: Array<u8>,
    ) {
        let place = place_of(logical_size)?;
        let mut values = [[0; 16]; 2];
        for (value, (given, name)) in
            values.iter_mut().zip([(logical_true, "logical_true"), (logical_false, "logical_false")])
        {
            let given = array!(given[logical_size], name)?;
            value[..given.len()].copy_from_slice(given);
        }
        if values[1] != [0; 16] || values[0] == [0; 16] {
            let why = "this library takes 0 for false and anything else for true";
            return Err(Fault::argument(MPI_ERR_ABI, "logical_false", "not 0, or logical_true is 0", why));
        }
        let mut known = BOOLEANS.lock();
        if known[place].is_some_and(|known| known != values) {
            let why = "other values were set before";
            return Err(Fault::argument(MPI_ERR_ABI, "logical_size", logical_size, why));
        }
        known[place] = Some(values);
        Ok(())
    }

    anytime fn MPI_Abi_get_fortran_booleans(
        logical_size: c_int, logical_true: ArrayMut<u8>, logical_false: ArrayMut<u8>, is_set: Out<c_int>,
    ) {
        let place = place_of(logical_size)?;
        let known = BOOLEANS.lock()[place];
        out(is_set, "is_set", c_int::from(known.is_some()))?;
        let Some(values) = known else { return Ok(()) };
        for (value, (place, name)) in
            values.iter().zip([(logical_true, "logical_true"), (logical_false, "logical_false")])
        {
            array_mut!(place[logical_size], name)?.copy_from_slice(&value[..logical_size as usize]);
        }
        Ok(())
    }
}
