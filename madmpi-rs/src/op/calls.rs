//! `MPI_Op_*` and `MPI_Reduce_local`.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use super::user::{Function, Large, Small, User};
use super::{OPS, Op, bad, get};
use crate::abi::*;
use crate::call::mpi;
use crate::datatype::{self, Data, Datatype};
use crate::error::{Fault, out, read};
use crate::handle::Held;

fn create(function: Option<Function>, commute: c_int, op: *mut MPI_Op) -> Result<(), Fault> {
    let Some(function) = function else {
        return Err(Fault::argument(
            MPI_ERR_ARG,
            "user_fn",
            "null",
            "it is what combines elements",
        ));
    };
    out(op, "op", MPI_OP_NULL)?;
    let handle = OPS.insert(Arc::new(User { function, commutative: commute != 0 }));
    let handle = handle.ok_or_else(|| {
        Fault::new(MPI_ERR_NO_MEM, "there are as many operators as there are handles")
    })?;
    out(op, "op", MPI_Op(handle))
}

/// `into[i] = from[i] op into[i]` in memory.
///
/// # Safety
/// The elements are there.
unsafe fn combine(
    from: *const c_void,
    into: *mut c_void,
    count: i64,
    datatype: &Held<Datatype>,
    op: &Op,
) -> Result<(), Fault> {
    if from == MPI_IN_PLACE as *const c_void || into == MPI_IN_PLACE as *mut c_void {
        let why = "MPI_Reduce_local has two operands";
        return Err(Fault::argument(MPI_ERR_BUFFER, "inbuf or inoutbuf", "MPI_IN_PLACE", why));
    }
    let elements = count as usize;
    // Also checks the arguments.
    let (left, right) = (Data::of(from, count, datatype)?, Data::of(into, count, datatype)?);
    let len = left.len();
    match op {
        // SAFETY: the caller's promise.
        Op::User(user) => unsafe {
            user.call(from.cast_mut(), into, elements, &datatype.share());
        },
        Op::Predefined(op) => {
            let kernel = op.kernel(datatype)?;
            match (left, right) {
                _ if len == 0 => {}
                (Data::Whole(left, _), Data::Whole(right, _)) if left == right => {
                    // SAFETY: the caller's promise. Both operands are the same: one has to be a copy.
                    let copy = unsafe { std::slice::from_raw_parts(left, len) }.to_vec();
                    // SAFETY: as above.
                    kernel(&copy, unsafe { std::slice::from_raw_parts_mut(right, len) });
                }
                (Data::Whole(left, _), Data::Whole(right, _)) => {
                    // SAFETY: the caller's promise.
                    let left = unsafe { std::slice::from_raw_parts(left, len) };
                    // SAFETY: as above; the operands do not overlap, says the standard.
                    kernel(left, unsafe { std::slice::from_raw_parts_mut(right, len) });
                }
                _ => {
                    let (mut left, mut right) = (vec![0; len], vec![0; len]);
                    // SAFETY: there is room; the caller's promise.
                    unsafe {
                        datatype.pack(from.cast(), elements, left.as_mut_ptr());
                        datatype.pack(into.cast(), elements, right.as_mut_ptr());
                    }
                    kernel(&left, &mut right);
                    // SAFETY: as above.
                    unsafe { datatype.unpack(right.as_ptr(), len, into.cast(), elements) };
                }
            }
        }
    }
    Ok(())
}

mpi! {
    fn MPI_Op_create(user_fn: Option<Small>, commute: c_int, op: *mut MPI_Op) {
        create(user_fn.map(Function::Small), commute, op)
    }

    fn MPI_Op_create_c(user_fn: Option<Large>, commute: c_int, op: *mut MPI_Op) {
        create(user_fn.map(Function::Large), commute, op)
    }

    fn MPI_Op_free(op: *mut MPI_Op) {
        let handle = read(op.cast_const(), "op")?;
        match get(handle)? {
            Op::Predefined(_) => {
                let why = "the standard's own operators cannot be freed";
                Err(Fault::argument(MPI_ERR_OP, "op", format_args!("{:#x}", handle.0), why))
            }
            Op::User(_) => {
                OPS.remove(handle.0).ok_or_else(|| bad(handle))?;
                out(op, "op", MPI_OP_NULL)
            }
        }
    }

    fn MPI_Op_commutative(op: MPI_Op, commute: *mut c_int) {
        out(commute, "commute", c_int::from(get(op)?.is_commutative()))
    }

    fn MPI_Reduce_local / MPI_Reduce_local_c (
        inbuf: *const c_void, inoutbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op,
    ) {
        let (datatype, op) = (datatype::get(datatype)?, get(op)?);
        // SAFETY: the program's promise that the elements are there.
        unsafe { combine(inbuf, inoutbuf, count.into(), &datatype, &op) }
    }
}
