//! Operators of accumulations in windows: the predefined ones, `MPI_REPLACE` and `MPI_NO_OP`.

use super::kernel::Kernel;
use super::operator::Op;
use super::predefined::{Family, Predefined, family};
use crate::abi::*;
use crate::datatype::Row;
use crate::error::Fault;

/// Whether `MPI_Compare_and_swap` takes elements of the type.
pub(crate) fn is_comparable(row: &Row) -> bool {
    use Family::*;
    matches!(family(row), CInteger | FortranInteger | Multi | Logical | Byte)
}

/// What an accumulation does with each element of the target.
#[derive(Clone, Copy)]
pub(crate) enum Accumulator {
    Replace,
    NoOp,
    Kernel(Kernel),
}

impl Accumulator {
    /// # Errors
    /// The operator is the program's own, or does not take elements of the type.
    pub(crate) fn new(op: &Op, row: &'static Row) -> Result<Accumulator, Fault> {
        match op {
            Op::Predefined(Predefined::Replace) => Ok(Accumulator::Replace),
            Op::Predefined(Predefined::NoOp) => Ok(Accumulator::NoOp),
            Op::Predefined(op) => op.kernel_of_row(row).map(Accumulator::Kernel),
            Op::User(_) => {
                let why = "accumulations take predefined operators only";
                Err(Fault::argument(MPI_ERR_OP, "op", "a function of the program", why))
            }
        }
    }

    /// `into[i] = into[i] op from[i]` for packed elements.
    pub(crate) fn apply(self, from: &[u8], into: &mut [u8]) {
        match self {
            Accumulator::Replace => into.copy_from_slice(from),
            Accumulator::NoOp => {}
            Accumulator::Kernel(kernel) => kernel(from, into),
        }
    }
}
