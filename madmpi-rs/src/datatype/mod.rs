//! Datatypes: where the elements of a message lie in memory.
//!
//! | file | what |
//! |---|---|
//! | `basic` | the standard's own types |
//! | `shape` | what a type is: how it was made, its bounds, its data |
//! | `flat` | where the data are: loops around runs |
//! | `data`, `copy` | the data of a message, in place or packed |
//! | `construct`, `array` | `MPI_Type_*` that make types; `found`: those that find one |
//! | `calls`, `contents` | what may be asked of a type |
//! | `packing`, `external` | `MPI_Pack*`, `MPI_Unpack*` |
//! | `address` | `MPI_Get_address` |

mod address;
mod array;
mod basic;
mod calls;
mod construct;
mod contents;
mod copy;
mod data;
mod external;
mod flat;
mod found;
mod packing;
mod shape;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::abi::*;
use crate::attribute::Attributes;
use crate::error::{Fault, out};
use crate::handle::{Held, Table};

pub(crate) use basic::{Basic, Row, Value};
pub(crate) use data::Data;
pub(crate) use shape::Shape;

static TYPES: Table<Datatype> = Table::new();

/// A datatype.
pub(crate) struct Datatype {
    /// Bytes of data.
    pub(crate) size: usize,
    /// Where the next element begins.
    pub(crate) extent: isize,
    /// Whether `count` elements are `count * size` bytes in a row that begin at the address.
    pub(crate) contiguous: bool,
    committed: AtomicBool,
    /// What its elements are, if it is one of the standard's, named or found by its digits.
    pub(crate) row: Option<&'static Row>,
    shape: Arc<Shape>,
    name: Mutex<Option<String>>,
    pub(crate) attributes: Attributes,
    handle: OnceLock<MPI_Datatype>,
}

impl Datatype {
    fn new(shape: Arc<Shape>, committed: bool, row: Option<&'static Row>) -> Datatype {
        let (size, extent) = (shape.part.size, shape.extent);
        let one = shape.part.flat.single() == Some((0, size)) || size == 0;
        Datatype {
            size,
            extent,
            contiguous: one && extent == size as isize,
            committed: AtomicBool::new(committed),
            row,
            handle: shape.fixed.get().copied().map_or_else(OnceLock::new, OnceLock::from),
            shape,
            name: Mutex::new(None),
            attributes: Attributes::default(),
        }
    }

    #[inline]
    pub(crate) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    pub(crate) fn handle(&self) -> MPI_Datatype {
        self.handle.get().copied().unwrap_or(MPI_DATATYPE_NULL)
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    pub(crate) fn lb(&self) -> isize {
        self.shape.lb
    }

    /// What addresses of its elements are multiples of.
    pub(crate) fn align(&self) -> usize {
        self.shape.part.align
    }

    /// Where the data of `count` elements begin, from the address of the first one on, and how many bytes there are from
    /// there to their end: for memory that holds so many.
    pub(crate) fn span(&self, count: usize) -> (isize, usize) {
        let (low, high) = self.shape.part.true_bounds();
        if count == 0 {
            return (0, 0);
        }
        let last = self.extent.wrapping_mul(count as isize - 1);
        (low.wrapping_add(last.min(0)), (high - low) as usize + last.unsigned_abs())
    }

    /// How many basic elements the first `bytes` of data are. `None`: the last one is not whole.
    pub(crate) fn elements(&self, bytes: usize) -> Option<usize> {
        self.shape.part.elements_of(bytes)
    }

    /// How many bytes the first basic elements are.
    pub(crate) fn bytes(&self, elements: usize) -> Option<usize> {
        self.shape.part.bytes_of(elements)
    }

    /// Packs `count` elements.
    ///
    /// # Safety
    /// They are readable at `from`; `to` has room for their size; the two do not overlap.
    pub(crate) unsafe fn pack(&self, from: *const u8, count: usize, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { copy::pack(&self.shape, from, count, to) }
    }

    /// Unpacks the first `bytes` of up to `count` elements.
    ///
    /// # Safety
    /// `from` has so many bytes; the elements at `to` are writable; the two do not overlap.
    pub(crate) unsafe fn unpack(&self, from: *const u8, bytes: usize, to: *mut u8, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy::unpack(&self.shape, from, bytes, to, count) }
    }
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

/// Makes a datatype of a shape, and gives the program its handle.
///
/// # Errors
/// There is no place for it, or no handle left.
fn give(place: *mut MPI_Datatype, shape: Arc<Shape>, committed: bool) -> Result<(), Fault> {
    out(place, "newtype", MPI_DATATYPE_NULL)?;
    out(place, "newtype", insert(Datatype::new(shape, committed, None))?)
}

fn insert(datatype: Datatype) -> Result<MPI_Datatype, Fault> {
    let datatype = Arc::new(datatype);
    let handle = TYPES.insert(datatype.clone());
    let handle = handle.map(MPI_Datatype).ok_or_else(|| {
        Fault::new(MPI_ERR_NO_MEM, "there are as many datatypes as there are handles")
    })?;
    let _ = datatype.handle.set(handle);
    Ok(handle)
}

/// Calls a function of the program's with a handle of the type: its own, or, if the program has freed that one, another
/// that lasts as long as the call.
pub(crate) fn with_handle<R>(datatype: &Arc<Datatype>, call: impl FnOnce(MPI_Datatype) -> R) -> R {
    let own = datatype.handle();
    let stays = || TYPES.get(own.0).is_some_and(|found| Arc::ptr_eq(&found, datatype));
    if datatype.shape.fixed.get().is_some() || stays() {
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
fn remove(datatype: MPI_Datatype) -> Result<(), Fault> {
    let freed = get(datatype)?;
    if freed.shape.fixed.get().is_some() {
        let why = "the standard's own datatypes cannot be freed";
        return Err(Fault::argument(
            MPI_ERR_TYPE,
            "datatype",
            format_args!("{:#x}", datatype.0),
            why,
        ));
    }
    freed.attributes.delete_all(datatype.0)?;
    TYPES.remove(datatype.0).map(drop).ok_or_else(|| bad(datatype))
}

/// What it is called.
fn name_of(datatype: &Datatype) -> String {
    let name = datatype.name.lock().unwrap_or_else(PoisonError::into_inner);
    match (&*name, datatype.row) {
        (Some(name), _) => name.clone(),
        (None, Some(row)) if row.handle == datatype.handle() => row.name.to_owned(),
        (None, _) => String::new(),
    }
}
