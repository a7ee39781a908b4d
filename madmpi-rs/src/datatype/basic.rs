//! The standard's own datatypes.

use std::sync::{Arc, OnceLock};

use super::Datatype;
use crate::abi::*;

/// What an element of one of the standard's types is, for reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basic {
    /// An integer of that many bytes.
    Signed(usize),
    Unsigned(usize),
    /// A binary floating-point number of that many bytes; 16 are C's `long double` where that is one of 80 bits.
    Float(usize),
    LongDouble,
    /// Two of them.
    Complex(usize),
    ComplexLongDouble,
    /// A truth value of that many bytes.
    Logical(usize),
    Byte,
    /// Characters, which no operation takes.
    Character,
    Packed,
    /// A value and its place: for MINLOC and MAXLOC.
    Pair(Value),
}

/// The value of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Short,
    Int,
    Long,
    Float,
    Double,
    LongDouble,
    /// Fortran's, where the place is a number of the same type.
    Float2,
    Double2,
}

/// Handle, element, bytes of data, extent.
type Row = (MPI_Datatype, Basic, usize, usize);

const ROWS: &[Row] = {
    use Basic::*;
    &[
        (MPI_AINT, Signed(8), 8, 8),
        (MPI_COUNT, Signed(8), 8, 8),
        (MPI_OFFSET, Signed(8), 8, 8),
        (MPI_PACKED, Packed, 1, 1),
        (MPI_SHORT, Signed(2), 2, 2),
        (MPI_INT, Signed(4), 4, 4),
        (MPI_LONG, Signed(8), 8, 8),
        (MPI_LONG_LONG, Signed(8), 8, 8),
        (MPI_UNSIGNED_SHORT, Unsigned(2), 2, 2),
        (MPI_UNSIGNED, Unsigned(4), 4, 4),
        (MPI_UNSIGNED_LONG, Unsigned(8), 8, 8),
        (MPI_UNSIGNED_LONG_LONG, Unsigned(8), 8, 8),
        (MPI_FLOAT, Float(4), 4, 4),
        (MPI_C_FLOAT_COMPLEX, Complex(4), 8, 8),
        (MPI_CXX_FLOAT_COMPLEX, Complex(4), 8, 8),
        (MPI_DOUBLE, Float(8), 8, 8),
        (MPI_C_DOUBLE_COMPLEX, Complex(8), 16, 16),
        (MPI_CXX_DOUBLE_COMPLEX, Complex(8), 16, 16),
        (MPI_LOGICAL, Logical(4), 4, 4),
        (MPI_INTEGER, Signed(4), 4, 4),
        (MPI_REAL, Float(4), 4, 4),
        (MPI_COMPLEX, Complex(4), 8, 8),
        (MPI_DOUBLE_PRECISION, Float(8), 8, 8),
        (MPI_DOUBLE_COMPLEX, Complex(8), 16, 16),
        (MPI_CHARACTER, Character, 1, 1),
        (MPI_LONG_DOUBLE, LongDouble, 16, 16),
        (MPI_C_LONG_DOUBLE_COMPLEX, ComplexLongDouble, 32, 32),
        (MPI_CXX_LONG_DOUBLE_COMPLEX, ComplexLongDouble, 32, 32),
        (MPI_FLOAT_INT, Pair(Value::Float), 8, 8),
        (MPI_DOUBLE_INT, Pair(Value::Double), 12, 16),
        (MPI_LONG_INT, Pair(Value::Long), 12, 16),
        (MPI_2INT, Pair(Value::Int), 8, 8),
        (MPI_SHORT_INT, Pair(Value::Short), 6, 8),
        (MPI_LONG_DOUBLE_INT, Pair(Value::LongDouble), 20, 32),
        (MPI_2REAL, Pair(Value::Float2), 8, 8),
        (MPI_2DOUBLE_PRECISION, Pair(Value::Double2), 16, 16),
        (MPI_2INTEGER, Pair(Value::Int), 8, 8),
        (MPI_C_BOOL, Logical(1), 1, 1),
        (MPI_CXX_BOOL, Logical(1), 1, 1),
        (MPI_WCHAR, Character, 4, 4),
        (MPI_INT8_T, Signed(1), 1, 1),
        (MPI_UINT8_T, Unsigned(1), 1, 1),
        (MPI_CHAR, Character, 1, 1),
        (MPI_SIGNED_CHAR, Signed(1), 1, 1),
        (MPI_UNSIGNED_CHAR, Unsigned(1), 1, 1),
        (MPI_BYTE, Byte, 1, 1),
        (MPI_INT16_T, Signed(2), 2, 2),
        (MPI_UINT16_T, Unsigned(2), 2, 2),
        (MPI_INT32_T, Signed(4), 4, 4),
        (MPI_UINT32_T, Unsigned(4), 4, 4),
        (MPI_INT64_T, Signed(8), 8, 8),
        (MPI_UINT64_T, Unsigned(8), 8, 8),
        (MPI_LOGICAL1, Logical(1), 1, 1),
        (MPI_INTEGER1, Signed(1), 1, 1),
        (MPI_LOGICAL2, Logical(2), 2, 2),
        (MPI_INTEGER2, Signed(2), 2, 2),
        (MPI_LOGICAL4, Logical(4), 4, 4),
        (MPI_INTEGER4, Signed(4), 4, 4),
        (MPI_REAL4, Float(4), 4, 4),
        (MPI_LOGICAL8, Logical(8), 8, 8),
        (MPI_INTEGER8, Signed(8), 8, 8),
        (MPI_REAL8, Float(8), 8, 8),
        (MPI_COMPLEX8, Complex(4), 8, 8),
        (MPI_LOGICAL16, Logical(16), 16, 16),
        (MPI_INTEGER16, Signed(16), 16, 16),
        (MPI_COMPLEX16, Complex(8), 16, 16),
    ]
};

static ALL: OnceLock<[Option<Arc<Datatype>>; 256]> = OnceLock::new();

/// One of the standard's types, if the handle is its constant and this machine has it.
#[inline]
pub(crate) fn get(datatype: MPI_Datatype) -> Option<&'static Arc<Datatype>> {
    let index = datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0);
    ALL.get_or_init(make).get(index)?.as_ref()
}

#[cold]
fn make() -> [Option<Arc<Datatype>>; 256] {
    let mut all = [const { None }; 256];
    for &(handle, basic, size, extent) in ROWS {
        all[handle.0 - MPI_DATATYPE_NULL.0] = Some(Arc::new(Datatype {
            size,
            extent: extent as isize,
            lb: 0,
            contiguous: size == extent,
            committed: true,
            basic: Some(basic),
        }));
    }
    all
}
