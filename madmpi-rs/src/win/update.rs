//! Updates: what an accumulation does to the target's memory, whichever way that is reached. The caller holds the lock
//! of the target's updates, so that updates of one place come one after the other.

use super::foreign;
use super::layout::{self, Run};
use crate::datatype::Datatype;
use crate::error::Fault;
use crate::op::Accumulator;

/// Long updates of memory in a row are done in strips, which stay in the cache.
const STRIP: usize = 4096;
/// Bytes of a few elements, which need no room that takes longer to clear than they take, and go the short way.
pub(super) const FEW: usize = 64;

/// The operation on the elements.
pub(super) enum Update<'a> {
    /// `target = target op operand`
    Combine(Accumulator, &'a [u8]),
    /// `if target == compare { target = operand }`
    Swap { compare: &'a [u8], operand: &'a [u8] },
}

/// The elements of the target.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Elements of a datatype here.
    Here(*mut u8, usize, &'a Datatype),
    /// Runs here.
    Runs(&'a [Run]),
    /// Runs in another process.
    Foreign(i32, &'a [Run]),
}

impl Place<'_> {
    /// Their address, if they are here in a row.
    fn row(&self) -> Option<*mut u8> {
        match *self {
            Place::Here(at, _, datatype) if datatype.contiguous => Some(at),
            Place::Runs(&[Run { at, count: 1, .. }]) => {
                Some(std::ptr::with_exposed_provenance_mut(at))
            }
            _ => None,
        }
    }

    /// # Safety
    /// As [`Update::apply`], of which this is a part.
    unsafe fn load(&self, to: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: the caller's promise: as `apply`.
        unsafe {
            match *self {
                Place::Here(at, count, datatype) => datatype.pack(at, count, to.as_mut_ptr()),
                Place::Runs(runs) => layout::gather(runs, to.as_mut_ptr()),
                Place::Foreign(pid, runs) => foreign::read(pid, runs, to.as_mut_ptr())?,
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Update::apply`], of which this is a part.
    unsafe fn store(&self, from: &[u8]) -> Result<(), Fault> {
        // SAFETY: the caller's promise: as `apply`.
        unsafe {
            match *self {
                Place::Here(at, count, datatype) => {
                    datatype.unpack(from.as_ptr(), from.len(), at, count);
                }
                Place::Runs(runs) => layout::scatter(runs, from.as_ptr()),
                Place::Foreign(pid, runs) => foreign::write(pid, runs, from.as_ptr())?,
            }
        }
        Ok(())
    }
}

impl Update<'_> {
    fn len(&self) -> usize {
        match self {
            Update::Combine(_, operand) | Update::Swap { operand, .. } => operand.len(),
        }
    }

    /// Does it with the bytes from `begin` on; whether they have changed.
    #[inline]
    pub(super) fn change(&self, begin: usize, now: &mut [u8]) -> bool {
        let end = begin + now.len();
        match self {
            Update::Combine(Accumulator::NoOp, _) => false,
            Update::Combine(operator, operand) => {
                operator.apply(&operand[begin..end], now);
                true
            }
            Update::Swap { compare, operand } => {
                let same = *now == compare[begin..end];
                if same {
                    now.copy_from_slice(&operand[begin..end]);
                }
                same
            }
        }
    }

    /// Does it. `fetched` gets what was there before, packed; `size` is that of an element.
    ///
    /// # Safety
    /// The place is memory of a window, and has as many bytes as the operand; where it is here, it is readable and
    /// writable.
    ///
    /// # Errors
    /// The target's process is gone.
    pub(super) unsafe fn apply(
        &self,
        place: Place<'_>,
        mut fetched: Option<&mut [u8]>,
        size: usize,
    ) -> Result<(), Fault> {
        let len = self.len();
        let Some(row) = place.row() else {
            let mut room = vec![0; len];
            // SAFETY: the caller's promise.
            unsafe { place.load(&mut room)? };
            if let Some(fetched) = fetched {
                fetched.copy_from_slice(&room);
            }
            // SAFETY: the caller's promise.
            return if self.change(0, &mut room) { unsafe { place.store(&room) } } else { Ok(()) };
        };
        // Others may look at the memory meanwhile: it is no reference of Rust's.
        let (mut few, mut strip);
        let room: &mut [u8] = if len <= FEW {
            few = [0; FEW];
            &mut few
        } else {
            strip = [0; STRIP];
            &mut strip
        };
        let strip = room.len() / size * size;
        for begin in (0..len).step_by(strip) {
            let room = &mut room[..strip.min(len - begin)];
            // SAFETY: the caller's promise.
            unsafe { room.as_mut_ptr().copy_from_nonoverlapping(row.add(begin), room.len()) };
            if let Some(fetched) = &mut fetched {
                fetched[begin..begin + room.len()].copy_from_slice(room);
            }
            if self.change(begin, room) {
                // SAFETY: the caller's promise.
                unsafe { row.add(begin).copy_from_nonoverlapping(room.as_ptr(), room.len()) };
            }
        }
        Ok(())
    }
}
