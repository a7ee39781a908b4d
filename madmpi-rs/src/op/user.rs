//! User operators.

use core::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::abi::*;
use crate::datatype::{Datatype, with_handle};

pub(crate) type Small =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
pub(crate) type Large =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);

/// The function of a user operator, of `MPI_Op_create` or `MPI_Op_create_c`.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    Small(Small),
    Large(Large),
}

/// An operator that the program made.
pub(crate) struct User {
    pub(super) function: Function,
    pub(super) commutative: bool,
}

/// Memory that is aligned for every element.
fn aligned(len: usize) -> Vec<MaybeUninit<u128>> {
    let mut room = Vec::new();
    room.resize_with(len.div_ceil(size_of::<u128>()), MaybeUninit::uninit);
    room
}

impl User {
    /// `into[i] = left[i] op into[i]` for elements in memory.
    ///
    /// # Safety
    /// The elements exist, as the type lays them out.
    pub(super) unsafe fn call(
        &self,
        left: *mut c_void,
        into: *mut c_void,
        count: usize,
        datatype: &Arc<Datatype>,
    ) {
        with_handle(datatype, |mut handle| match self.function {
            Function::Large(function) => {
                let mut len = count as MPI_Count;
                // SAFETY: the program's function, with the arguments that it was made for.
                unsafe { function(left, into, &raw mut len, &raw mut handle) };
            }
            Function::Small(function) => {
                let mut done = 0;
                while done < count {
                    let part = (count - done).min(c_int::MAX as usize);
                    let by = datatype.extent.wrapping_mul(done as isize);
                    let mut len = part as c_int;
                    let (left, into) =
                        (left.wrapping_byte_offset(by), into.wrapping_byte_offset(by));
                    // SAFETY: as above.
                    unsafe { function(left, into, &raw mut len, &raw mut handle) };
                    done += part;
                }
            }
        });
    }

    /// `into[i] = left[i] op into[i]` for packed elements.
    pub(super) fn packed(&self, datatype: &Arc<Datatype>, left: &[u8], into: &mut [u8]) {
        if datatype.size == 0 {
            return;
        }
        let count = into.len() / datatype.size;
        let align = datatype.align();
        let fits = |at: *const u8| at.addr().is_multiple_of(align);
        if datatype.contiguous && fits(left.as_ptr()) && fits(into.as_ptr()) {
            // SAFETY: these are the elements. The function does not write to the first operand, as the standard says.
            unsafe {
                self.call(
                    left.as_ptr().cast_mut().cast(),
                    into.as_mut_ptr().cast(),
                    count,
                    datatype,
                );
            }
            return;
        }
        // Lays the elements out in memory where the first element's address is a multiple of every alignment.
        let (low, len) = room(datatype, count);
        let before = low.rem_euclid(align as isize);
        let mut rooms = [aligned(len + align), aligned(len + align)];
        let [first, second] = rooms.each_mut().map(|room| {
            room.as_mut_ptr()
                .cast::<u8>()
                .wrapping_offset(before)
                .wrapping_offset(low.wrapping_neg())
        });
        // SAFETY: the rooms hold all the elements, from `low` on; packed ones are as long.
        unsafe {
            datatype.unpack(left.as_ptr(), left.len(), first, count);
            datatype.unpack(into.as_ptr(), into.len(), second, count);
            self.call(first.cast(), second.cast(), count, datatype);
            datatype.pack(second, count, into.as_mut_ptr());
        }
    }
}

/// An extent from which on it is a stride, not the length of a structure.
const STRIDE: usize = 1 << 20;

/// Where memory for elements has to begin, as an offset from the first one, and its length. A function may copy elements whole,
/// with what lies between their bounds and is no data.
fn room(datatype: &Datatype, count: usize) -> (isize, usize) {
    let (low, len) = datatype.span(count);
    let extent = datatype.extent;
    if count == 0 || extent.unsigned_abs() > STRIDE {
        return (low, len);
    }
    let last = extent * (count as isize - 1);
    let ends = [0, last].map(|at| at + datatype.lb());
    let first = low.min(ends[0].min(ends[1]) + extent.min(0));
    let end = (low + len as isize).max(ends[0].max(ends[1]) + extent.max(0));
    (first, (end - first) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::tests::of_ints;

    /// `inout = 2 in + inout`, for ints eight bytes before and four bytes after every sixteenth.
    unsafe extern "C" fn twice(
        left: *mut c_void,
        into: *mut c_void,
        len: *mut c_int,
        _: *mut MPI_Datatype,
    ) {
        // SAFETY: as many elements as it says.
        unsafe {
            for at in 0..*len as isize {
                for by in [at * 16 - 8, at * 16 + 4] {
                    let into = into.wrapping_byte_offset(by).cast::<i32>();
                    assert!(into.is_aligned());
                    *into += 2 * *left.wrapping_byte_offset(by).cast::<i32>();
                }
            }
        }
    }

    #[test]
    fn packed_elements_are_laid_out_for_the_program() {
        let user = User { function: Function::Small(twice), commutative: false };
        let datatype = of_ints(&[-8, 4]);
        assert_eq!((datatype.size, datatype.extent), (8, 16));
        let bytes = |numbers: &[i32]| -> Vec<u8> {
            // At an odd address.
            let bytes = numbers.iter().flat_map(|number| number.to_ne_bytes());
            std::iter::once(0).chain(bytes).collect()
        };
        let (left, mut into) = (bytes(&[1, 2, 3, 4, 5, 6]), bytes(&[10, 20, 30, 40, 50, 60]));
        user.packed(&datatype, &left[1..], &mut into[1..]);
        assert_eq!(into, bytes(&[12, 24, 36, 48, 60, 72]));
    }

    #[test]
    fn contiguous_elements_are_aligned() {
        unsafe extern "C" fn add(
            left: *mut c_void,
            into: *mut c_void,
            len: *mut MPI_Count,
            _: *mut MPI_Datatype,
        ) {
            // SAFETY: as many elements as it says.
            unsafe {
                for at in 0..*len as usize {
                    let (left, into) = (left.cast::<i32>().add(at), into.cast::<i32>().add(at));
                    assert!(left.is_aligned() && into.is_aligned());
                    *into += *left;
                }
            }
        }
        let user = User { function: Function::Large(add), commutative: true };
        let datatype = of_ints(&[0]);
        for offset in 0..4 {
            let bytes = |number: i32| [&vec![0; offset][..], &number.to_ne_bytes()].concat();
            let (left, mut into) = (bytes(40), bytes(2));
            user.packed(&datatype, &left[offset..], &mut into[offset..]);
            assert_eq!(into, bytes(42));
        }
    }
}
