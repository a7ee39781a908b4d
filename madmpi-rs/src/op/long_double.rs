//! `long double` of x86-64: numbers of 80 bits, in 16 bytes of which the last six mean nothing.
//!
//! Rust has no such type. Sums and products are the processor's own instructions, so they round as C's do; comparison
//! is a comparison of integers. Other machines have other numbers under that name, which operators refuse.

use std::cmp::Ordering;

use super::element::{Element, Floating};

/// Whether this machine has the type.
pub(super) const HERE: bool = cfg!(target_arch = "x86_64");

/// A number of 80 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongDouble([u8; 10]);

impl Element for LongDouble {
    const SIZE: usize = 16;

    #[inline]
    fn load(bytes: &[u8]) -> LongDouble {
        let mut own = [0; 10];
        own.copy_from_slice(&bytes[..10]);
        LongDouble(own)
    }

    #[inline]
    fn store(self, bytes: &mut [u8]) {
        bytes[..10].copy_from_slice(&self.0);
        bytes[10..].fill(0);
    }
}

/// One instruction on two numbers.
macro_rules! instruction {
    ($name:literal, $a:expr, $b:expr) => {{
        let (a, b, mut result) = ($a.0, $b.0, [0u8; 10]);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: reads and writes ten bytes each, and leaves the stack of the floating-point unit as empty as the
        // calling convention says it is.
        unsafe {
            core::arch::asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                concat!($name, " st(1), st"),
                "fstp tbyte ptr [{result}]",
                a = in(reg) a.as_ptr(),
                b = in(reg) b.as_ptr(),
                result = in(reg) result.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (a, b, &mut result);
        }
        LongDouble(result)
    }};
}

impl Floating for LongDouble {
    fn add(self, other: LongDouble) -> LongDouble {
        instruction!("faddp", self, other)
    }

    fn sub(self, other: LongDouble) -> LongDouble {
        instruction!("fsubp", self, other)
    }

    fn mul(self, other: LongDouble) -> LongDouble {
        instruction!("fmulp", self, other)
    }
}

impl LongDouble {
    /// Its sign, exponent and fraction.
    fn split(self) -> (bool, u16, u64) {
        let [a, b, c, d, e, f, g, h, low, high] = self.0;
        let exponent = u16::from_le_bytes([low, high]);
        (exponent >> 15 == 1, exponent & 0x7fff, u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    fn is_nan(self) -> bool {
        let (_, exponent, fraction) = self.split();
        exponent == 0x7fff && fraction << 1 != 0
    }

    /// An integer with the same order, for numbers that are not NaN.
    fn rank(self) -> i128 {
        let (negative, exponent, fraction) = self.split();
        let rank = i128::from(exponent) << 64 | i128::from(fraction);
        if negative { -rank } else { rank }
    }
}

impl PartialEq for LongDouble {
    fn eq(&self, other: &LongDouble) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for LongDouble {
    fn partial_cmp(&self, other: &LongDouble) -> Option<Ordering> {
        (!self.is_nan() && !other.is_nan()).then(|| self.rank().cmp(&other.rank()))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exact: 64 bits of fraction hold 53.
    fn of(value: f64) -> LongDouble {
        let mut result = [0; 10];
        // SAFETY: reads eight bytes, writes ten, leaves the stack empty.
        unsafe {
            core::arch::asm!(
                "fld qword ptr [{a}]",
                "fstp tbyte ptr [{result}]",
                a = in(reg) &raw const value,
                result = in(reg) result.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        LongDouble(result)
    }

    proptest! {
        #[test]
        fn small_integers_are_exact(a in -1i64 << 31..1 << 31, b in -1i64 << 31..1 << 31) {
            let (x, y) = (of(a as f64), of(b as f64));
            prop_assert_eq!(x.add(y).0, of((a + b) as f64).0);
            prop_assert_eq!(x.sub(y).0, of((a - b) as f64).0);
            // More digits than a double has.
            let (_, exponent, fraction) = x.mul(y).split();
            let exact = (i128::from(a) * i128::from(b)).unsigned_abs();
            if exact > 0 {
                let shift = 16383 + 63 - u32::from(exponent);
                prop_assert_eq!(u128::from(fraction) >> shift, exact);
            }
        }

        #[test]
        fn order_is_that_of_doubles(a: f64, b: f64) {
            prop_assert_eq!(of(a).partial_cmp(&of(b)), a.partial_cmp(&b));
            prop_assert_eq!(of(a).partial_cmp(&of(-a)), a.partial_cmp(&-a));
        }
    }

    #[test]
    fn specials_are_ordered_as_the_standard_of_numbers_says() {
        for (a, b) in [(0.0, -0.0), (f64::NAN, 1.0), (f64::INFINITY, f64::MAX), (5e-324, 0.0)] {
            assert_eq!(of(a).partial_cmp(&of(b)), a.partial_cmp(&b));
        }
        // Below what a double holds, and above.
        let tiny = LongDouble([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(tiny > of(0.0) && tiny < of(5e-324));
        assert_eq!(tiny.add(tiny).0[0], 2);
        let huge = of(f64::MAX).mul(of(f64::MAX));
        assert!(huge > of(f64::MAX) && huge < of(f64::INFINITY));
    }
}
