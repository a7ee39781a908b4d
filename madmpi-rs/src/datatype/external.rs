//! The representation `external32`: the same bytes on every machine.
//!
//! Numbers are big-endian, of the sizes in the table of `rows`; `long double` is IEEE's number of 128 bits. Some types
//! (`long`, wide characters) are shorter there than here: values that do not fit are an error.

use super::elements::Elements;
use super::rows::{Basic, ROWS, Row};
use super::shape::Shape;
use crate::abi::*;
use crate::error::Fault;

/// How a number is converted.
#[derive(Clone, Copy)]
enum Conversion {
    /// The bytes are reversed.
    Turn,
    /// To fewer bytes, and back with sign extension.
    Signed,
    /// To fewer bytes, and back with zero extension.
    Unsigned,
    /// Between 80 and 128 bits.
    Long,
}

/// The numbers of an element: their conversion, and their length here and there.
fn numbers(row: &Row) -> (Conversion, usize, usize) {
    let (conversion, parts) = match row.basic {
        Basic::LongDouble => (Conversion::Long, 1),
        Basic::ComplexLongDouble => (Conversion::Long, 2),
        Basic::Complex(_) => (Conversion::Turn, 2),
        Basic::Signed(_) if row.external < row.size => (Conversion::Signed, 1),
        _ if row.external < row.size => (Conversion::Unsigned, 1),
        _ => (Conversion::Turn, 1),
    };
    (conversion, row.size / parts, row.external / parts)
}

#[cold]
fn overflow(row: &Row) -> Fault {
    let why = format!(
        "a value of {} does not fit into the {} bytes that it has in external32",
        row.name, row.external
    );
    Fault::new(MPI_ERR_CONVERSION, why)
}

/// Converts a number from here to there; `there` has its length.
fn export(conversion: Conversion, here: &[u8], there: &mut [u8], row: &Row) -> Result<(), Fault> {
    let len = there.len();
    let turn = |bytes: &[u8], there: &mut [u8]| {
        there.iter_mut().zip(bytes.iter().rev()).for_each(|(to, from)| *to = *from);
    };
    if cfg!(target_endian = "big") {
        there.copy_from_slice(&here[here.len() - len..]);
        return Ok(());
    }
    match conversion {
        Conversion::Turn => turn(here, there),
        Conversion::Signed | Conversion::Unsigned => {
            let negative = matches!(conversion, Conversion::Signed) && here[len - 1] & 0x80 != 0;
            if here[len..].iter().any(|&byte| byte != if negative { 0xff } else { 0 }) {
                return Err(overflow(row));
            }
            turn(&here[..len], there);
        }
        Conversion::Long => turn(&quad(here).to_le_bytes(), there),
    }
    Ok(())
}

/// Converts a number from there to here.
fn import(conversion: Conversion, there: &[u8], here: &mut [u8]) {
    let len = there.len();
    if cfg!(target_endian = "big") {
        let at = here.len() - len;
        here[at..].copy_from_slice(there);
        return;
    }
    if let Conversion::Long = conversion {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(there);
        extended(u128::from_be_bytes(bytes), here);
        return;
    }
    here.iter_mut().zip(there.iter().rev()).for_each(|(to, from)| *to = *from);
    let negative = matches!(conversion, Conversion::Signed) && there[0] & 0x80 != 0;
    here[len..].fill(if negative { 0xff } else { 0 });
}

/// The number of 128 bits that is equal to one of 80 bits.
fn quad(here: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[..10].copy_from_slice(&here[..10]);
    let bits = u128::from_le_bytes(bytes);
    let (fraction, head) = (bits as u64, (bits >> 64) as u16);
    let (sign, exponent) = (head >> 15, head & 0x7fff);
    // The bit before the point is explicit here and implied there.
    let exponent = if exponent == 0 { (fraction >> 63) as u16 } else { exponent };
    u128::from(sign) << 127 | u128::from(exponent) << 112 | u128::from(fraction << 1 >> 1) << 49
}

