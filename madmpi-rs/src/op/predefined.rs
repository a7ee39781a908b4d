//! The predefined operators, and the types that each of them takes.

use core::ffi::c_char;
use std::sync::OnceLock;

use super::kernel::{self, Kernel};
use super::long_double;
use crate::abi::*;
use crate::datatype::{Basic, Datatype, ROWS, Row, Value};
use crate::error::Fault;

/// A predefined operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predefined {
    Sum,
    Min,
    Max,
    Product,
    BitAnd,
    BitOr,
    BitXor,
    And,
    Or,
    Xor,
    MinLoc,
    MaxLoc,
    /// Operators for accumulation in windows only.
    Replace,
    NoOp,
}
use Predefined::*;

const ALL: &[(MPI_Op, Predefined, &str)] = &[
    (MPI_SUM, Sum, "MPI_SUM"),
    (MPI_MIN, Min, "MPI_MIN"),
    (MPI_MAX, Max, "MPI_MAX"),
    (MPI_PROD, Product, "MPI_PROD"),
    (MPI_BAND, BitAnd, "MPI_BAND"),
    (MPI_BOR, BitOr, "MPI_BOR"),
    (MPI_BXOR, BitXor, "MPI_BXOR"),
    (MPI_LAND, And, "MPI_LAND"),
    (MPI_LOR, Or, "MPI_LOR"),
    (MPI_LXOR, Xor, "MPI_LXOR"),
    (MPI_MINLOC, MinLoc, "MPI_MINLOC"),
    (MPI_MAXLOC, MaxLoc, "MPI_MAXLOC"),
    (MPI_REPLACE, Replace, "MPI_REPLACE"),
    (MPI_NO_OP, NoOp, "MPI_NO_OP"),
];

/// Groups of types, as in the standard's table of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    CInteger,
    FortranInteger,
    /// Types that every language has: addresses, counts, offsets.
    Multi,
    Floating,
    Complex,
    Logical,
    Byte,
    Pair,
    Other,
}

/// The element that operators take a type for. `MPI_CHAR` is a character, for which the standard has no operator. But
/// other libraries take it for the small integer that C's `char` is, and programs rely on them.
fn operand(row: &Row) -> Basic {
    match row.handle {
        MPI_CHAR if c_char::MIN < 0 => Basic::Signed(1),
        MPI_CHAR => Basic::Unsigned(1),
        _ => row.basic,
    }
}

pub(super) fn family(row: &Row) -> Family {
    match operand(row) {
        Basic::Signed(_) | Basic::Unsigned(_) => match row.handle {
            MPI_AINT | MPI_COUNT | MPI_OFFSET => Family::Multi,
            MPI_INTEGER | MPI_INTEGER1 | MPI_INTEGER2 | MPI_INTEGER4 | MPI_INTEGER8
            | MPI_INTEGER16 => Family::FortranInteger,
            _ => Family::CInteger,
        },
        Basic::Float(_) | Basic::LongDouble => Family::Floating,
        Basic::Complex(_) | Basic::ComplexLongDouble => Family::Complex,
        Basic::Logical(_) => Family::Logical,
        Basic::Byte => Family::Byte,
        Basic::Pair(_) => Family::Pair,
        Basic::Character(_) | Basic::Packed => Family::Other,
    }
}

/// Whether this machine has numbers of that type.
fn is_here(row: &Row) -> bool {
    use Basic::*;
    let long = matches!(row.basic, LongDouble | ComplexLongDouble | Pair(Value::LongDouble));
    long_double::HERE || !long
}

/// The kernels for a type, by operators.
type Kernels = [Option<Kernel>; ALL.len()];

/// The kernels for a predefined type. They are looked for once: a reduction of a few bytes takes no longer than that.
#[inline]
fn kernels_of(row: &Row) -> &'static Kernels {
    static TABLE: OnceLock<Box<[Kernels]>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let last = ROWS.iter().map(place).max().unwrap_or(0);
        let mut table = vec![[None; ALL.len()]; last + 1];
        for (row, (_, op, _)) in ROWS.iter().flat_map(|row| ALL.iter().map(move |op| (row, op))) {
            table[place(row)][*op as usize] = op.of_row(row);
        }
        table.into()
    });
    &table[place(row)]
}

/// Where the table has a predefined type.
fn place(row: &Row) -> usize {
    row.handle.0 - MPI_DATATYPE_NULL.0
}

impl Predefined {
    #[inline]
    pub(super) fn of(op: MPI_Op) -> Option<Predefined> {
        ALL.iter().find(|row| row.0 == op).map(|row| row.1)
    }

