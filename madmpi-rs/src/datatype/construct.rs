//! The functions that make datatypes of others.

use std::sync::Arc;

use super::shape::{Join, Made, Part, Shape};
use super::{Datatype, get, give, insert};
use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, array, out};

/// A number of elements or blocks.
///
/// # Errors
/// It is negative.
pub(super) fn number(value: i64, name: &str) -> Result<usize, Fault> {
    let number = usize::try_from(value);
    number.map_err(|_| Fault::argument(MPI_ERR_COUNT, name, value, "it is not negative"))
}

/// Bytes of so many extents.
///
/// # Errors
/// No address is as far away.
pub(super) fn extents(count: i64, shape: &Shape) -> Result<isize, Fault> {
    let bytes = isize::try_from(count).ok().and_then(|count| count.checked_mul(shape.extent));
    let why = "so many extents are farther than addresses reach";
    bytes.ok_or_else(|| Fault::argument(MPI_ERR_ARG, "displacement or stride", count, why))
}

/// Blocks of a length at a displacement in bytes.
pub(super) fn blocks(
    made: Made,
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
pub(super) fn vector(
    made: Made,
    old: &Arc<Shape>,
    count: i64,
    len: i64,
    stride: isize,
) -> Result<Arc<Shape>, Fault> {
    let block = old.block(number(len, "blocklength")?)?;
    Shape::new(made.of(old), block.repeat(number(count, "count")?, stride)?)
}

mpi! {
    fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) {
        let old = get(oldtype)?;
        let made = Made::by(MPI_COMBINER_DUP, false).of(old.shape());
        let shape = Shape::new(made, old.shape().part.clone())?;
        let new = Datatype::new(shape, old.is_committed(), None);
        old.attributes.copy_to(oldtype.0, &new.attributes)?;
        out(newtype, "newtype", MPI_DATATYPE_NULL)?;
        out(newtype, "newtype", insert(new)?)
    }

    fn MPI_Type_contiguous / MPI_Type_contiguous_c (
        count: N, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let made = Made::by(MPI_COMBINER_CONTIGUOUS, size_of::<N>() == 8).number(count.into());
        let part = old.shape().block(number(count.into(), "count")?)?;
        give(newtype, Shape::new(made.of(old.shape()), part)?, false)
    }

    fn MPI_Type_vector / MPI_Type_vector_c (
        count: N, blocklength: N, stride: N, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let (count, blocklength, stride) = (count.into(), blocklength.into(), stride.into());
        let made = Made::by(MPI_COMBINER_VECTOR, size_of::<N>() == 8);
        let made = made.number(count).number(blocklength).number(stride);
        let stride = extents(stride, old.shape())?;
        give(newtype, vector(made, old.shape(), count, blocklength, stride)?, false)
    }

    fn MPI_Type_create_hvector / MPI_Type_create_hvector_c (
        count: N, blocklength: N, stride: B, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let (count, blocklength) = (count.into(), blocklength.into());
        let made = Made::by(MPI_COMBINER_HVECTOR, size_of::<N>() == 8);
        let made = made.number(count).number(blocklength).address(stride as i64);
        give(newtype, vector(made, old.shape(), count, blocklength, stride as isize)?, false)
    }

    fn MPI_Type_indexed / MPI_Type_indexed_c (
        count: N, array_of_blocklengths: *const N, array_of_displacements: *const N, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let lens = array(array_of_blocklengths, count.into(), "array_of_blocklengths")?;
        let places = array(array_of_displacements, count.into(), "array_of_displacements")?;
        let made = Made::by(MPI_COMBINER_INDEXED, size_of::<N>() == 8).number(count.into());
        let made = made.numbers(lens.iter().map(|&len| len.into()));
        let made = made.numbers(places.iter().map(|&at| at.into()));
        let pairs = lens.iter().zip(places);
        let pairs = pairs.map(|(&len, &at)| Ok((len.into(), extents(at.into(), old.shape())?)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_hindexed / MPI_Type_create_hindexed_c (
        count: N, array_of_blocklengths: *const N, array_of_displacements: *const B, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let lens = array(array_of_blocklengths, count.into(), "array_of_blocklengths")?;
        let places = array(array_of_displacements, count.into(), "array_of_displacements")?;
        let made = Made::by(MPI_COMBINER_HINDEXED, size_of::<N>() == 8).number(count.into());
        let made = made.numbers(lens.iter().map(|&len| len.into()));
        let made = made.addresses(places.iter().map(|&at| at as i64));
        let pairs = lens.iter().zip(places).map(|(&len, &at)| Ok((len.into(), at as isize)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_indexed_block / MPI_Type_create_indexed_block_c (
        count: N, blocklength: N, array_of_displacements: *const N, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let places = array(array_of_displacements, count.into(), "array_of_displacements")?;
        number(blocklength.into(), "blocklength")?;
        let made = Made::by(MPI_COMBINER_INDEXED_BLOCK, size_of::<N>() == 8);
        let made = made.number(count.into()).number(blocklength.into());
        let made = made.numbers(places.iter().map(|&at| at.into()));
        let pairs = places.iter();
        let pairs = pairs.map(|&at| Ok((blocklength.into(), extents(at.into(), old.shape())?)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_hindexed_block / MPI_Type_create_hindexed_block_c (
        count: N, blocklength: N, array_of_displacements: *const B, oldtype: MPI_Datatype,
        newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let places = array(array_of_displacements, count.into(), "array_of_displacements")?;
        number(blocklength.into(), "blocklength")?;
        let made = Made::by(MPI_COMBINER_HINDEXED_BLOCK, size_of::<N>() == 8);
        let made = made.number(count.into()).number(blocklength.into());
        let made = made.addresses(places.iter().map(|&at| at as i64));
        let pairs = places.iter().map(|&at| Ok((blocklength.into(), at as isize)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_struct / MPI_Type_create_struct_c (
        count: N, array_of_blocklengths: *const N, array_of_displacements: *const B,
        array_of_types: *const MPI_Datatype, newtype: *mut MPI_Datatype,
    ) {
        let lens = array(array_of_blocklengths, count.into(), "array_of_blocklengths")?;
        let places = array(array_of_displacements, count.into(), "array_of_displacements")?;
        let types = array(array_of_types, count.into(), "array_of_types")?;
        let made = Made::by(MPI_COMBINER_STRUCT, size_of::<N>() == 8).number(count.into());
        let made = made.numbers(lens.iter().map(|&len| len.into()));
        let mut made = made.addresses(places.iter().map(|&at| at as i64));
        let mut join = Join::default();
        for ((&len, &at), &of) in lens.iter().zip(places).zip(types) {
            let of = get(of)?;
            join.add(at as isize, &of.shape().block(number(len.into(), "blocklength")?)?)?;
            made = made.of(of.shape());
        }
        give(newtype, Shape::new(made, join.finish())?, false)
    }

    fn MPI_Type_create_resized / MPI_Type_create_resized_c (
        oldtype: MPI_Datatype, lb: B, extent: B, newtype: *mut MPI_Datatype,
    ) {
        let old = get(oldtype)?;
        let made = Made::by(MPI_COMBINER_RESIZED, size_of::<N>() == 8);
        let made = made.address(lb as i64).address(extent as i64).of(old.shape());
        let part = old.shape().part.clone().marked(lb as isize, extent as isize)?;
        give(newtype, Shape::new(made, part)?, false)
    }
}
