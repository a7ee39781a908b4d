//! The table of predefined datatypes.

use crate::abi::*;

/// What an element of a predefined type is, for reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basic {
    /// An integer of that many bytes.
    Signed(usize),
    Unsigned(usize),
    /// A binary floating-point number of that many bytes. C's `long double` of 80 bits is `LongDouble`.
    Float(usize),
    LongDouble,
    /// Two floating-point numbers of that many bytes each.
    Complex(usize),
    ComplexLongDouble,
    /// A truth value of that many bytes.
    Logical(usize),
    Byte,
    /// Characters of that many bytes, which no operator takes.
    Character(usize),
    Packed,
    /// A value and its index, for MINLOC and MAXLOC.
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
    /// Fortran's pairs, whose index is a number of the same type.
    Integer2,
    Float2,
    Double2,
}

/// A predefined type.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) handle: MPI_Datatype,
    pub(crate) name: &'static str,
    pub(crate) basic: Basic,
    /// Bytes of data.
    pub(crate) size: usize,
    pub(crate) align: usize,
    /// Bytes in the representation `external32`.
    pub(crate) external: usize,
}

macro_rules! name {
    ($handle:ident) => {
        stringify!($handle)
    };
    ($handle:ident $name:ident) => {
        stringify!($name)
    };
}

macro_rules! rows {
    ($($handle:ident $(named $name:ident)?: $basic:expr, $size:literal, $align:literal, $external:literal;)*) => {
        /// All predefined types; a *kind* is an index here.
        pub(crate) const ROWS: &[Row] = {
            use Basic::*;
            &[$(Row {
                handle: $handle,
                name: name!($handle $($name)?),
                basic: $basic,
                size: $size,
                align: $align,
                external: $external,
            }),*]
        };
    };
}

