//! The short way of the commonest accesses: elements of one predefined type, in a row. In memory that is mapped here they are
//! copied, or combined; for a member that is reached by messages, puts and accumulations that fit are added to what waits.
//!
//! All others, and all that is wrong, are `None`: they go the long way, which says what is wrong.

use super::target::{Accumulation, Where};
use super::update::{FEW, Update};
use super::wire::{Kind, Request, SHORT};
use super::{Reach, Win};
use crate::abi::*;
use crate::datatype::{self, Choice, Datatype};
use crate::error::Fault;
use crate::op::{self, Accumulator};

/// Both ends of an access.
struct Direct {
    rank: usize,
    here: *mut u8,
    there: There,
    len: usize,
    datatype: &'static Datatype,
}

enum There {
    Here(*mut u8),
    /// By messages; the address is the member's.
    Messages(usize),
}

impl Direct {
    #[inline]
    fn new(win: &Win, origin: &Choice, at: &Where) -> Option<Direct> {
        let rank = usize::try_from(at.rank).ok()?;
        let member = win.members.get(rank)?;
        let datatype = datatype::predefined(at.datatype)?;
        let offset = usize::try_from(at.disp).ok()?.checked_mul(member.unit)?;
        let len = usize::try_from(at.count).ok()?.checked_mul(datatype.size)?;
        let is_short = win.epochs.allows(rank)
            && datatype.contiguous
            && len > 0
            && offset.checked_add(len)? <= member.size // a dynamic window has none
            && is_alike(origin, at);
        let there = match member.reach {
            Reach::Here(base) => {
                There::Here(std::ptr::with_exposed_provenance_mut(base.wrapping_add(offset)))
            }
            Reach::Messages(base) => There::Messages(base.wrapping_add(offset)),
            Reach::Foreign(..) => return None,
        };
        is_short.then(|| Direct { rank, here: origin.address(), there, len, datatype })
    }
}

/// The bytes of elements.
///
/// # Safety
/// They are readable, and left alone as long as this is used.
unsafe fn bytes<'a>(at: *mut u8, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at, len) }
}

/// Whether the elements here are as many, and of the same type, as those at the target.
fn is_alike(choice: &Choice, at: &Where) -> bool {
    choice.datatype == at.datatype && choice.count == at.count && !choice.address().is_null()
}

/// Copies bytes, which may be the same: a few without a call.
///
/// # Safety
/// They are readable there, and writable here.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len {
            4 => std::ptr::copy(from, to, 4),
            8 => std::ptr::copy(from, to, 8),
            _ => std::ptr::copy(from, to, len),
        }
    }
}

#[inline]
pub(super) fn put(win: &Win, from: &Choice, at: &Where) -> Option<()> {
    let Direct { rank, here, there, len, .. } = Direct::new(win, from, at)?;
    match there {
        // SAFETY: the elements are readable, by the invariant of their type, and the target's are memory of the window.
        There::Here(there) => unsafe { copy(here, there, len) },
        There::Messages(_) if len > SHORT => return None,
        There::Messages(there) => {
            // SAFETY: as above; they are left alone during the call.
            let data = unsafe { bytes(here, len) };
            let request = Request::row(Kind::Put, there, data);
            return win.remote().ok()?.add(rank, &request).then_some(());
        }
    }
    Some(())
}

#[inline]
pub(super) fn get(win: &Win, into: &Choice, at: &Where) -> Option<()> {
    let Direct { here, there: There::Here(there), len, .. } = Direct::new(win, into, at)? else {
        return None;
    };
    // SAFETY: as in `put`, the other way round.
    unsafe { copy(there, here, len) };
    Some(())
}

/// # Errors
/// A member of the window has died.
#[inline]
pub(super) fn accumulate(win: &Win, what: &Accumulation, at: &Where) -> Option<Result<(), Fault>> {
    // Its operand need not be there.
    if what.op == MPI_NO_OP {
        return None;
    }
    let direct = Direct::new(win, &what.from, at).filter(|direct| direct.len <= FEW)?;
    let Direct { rank, here, there, len, datatype } = direct;
    let row = datatype.row?;
    let others = what.result.iter().chain(&what.compare);
    if !others.into_iter().all(|choice| is_alike(choice, at)) {
        return None;
    }
    // SAFETY: the elements are readable, by the invariant of their type, and left alone during the call.
    let bytes = |at: *mut u8| unsafe { bytes(at, len) };
    let operand = bytes(here);
    let there = match there {
        There::Here(there) => there,
        There::Messages(there) => {
            if what.result.is_some() || what.compare.is_some() {
                return None;
            }
            let _ = Accumulator::known(what.op, row)?;
            let (row, _) = datatype.shape().element()?;
            let request = Request::row(Kind::Accumulate, there, operand);
            let request = Request { row, operator: what.op.0 as u32, ..request };
            return win.remote().ok()?.add(rank, &request).then_some(Ok(()));
        }
    };
    let update = match &what.compare {
        Some(compare) if op::is_comparable(row) => {
            Update::Swap { compare: bytes(compare.address()), operand }
        }
        Some(_) => return None,
        None => Update::Combine(Accumulator::known(what.op, row)?, operand),
    };
    let held = match win.update_lock(rank).lock(&|| win.alive()) {
        Ok(held) => held,
        Err(fault) => return Some(Err(fault)),
    };
    let mut now = [0; FEW];
    // SAFETY: memory of the window, as long as the operand. Others may look at it: it is no reference of Rust's.
    unsafe { copy(there, now.as_mut_ptr(), len) };
    let before = now;
    if update.change(0, &mut now[..len]) {
        // SAFETY: as above.
        unsafe { copy(now.as_ptr(), there, len) };
    }
    drop(held);
    if let Some(result) = &what.result {
        // SAFETY: the elements are writable, by the invariant of their type. The operand may be the same.
        unsafe { copy(before.as_ptr(), result.address(), len) };
    }
    Some(Ok(()))
}
