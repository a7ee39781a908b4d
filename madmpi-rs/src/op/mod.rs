//! Operators of reductions.
//!
//! | file | what |
//! |---|---|
//! | `predefined` | which of the standard's operators takes which of its types |
//! | `number`, `long_double` | what they do with elements |
//! | `user` | operators of the program |
//! | `calls` | `MPI_Op_*`, `MPI_Reduce_local` |
//!
//! [`operator`] makes what newmad's collectives combine with. It combines *packed* elements: `size` bytes each, one after the
//! other. For a contiguous type that is the memory itself; data of other types are packed before a reduction and unpacked
//! after it. So nothing of the program's besides its data travels, gaps in a result stay what they were, and bounds of
//! any kind (negative ones, elements that interleave) need no further thought. The function of a program gets elements laid
//! out as its datatype says, in memory aligned for them.

mod element;
mod kernel;
mod local;
mod long_double;
mod operator;
mod predefined;
mod user;

use std::sync::Arc;

use newmad::coll::Operator;

use crate::abi::*;
use crate::datatype::Datatype;
use crate::error::Fault;
use crate::handle::{Ref, Table};
use predefined::Predefined;
use user::User;

pub(crate) use local::combine;
pub(crate) use operator::Op;
pub(crate) use user::{Function, Large, Small};

static OPS: Table<User> = Table::new();

/// The operator that a handle stands for.
///
/// # Errors
/// None.
pub(crate) fn get(op: MPI_Op) -> Result<Op, Fault> {
    if let Some(predefined) = Predefined::of(op) {
        return Ok(Op::Predefined(predefined));
    }
    OPS.get(op.0).map(Op::User).ok_or_else(|| bad(op))
}

#[cold]
fn bad(op: MPI_Op) -> Fault {
    let why = match op {
        MPI_OP_NULL => "MPI_OP_NULL is no operator",
        _ => "it is not an operator, or was freed",
    };
    Fault::handle(MPI_ERR_OP, "op", op.0, why)
}

/// What combines packed elements of that type; see the module.
///
/// # Errors
/// The operator does not take elements of the type.
pub(crate) fn operator(op: &Op, datatype: &Ref<Datatype>) -> Result<Operator, Fault> {
    match op {
        Op::Predefined(predefined) => {
            Ok(Operator::new(datatype.size, true, predefined.kernel(datatype)?))
        }
        Op::User(user) => {
            let (user, of) = (user.clone(), datatype.share());
            let commutative = user.commutative;
            let apply = move |left: &[u8], into: &mut [u8]| user.packed(&of, left, into);
            Ok(Operator::new(datatype.size, commutative, apply))
        }
    }
}

/// Makes an operator of the program's function.
///
/// # Errors
/// There are too many.
pub(crate) fn insert(function: Function, commutative: bool) -> Result<MPI_Op, Fault> {
    let handle = OPS.insert(Arc::new(User { function, commutative }));
    handle.map(MPI_Op).ok_or_else(|| {
        Fault::new(MPI_ERR_NO_MEM, "there are as many operators as there are handles")
    })
}

/// Ends a handle.
///
/// # Errors
/// It stands for none, or for one of the standard's.
pub(crate) fn free(op: MPI_Op) -> Result<(), Fault> {
    match get(op)? {
        Op::Predefined(_) => {
            let why = "the standard's own operators cannot be freed";
            Err(Fault::handle(MPI_ERR_OP, "op", op.0, why))
        }
        Op::User(_) => OPS.remove(op.0).map(drop).ok_or_else(|| bad(op)),
    }
}
