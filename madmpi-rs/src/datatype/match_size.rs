//! Datatypes that are looked up rather than made: by decimal digits (Fortran's `selected_int_kind` and
//! `selected_real_kind`), by class and size, by the types of a pair.

use core::ffi::c_int;
use std::collections::BTreeMap;

use super::shape::{Envelope, Shape};
use super::{Datatype, get, insert, named};
use crate::abi::*;
use crate::error::Fault;
use marcel::plumbing::KernelMutex;

/// The handles given out: one for each combination of arguments, always the same, never freed.
static FOUND: KernelMutex<BTreeMap<Request, MPI_Datatype>> = KernelMutex::new(BTreeMap::new());

/// The combiner and its arguments.
type Request = (c_int, c_int, c_int);

/// The most digits and the largest exponent of ten of Fortran's kinds, with their types of C.
pub(crate) const INTEGERS: &[(c_int, MPI_Datatype)] = &[
    (2, MPI_INTEGER1),
    (4, MPI_INTEGER2),
    (9, MPI_INTEGER4),
    (18, MPI_INTEGER8),
    (38, MPI_INTEGER16),
];
pub(crate) const REALS: &[(c_int, c_int, MPI_Datatype)] = &[
    (6, 37, MPI_REAL4),
    (15, 307, MPI_REAL8),
    (18, 4931, MPI_LONG_DOUBLE),
    (33, 4931, MPI_REAL16),
];
pub(crate) const COMPLEXES: &[(c_int, c_int, MPI_Datatype)] = &[
    (6, 37, MPI_COMPLEX8),
    (15, 307, MPI_COMPLEX16),
    (18, 4931, MPI_C_LONG_DOUBLE_COMPLEX),
    (33, 4931, MPI_COMPLEX32),
];

/// The handle for such arguments, made of `base` the first time.
pub(crate) fn unnamed(
    combiner: c_int,
    arguments: &[c_int],
    base: MPI_Datatype,
) -> Result<MPI_Datatype, Fault> {
    let key = (combiner, arguments[0], arguments.get(1).copied().unwrap_or(0));
    let mut found = FOUND.lock();
    if let Some(handle) = found.get(&key) {
        return Ok(*handle);
    }
    let base = get(base)?;
    let made = Envelope::by(combiner, false).integers(arguments);
    let shape = Shape::new(made, base.shape().part.clone())?;
    let handle = insert(Datatype::new(shape.clone(), true, base.row))?;
    let _ = shape.fixed.set(handle);
    found.insert(key, handle);
    Ok(handle)
}

/// The smallest of Fortran's kinds with so many digits and such an exponent; either may be left open.
pub(crate) fn real(
    combiner: c_int,
    kinds: &[(c_int, c_int, MPI_Datatype)],
    digits: c_int,
    range: c_int,
) -> Result<MPI_Datatype, Fault> {
    if digits == MPI_UNDEFINED && range == MPI_UNDEFINED {
        let why = "r is MPI_UNDEFINED too: one of them must be given";
        return Err(Fault::argument(MPI_ERR_ARG, "p", "MPI_UNDEFINED", why));
    }
    for (name, value) in [("p", digits), ("r", range)] {
        if value < 0 && value != MPI_UNDEFINED {
            return Err(Fault::argument(MPI_ERR_ARG, name, value, "it must not be negative"));
        }
    }
    let fits = |kind: &&(c_int, c_int, MPI_Datatype)| digits <= kind.0 && range <= kind.1;
    match kinds.iter().find(fits) {
        Some(kind) => unnamed(combiner, &[digits, range], kind.2),
        None => {
            let what = format!("({digits}, {range})");
            let why = "no kind of Fortran's has so many digits or such exponents";
            Err(Fault::argument(MPI_ERR_ARG, "(p, r)", what, why))
        }
    }
}

/// One of the standard's types of that class and size.
pub(crate) fn of_size(class: c_int, size: c_int) -> Option<MPI_Datatype> {
    let types: &[MPI_Datatype] = match class {
        MPI_TYPECLASS_INTEGER => {
            &[MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16]
        }
        MPI_TYPECLASS_REAL => &[MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16, MPI_LONG_DOUBLE],
        MPI_TYPECLASS_COMPLEX => {
            &[MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32, MPI_C_LONG_DOUBLE_COMPLEX]
        }
        _ => return None,
    };
    let has_size = |handle: &&MPI_Datatype| {
        named::get(**handle).is_some_and(|datatype| c_int::try_from(datatype.size) == Ok(size))
    };
    types.iter().find(has_size).copied()
}