// Handle, element, bytes of data, alignment, bytes in `external32`. Of a type with two constants, `named` gives the one
// of which the standard calls the other a synonym.
rows! {
    MPI_AINT: Signed(8), 8, 8, 8;
    MPI_COUNT: Signed(8), 8, 8, 8;
    MPI_OFFSET: Signed(8), 8, 8, 8;
    MPI_PACKED: Packed, 1, 1, 1;
    MPI_SHORT: Signed(2), 2, 2, 2;
    MPI_INT: Signed(4), 4, 4, 4;
    MPI_LONG: Signed(8), 8, 8, 4;
    MPI_LONG_LONG named MPI_LONG_LONG_INT: Signed(8), 8, 8, 8;
    MPI_UNSIGNED_SHORT: Unsigned(2), 2, 2, 2;
    MPI_UNSIGNED: Unsigned(4), 4, 4, 4;
    MPI_UNSIGNED_LONG: Unsigned(8), 8, 8, 4;
    MPI_UNSIGNED_LONG_LONG: Unsigned(8), 8, 8, 8;
    MPI_FLOAT: Float(4), 4, 4, 4;
    MPI_C_FLOAT_COMPLEX named MPI_C_COMPLEX: Complex(4), 8, 4, 8;
    MPI_CXX_FLOAT_COMPLEX: Complex(4), 8, 4, 8;
    MPI_DOUBLE: Float(8), 8, 8, 8;
    MPI_C_DOUBLE_COMPLEX: Complex(8), 16, 8, 16;
    MPI_CXX_DOUBLE_COMPLEX: Complex(8), 16, 8, 16;
    MPI_LOGICAL: Logical(4), 4, 4, 4;
    MPI_INTEGER: Signed(4), 4, 4, 4;
    MPI_REAL: Float(4), 4, 4, 4;
    MPI_COMPLEX: Complex(4), 8, 4, 8;
    MPI_DOUBLE_PRECISION: Float(8), 8, 8, 8;
    MPI_DOUBLE_COMPLEX: Complex(8), 16, 8, 16;
    MPI_CHARACTER: Character(1), 1, 1, 1;
    MPI_LONG_DOUBLE: LongDouble, 16, 16, 16;
    MPI_C_LONG_DOUBLE_COMPLEX: ComplexLongDouble, 32, 16, 32;
    MPI_CXX_LONG_DOUBLE_COMPLEX: ComplexLongDouble, 32, 16, 32;
    MPI_FLOAT_INT: Pair(Value::Float), 8, 4, 8;
    MPI_DOUBLE_INT: Pair(Value::Double), 12, 8, 12;
    MPI_LONG_INT: Pair(Value::Long), 12, 8, 8;
    MPI_2INT: Pair(Value::Int), 8, 4, 8;
    MPI_SHORT_INT: Pair(Value::Short), 6, 4, 6;
    MPI_LONG_DOUBLE_INT: Pair(Value::LongDouble), 20, 16, 20;
    MPI_2REAL: Pair(Value::Float2), 8, 4, 8;
    MPI_2DOUBLE_PRECISION: Pair(Value::Double2), 16, 8, 16;
    MPI_2INTEGER: Pair(Value::Integer2), 8, 4, 8;
    MPI_C_BOOL: Logical(1), 1, 1, 1;
    MPI_CXX_BOOL: Logical(1), 1, 1, 1;
    MPI_WCHAR: Character(4), 4, 4, 2;
    MPI_INT8_T: Signed(1), 1, 1, 1;
    MPI_UINT8_T: Unsigned(1), 1, 1, 1;
    MPI_CHAR: Character(1), 1, 1, 1;
    MPI_SIGNED_CHAR: Signed(1), 1, 1, 1;
    MPI_UNSIGNED_CHAR: Unsigned(1), 1, 1, 1;
    MPI_BYTE: Byte, 1, 1, 1;
    MPI_INT16_T: Signed(2), 2, 2, 2;
    MPI_UINT16_T: Unsigned(2), 2, 2, 2;
    MPI_INT32_T: Signed(4), 4, 4, 4;
    MPI_UINT32_T: Unsigned(4), 4, 4, 4;
    MPI_INT64_T: Signed(8), 8, 8, 8;
    MPI_UINT64_T: Unsigned(8), 8, 8, 8;
    MPI_LOGICAL1: Logical(1), 1, 1, 1;
    MPI_INTEGER1: Signed(1), 1, 1, 1;
    MPI_LOGICAL2: Logical(2), 2, 2, 2;
    MPI_INTEGER2: Signed(2), 2, 2, 2;
    MPI_LOGICAL4: Logical(4), 4, 4, 4;
    MPI_INTEGER4: Signed(4), 4, 4, 4;
    MPI_REAL4: Float(4), 4, 4, 4;
    MPI_LOGICAL8: Logical(8), 8, 8, 8;
    MPI_INTEGER8: Signed(8), 8, 8, 8;
    MPI_REAL8: Float(8), 8, 8, 8;
    MPI_COMPLEX8: Complex(4), 8, 4, 8;
    MPI_LOGICAL16: Logical(16), 16, 16, 16;
    MPI_INTEGER16: Signed(16), 16, 16, 16;
    MPI_REAL16: Float(16), 16, 16, 16;
    MPI_COMPLEX16: Complex(8), 16, 8, 16;
    MPI_COMPLEX32: Complex(16), 32, 16, 32;
}

impl Value {
    /// The two elements of a pair, as predefined types.
    pub(crate) fn pair(self) -> (MPI_Datatype, MPI_Datatype) {
        match self {
            Value::Short => (MPI_SHORT, MPI_INT),
            Value::Int => (MPI_INT, MPI_INT),
            Value::Long => (MPI_LONG, MPI_INT),
            Value::Float => (MPI_FLOAT, MPI_INT),
            Value::Double => (MPI_DOUBLE, MPI_INT),
            Value::LongDouble => (MPI_LONG_DOUBLE, MPI_INT),
            Value::Integer2 => (MPI_INTEGER, MPI_INTEGER),
            Value::Float2 => (MPI_REAL, MPI_REAL),
            Value::Double2 => (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION),
        }
    }
}
