//! Operators of reductions.
//!
//! | file | what |
//! |---|---|
//! | `predefined` | which of the predefined operators takes which types |
//! | `element`, `long_double`, `kernel` | what they do with elements |
//! | `user` | operators of the program |
//! | `operator`, `local`, `accumulate` | an operator of either kind; `MPI_Reduce_local`; accumulations in windows |
//!
//! [`packed_operator`] makes the operator that newmad's collectives combine with. It combines *packed* elements: `size`
//! bytes each, one after the other. The packed form of a contiguous type is its memory; data of other types are packed
//! before a reduction and unpacked after it. So only data travel, gaps in a result stay as they were, and bounds of any
//! kind (negative ones, interleaved elements) need no further thought. A user function gets elements laid out as its
//! datatype says, in aligned memory.
//!
//! A user function is called inside MPI calls of the program only, one call at a time, unless the program has asked for
//! `MPI_THREAD_MULTIPLE`: a program with one thread need not lock what its operators touch. While a call waits, the
//! function may be called by a thread of the library, whose stack is as large as a thread's of the program.

mod accumulate;
mod element;
mod kernel;
mod local;
mod long_double;
mod operator;
mod predefined;
mod quad;
mod user;

use std::sync::Arc;

use newmad::coll::Operator;

use crate::abi::*;
use crate::datatype;
use crate::error::Fault;
use crate::handle::Table;
use crate::job;
use predefined::Predefined;
use user::User;

pub(crate) use accumulate::{Accumulator, is_comparable};
pub(crate) use local::combine;
pub(crate) use operator::Op;
pub(crate) use user::{Function, Large, Small};

static OPS: Table<User> = Table::new();

/// The operator that a handle stands for.
///
/// # Errors
/// The handle stands for none.
pub(crate) fn get(op: MPI_Op) -> Result<Op, Fault> {
    if let Some(predefined) = Predefined::of(op) {
        return Ok(Op::Predefined(predefined));
    }
    OPS.get(op.0).map(Op::User).ok_or_else(|| bad(op))
}

#[cold]
fn bad(op: MPI_Op) -> Fault {
    let why = match op {
        MPI_OP_NULL => "MPI_OP_NULL is not an operator",
        _ => "it is not an operator, or was freed",
    };
    Fault::handle(MPI_ERR_OP, "op", op.0, why)
}

/// The operator for packed elements of a datatype; see the module.
///
/// # Errors
/// The operator does not take elements of the type; a handle stands for nothing.
pub(crate) fn packed_operator(op: MPI_Op, datatype: MPI_Datatype) -> Result<Operator, Fault> {
    match get(op)? {
        Op::Predefined(predefined) => datatype::with(datatype, |datatype| {
            Ok(Operator::plain(datatype.size, true, predefined.kernel(datatype)?))
        }),
        Op::User(user) => {
            let of = datatype::get(datatype)?.share();
            let (size, commutative) = (of.size, user.commutative);
            let apply = move |left: &[u8], into: &mut [u8]| user.packed(&of, left, into);
            let operator = Operator::new(size, commutative, apply);
            Ok(if job::calls_are_concurrent() { operator } else { operator.in_calls() })
        }
    }
}

/// Makes an operator of the program's function.
///
/// # Errors
/// No handle is left.
pub(crate) fn insert(function: Function, commutative: bool) -> Result<MPI_Op, Fault> {
    let handle = OPS.insert(Arc::new(User { function, commutative }));
    handle.map(MPI_Op).ok_or_else(|| {
        Fault::new(MPI_ERR_NO_MEM, "there are as many operators as there are handles")
    })
}

/// Ends a handle.
///
/// # Errors
/// It stands for none, or for a predefined one.
pub(crate) fn free(op: MPI_Op) -> Result<(), Fault> {
    match get(op)? {
        Op::Predefined(_) => {
            let why = "predefined operators cannot be freed";
            Err(Fault::handle(MPI_ERR_OP, "op", op.0, why))
        }
        Op::User(_) => OPS.remove(op.0).map(drop).ok_or_else(|| bad(op)),
    }
}
