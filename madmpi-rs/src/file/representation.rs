//! Representations: how elements look in the file.
//!
//! | name | in the file |
//! |---|---|
//! | `native`, `internal` | as in memory |
//! | `external32` | the same bytes on every machine; some types are shorter there |
//! | of the program | what the program's functions make ([`register`]) |

use std::sync::Arc;

use marcel::plumbing::KernelMutex;

use super::errors::beyond;
use super::registered::{Registered, items_of};
use crate::abi::*;
use crate::datatype::{Data, Datatype, Elements, external, with_handle};
use crate::error::Fault;
use crate::per_rank::per_rank;

per_rank! {
    static REGISTERED: KernelMutex<Vec<Arc<Registered>>> = KernelMutex::new(Vec::new());
}

/// A representation.
#[derive(Clone)]
pub(super) enum Representation {
    Native,
    Internal,
    External32,
    Registered(Arc<Registered>),
}

/// What converts elements between memory and file.
enum Converter<'a> {
    External32,
    Program(&'a Registered),
}

/// Registers a representation of the program.
///
/// # Errors
/// The name is taken.
pub(crate) fn register(new: Registered) -> Result<(), Fault> {
    if Representation::named(&new.name).is_ok() {
        let name = String::from_utf8_lossy(&new.name);
        let why = "a representation of that name exists";
        return Err(Fault::argument(MPI_ERR_DUP_DATAREP, "datarep", name, why));
    }
    REGISTERED.lock().push(Arc::new(new));
    Ok(())
}

/// Bytes of elements as they are in the file.
pub(super) enum Bytes {
    /// In place: the elements lie in memory as they do in the file.
    Row(*mut u8, usize),
    Copy(Box<[u8]>),
}

// SAFETY: the address names memory that the program has left to the operation.
unsafe impl Send for Bytes {}

impl Bytes {
    pub(super) fn len(&self) -> usize {
        match self {
            Bytes::Row(_, len) => *len,
            Bytes::Copy(bytes) => bytes.len(),
        }
    }

    pub(super) fn get(&self) -> &[u8] {
        match self {
            // SAFETY: elements of the program, which are left to the operation.
            Bytes::Row(at, len) if *len > 0 => unsafe { std::slice::from_raw_parts(*at, *len) },
            Bytes::Row(..) => &[],
            Bytes::Copy(bytes) => bytes,
        }
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: as above, and writable: only reads ask for this.
            Bytes::Row(at, len) if *len > 0 => unsafe { std::slice::from_raw_parts_mut(*at, *len) },
            Bytes::Row(..) => &mut [],
            Bytes::Copy(bytes) => bytes,
        }
    }
}

fn room(len: usize) -> Result<Box<[u8]>, Fault> {
    let mut room = Vec::new();
    if room.try_reserve_exact(len).is_err() {
        return Err(Fault::new(MPI_ERR_NO_MEM, "no memory for a copy of the data"));
    }
    room.resize(len, 0);
    Ok(room.into())
}

impl Representation {
    /// # Errors
    /// No representation has that name.
    pub(super) fn named(name: &[u8]) -> Result<Representation, Fault> {
        match name {
            b"native" => return Ok(Representation::Native),
            b"internal" => return Ok(Representation::Internal),
            b"external32" => return Ok(Representation::External32),
            _ => {}
        }
        let found = REGISTERED.lock().iter().find(|known| *known.name == *name).cloned();
        found.map(Representation::Registered).ok_or_else(|| {
            let why = "it is neither native, internal, external32 nor one that the program has registered";
            let name = String::from_utf8_lossy(name);
            Fault::argument(MPI_ERR_UNSUPPORTED_DATAREP, "datarep", name, why)
        })
    }

    pub(super) fn name(&self) -> &[u8] {
        match self {
            Representation::Native => b"native",
            Representation::Internal => b"internal",
            Representation::External32 => b"external32",
            Representation::Registered(registered) => &registered.name,
        }
    }

    /// Whether it has functions of the program, which are called inside the program's calls only.
    pub(super) fn calls_program(&self) -> bool {
        matches!(self, Representation::Registered(registered) if registered.converts())
    }

    /// Bytes of data of an element in the file.
    ///
    /// # Errors
    /// The program's function has failed.
    pub(super) fn size(&self, datatype: &Datatype) -> Result<u64, Fault> {
        match self {
            Representation::Native | Representation::Internal => Ok(datatype.size as u64),
            Representation::External32 => Ok(external::external(datatype.shape()) as u64),
            Representation::Registered(registered) if registered.converts() => {
                Ok(registered.measure(datatype)?.0)
            }
            Representation::Registered(_) => Ok(datatype.size as u64),
        }
    }

    /// What places and lengths of a type in memory are multiplied with to have those in the file.
    ///
    /// # Errors
    /// There is no such number.
    pub(super) fn scale(&self, datatype: &Datatype) -> Result<(u64, u64), Fault> {
        match self {
            Representation::Registered(registered) if registered.converts() => {
                self.scale_of(datatype, registered.measure(datatype)?)
            }
            _ => {
                let size = self.size(datatype)?;
                self.scale_of(datatype, (size, size == datatype.size as u64))
            }
        }
    }

