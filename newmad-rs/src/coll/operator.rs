//! Elements and operators of reductions.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::coll::plan::Side;

mod sealed {
    pub trait Sealed: Sized {
        const ZERO: Self;
        /// Its value in memory; `bytes` are as many as it has.
        fn load(bytes: &[u8]) -> Self;
        fn store(self, bytes: &mut [u8]);
    }
}
use sealed::Sealed;

/// Numbers that collectives move and combine: the integers of 8 to 64 bits, `f32`, `f64`, and arrays of those. All
/// processes of a session have the same byte order.
pub trait Element: Copy + Send + Sync + 'static + Sealed {}

/// An [`Element`] that is one number.
pub trait Number: Element + PartialOrd {
    #[doc(hidden)]
    fn add(self, other: Self) -> Self;
    #[doc(hidden)]
    fn mul(self, other: Self) -> Self;
}

/// A [`Number`] with bits.
pub trait Integer:
    Number
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
{
}

macro_rules! element {
    ($($number:ty),*) => {$(
        impl Sealed for $number {
            const ZERO: Self = 0 as $number;
            #[inline]
            fn load(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$number>()];
                own.copy_from_slice(bytes);
                <$number>::from_ne_bytes(own)
            }
            #[inline]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
        impl Element for $number {}
    )*};
}
macro_rules! integer {
    ($($number:ty),*) => {$(
        impl Number for $number {
            #[inline]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
        impl Integer for $number {}
    )*};
}
macro_rules! float {
    ($($number:ty),*) => {$(
        impl Number for $number {
            #[inline]
            fn add(self, other: Self) -> Self { self + other }
            #[inline]
            fn mul(self, other: Self) -> Self { self * other }
        }
    )*};
}
element!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
integer!(u8, u16, u32, u64, i8, i16, i32, i64);
float!(f32, f64);

impl<T: Element, const N: usize> Sealed for [T; N] {
    const ZERO: Self = [T::ZERO; N];
    #[inline]
    fn load(bytes: &[u8]) -> Self {
        let size = size_of::<T>();
        std::array::from_fn(|i| T::load(&bytes[i * size..(i + 1) * size]))
    }
    #[inline]
    fn store(self, bytes: &mut [u8]) {
        let size = size_of::<T>();
        for (i, value) in self.into_iter().enumerate() {
            value.store(&mut bytes[i * size..(i + 1) * size]);
        }
    }
}
impl<T: Element, const N: usize> Element for [T; N] {}

type Shared = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

/// `into[i] = left[i] op into[i]` for all elements of two byte strings of the same length.
#[derive(Clone)]
enum Apply {
    Plain(fn(&[u8], &mut [u8])),
    Shared(Arc<Shared>),
}

/// An operator over bytes: what reductions use inside, and what bindings to other languages make.
#[derive(Clone)]
pub struct Operator {
    apply: Apply,
    pub(super) element: usize,
    pub(super) commutative: bool,
    pub(super) in_calls: bool,
}

impl Operator {
    /// Makes one of both, which is kept on that side.
    pub(super) fn combine(&self, left: &mut [u8], right: &mut [u8], keep: Side) {
        match keep {
            Side::Right => self.apply(left, right),
            Side::Left if self.commutative => self.apply(right, left),
            Side::Left => {
                self.apply(left, right);
                left.copy_from_slice(right);
            }
        }
    }

    /// `apply(left, into)` does `into[i] = left[i] op into[i]` for elements of `element` bytes; it gets any number of
    /// them. It has to be associative, and is called as that of [`Op::new`] is.
    pub fn new(
        element: usize,
        commutative: bool,
        apply: impl Fn(&[u8], &mut [u8]) + Send + Sync + 'static,
    ) -> Operator {
        Operator::of(Apply::Shared(Arc::new(apply)), element, commutative)
    }

    /// As [`Operator::new`], of a function without state: nothing is allocated, here and for each clone.
    pub fn plain(element: usize, commutative: bool, apply: fn(&[u8], &mut [u8])) -> Operator {
        Operator::of(Apply::Plain(apply), element, commutative)
    }

    fn of(apply: Apply, element: usize, commutative: bool) -> Operator {
        Operator { apply, element: element.max(1), commutative, in_calls: false }
    }

    /// `into[i] = left[i] op into[i]`.
    #[inline]
    pub(super) fn apply(&self, left: &[u8], into: &mut [u8]) {
        match &self.apply {
            Apply::Plain(apply) => apply(left, into),
            Apply::Shared(apply) => apply(left, into),
        }
    }

    /// Has it called inside calls of the program only, one call of such operators of the session at a time: for
    /// programs that promise no more than one thread at a time in the library. A call that waits for communication has
    /// it called by the thread that finds the data, its own or one of the library's; a call that looks for events calls
    /// it itself; between calls it is not called.
    #[must_use]
    pub fn in_calls(self) -> Operator {
        Operator { in_calls: true, ..self }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("element", &self.element)
            .field("commutative", &self.commutative)
            .finish_non_exhaustive()
    }
}

/// How elements are combined by a reduction.
///
/// ```
/// use newmad::coll::Op;
/// let largest = Op::<f64>::max();
/// // The number of the largest element goes with it.
/// let where_largest = Op::new(|a: [f64; 2], b: [f64; 2]| if b[0] > a[0] { b } else { a });
/// # let _ = (largest, where_largest);
/// ```
pub struct Op<T> {
    pub(super) bytes: Operator,
    _element: PhantomData<fn(T, T) -> T>,
}

impl<T> Clone for Op<T> {
    fn clone(&self) -> Self {
        Op { bytes: self.bytes.clone(), _element: PhantomData }
    }
}

impl<T: Element> Op<T> {
    /// Any function that is associative and commutative. It must not wait for communication.
    ///
    /// # Context
    /// The thread that finds the data calls it, several at once for several collectives, never a signal handler:
    ///
    /// | thread | stack |
    /// |---|---|
    /// | one inside a call of newmad or of the I/O manager | its own; a green thread's is `MARCEL_STACK_SIZE` |
    /// | an idle virtual processor | its kernel thread's: 2 MiB, as the standard library's threads have |
    /// | a kernel thread of the library (`pioman-…`, `newmad-connect`) | as a thread's in C: `ulimit -s`, mostly 8 MiB |
    ///
    /// [`Operator::in_calls`] is for programs in other languages that cannot promise `Sync`.
    pub fn new(combine: impl Fn(T, T) -> T + Send + Sync + 'static) -> Op<T> {
        Op::of(combine, true)
    }

    /// Any function that is associative, but not commutative: elements are combined in the order of ranks.
    pub fn ordered(combine: impl Fn(T, T) -> T + Send + Sync + 'static) -> Op<T> {
        Op::of(combine, false)
    }

    fn of(combine: impl Fn(T, T) -> T + Send + Sync + 'static, commutative: bool) -> Op<T> {
        let size = size_of::<T>();
        // Of elements without bytes there are none to combine.
        let each = size.max(1);
        let apply = move |left: &[u8], into: &mut [u8]| {
            for (left, into) in left.chunks_exact(each).zip(into.chunks_exact_mut(each)) {
                combine(T::load(left), T::load(into)).store(into);
            }
        };
        Op { bytes: Operator::new(size, commutative, apply), _element: PhantomData }
    }
}

impl<T: Number> Op<T> {
    /// Addition; integers wrap around.
    pub fn sum() -> Op<T> {
        Op::new(T::add)
    }

    /// Multiplication; integers wrap around.
    pub fn product() -> Op<T> {
        Op::new(T::mul)
    }

    /// The smaller one. What is not a number is passed over if it can be.
    pub fn min() -> Op<T> {
        Op::new(|a: T, b: T| if a < b || is_nan(b) { a } else { b })
    }

    /// The larger one. What is not a number is passed over if it can be.
    pub fn max() -> Op<T> {
        Op::new(|a: T, b: T| if a > b || is_nan(b) { a } else { b })
    }
}

#[allow(clippy::eq_op, reason = "only what is not a number differs from itself")]
#[inline]
fn is_nan<T: Number>(value: T) -> bool {
    value != value
}

impl<T: Integer> Op<T> {
    /// Bits that all have.
    pub fn and() -> Op<T> {
        Op::new(|a: T, b: T| a & b)
    }

    /// Bits that any has.
    pub fn or() -> Op<T> {
        Op::new(|a: T, b: T| a | b)
    }

    /// Bits that an odd number has.
    pub fn xor() -> Op<T> {
        Op::new(|a: T, b: T| a ^ b)
    }
}

impl<T> fmt::Debug for Op<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

/// The bytes of elements.
pub(crate) fn as_bytes<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: elements are sealed: numbers, and arrays of them, which have no padding and whose bytes all count.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of elements, which may be written to: any bytes are elements.
pub(crate) fn as_bytes_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and every pattern of bits is a value.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply<T: Element>(op: &Op<T>, a: T, b: T) -> T {
        let (left, mut into) = (as_bytes(&[a]).to_vec(), as_bytes(&[b]).to_vec());
        op.bytes.apply(&left, &mut into);
        T::load(&into)
    }

    #[test]
    fn operators_do_what_they_are_called() {
        assert_eq!(apply(&Op::sum(), 250u8, 10), 4);
        assert_eq!(apply(&Op::product(), -3i32, 7), -21);
        assert_eq!(apply(&Op::min(), 2.5f64, f64::NAN), 2.5);
        assert_eq!(apply(&Op::max(), f32::NAN, 1.0), 1.0);
        assert_eq!(apply(&Op::and(), 0b1100u16, 0b1010), 0b1000);
        assert_eq!(apply(&Op::or(), 0b1100i64, 0b1010), 0b1110);
        assert_eq!(apply(&Op::xor(), 0b1100u64, 0b1010), 0b0110);
        let ordered = Op::ordered(|a: [i32; 2], b: [i32; 2]| [a[0] * b[0], a[1] * b[0] + b[1]]);
        assert!(!ordered.bytes.commutative);
        assert_eq!(apply(&ordered, [2, 3], [5, 7]), [10, 22]);
    }
}