/// The number of 80 bits next to one of 128 bits, ties to even.
fn extended(quad: u128, here: &mut [u8]) {
    let head = (quad >> 112) as u16;
    let (sign, exponent) = (head & 0x8000, head & 0x7fff);
    let fraction = quad & ((1 << 112) - 1);
    let (kept, lost) = ((fraction >> 49) as u64, fraction & ((1 << 49) - 1));
    let (exponent, fraction) = match exponent {
        0x7fff if fraction == 0 => (exponent, 1 << 63),
        // Not a number, and it stays that even if the bits that say so are lost.
        0x7fff => (exponent, kept | 1 << 63 | u64::from(kept == 0) << 62),
        0 => {
            let rounded = kept + round_up(kept, lost);
            // Rounding up may make it the smallest normal number.
            ((rounded >> 63) as u16, rounded)
        }
        _ => {
            let rounded = kept + round_up(kept, lost);
            (exponent + (rounded >> 63) as u16, rounded | 1 << 63)
        }
    };
    here[..8].copy_from_slice(&fraction.to_le_bytes());
    here[8..10].copy_from_slice(&(sign | exponent).to_le_bytes());
    here[10..].fill(0);
}

fn round_up(kept: u64, lost: u128) -> u64 {
    let half = 1 << 48;
    u64::from(lost > half || lost == half && kept & 1 == 1)
}

/// Bytes of an element in `external32`.
pub(crate) fn external(shape: &Shape) -> usize {
    let mut bytes = 0;
    shape.part.typed().strips(1, 0, usize::MAX, |strip| {
        if let Some(row) = ROWS.get(usize::from(strip.kind)) {
            bytes += strip.count * (strip.len / row.size) * row.external;
        }
    });
    bytes
}

/// Shows every number of `count` elements in order: its place, its conversion, its lengths.
fn each(
    shape: &Shape,
    count: usize,
    mut show: impl FnMut(isize, &Row, (Conversion, usize, usize)),
) {
    shape.part.typed().strips(count, shape.extent, usize::MAX, |strip| {
        let Some(row) = ROWS.get(usize::from(strip.kind)) else { return };
        let (conversion, here, there) = numbers(row);
        for index in 0..strip.count {
            let begin = strip.at.wrapping_add(strip.stride.wrapping_mul(index as isize));
            for at in (0..strip.len).step_by(here) {
                show(begin.wrapping_add(at as isize), row, (conversion, here, there));
            }
        }
    });
}

/// Packs elements into `to`, which has room for them.
///
/// # Errors
/// A value does not fit; the others are packed nevertheless.
pub(crate) fn pack(elements: &Elements, to: &mut [u8]) -> Result<(), Fault> {
    let (mut to, mut result) = (to, Ok(()));
    let from = elements.address().cast::<u8>();
    each(
        elements.datatype.shape(),
        elements.count as usize,
        |at, row, (conversion, here, there)| {
            let (number, rest) = std::mem::take(&mut to).split_at_mut(there);
            to = rest;
            // SAFETY: the elements are readable.
            let from = unsafe { std::slice::from_raw_parts(from.wrapping_offset(at), here) };
            if let Err(fault) = export(conversion, from, number, row)
                && result.is_ok()
            {
                result = Err(fault);
            }
        },
    );
    result
}

