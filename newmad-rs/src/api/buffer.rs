//! Memory that messages leave from and arrive in.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::error::Error;
use crate::memory::layout::{Layout, Strided};
use crate::request::Request;

/// Where the bytes of a message lie.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// So many bytes in a row.
    Whole(*mut u8, usize),
    /// Pieces, the first ones first.
    Pieces {
        /// Address of the list.
        list: *const libc::iovec,
        /// Number of pieces.
        count: usize,
        /// Bytes of all of them.
        len: usize,
    },
}

impl Memory {
    /// The layout of a message that does not lie in a row.
    ///
    /// # Errors
    /// [`Error::BadLayout`]: the blocks are not inside the memory, or that is in pieces itself.
    #[inline]
    pub(crate) fn scattered(self, layout: Option<Strided>) -> Result<Option<Layout>, Error> {
        match (self, layout) {
            (Memory::Whole(..), None) => Ok(None),
            (Memory::Pieces { list, count, len }, None) => Ok(Some(Layout::list(list, count, len))),
            (Memory::Whole(at, memory), Some(layout)) => {
                let len = layout.len(memory).ok_or(Error::BadLayout { layout, memory })?;
                Ok(Some(Layout::strided(at, layout, len)))
            }
            (Memory::Pieces { len: memory, .. }, Some(layout)) => {
                Err(Error::BadLayout { layout, memory })
            }
        }
    }

    /// The bytes in a row, from the address on.
    #[inline]
    pub(crate) fn row(self) -> *mut [u8] {
        match self {
            Memory::Whole(at, len) => std::ptr::slice_from_raw_parts_mut(at, len),
            Memory::Pieces { .. } => std::ptr::slice_from_raw_parts_mut(std::ptr::null_mut(), 0),
        }
    }

    /// The bytes, if they are in a row.
    ///
    /// # Safety
    /// For `'a` they are readable and unchanged.
    #[inline(always)]
    pub unsafe fn bytes<'a>(self) -> Option<&'a [u8]> {
        match self {
            Memory::Whole(_, 0) => Some(&[]),
            // SAFETY: the caller's promise.
            Memory::Whole(at, len) => Some(unsafe { std::slice::from_raw_parts(at, len) }),
            Memory::Pieces { .. } => None,
        }
    }

    /// The bytes, if they are in a row.
    ///
    /// # Safety
    /// For `'a` they are writable, and nothing else reads or writes them.
    #[inline]
    pub(crate) unsafe fn bytes_mut<'a>(self) -> Option<&'a mut [u8]> {
        match self {
            Memory::Whole(_, 0) => Some(&mut []),
            // SAFETY: the caller's promise.
            Memory::Whole(at, len) => Some(unsafe { std::slice::from_raw_parts_mut(at, len) }),
            Memory::Pieces { .. } => None,
        }
    }

    /// A request that sends this memory, or the blocks of it that `layout` names.
    ///
    /// # Safety
    /// Until the request is over, the memory (and the list of its pieces) stays readable and unchanged.
    ///
    /// # Errors
    /// [`Error::BadLayout`].
    #[inline]
    pub(crate) unsafe fn send(
        self,
        to: u32,
        tag: u64,
        layout: Option<Strided>,
        waits: bool,
    ) -> Result<Request, Error> {
        let layout = self.scattered(layout)?;
        // SAFETY: the caller's promise.
        unsafe {
            let mut request = Request::send(to, tag, self.row(), waits);
            if let Some(layout) = layout {
                request.scatter(layout);
            }
            Ok(request)
        }
    }

    /// A request that receives into this memory, or into the blocks of it that `layout` names.
    ///
    /// # Safety
    /// Until the request is over, the memory stays writable and exclusive, and the list of its pieces stays as it is.
    ///
    /// # Errors
    /// [`Error::BadLayout`].
    #[inline]
    pub(crate) unsafe fn recv(
        self,
        from: u32,
        tag: u64,
        layout: Option<Strided>,
        waits: bool,
    ) -> Result<Request, Error> {
        let layout = self.scattered(layout)?;
        // SAFETY: the caller's promise.
        unsafe {
            let mut request = Request::recv(from, tag, self.row(), waits);
            if let Some(layout) = layout {
                request.scatter(layout);
            }
            Ok(request)
        }
    }

    /// A [`Buffer`] of this memory, for bindings to other languages, whose programs look after their buffers
    /// themselves.
    ///
    /// # Safety
    /// Until each request that is given the buffer, or a copy of it, is over, even if that request is forgotten:
    /// the memory (and the list of its pieces) stays where it is. What is sent stays readable and unchanged. What is
    /// received into is writable, and nothing else reads or writes it.
    #[inline]
    pub const unsafe fn trusted(self) -> Trusted {
        Trusted(self)
    }
}

/// Memory that the program promised to look after: see [`Memory::trusted`].
#[derive(Clone, Copy, Debug)]
pub struct Trusted(Memory);

impl Trusted {
    pub(crate) const EMPTY: Trusted = Trusted(Memory::Whole(std::ptr::dangling_mut(), 0));
}

