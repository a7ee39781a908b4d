//! Operators on elements in memory: `MPI_Reduce_local`.

use super::operator::Op;
use crate::abi::*;
use crate::datatype::{Choice, Data};
use crate::error::Fault;

/// `into[i] = from[i] op into[i]` in memory.
///
/// # Errors
/// An argument is not acceptable; the operator does not take elements of the type.
pub(crate) fn combine(from: Choice, into: Choice, op: &Op) -> Result<(), Fault> {
    if from.is_in_place() || into.is_in_place() {
        let why = "MPI_Reduce_local has two operands";
        return Err(Fault::argument(MPI_ERR_BUFFER, "inbuf or inoutbuf", "MPI_IN_PLACE", why));
    }
    let (from, into) = (from.elements()?, into.elements()?);
    // This checks the arguments, too.
    let (left, right) = (from.data()?, into.data()?);
    let len = left.len();
    match op {
        // SAFETY: the elements are readable, and those of the second operand writable.
        Op::User(user) => unsafe {
            user.call(from.address(), into.address(), from.count as usize, &from.datatype.share());
        },
        Op::Predefined(op) => {
            let kernel = op.kernel(&from.datatype)?;
            match (left, right) {
                _ if len == 0 => {}
                (Data::Whole(left, _), Data::Whole(right, _)) if left == right => {
                    // SAFETY: the elements are readable. Both operands are the same: one has to be a copy.
                    let copy = unsafe { std::slice::from_raw_parts(left, len) }.to_vec();
                    // SAFETY: as above.
                    kernel(&copy, unsafe { std::slice::from_raw_parts_mut(right, len) });
                }
                (Data::Whole(left, _), Data::Whole(right, _)) => {
                    // SAFETY: the elements are readable, and those of the second operand writable.
                    let left = unsafe { std::slice::from_raw_parts(left, len) };
                    // SAFETY: as above; the operands do not overlap, as the standard says.
                    kernel(left, unsafe { std::slice::from_raw_parts_mut(right, len) });
                }
                _ => {
                    let (left, mut right) = (from.packed()?, into.packed()?);
                    kernel(&left, &mut right);
                    into.unpack_from(&right);
                }
            }
        }
    }
    Ok(())
}