    fn name(self) -> &'static str {
        ALL.iter().find(|row| row.1 == self).map_or("", |row| row.2)
    }

    pub(super) fn is_commutative(self) -> bool {
        !matches!(self, Replace | NoOp)
    }

    fn takes(self, family: Family) -> bool {
        use Family::*;
        match self {
            Min | Max => matches!(family, CInteger | FortranInteger | Multi | Floating),
            Sum | Product => {
                matches!(family, CInteger | FortranInteger | Multi | Floating | Complex)
            }
            BitAnd | BitOr | BitXor => {
                matches!(family, CInteger | FortranInteger | Multi | Byte)
            }
            And | Or | Xor => matches!(family, CInteger | Logical),
            MinLoc | MaxLoc => family == Pair,
            Replace | NoOp => false,
        }
    }

    /// The kernel for packed elements of a datatype.
    ///
    /// # Errors
    /// The standard does not define the operator for the type.
    #[inline]
    pub(super) fn kernel(self, datatype: &Datatype) -> Result<Kernel, Fault> {
        let kernel = datatype.row.and_then(|row| kernels_of(row)[self as usize]);
        kernel.ok_or_else(|| self.refused(datatype.row))
    }

    /// The kernel for packed elements of a predefined type.
    ///
    /// # Errors
    /// As [`Predefined::kernel`].
    pub(super) fn kernel_of_row(self, row: &'static Row) -> Result<Kernel, Fault> {
        kernels_of(row)[self as usize].ok_or_else(|| self.refused(Some(row)))
    }

    fn of_row(self, row: &Row) -> Option<Kernel> {
        let taken = self.takes(family(row)) && is_here(row);
        if taken { self.kernel_of(operand(row)) } else { None }
    }

    /// The kernel for packed elements of a basic type, if there is one.
    fn kernel_of(self, basic: Basic) -> Option<Kernel> {
        match self {
            Sum => kernel::sums(basic),
            Product => kernel::products(basic),
            Min => kernel::minima(basic),
            Max => kernel::maxima(basic),
            MinLoc => kernel::minima_with_places(basic),
            MaxLoc => kernel::maxima_with_places(basic),
            And => kernel::logical_and(basic),
            Or => kernel::logical_or(basic),
            Xor => kernel::logical_xor(basic),
            BitAnd => kernel::bitwise_and(basic),
            BitOr => kernel::bitwise_or(basic),
            BitXor => kernel::bitwise_xor(basic),
            Replace | NoOp => None,
        }
    }

    #[cold]
    fn refused(self, row: Option<&'static Row>) -> Fault {
        let why = match (self, row) {
            (Replace | NoOp, _) => "it is for accumulation in windows only".to_owned(),
            (_, None) => {
                "predefined operators take predefined types only; see MPI_Op_create".to_owned()
            }
            (_, Some(row)) => format!("it does not take elements of {}", row.name),
        };
        Fault::argument(MPI_ERR_OP, "op", self.name(), &why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype;

    #[test]
    fn operators_take_the_types_that_the_standard_gives_them() {
        let takes = |op: Predefined, handle| {
            let datatype = datatype::get(handle).ok().unwrap();
            match op.kernel(&datatype) {
                Ok(_) => true,
                Err(fault) => {
                    assert_eq!(fault.class, MPI_ERR_OP);
                    false
                }
            }
        };
        for (handle, arithmetic, order, bits, logic, place) in [
            (MPI_INT, true, true, true, true, false),
            (MPI_UINT8_T, true, true, true, true, false),
            (MPI_INTEGER, true, true, true, false, false),
            (MPI_INTEGER16, true, true, true, false, false),
            (MPI_COUNT, true, true, true, false, false),
            (MPI_BYTE, false, false, true, false, false),
            (MPI_DOUBLE, true, true, false, false, false),
            (MPI_LONG_DOUBLE, true, true, false, false, false),
            (MPI_COMPLEX16, true, false, false, false, false),
            (MPI_REAL16, true, true, false, false, false),
            (MPI_COMPLEX32, true, false, false, false, false),
            (MPI_C_BOOL, false, false, false, true, false),
            (MPI_LOGICAL16, false, false, false, true, false),
            (MPI_CHAR, true, true, true, true, false),
            (MPI_CHARACTER, false, false, false, false, false),
            (MPI_WCHAR, false, false, false, false, false),
            (MPI_PACKED, false, false, false, false, false),
            (MPI_2INT, false, false, false, false, true),
            (MPI_LONG_DOUBLE_INT, false, false, false, false, true),
            (MPI_2DOUBLE_PRECISION, false, false, false, false, true),
        ] {
            for (op, expected) in [
                (Sum, arithmetic),
                (Product, arithmetic),
                (Min, order),
                (Max, order),
                (BitAnd, bits),
                (BitOr, bits),
                (BitXor, bits),
                (And, logic),
                (Or, logic),
                (Xor, logic),
                (MinLoc, place),
                (MaxLoc, place),
                (Replace, false),
                (NoOp, false),
            ] {
                assert_eq!(takes(op, handle), expected, "{op:?} on {:#x}", handle.0);
            }
        }
    }

    #[test]
    fn integers_of_sixteen_bytes_carry() {
        let datatype = datatype::get(MPI_INTEGER16).ok().unwrap();
        let (left, mut into) = ((-3i128 << 70).to_ne_bytes(), (5i128 << 9).to_ne_bytes());
        Product.kernel(&datatype).ok().unwrap()(&left, &mut into);
        assert_eq!(i128::from_ne_bytes(into), -15i128 << 79);
    }

    #[test]
    fn sums_wrap_and_order_knows_signs() {
        for (op, handle, left, right, expected) in [
            (Sum, MPI_UINT8_T, 250u8, 10, 4),
            (Max, MPI_UINT8_T, 250, 10, 250),
            (Max, MPI_INT8_T, 250, 10, 10),
            (Min, MPI_INT8_T, 250, 10, 250),
            (Xor, MPI_C_BOOL, 1, 1, 0),
            (And, MPI_INT8_T, 250, 4, 1),
        ] {
            let datatype = datatype::get(handle).ok().unwrap();
            let mut into = [right];
            op.kernel(&datatype).ok().unwrap()(&[left], &mut into);
            assert_eq!(into, [expected], "{op:?}");
        }
    }
}
