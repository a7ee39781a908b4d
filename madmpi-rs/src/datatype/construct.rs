//! Shapes made of other shapes: blocks and vectors.

use std::sync::Arc;

use super::shape::{Envelope, Join, Part, Shape};
use crate::abi::*;
use crate::error::Fault;

/// A number of elements or blocks.
///
/// # Errors
/// The number is negative.
pub(crate) fn number(value: i64, name: &str) -> Result<usize, Fault> {
    let number = usize::try_from(value);
    number.map_err(|_| Fault::argument(MPI_ERR_COUNT, name, value, "it must not be negative"))
}

/// The bytes of `count` extents.
///
/// # Errors
/// No address reaches so far.
pub(crate) fn extents(count: i64, shape: &Shape) -> Result<isize, Fault> {
    let bytes = isize::try_from(count).ok().and_then(|count| count.checked_mul(shape.extent));
    let why = "no address reaches so many extents";
    bytes.ok_or_else(|| Fault::argument(MPI_ERR_ARG, "displacement or stride", count, why))
}

/// Blocks of a length at a displacement in bytes.
pub(crate) fn blocks(
    made: Envelope,
    old: &Arc<Shape>,
    blocks: impl Iterator<Item = Result<(i64, isize), Fault>>,
) -> Result<Arc<Shape>, Fault> {
    let mut join = Join::default();
    let mut block: (i64, Part) = (0, Part::empty());
    for next in blocks {
        let (len, at) = next?;
        if len != block.0 {
            block = (len, old.block(number(len, "blocklength")?)?);
        }
        join.add(at, &block.1)?;
    }
    Shape::new(made.of(old), join.finish())
}

/// Blocks of one length, a stride in bytes apart.
pub(crate) fn vector(
    made: Envelope,
    old: &Arc<Shape>,
    count: i64,
    len: i64,
    stride: isize,
) -> Result<Arc<Shape>, Fault> {
    let block = old.block(number(len, "blocklength")?)?;
    Shape::new(made.of(old), block.repeat(number(count, "count")?, stride)?)
}
