//! The memory of a collective: borrowed or owned buffers of elements, or raw bytes.

use std::any::Any;

use crate::coll::memory::Memory;
use crate::coll::operator::{Element, as_bytes, as_bytes_mut};

/// Elements that a collective reads: a borrowed slice, array or vector, or an owned vector or boxed slice.
pub trait Buffer: sealed::Stable {
    /// What it has.
    type Item: Element;

    /// Its elements.
    fn items(&self) -> &[Self::Item];
}

/// A [`Buffer`] that a collective writes to.
pub trait BufferMut: Buffer {
    /// Its elements.
    fn items_mut(&mut self) -> &mut [Self::Item];
}

mod sealed {
    /// The elements stay where they are when the buffer is moved.
    pub trait Stable {}
}

macro_rules! buffer {
    ($([$($generics:tt)*] $type:ty),*) => {$(
        impl<$($generics)*> sealed::Stable for $type {}
        impl<$($generics)*> Buffer for $type {
            type Item = T;
            #[inline]
            fn items(&self) -> &[T] { &self[..] }
        }
    )*};
}
macro_rules! buffer_mut {
    ($([$($generics:tt)*] $type:ty),*) => {$(
        buffer!([$($generics)*] $type);
        impl<$($generics)*> BufferMut for $type {
            #[inline]
            fn items_mut(&mut self) -> &mut [T] { &mut self[..] }
        }
    )*};
}
buffer!([T: Element] &[T], [T: Element, const N: usize] &[T; N], [T: Element] &Vec<T>);
buffer_mut!([T: Element] &mut [T], [T: Element, const N: usize] &mut [T; N], [T: Element] &mut Vec<T>);
buffer_mut!([T: Element] Vec<T>, [T: Element] Box<[T]>);

/// All memory of a collective: [`One`] buffer, [`Two`], or [`Bytes`].
pub trait Buffers {
    /// What a collective gives back when it is over.
    type Result;

    #[doc(hidden)]
    /// Where the buffers are. They stay there when this value is moved.
    fn memory(&mut self) -> Memory;

    #[doc(hidden)]
    fn result(self) -> Self::Result;

    #[doc(hidden)]
    /// What is to be kept until the collective is over.
    fn kept(self: Box<Self>) -> Option<Box<dyn Any + Send>>
    where
        Self: Send + Sized + 'static,
    {
        Some(self)
    }

    #[doc(hidden)]
    /// The result, from what was kept.
    fn take(kept: Option<Box<dyn Any + Send>>) -> Option<Self::Result>
    where
        Self: Sized + 'static,
    {
        Some(kept?.downcast::<Self>().ok()?.result())
    }
}

/// One buffer: the result, and the contribution with it; or a contribution alone, where another rank has the result.
#[derive(Debug)]
pub struct One<D> {
    pub(super) data: D,
    /// It is a contribution alone.
    pub(super) reads: bool,
}

impl<D: BufferMut> Buffers for One<D> {
    type Result = D;

    #[inline]
    fn memory(&mut self) -> Memory {
        match self.reads {
            true => Memory { input: as_bytes(self.data.items()), output: &mut [] },
            false => Memory { input: &[], output: as_bytes_mut(self.data.items_mut()) },
        }
    }

    #[inline]
    fn result(self) -> D {
        self.data
    }
}

/// A contribution and a result.
#[derive(Debug)]
pub struct Two<S, R> {
    pub(super) from: S,
    pub(super) into: R,
}

impl<S: Buffer, R: BufferMut<Item = S::Item>> Buffers for Two<S, R> {
    type Result = R;

    #[inline]
    fn memory(&mut self) -> Memory {
        Memory { input: as_bytes(self.from.items()), output: as_bytes_mut(self.into.items_mut()) }
    }

    #[inline]
    fn result(self) -> R {
        self.into
    }
}

/// Memory that the caller of [`Group::bytes`](crate::coll::Group::bytes) answers for.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    pub(super) input: *const [u8],
    pub(super) output: *mut [u8],
}

// SAFETY: two addresses; the caller of `Group::bytes` has promised the memory to the collective.
unsafe impl Send for Bytes {}

impl Buffers for Bytes {
    type Result = ();

    #[inline]
    fn memory(&mut self) -> Memory {
        Memory { input: self.input, output: self.output }
    }

    #[inline]
    fn result(self) {}

    fn kept(self: Box<Self>) -> Option<Box<dyn Any + Send>> {
        None
    }

    fn take(_: Option<Box<dyn Any + Send>>) -> Option<()> {
        Some(())
    }
}
