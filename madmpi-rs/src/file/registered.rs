//! Representations of the program: what its functions make of elements.
//!
//! The functions know data items: elements of predefined types. Those that convert are given elements of any type with the
//! number of their items; the one that tells extents is asked for predefined types alone.

use core::ffi::{c_int, c_void};

use super::errors::beyond;
use crate::abi::*;
use crate::datatype::rows::ROWS;
use crate::datatype::shape::Shape;
use crate::datatype::{Datatype, Elements, Row};
use crate::error::Fault;

pub(crate) type Extent = unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;
pub(crate) type Convert = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    c_int,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;
pub(crate) type ConvertLarge = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    MPI_Count,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;

/// A function of the program that converts elements.
#[derive(Clone, Copy)]
pub(crate) enum Conversion {
    /// `MPI_CONVERSION_FN_NULL`: elements go as they are in memory.
    None,
    Small(Convert),
    Large(ConvertLarge),
}

/// A representation that the program has registered.
pub(crate) struct Registered {
    pub(crate) name: Box<[u8]>,
    pub(crate) read: Conversion,
    pub(crate) write: Conversion,
    pub(crate) extent: Option<Extent>,
    pub(crate) extra: usize,
}

impl Conversion {
    /// Calls the function for the first `count` data items of the elements at `memory` and the bytes at `file`.
    ///
    /// # Safety
    /// The items and the bytes are there, and may be changed where the function is to.
    pub(super) unsafe fn call(
        self,
        memory: *mut c_void,
        datatype: MPI_Datatype,
        count: i64,
        file: *mut u8,
        extra: usize,
    ) -> Result<(), Fault> {
        if count == 0 {
            return Ok(());
        }
        let extra = std::ptr::with_exposed_provenance_mut(extra);
        let file = file.cast();
        let code = match self {
            Conversion::None => return Err(Fault::new(MPI_ERR_INTERN, "nothing converts")),
            Conversion::Small(convert) => {
                let count = c_int::try_from(count).map_err(|_| {
                    let why =
                        "the representation's functions take no more: see MPI_Register_datarep_c";
                    Fault::argument(MPI_ERR_COUNT, "count", count, why)
                })?;
                // SAFETY: the program gave it as such a function; the caller's promise.
                unsafe { convert(memory, datatype, count, file, 0, extra) }
            }
            // SAFETY: as above.
            Conversion::Large(convert) => unsafe {
                convert(memory, datatype, count, file, 0, extra)
            },
        };
        match code {
            MPI_SUCCESS => Ok(()),
            _ => {
                let text = format!("the program's function gives {code}");
                Err(Fault::new(MPI_ERR_CONVERSION, text))
            }
        }
    }
}

/// Elements of one predefined type, one after the other.
struct Run {
    count: usize,
    row: &'static Row,
    /// Data items of each: a pair has two.
    items: usize,
    /// Bytes of each in the file.
    bytes: u64,
}

impl Registered {
    /// Bytes of an element of a predefined type in the file. The standard lets the program's function know no others.
    pub(super) fn bytes_of(&self, row: &Row) -> Result<u64, Fault> {
        let Some(function) = self.extent else { return Ok(row.size as u64) };
        let (mut extent, extra) = (0, std::ptr::with_exposed_provenance_mut(self.extra));
        // SAFETY: the program gave it as such a function.
        let code = unsafe { function(row.handle, &raw mut extent, extra) };
        match u64::try_from(extent) {
            Ok(extent) if code == MPI_SUCCESS => Ok(extent),
            _ => {
                let text = format!("the program's function of extents gives {code} and {extent}");
                Err(Fault::new(MPI_ERR_CONVERSION, text))
            }
        }
    }

    /// Shows the data of an element in order. Pairs are shown as such where all data are pairs of one type.
    ///
    /// # Errors
    /// The program's function has failed; then not all are shown.
    fn runs(&self, shape: &Shape, mut show: impl FnMut(Run)) -> Result<(), Fault> {
        let part = &shape.part;
        if part.size == 0 {
            return Ok(());
        }
        if let Some((_, row)) = shape.element() {
            let count = part.size / row.size;
            show(Run { count, row, items: part.elements / count, bytes: self.bytes_of(row)? });
            return Ok(());
        }
        let (mut known, mut result) = (Vec::new(), Ok(()));
        let mut bytes_of = |kind: u8, row: &Row| match known.iter().find(|(of, _)| *of == kind) {
            Some(&(_, bytes)) => Ok(bytes),
            None => {
                let bytes = self.bytes_of(row)?;
                known.push((kind, bytes));
                Ok::<u64, Fault>(bytes)
            }
        };
        part.typed().strips(1, 0, usize::MAX, |strip| {
            let Some(row) = ROWS.get(usize::from(strip.kind)) else { return };
            if result.is_ok() {
                let count = strip.count * (strip.len / row.size);
                let run = |bytes| show(Run { count, row, items: 1, bytes });
                result = bytes_of(strip.kind, row).map(run);
            }
        });
        result
    }

    /// Bytes of data of an element in the file, and whether each item has as many there as in memory.
    ///
    /// # Errors
    /// The program's function has failed.
    pub(super) fn measure(&self, datatype: &Datatype) -> Result<(u64, bool), Fault> {
        let (mut size, mut same) = (Some(0u64), true);
        self.runs(datatype.shape(), |run| {
            let more = run.bytes.checked_mul(run.count as u64);
            size = size.and_then(|size| size.checked_add(more?));
            same &= run.bytes == run.row.size as u64;
        })?;
        Ok((size.ok_or_else(beyond)?, same))
    }

    /// The number of whole data items that the first `len` bytes of the elements in the file hold.
    ///
    /// # Errors
    /// As [`Registered::measure`].
    pub(super) fn items_in(&self, elements: &Elements, len: u64) -> Result<usize, Fault> {
        let (shape, all) = (elements.datatype.shape(), elements.count as u64);
        let (each, _) = self.measure(&elements.datatype)?;
        let whole = len.checked_div(each).map_or(all, |whole| whole.min(all));
        let (mut items, mut rest) = (whole as usize * shape.part.elements, len - whole * each);
        if whole == all || rest == 0 {
            return Ok(items);
        }
        let mut ended = false;
        self.runs(shape, |run| {
            if ended {
                return;
            }
            let held = rest.checked_div(run.bytes).map_or(run.count, |held| held as usize);
            let held = held.min(run.count);
            ended = held < run.count;
            rest -= held as u64 * run.bytes;
            items += held * run.items;
        })?;
        Ok(items)
    }

    /// Whether one of its functions converts: then elements in the file have the sizes that the program says.
    pub(super) fn converts(&self) -> bool {
        self.converts_on(true) || self.converts_on(false)
    }

    /// Whether writes, or reads, convert.
    pub(super) fn converts_on(&self, writes: bool) -> bool {
        !matches!(if writes { self.write } else { self.read }, Conversion::None)
    }
}

/// The number of data items of elements.
///
/// # Errors
/// There are too many.
pub(super) fn items_of(elements: &Elements) -> Result<i64, Fault> {
    let each = elements.datatype.shape().part.elements as i64;
    each.checked_mul(elements.count).ok_or_else(beyond)
}
