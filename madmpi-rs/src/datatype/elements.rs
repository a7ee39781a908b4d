//! Elements in the program's memory, as calls name them.

use core::ffi::c_void;
use std::mem::MaybeUninit;

use super::data::{Data, InRow, check, negative};
use super::object::Datatype;
use super::{get, with};
use crate::abi::*;
use crate::error::Fault;
use crate::handle::Ref;

/// A choice buffer: an address, with the count and the datatype that the same call gives for it.
///
/// Invariant: the program leaves the elements to the operation until that is over. They are readable, and writable
/// where the standard lets the call change them. The caller of [`Choice::new`] promises this; [`Elements`] and
/// [`Data`] inherit it.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    at: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: MPI_Datatype,
}

/// Elements of a datatype at an address. The invariant is that of [`Choice`].
#[derive(Clone)]
pub(crate) struct Elements {
    at: usize,
    pub(crate) count: i64,
    pub(crate) datatype: Ref<Datatype>,
}

/// Makes the choice buffer of three arguments of an entry point.
macro_rules! choice {
    ($buf:ident, $count:expr, $datatype:expr) => {{
        let (at, count, datatype) = ($buf.cast::<core::ffi::c_void>(), i64::from($count), $datatype);
        // SAFETY: these three arguments belong together in the standard, and the program leaves the elements to the
        // operation.
        unsafe { $crate::datatype::Choice::new(at, count, datatype) }
    }};
}
pub(crate) use choice;

impl Choice {
    /// # Safety
    /// The invariant of the type.
    #[inline]
    pub(crate) unsafe fn new(at: *const c_void, count: i64, datatype: MPI_Datatype) -> Choice {
        Choice { at: at.cast_mut(), count, datatype }
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> *mut u8 {
        self.at.cast()
    }

    pub(crate) fn is_in_place(&self) -> bool {
        self.at.addr() == MPI_IN_PLACE
    }

    /// The number of elements.
    ///
    /// # Errors
    /// It is negative.
    pub(crate) fn count(&self) -> Result<usize, Fault> {
        usize::try_from(self.count).map_err(|_| negative(self.count))
    }

    /// Whether it is no elements, of no type.
    fn is_nothing(&self) -> bool {
        self.count == 0 && self.datatype == MPI_DATATYPE_NULL
    }

    /// The datatype. No elements may have none: they are bytes.
    ///
    /// # Errors
    /// The handle stands for none.
    #[inline(always)]
    pub(crate) fn datatype(&self) -> Result<Ref<Datatype>, Fault> {
        get(if self.is_nothing() { MPI_BYTE } else { self.datatype })
    }

    /// # Errors
    /// It is `MPI_IN_PLACE`, which calls have looked for where it is allowed.
    #[inline(always)]
    pub(crate) fn check_memory(&self) -> Result<(), Fault> {
        if !self.is_in_place() {
            return Ok(());
        }
        let why = "it is not allowed as this argument";
        Err(Fault::argument(MPI_ERR_BUFFER, "buffer", "MPI_IN_PLACE", why))
    }

    /// The elements; their number and address are checked when they are used.
    ///
    /// # Errors
    /// As [`Choice::datatype`] and [`Choice::check_memory`].
    #[inline(always)]
    pub(crate) fn elements(&self) -> Result<Elements, Fault> {
        self.check_memory()?;
        let datatype = self.datatype()?;
        Ok(Elements { at: self.at.expose_provenance(), count: self.count, datatype })
    }

    /// The data of elements that lie in a row, as most do. `None`: [`Choice::data`] says more.
    #[inline(always)]
    pub(crate) fn row(&self) -> Option<InRow> {
        with(self.datatype, |datatype| Ok(Data::row(self.at, self.count, datatype))).ok().flatten()
    }

    /// Describes the data, as [`Elements::data`] does.
    ///
    /// # Errors
    /// As [`Choice::elements`] and [`Data::of`].
    #[inline(always)]
    pub(crate) fn data(&self) -> Result<Data, Fault> {
        match with(self.datatype, |datatype| Data::of(self.at, self.count, datatype)) {
            Err(_) if self.is_nothing() => self.elements()?.data(),
            found => found,
        }
    }

    /// Describes the data for sending, as [`Elements::outgoing`] does.
    ///
    /// # Errors
    /// As [`Choice::data`].
    #[inline(always)]
    pub(crate) fn outgoing(&self) -> Result<Data, Fault> {
        // SAFETY: the elements are readable, by the invariant.
        let outgoing =
            |datatype: &Datatype| unsafe { Data::outgoing(self.at, self.count, datatype) };
        match with(self.datatype, outgoing) {
            Err(_) if self.is_nothing() => self.elements()?.outgoing(),
            found => found,
        }
    }

    /// The same buffer with another datatype, which the standard gives it too.
    pub(crate) fn with_type(self, datatype: MPI_Datatype) -> Choice {
        Choice { datatype, ..self }
    }

    /// The same buffer with another number of elements, which the standard gives it too.
    pub(crate) fn with_count(self, count: i64) -> Choice {
        Choice { count, ..self }
    }
}

impl Elements {
    /// Bytes of the library's own memory.
    ///
    /// # Safety
    /// The memory stays where it is, and is left to the operations that use the elements.
    pub(crate) unsafe fn bytes(memory: *mut [u8]) -> Result<Elements, Fault> {
        let at = memory.cast::<u8>().expose_provenance();
        Ok(Elements { at, count: memory.len() as i64, datatype: get(MPI_BYTE)? })
    }