/// Unpacks as many numbers of the elements as `from` has; how many bytes they have here.
pub(crate) fn unpack(elements: &Elements, from: &[u8]) -> usize {
    let (mut from, mut bytes) = (from, 0);
    let to = elements.address().cast::<u8>();
    each(elements.datatype.shape(), elements.count as usize, |at, _, (conversion, here, there)| {
        let Some((number, rest)) = from.split_at_checked(there) else {
            from = &[];
            return;
        };
        (from, bytes) = (rest, bytes + here);
        // SAFETY: the elements are writable.
        let into = unsafe { std::slice::from_raw_parts_mut(to.wrapping_offset(at), here) };
        import(conversion, number, into);
    });
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::{Choice, get};
    use super::*;
    use proptest::prelude::*;

    fn row(handle: MPI_Datatype) -> &'static Row {
        ROWS.iter().find(|row| row.handle == handle).unwrap()
    }

    fn there(handle: MPI_Datatype, here: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = vec![0; row(handle).external];
        // SAFETY: one element, which is readable.
        let element = unsafe { Choice::new(here.as_ptr().cast(), 1, handle) }.elements();
        pack(&element.ok().unwrap(), &mut bytes).ok().map(|()| bytes)
    }

    fn back(handle: MPI_Datatype, there: &[u8]) -> Vec<u8> {
        let datatype = get(handle).ok().unwrap();
        let mut here = vec![0; datatype.extent as usize];
        // SAFETY: one element, which is writable.
        let element = unsafe { Choice::new(here.as_mut_ptr().cast(), 1, handle) }.elements();
        unpack(&element.ok().unwrap(), there);
        here
    }

    proptest! {
        #[test]
        fn numbers_come_back(bytes in proptest::collection::vec(any::<u8>(), 32)) {
            for row in ROWS {
                let datatype = get(row.handle).ok().unwrap();
                let mut here = bytes.clone();
                here.resize(datatype.extent as usize, 0);
                // Through the packed form, which has no gaps.
                let mut packed = vec![0; row.size];
                // SAFETY: one element.
                unsafe { datatype.pack(here.as_ptr(), 1, packed.as_mut_ptr()) };
                let Some(there) = there(row.handle, &here) else { continue };
                prop_assert_eq!(external(datatype.shape()), row.external);
                let again = back(row.handle, &there);
                // Numbers of 80 bits have forms that no arithmetic makes, and bytes without a meaning.
                use super::super::Value;
                if matches!(
                    row.basic,
                    Basic::LongDouble | Basic::ComplexLongDouble | Basic::Pair(Value::LongDouble)
                ) {
                    prop_assert_eq!(super::tests::there(row.handle, &again), Some(there));
                    continue;
                }
                let mut repacked = vec![0; row.size];
                // SAFETY: as above.
                unsafe { datatype.pack(again.as_ptr(), 1, repacked.as_mut_ptr()) };
                prop_assert_eq!(packed, repacked, "{}", row.name);
            }
        }
    }

    #[test]
    fn representations_are_those_of_the_standard() {
        assert_eq!(there(MPI_INT, &0x0102_0304i32.to_ne_bytes()).unwrap(), [1, 2, 3, 4]);
        assert_eq!(there(MPI_LONG, &(-2i64).to_ne_bytes()).unwrap(), [0xff, 0xff, 0xff, 0xfe]);
        assert!(there(MPI_LONG, &(1i64 << 31).to_ne_bytes()).is_none());
        assert_eq!(there(MPI_UNSIGNED_LONG, &(1u64 << 31).to_ne_bytes()).unwrap(), [0x80, 0, 0, 0]);
        assert!(there(MPI_UNSIGNED_LONG, &(1u64 << 32).to_ne_bytes()).is_none());
        assert_eq!(back(MPI_LONG, &[0xff, 0xff, 0xff, 0xfe]), (-2i64).to_ne_bytes());
        assert_eq!(there(MPI_DOUBLE, &1.0f64.to_ne_bytes()).unwrap()[..2], [0x3f, 0xf0]);
        assert_eq!(there(MPI_WCHAR, &0x20acu32.to_ne_bytes()).unwrap(), [0x20, 0xac]);
    }

    #[test]
    fn long_doubles_are_numbers_of_128_bits_there() {
        let of = |head: u16, fraction: u64| {
            let mut here = [0; 16];
            here[..8].copy_from_slice(&fraction.to_le_bytes());
            here[8..10].copy_from_slice(&head.to_le_bytes());
            here
        };
        for (here, expected) in [
            (of(0, 0), 0),
            (of(0x3fff, 1 << 63), 0x3fff << 112),
            (of(0xbfff, 3 << 62), 0xbfff << 112 | 1 << 111),
            (of(0x7fff, 1 << 63), 0x7fff << 112),
            (of(0, 1), 1 << 49),
            (of(1, 1 << 63), 1 << 112),
        ] {
            assert_eq!(quad(&here), expected);
            let mut again = [7; 16];
            extended(expected, &mut again);
            assert_eq!(again, here);
        }
        let rounded = |bits: u128| {
            let mut here = [0; 16];
            extended(bits, &mut here);
            quad(&here) >> 49
        };
        let one = 0x3fffu128 << 112;
        // What is no number stays none, quiet or not.
        let nan = 0x7fffu128 << 112;
        assert_eq!(rounded(nan | 1 << 50), (nan | 1 << 50) >> 49);
        assert_eq!(rounded(nan | 1), (nan | 1 << 111) >> 49);
        // Halves go to the even one, more than halves up, and all ones to the next power of two.
        assert_eq!(rounded(one | 1 << 48), one >> 49);
        assert_eq!(rounded(one | 3 << 48), (one >> 49) + 2);
        assert_eq!(rounded(one | 1 << 48 | 1), (one >> 49) + 1);
        assert_eq!(rounded(one | ((1 << 112) - 1)), 0x4000 << 63);
        assert_eq!(rounded((0x7ffeu128 << 112) | ((1 << 112) - 1)), 0x7fff << 63);
    }
}