// SAFETY: an address; the promise of `Memory::trusted` holds in every thread.
unsafe impl Send for Trusted {}
// SAFETY: as above.
unsafe impl Sync for Trusted {}

/// Memory that a message can be sent from: what owns it, or borrows it.
///
/// # Safety
/// The memory that [`Buffer::memory`] names stays where it is, readable and unchanged, until the buffer is dropped or
/// its owner gets at it by `&mut`: even if the buffer itself is moved, or forgotten.
pub unsafe trait Buffer {
    /// Where the bytes lie.
    fn memory(&self) -> Memory;
}

/// Memory that a message can be received into. Its length is the capacity.
///
/// # Safety
/// The memory that [`BufferMut::memory_mut`] names is the buffer's alone, and stays where it is, writable, until the
/// buffer is dropped or its owner gets at it: even if the buffer itself is moved, or forgotten.
pub unsafe trait BufferMut: Buffer {
    /// Where the bytes go.
    fn memory_mut(&mut self) -> Memory;
}

/// A buffer that is borrowed: nothing is freed when it is dropped.
///
/// # Safety
/// To drop the buffer leaves the memory that it names as it is.
pub unsafe trait Borrowed: Buffer {}

fn whole(bytes: &[u8]) -> Memory {
    Memory::Whole(bytes.as_ptr().cast_mut(), bytes.len())
}

fn whole_mut(bytes: &mut [u8]) -> Memory {
    Memory::Whole(bytes.as_mut_ptr(), bytes.len())
}

/// Buffers whose bytes are in a row.
macro_rules! bytes {
    ($($buffer:ty),*) => { $(
        // SAFETY: the bytes are behind a pointer that the buffer owns, or borrows for its life.
        unsafe impl Buffer for $buffer {
            #[inline]
            fn memory(&self) -> Memory {
                whole(self)
            }
        }
    )* };
    (mut $($buffer:ty),*) => { $(
        bytes!($buffer);
        // SAFETY: as above, and exclusively.
        unsafe impl BufferMut for $buffer {
            #[inline]
            fn memory_mut(&mut self) -> Memory {
                whole_mut(self)
            }
        }
    )* };
}

macro_rules! borrowed {
    ($($buffer:ty),*) => { $(
        // SAFETY: a reference.
        unsafe impl Borrowed for $buffer {}
    )* };
}

bytes!(Arc<[u8]>, &[u8], &Vec<u8>);
bytes!(mut Vec<u8>, Box<[u8]>, &mut [u8], &mut Vec<u8>);
borrowed!(&[u8], &str, &Vec<u8>, &mut [u8], &mut Vec<u8>, &[IoSlice<'_>], &mut [IoSliceMut<'_>]);

// SAFETY: the text is borrowed.
unsafe impl Buffer for &str {
    #[inline]
    fn memory(&self) -> Memory {
        whole(self.as_bytes())
    }
}

// SAFETY: the array is borrowed.
unsafe impl<const N: usize> Buffer for &[u8; N] {
    #[inline]
    fn memory(&self) -> Memory {
        whole(*self)
    }
}

// SAFETY: the array is borrowed.
unsafe impl<const N: usize> Buffer for &mut [u8; N] {
    #[inline]
    fn memory(&self) -> Memory {
        whole(*self)
    }
}

// SAFETY: the array is borrowed exclusively.
unsafe impl<const N: usize> BufferMut for &mut [u8; N] {
    #[inline]
    fn memory_mut(&mut self) -> Memory {
        whole_mut(*self)
    }
}

// SAFETY: a reference.
unsafe impl<const N: usize> Borrowed for &[u8; N] {}
// SAFETY: a reference.
unsafe impl<const N: usize> Borrowed for &mut [u8; N] {}

/// Pieces may overlap, so their sum may be more than there is memory.
fn total(mut lens: impl Iterator<Item = usize>) -> usize {
    lens.try_fold(0usize, usize::checked_add).unwrap_or(usize::MAX)
}

// SAFETY: list and pieces are borrowed. An `IoSlice` is laid out as an `iovec`, says its documentation.
unsafe impl Buffer for &[IoSlice<'_>] {
    fn memory(&self) -> Memory {
        let len = total(self.iter().map(|piece| piece.len()));
        Memory::Pieces { list: self.as_ptr().cast(), count: self.len(), len }
    }
}

// SAFETY: as above.
unsafe impl Buffer for &mut [IoSliceMut<'_>] {
    fn memory(&self) -> Memory {
        let len = total(self.iter().map(|piece| piece.len()));
        Memory::Pieces { list: self.as_ptr().cast(), count: self.len(), len }
    }
}

// SAFETY: as above, and exclusively.
unsafe impl BufferMut for &mut [IoSliceMut<'_>] {
    fn memory_mut(&mut self) -> Memory {
        self.memory()
    }
}

// SAFETY: the promise of `Memory::trusted`.
unsafe impl Buffer for Trusted {
    #[inline]
    fn memory(&self) -> Memory {
        self.0
    }
}

// SAFETY: the promise of `Memory::trusted`.
unsafe impl BufferMut for Trusted {
    #[inline]
    fn memory_mut(&mut self) -> Memory {
        self.0
    }
}