    /// As [`Representation::scale`], of a type that has so many bytes of data in the file; `same`: each item of it has
    /// as many there as in memory.
    fn scale_of(
        &self,
        datatype: &Datatype,
        (size, same): (u64, bool),
    ) -> Result<(u64, u64), Fault> {
        if same {
            return Ok((1, 1));
        }
        let element = datatype.shape().element().map(|(_, row)| row.size);
        if let Some(unit) = element
            && size.is_multiple_of((datatype.size / unit) as u64)
            && is_made_of(datatype, unit)
        {
            return Ok((size / (datatype.size / unit) as u64, unit as u64));
        }
        let why = "elements of several sizes that differ from those in memory, or places that are no \
                   multiples of the element, are supported in native and internal only";
        let name = String::from_utf8_lossy(self.name()).into_owned();
        Err(Fault::argument(MPI_ERR_UNSUPPORTED_DATAREP, "datarep", name, why))
    }

    /// The extent of a type in the file.
    ///
    /// # Errors
    /// As [`Representation::scale`].
    pub(super) fn extent(&self, datatype: &Datatype) -> Result<i64, Fault> {
        let scale = match self {
            Representation::Registered(registered) if registered.extent.is_some() => {
                let shape = datatype.shape();
                if shape.made.combiner == MPI_COMBINER_NAMED
                    && let Some((_, row)) = shape.element()
                {
                    return Ok(registered.bytes_of(row)? as i64);
                }
                self.scale_of(datatype, registered.measure(datatype)?)
            }
            _ => self.scale(datatype),
        };
        let (numerator, denominator) = scale?;
        Ok(datatype.extent as i64 / denominator as i64 * numerator as i64)
    }

    /// Bytes of the elements in the file.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn len(&self, elements: &Elements) -> Result<u64, Fault> {
        self.size(&elements.datatype)?.checked_mul(elements.count as u64).ok_or_else(beyond)
    }

    /// What converts elements that are written, or read; `None`: they go as they are in memory.
    fn converter(&self, writes: bool) -> Option<Converter<'_>> {
        match self {
            Representation::External32 => Some(Converter::External32),
            Representation::Registered(registered) if registered.converts_on(writes) => {
                Some(Converter::Program(registered))
            }
            _ => None,
        }
    }

    /// Room for the elements' bytes, on their way to the file or from it.
    ///
    /// # Errors
    /// There is no memory; the program's sizes are not those in memory, and nothing converts.
    fn bytes(&self, elements: &Elements, writes: bool) -> Result<Bytes, Fault> {
        let converts = self.converter(writes).is_some();
        let len = self.len(elements)?;
        if !converts && len != elements.len() as u64 {
            let way = if writes { "written" } else { "read" };
            let text = format!(
                "elements have other sizes in the file, and no function converts what is {way}"
            );
            return Err(Fault::new(MPI_ERR_CONVERSION, text));
        }
        match elements.data()? {
            Data::Whole(at, len) if !converts => Ok(Bytes::Row(at, len)),
            _ => room(len as usize).map(Bytes::Copy),
        }
    }

    /// Room for the elements' bytes, which a read fills.
    ///
    /// # Errors
    /// There is no memory; the program's sizes are not those in memory, and it converts nothing that is read.
    pub(super) fn room(&self, elements: &Elements) -> Result<Bytes, Fault> {
        self.bytes(elements, false)
    }

    /// The bytes that a write brings to the file.
    ///
    /// # Errors
    /// There is no memory; a value does not fit; the program's function has failed, or there is none and its sizes are not
    /// those in memory.
    pub(super) fn outgoing(&self, elements: &Elements) -> Result<Bytes, Fault> {
        let mut bytes = self.bytes(elements, true)?;
        if let Bytes::Copy(copy) = &mut bytes {
            match self.converter(true) {
                Some(Converter::External32) => external::pack(elements, copy)?,
                Some(Converter::Program(registered)) => {
                    let (at, handle) = (elements.address(), elements.datatype.handle());
                    let (count, file) = (items_of(elements)?, copy.as_mut_ptr());
                    // SAFETY: elements of the program, and room for what the program says that their items have.
                    unsafe { registered.write.call(at, handle, count, file, registered.extra)? };
                }
                None => *copy = elements.packed()?,
            }
        }
        Ok(bytes)
    }

    /// Gives the program the first `len` bytes that came from the file; how many bytes of memory they are.
    ///
    /// # Errors
    /// The program's function has failed.
    pub(super) fn incoming(
        &self,
        elements: &Elements,
        bytes: &Bytes,
        len: usize,
    ) -> Result<usize, Fault> {
        let Bytes::Copy(copy) = bytes else { return Ok(len) };
        let came = &copy[..len];
        match self.converter(false) {
            Some(Converter::External32) => Ok(external::unpack(elements, came)),
            Some(Converter::Program(registered)) => {
                let items = registered.items_in(elements, len as u64)?;
                let (at, file) = (elements.address(), copy.as_ptr().cast_mut());
                // The program may have freed its handle since the call that began the read.
                with_handle(&elements.datatype.share(), |handle| {
                    // SAFETY: elements of the program; so many of their items have come.
                    unsafe {
                        registered.read.call(at, handle, items as i64, file, registered.extra)
                    }
                })?;
                let bytes = elements.datatype.shape().part.bytes_of(items);
                Ok(bytes.unwrap_or_else(|| elements.len()))
            }
            None => {
                elements.unpack_from(came);
                Ok(len)
            }
        }
    }
}

/// Whether all places and lengths are multiples of so many bytes.
fn is_made_of(datatype: &Datatype, unit: usize) -> bool {
    let fits = |bytes: isize| bytes.unsigned_abs().is_multiple_of(unit);
    let mut all = fits(datatype.extent);
    datatype.shape().part.flat.strips(1, 0, usize::MAX, |strip| {
        all &=
            fits(strip.at) && fits(strip.len as isize) && (strip.count == 1 || fits(strip.stride));
    });
    all
}
