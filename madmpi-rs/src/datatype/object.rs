//! The datatype as an object.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::copy;
use super::rows::Row;
use super::shape::Shape;
use crate::abi::*;
use crate::attribute::Attributes;
use crate::per_rank::PerRank;
use marcel::plumbing::KernelMutex;

/// What a program says of a type.
#[derive(Default)]
struct Told {
    name: KernelMutex<Option<Vec<u8>>>,
    attributes: Attributes,
}

/// A datatype.
pub(crate) struct Datatype {
    /// Bytes of data.
    pub(crate) size: usize,
    /// The distance to the next element.
    pub(crate) extent: isize,
    /// Whether `count` elements are `count * size` bytes in a row from the address on.
    pub(crate) contiguous: bool,
    committed: AtomicBool,
    /// The row of a predefined type, named or looked up by its digits.
    pub(crate) row: Option<&'static Row>,
    shape: Arc<Shape>,
    /// Of a type that is there without being made, each rank's own: the ranks of a process share its handle.
    told: PerRank<Told>,
    handle: OnceLock<MPI_Datatype>,
}

impl Datatype {
    pub(crate) fn new(shape: Arc<Shape>, committed: bool, row: Option<&'static Row>) -> Datatype {
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
            told: PerRank::new(Told::default(), Told::default),
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

    /// The alignment of its elements.
    pub(crate) fn align(&self) -> usize {
        self.shape.part.align
    }

    /// The offset of the data of `count` elements from the address of the first one, and their length including gaps:
    /// for memory that is to hold them. More than there is address space stays more.
    pub(crate) fn span(&self, count: usize) -> (isize, usize) {
        let (low, high) = self.shape.part.true_bounds();
        if count == 0 {
            return (0, 0);
        }
        let last = self.extent.saturating_mul(count as isize - 1);
        let len = ((high - low) as usize).saturating_add(last.unsigned_abs());
        (low.saturating_add(last.min(0)), len)
    }

    /// The number of basic elements in the first `bytes` of data. `None`: the last one is not whole.
    pub(crate) fn elements(&self, bytes: usize) -> Option<usize> {
        self.shape.part.elements_of(bytes)
    }

    /// The number of bytes of the first basic elements.
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

    /// Records the handle that the type was given.
    pub(super) fn set_handle(&self, handle: MPI_Datatype) {
        let _ = self.handle.set(handle);
    }

    pub(crate) fn commit(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    fn told(&self) -> &Told {
        match self.shape.fixed.get() {
            Some(_) => &self.told,
            None => self.told.of(0),
        }
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.told().attributes
    }

    /// Its name, as the program set it or the standard has it.
    pub(crate) fn name(&self) -> Vec<u8> {
        let name = self.told().name.lock();
        match (&*name, self.row) {
            (Some(name), _) => name.clone(),
            (None, Some(row)) if row.handle == self.handle() => row.name.into(),
            (None, _) => Vec::new(),
        }
    }

    pub(crate) fn set_name(&self, name: &[u8]) {
        *self.told().name.lock() = Some(name.to_owned());
    }
}
