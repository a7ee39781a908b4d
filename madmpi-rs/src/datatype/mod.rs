//! Datatypes: where the elements of a message lie in memory.
//!
//! | file | what |
//! |---|---|
//! | `rows`, `named` | the predefined types: their table, and as datatypes |
//! | `object` | a datatype: a shape with a handle, a name and attributes |
//! | `shape` | how a type was made, its bounds, its data |
//! | `flat` | where the data are: loops around runs |
//! | `elements` | elements in the program's memory, as calls name them |
//! | `data`, `copy` | the data of a message, in place or packed |
//! | `construct`, `array`, `match_size` | shapes made of others; types that are looked up |
//! | `contents` | how a type was made, for the program |
//! | `packing`, `external` | packed buffers and `external32` |

pub(crate) mod array;
pub(crate) mod construct;
pub(crate) mod contents;
mod copy;
pub(crate) mod data;
mod elements;
pub(crate) mod external;
mod flat;
pub(crate) mod match_size;
mod named;
mod object;
pub(crate) mod packing;
pub(crate) mod rows;
pub(crate) mod shape;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use crate::abi::*;
use crate::error::Fault;
use crate::handle::{Ref, Table};

pub(crate) use data::{Data, Described};
pub(crate) use elements::{Choice, Elements, choice};
pub(crate) use object::Datatype;
pub(crate) use rows::{Basic, ROWS, Row, Value};

static TYPES: Table<Datatype> = Table::new();

/// The datatype that a handle stands for.
///
/// # Errors
/// The handle stands for none.
#[inline]
pub(crate) fn get(datatype: MPI_Datatype) -> Result<Ref<Datatype>, Fault> {
    match named::get(datatype) {
        Some(datatype) => Ok(Ref::Fixed(datatype)),
        None => TYPES.get(datatype.0).map(Ref::Shared).ok_or_else(|| bad(datatype)),
    }
}

/// The datatype of a predefined type's handle. `None`: the handle is another's, or none.
#[inline]
pub(crate) fn predefined(datatype: MPI_Datatype) -> Option<&'static Datatype> {
    named::get(datatype).map(|datatype| &**datatype)
}

/// Calls `f` with the datatype that a handle stands for. For a predefined one that is shorter than [`get`].
///
/// # Errors
/// The handle stands for none; those of `f`.
#[inline(always)]
pub(crate) fn with<R>(
    datatype: MPI_Datatype,
    f: impl Fn(&Datatype) -> Result<R, Fault>,
) -> Result<R, Fault> {
    match named::get(datatype) {
        Some(datatype) => f(datatype),
        None => f(&*TYPES.get(datatype.0).ok_or_else(|| bad(datatype))?),
    }
}

#[cold]
fn bad(datatype: MPI_Datatype) -> Fault {
    let why = match datatype {
        MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL is not a datatype",
        _ => "it is not a datatype, or was freed, or this machine lacks that type",
    };
    Fault::handle(MPI_ERR_TYPE, "datatype", datatype.0, why)
}

pub(crate) fn insert(datatype: Datatype) -> Result<MPI_Datatype, Fault> {
    let datatype = Arc::new(datatype);
    let handle = TYPES.insert(datatype.clone());
    let handle = handle.map(MPI_Datatype).ok_or_else(|| {
        Fault::new(MPI_ERR_NO_MEM, "there are as many datatypes as there are handles")
    })?;
    datatype.set_handle(handle);
    Ok(handle)
}

/// Calls a function of the program's with a handle of the type: its own, or, if the program has freed that one, another
/// that lasts as long as the call.
pub(crate) fn with_handle<R>(datatype: &Arc<Datatype>, call: impl FnOnce(MPI_Datatype) -> R) -> R {
    let own = datatype.handle();
    let stays = || TYPES.get(own.0).is_some_and(|found| Arc::ptr_eq(&found, datatype));
    if datatype.shape().fixed.get().is_some() || stays() {
        return call(own);
    }
    match TYPES.insert(datatype.clone()) {
        Some(other) => {
            let result = call(MPI_Datatype(other));
            TYPES.remove(other);
            result
        }
        None => call(own),
    }
}

/// Ends a handle.
///
/// # Errors
/// It is not one, or the type is always there, or it has attributes whose functions say no.
pub(crate) fn remove(datatype: MPI_Datatype) -> Result<(), Fault> {
    let freed = get(datatype)?;
    if freed.shape().fixed.get().is_some() {
        let why = "predefined datatypes cannot be freed";
        return Err(Fault::handle(MPI_ERR_TYPE, "datatype", datatype.0, why));
    }
    freed.attributes().delete_all(datatype.0)?;
    TYPES.remove(datatype.0).map(drop).ok_or_else(|| bad(datatype))
}
