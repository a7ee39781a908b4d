//! Operators of the program.

use core::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use crate::abi::*;
use crate::datatype::Datatype;

pub(super) type Small =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
pub(super) type Large =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);

/// As `MPI_Op_create` or `MPI_Op_create_c` got it.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Small(Small),
    Large(Large),
}

/// An operator that the program made.
pub(crate) struct User {
    pub(super) function: Function,
    pub(super) commutative: bool,
}

/// Bytes aligned for every element.
fn aligned(len: usize) -> Vec<MaybeUninit<u128>> {
    let mut room = Vec::new();
    room.resize_with(len.div_ceil(size_of::<u128>()), MaybeUninit::uninit);
    room
}

impl User {
    /// `into[i] = left[i] op into[i]` for elements in memory.
    ///
    /// # Safety
    /// The elements are there, as the type says.
    pub(super) unsafe fn call(
        &self,
        left: *mut c_void,
        into: *mut c_void,
        count: usize,
        datatype: &Datatype,
    ) {
        let mut handle = datatype.handle();
        match self.function {
            Function::Large(function) => {
                let mut len = count as MPI_Count;
                // SAFETY: the program's function, with what it is for.
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
        }
    }

    /// The same for packed elements.
    pub(super) fn packed(&self, datatype: &Datatype, left: &[u8], into: &mut [u8]) {
        if datatype.size == 0 {
            return;
        }
        let count = into.len() / datatype.size;
        let align = datatype.align();
        let fits = |at: *const u8| at.addr().is_multiple_of(align);
        if datatype.contiguous && fits(left.as_ptr()) && fits(into.as_ptr()) {
            // SAFETY: these are the elements. The function does not write to the first ones, says the standard.
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
        // Laid out in memory of our own: where the first element's address is a multiple of every alignment.
        let (low, len) = datatype.span(count);
        let before = low.rem_euclid(align as isize);
        let mut rooms = [aligned(len + align), aligned(len + align)];
        let [first, second] = rooms.each_mut().map(|room| {
            room.as_mut_ptr()
                .cast::<u8>()
                .wrapping_offset(before)
                .wrapping_offset(low.wrapping_neg())
        });
        // SAFETY: the rooms hold all the elements' data, from `low` on; packed ones are as long.
        unsafe {
            datatype.unpack(left.as_ptr(), left.len(), first, count);
            datatype.unpack(into.as_ptr(), into.len(), second, count);
            self.call(first.cast(), second.cast(), count, datatype);
            datatype.pack(second, count, into.as_mut_ptr());
        }
    }
}
