//! Operators of reductions.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{InOut, Out, out, read};
use crate::datatype::choice;
use crate::error::Fault;
use crate::op::{self, Function, Large, Small, combine, get};

fn create(function: Option<Function>, commute: c_int, op: Out<MPI_Op>) -> Result<(), Fault> {
    let Some(function) = function else {
        return Err(Fault::argument(MPI_ERR_ARG, "user_fn", "null", "a function is needed"));
    };
    op.made("op", MPI_OP_NULL, || op::insert(function, commute != 0))
}

mpi! {
    fn MPI_Op_create(user_fn: Option<Small>, commute: c_int, op: Out<MPI_Op>) {
        create(user_fn.map(Function::Small), commute, op)
    }

    fn MPI_Op_create_c(user_fn: Option<Large>, commute: c_int, op: Out<MPI_Op>) {
        create(user_fn.map(Function::Large), commute, op)
    }

    fn MPI_Op_free(op: InOut<MPI_Op>) {
        let handle = read(op, "op")?;
        op::free(handle)?;
        out(op, "op", MPI_OP_NULL)
    }

    fn MPI_Op_commutative(op: MPI_Op, commute: Out<c_int>) {
        out(commute, "commute", c_int::from(get(op)?.is_commutative()))
    }

    fn MPI_Reduce_local / MPI_Reduce_local_c (
        inbuf: *const c_void, inoutbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op,
    ) {
        let (from, into) = (choice!(inbuf, count, datatype), choice!(inoutbuf, count, datatype));
        combine(from, into, &get(op)?)
    }
}