    /// No elements.
    pub(crate) fn none() -> Result<Elements, Fault> {
        Ok(Elements { at: align_of::<u64>(), count: 0, datatype: get(MPI_BYTE)? })
    }

    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.at)
    }

    /// Bytes of data. More than can be counted are as many as can be, which no memory holds.
    pub(crate) fn len(&self) -> usize {
        self.datatype.size.saturating_mul(self.count as usize)
    }

    /// `count` elements that begin at the one with the number `first`.
    pub(crate) fn part(&self, first: i64, count: i64) -> Elements {
        self.moved(self.datatype.extent.wrapping_mul(first as isize), count)
    }

    /// `count` elements that begin so many bytes further on.
    pub(crate) fn moved(&self, by: isize, count: i64) -> Elements {
        Elements { at: self.at.wrapping_add_signed(by), count, datatype: self.datatype.clone() }
    }

    /// The elements, if data can be described of them.
    ///
    /// # Errors
    /// As [`Data::of`].
    pub(crate) fn checked(self) -> Result<Elements, Fault> {
        self.data()?;
        Ok(self)
    }

    /// Describes their data.
    ///
    /// # Errors
    /// As [`Data::of`].
    #[inline(always)]
    pub(crate) fn data(&self) -> Result<Data, Fault> {
        Data::of(self.address(), self.count, &self.datatype)
    }

    /// Describes their data for sending: packed, if they go through a copy.
    ///
    /// # Errors
    /// As [`Data::of`].
    #[inline(always)]
    pub(crate) fn outgoing(&self) -> Result<Data, Fault> {
        // SAFETY: the elements are readable, by the invariant.
        unsafe { Data::outgoing(self.address(), self.count, &self.datatype) }
    }

    /// # Errors
    /// The address is null, and the type has no absolute addresses.
    pub(crate) fn check_address(&self) -> Result<(), Fault> {
        check(self.address().cast(), self.datatype.shape())
    }

    /// Packs the elements into `to`, which has their length.
    pub(crate) fn pack_into(&self, to: &mut [MaybeUninit<u8>]) {
        assert_eq!(to.len(), self.len(), "the room has the length of the elements");
        let (at, to) = (self.address().cast(), to.as_mut_ptr().cast());
        // SAFETY: the elements are readable, by the invariant; the room has their length.
        unsafe { self.datatype.pack(at, self.count as usize, to) };
    }

    /// A packed copy of the elements.
    ///
    /// # Errors
    /// As [`Data::of`].
    pub(crate) fn packed(&self) -> Result<Box<[u8]>, Fault> {
        self.data()?;
        let mut copy = Box::new_uninit_slice(self.len());
        self.pack_into(&mut copy);
        // SAFETY: packing has written all of it.
        Ok(unsafe { copy.assume_init() })
    }

    /// A packed copy of the elements, as the data of a message to be sent.
    ///
    /// # Errors
    /// As [`Data::of`].
    pub(crate) fn copied(&self) -> Result<Data, Fault> {
        self.data()?;
        // SAFETY: the elements are readable, by the invariant.
        unsafe { Data::copied(self.address(), self.count as usize, &self.datatype) }
    }

    /// Unpacks packed elements; elements after the end of `from` stay as they are.
    pub(crate) fn unpack_from(&self, from: &[u8]) {
        let at = self.address().cast();
        // SAFETY: the elements are writable, by the invariant, and are not the library's memory.
        unsafe { self.datatype.unpack(from.as_ptr(), from.len(), at, self.count as usize) };
    }
}
