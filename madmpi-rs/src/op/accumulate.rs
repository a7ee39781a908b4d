//! Operators of accumulations in windows: the predefined ones, `MPI_REPLACE` and `MPI_NO_OP`.

use std::sync::OnceLock;

use super::kernel::Kernel;
use super::operator::Op;
use super::predefined::{Family, Predefined, family};
use crate::abi::*;
use crate::datatype::Row;
use crate::datatype::rows::ROWS;
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

/// The constants of operators, and those of datatypes, are fewer.
const OPERATORS: usize = 32;
const TYPES: usize = 256;

/// What [`Accumulator::new`] gives for each predefined operator and type.
static KNOWN: OnceLock<Box<[Option<Accumulator>]>> = OnceLock::new();

/// The place in [`KNOWN`].
#[inline]
fn place(op: MPI_Op, row: &Row) -> Option<usize> {
    let op = op.0.checked_sub(MPI_OP_NULL.0).filter(|&op| op < OPERATORS)?;
    let datatype = row.handle.0.checked_sub(MPI_DATATYPE_NULL.0).filter(|&row| row < TYPES)?;
    Some(op * TYPES + datatype)
}

#[cold]
fn make() -> Box<[Option<Accumulator>]> {
    let mut known = vec![None; OPERATORS * TYPES];
    for op in (0..OPERATORS).map(|op| MPI_Op(MPI_OP_NULL.0 + op)) {
        let Some(predefined) = Predefined::of(op).map(Op::Predefined) else { continue };
        for row in ROWS {
            if let Some(place) = place(op, row) {
                known[place] = Accumulator::new(&predefined, row).ok();
            }
        }
    }
    known.into()
}

impl Accumulator {
    /// That of a predefined operator, if it takes elements of the type: a look into a table.
    #[inline]
    pub(crate) fn known(op: MPI_Op, row: &Row) -> Option<Accumulator> {
        *KNOWN.get_or_init(make).get(place(op, row)?)?
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_is_found_the_long_way() {
        let mut found = 0;
        for op in (0..2 * OPERATORS).map(|op| MPI_Op(MPI_OP_NULL.0 + op)) {
            for row in ROWS {
                let long = Predefined::of(op)
                    .and_then(|op| Accumulator::new(&Op::Predefined(op), row).ok());
                let short = Accumulator::known(op, row);
                assert_eq!(short.is_some(), long.is_some(), "{op:?} {}", row.name);
                let kernel = |accumulator| match accumulator {
                    Some(Accumulator::Kernel(kernel)) => kernel as usize,
                    _ => 0,
                };
                assert_eq!(kernel(short), kernel(long));
                found += usize::from(short.is_some());
            }
        }
        assert!(found > 100);
    }
}
