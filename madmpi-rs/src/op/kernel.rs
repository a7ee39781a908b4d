//! Kernels of the predefined operators: `into[i] = left[i] op into[i]` for packed elements, at any alignment.
//!
//! Integers wrap around. The smaller or larger of two floating-point numbers is the one that is a number, if only one
//! is.

use super::element::{Element, Floating};
use super::long_double::LongDouble;
use super::quad::Quad;
use crate::datatype::{Basic, Value};

/// Combines elements of two byte strings of one length.
pub(super) type Kernel = fn(&[u8], &mut [u8]);

/// A complex number, or a value and its index.
#[derive(Clone, Copy)]
struct Two<A, B>(A, B);

macro_rules! elements {
    ($($number:ty)*) => {$(
        impl Element for $number {
            const SIZE: usize = size_of::<$number>();
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
    )*};
}
elements! { u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 }

macro_rules! floating {
    ($($number:ty)*) => {$(
        impl Floating for $number {
            #[inline]
            fn add(self, other: Self) -> Self { self + other }
            #[inline]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline]
            fn mul(self, other: Self) -> Self { self * other }
        }
    )*};
}
floating! { f32 f64 }

impl<A: Element, B: Element> Element for Two<A, B> {
    const SIZE: usize = A::SIZE + B::SIZE;
    #[inline]
    fn load(bytes: &[u8]) -> Self {
        Two(A::load(&bytes[..A::SIZE]), B::load(&bytes[A::SIZE..]))
    }
    #[inline]
    fn store(self, bytes: &mut [u8]) {
        self.0.store(&mut bytes[..A::SIZE]);
        self.1.store(&mut bytes[A::SIZE..]);
    }
}

#[inline]
fn each<T: Element>(left: &[u8], into: &mut [u8], combine: impl Fn(T, T) -> T) {
    for (left, into) in left.chunks_exact(T::SIZE).zip(into.chunks_exact_mut(T::SIZE)) {
        combine(T::load(left), T::load(into)).store(into);
    }
}

macro_rules! kernel {
    ($type:ty, $combine:expr) => {
        (|left: &[u8], into: &mut [u8]| each::<$type>(left, into, $combine)) as Kernel
    };
}

macro_rules! integers {
    ($basic:expr, $combine:expr) => {
        Some(match $basic {
            Basic::Signed(1) => kernel!(i8, $combine),
            Basic::Signed(2) => kernel!(i16, $combine),
            Basic::Signed(4) => kernel!(i32, $combine),
            Basic::Signed(8) => kernel!(i64, $combine),
            Basic::Signed(16) => kernel!(i128, $combine),
            Basic::Unsigned(1) | Basic::Byte => kernel!(u8, $combine),
            Basic::Unsigned(2) => kernel!(u16, $combine),
            Basic::Unsigned(4) => kernel!(u32, $combine),
            Basic::Unsigned(8) => kernel!(u64, $combine),
            _ => return None,
        })
    };
}

/// Truth values are only tested for zero, so only their width matters.
macro_rules! logicals {
    ($basic:expr, $combine:expr) => {
        Some(match $basic {
            Basic::Logical(1) | Basic::Signed(1) | Basic::Unsigned(1) => kernel!(u8, $combine),
            Basic::Logical(2) | Basic::Signed(2) | Basic::Unsigned(2) => kernel!(u16, $combine),
            Basic::Logical(4) | Basic::Signed(4) | Basic::Unsigned(4) => kernel!(u32, $combine),
            Basic::Logical(8) | Basic::Signed(8) | Basic::Unsigned(8) => kernel!(u64, $combine),
            Basic::Logical(16) | Basic::Signed(16) => kernel!(u128, $combine),
            _ => return None,
        })
    };
}

macro_rules! floats {
    ($basic:expr, $combine:expr) => {
        match $basic {
            Basic::Float(4) => Some(kernel!(f32, $combine)),
            Basic::Float(8) => Some(kernel!(f64, $combine)),
            Basic::Float(16) => Some(kernel!(Quad, $combine)),
            Basic::LongDouble => Some(kernel!(LongDouble, $combine)),
            _ => None,
        }
    };
}

macro_rules! complexes {
    ($basic:expr, $combine:expr) => {
        match $basic {
            Basic::Complex(4) => Some(kernel!(Two<f32, f32>, $combine)),
            Basic::Complex(8) => Some(kernel!(Two<f64, f64>, $combine)),
            Basic::Complex(16) => Some(kernel!(Two<Quad, Quad>, $combine)),
            Basic::ComplexLongDouble => Some(kernel!(Two<LongDouble, LongDouble>, $combine)),
            _ => None,
        }
    };
}

macro_rules! pairs {
    ($basic:expr, $combine:expr) => {
        match $basic {
            Basic::Pair(value) => Some(match value {
                Value::Short => kernel!(Two<i16, i32>, $combine),
                Value::Int | Value::Integer2 => kernel!(Two<i32, i32>, $combine),
                Value::Long => kernel!(Two<i64, i32>, $combine),
                Value::Float => kernel!(Two<f32, i32>, $combine),
                Value::Double => kernel!(Two<f64, i32>, $combine),
                Value::LongDouble => kernel!(Two<LongDouble, i32>, $combine),
                Value::Float2 => kernel!(Two<f32, f32>, $combine),
                Value::Double2 => kernel!(Two<f64, f64>, $combine),
            }),
            _ => None,
        }
    };
}

/// A function that gives the kernel of one operator for elements of a type, if there is one.
macro_rules! kernels {
    ($($name:ident: $($table:ident($combine:expr))|+;)*) => {$(
        pub(super) fn $name(basic: Basic) -> Option<Kernel> {
            None$(.or_else(|| $table!(basic, $combine)))+
        }
    )*};
}

kernels! {
    sums: floats(add) | complexes(sum) | integers(|a, b| a.wrapping_add(b));
    products: floats(mul) | complexes(product) | integers(|a, b| a.wrapping_mul(b));
    minima: floats(smaller) | integers(|a, b| a.min(b));
    maxima: floats(larger) | integers(|a, b| a.max(b));
    minima_with_places: pairs(first_smallest);
    maxima_with_places: pairs(first_largest);
    logical_and: logicals(|a, b| (a != 0 && b != 0).into());
    logical_or: logicals(|a, b| (a != 0 || b != 0).into());
    logical_xor: logicals(|a, b| ((a != 0) != (b != 0)).into());
    bitwise_and: integers(|a, b| a & b);
    bitwise_or: integers(|a, b| a | b);
    bitwise_xor: integers(|a, b| a ^ b);
}

#[inline]
fn add<T: Floating>(a: T, b: T) -> T {
    a.add(b)
}

#[inline]
fn mul<T: Floating>(a: T, b: T) -> T {
    a.mul(b)
}

#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
#[inline]
fn is_nan<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

#[inline]
fn smaller<T: Floating>(a: T, b: T) -> T {
    if a < b || is_nan(b) { a } else { b }
}

#[inline]
fn larger<T: Floating>(a: T, b: T) -> T {
    if a > b || is_nan(b) { a } else { b }
}

#[inline]
fn sum<T: Floating>(a: Two<T, T>, b: Two<T, T>) -> Two<T, T> {
    Two(a.0.add(b.0), a.1.add(b.1))
}

#[inline]
fn product<T: Floating>(a: Two<T, T>, b: Two<T, T>) -> Two<T, T> {
    Two(a.0.mul(b.0).sub(a.1.mul(b.1)), a.0.mul(b.1).add(a.1.mul(b.0)))
}

/// The smaller value with its index; of equal values the one with the smaller index.
#[inline]
fn first_smallest<V: PartialOrd + Copy, P: PartialOrd + Copy>(
    a: Two<V, P>,
    b: Two<V, P>,
) -> Two<V, P> {
    if a.0 < b.0 || is_nan(b.0) || (a.0 == b.0 && a.1 < b.1) { a } else { b }
}

#[inline]
fn first_largest<V: PartialOrd + Copy, P: PartialOrd + Copy>(
    a: Two<V, P>,
    b: Two<V, P>,
) -> Two<V, P> {
    if a.0 > b.0 || is_nan(b.0) || (a.0 == b.0 && a.1 < b.1) { a } else { b }
}
