//! Fortran's `real(16)`: IEEE numbers of 128 bits, by `rustc_apfloat`.
//!
//! Rust's `f128` is not stable, and no processor here has instructions for them: compilers call functions, too. Results are
//! rounded to the nearest, ties to even, as those of `libgcc` are, bit for bit (`tests/c/reduce16.c`).

use std::cmp::Ordering;

use rustc_apfloat::Float;
use rustc_apfloat::ieee;

use super::element::{Element, Floating};

/// A number of 128 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quad(u128);

impl Quad {
    fn number(self) -> ieee::Quad {
        ieee::Quad::from_bits(self.0)
    }

    fn of(number: ieee::Quad) -> Quad {
        Quad(number.to_bits())
    }
}

impl Element for Quad {
    const SIZE: usize = 16;

    #[inline]
    fn load(bytes: &[u8]) -> Quad {
        let mut own = [0; 16];
        own.copy_from_slice(bytes);
        Quad(u128::from_ne_bytes(own))
    }

    #[inline]
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.to_ne_bytes());
    }
}

impl Floating for Quad {
    fn add(self, other: Quad) -> Quad {
        Quad::of((self.number() + other.number()).value)
    }

    fn sub(self, other: Quad) -> Quad {
        Quad::of((self.number() - other.number()).value)
    }

    fn mul(self, other: Quad) -> Quad {
        Quad::of((self.number() * other.number()).value)
    }
}

impl PartialEq for Quad {
    fn eq(&self, other: &Quad) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Quad {
    fn partial_cmp(&self, other: &Quad) -> Option<Ordering> {
        self.number().partial_cmp(&other.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exact: 112 bits of fraction hold 52.
    fn of(value: f64) -> Quad {
        let bits = value.to_bits();
        let (sign, exponent, fraction) = (bits >> 63, bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        let exponent = if exponent == 0 { 0 } else { exponent + 16383 - 1023 };
        Quad(u128::from(sign) << 127 | u128::from(exponent) << 112 | u128::from(fraction) << 60)
    }

    proptest! {
        #[test]
        fn integers_that_a_double_holds_are_exact(a in -1i64 << 26..1 << 26, b in -1i64 << 26..1 << 26) {
            let (x, y) = (of(a as f64), of(b as f64));
            prop_assert_eq!(x.add(y).0, of((a + b) as f64).0);
            prop_assert_eq!(x.sub(y).0, of((a - b) as f64).0);
            if a != 0 && b != 0 {
                prop_assert_eq!(x.mul(y).0, of((a * b) as f64).0);
            }
            prop_assert_eq!(x.partial_cmp(&y), a.partial_cmp(&b));
        }
    }

    #[test]
    fn what_is_no_number_has_no_order() {
        let none = Quad(0x7fff_8000 << 96);
        assert_eq!(none.partial_cmp(&none), None);
        assert_eq!(of(0.0).partial_cmp(&of(-0.0)), Some(Ordering::Equal));
        assert_eq!(none.add(of(1.0)).partial_cmp(&of(1.0)), None);
    }
}
