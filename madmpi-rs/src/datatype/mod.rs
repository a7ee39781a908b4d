//! Datatypes: where the elements of a message lie in memory.

mod basic;

use crate::abi::*;
use crate::error::Fault;
use crate::handle::{Held, Table};

pub(crate) use basic::Basic;

static TYPES: Table<Datatype> = Table::new();

/// A datatype.
pub(crate) struct Datatype {
    /// Bytes of data.
    pub(crate) size: usize,
    /// Where the next element begins.
    pub(crate) extent: isize,
    /// Its first byte, by its markers or by its data.
    pub(crate) lb: isize,
    /// Whether `count` elements are `count * size` bytes in a row that begin at the address.
    pub(crate) contiguous: bool,
    pub(crate) committed: bool,
    /// What it is made of, if it is one of the standard's.
    pub(crate) basic: Option<Basic>,
}

/// The datatype that a handle stands for.
///
/// # Errors
/// None.
#[inline]
pub(crate) fn get(datatype: MPI_Datatype) -> Result<Held<Datatype>, Fault> {
    match basic::get(datatype) {
        Some(datatype) => Ok(Held::Fixed(datatype)),
        None => TYPES.get(datatype.0).map(Held::Shared).ok_or_else(|| bad(datatype)),
    }
}

#[cold]
fn bad(datatype: MPI_Datatype) -> Fault {
    let why = match datatype {
        MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL is no datatype",
        _ => "it is not a datatype, or was freed, or this machine has none like that",
    };
    Fault::argument(MPI_ERR_TYPE, "datatype", format_args!("{:#x}", datatype.0), why)
}
