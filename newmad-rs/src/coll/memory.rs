//! The memory of a collective: the program's two buffers, and scratch.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::coll::operator::Operator;
use crate::coll::plan::{Place, Side};

/// The two buffers of the program; see `plan::Buf`.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub(super) input: *const [u8],
    pub(super) output: *mut [u8],
}

/// The three buffers in which a plan's places are, by `plan::Buf`.
pub(super) struct Places([*mut u8; 3]);

impl Places {
    pub(super) fn new(memory: &Memory, scratch: &mut [u128]) -> Places {
        let input = memory.input.cast::<u8>().cast_mut();
        Places([input, memory.output.cast(), scratch.as_mut_ptr().cast()])
    }

    /// The address of a place.
    ///
    /// # Safety
    /// The place is inside its buffer: it is one of a plan that was made for these lengths.
    #[inline]
    pub(super) unsafe fn at(&self, place: Place) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0[place.buf as usize].add(place.at) }
    }

    /// Makes one of two places; an error: what the operator panicked with.
    ///
    /// # Safety
    /// As [`Places::at`] for both, which are apart; only the caller uses them meanwhile.
    #[inline]
    pub(super) unsafe fn combine(
        &self,
        operator: Option<&Operator>,
        left: Place,
        right: Place,
        keep: Side,
    ) -> Result<(), Box<dyn Any + Send>> {
        let Some(operator) = operator else { return Ok(()) };
        // SAFETY: the caller's promise.
        let (left, right) = unsafe {
            (
                std::slice::from_raw_parts_mut(self.at(left), left.len),
                std::slice::from_raw_parts_mut(self.at(right), left.len),
            )
        };
        catch_unwind(AssertUnwindSafe(|| operator.combine(left, right, keep)))
    }

    /// Copies one place to another.
    ///
    /// # Safety
    /// As [`Places::combine`].
    #[inline]
    pub(super) unsafe fn copy(&self, from: Place, into: Place) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(self.at(from), self.at(into), from.len) };
    }
}
