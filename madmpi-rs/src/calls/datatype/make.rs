//! Functions that make datatypes.

use core::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::args::{Array, Out, array, out};
use crate::calls::entry::mpi;
use crate::datatype::array::{Dimension, darray, dimensions, subarray};
use crate::datatype::construct::{blocks, extents, number, vector};
use crate::datatype::match_size::{COMPLEXES, INTEGERS, REALS, of_size, real, unnamed};
use crate::datatype::rows::{Basic, ROWS};
use crate::datatype::shape::{Envelope, Join, Shape};
use crate::datatype::{Datatype, get, insert};
use crate::error::Fault;

/// Makes a datatype of a shape, and gives the program its handle.
///
/// # Errors
/// The place is null, or no handle is left.
fn give(place: Out<MPI_Datatype>, shape: Arc<Shape>, committed: bool) -> Result<(), Fault> {
    place.made("newtype", MPI_DATATYPE_NULL, || insert(Datatype::new(shape, committed, None)))
}

mpi! {
    fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        let old = get(oldtype)?;
        let made = Envelope::by(MPI_COMBINER_DUP, false).of(old.shape());
        let shape = Shape::new(made, old.shape().part.clone())?;
        newtype.made("newtype", MPI_DATATYPE_NULL, || {
            let new = Datatype::new(shape, old.is_committed(), None);
            new.attributes().adopt(old.attributes().copies(oldtype.0)?);
            insert(new)
        })
    }

    fn MPI_Type_contiguous / MPI_Type_contiguous_c (
        count: N, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let made = Envelope::by(MPI_COMBINER_CONTIGUOUS, size_of::<N>() == 8).number(count.into());
        let part = old.shape().block(number(count.into(), "count")?)?;
        give(newtype, Shape::new(made.of(old.shape()), part)?, false)
    }

    fn MPI_Type_vector / MPI_Type_vector_c (
        count: N, blocklength: N, stride: N, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let (count, blocklength, stride) = (count.into(), blocklength.into(), stride.into());
        let made = Envelope::by(MPI_COMBINER_VECTOR, size_of::<N>() == 8);
        let made = made.number(count).number(blocklength).number(stride);
        let stride = extents(stride, old.shape())?;
        give(newtype, vector(made, old.shape(), count, blocklength, stride)?, false)
    }

    fn MPI_Type_create_hvector / MPI_Type_create_hvector_c (
        count: N, blocklength: N, stride: B, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let (count, blocklength) = (count.into(), blocklength.into());
        let made = Envelope::by(MPI_COMBINER_HVECTOR, size_of::<N>() == 8);
        let made = made.number(count).number(blocklength).address(stride as i64);
        give(newtype, vector(made, old.shape(), count, blocklength, stride as isize)?, false)
    }

    fn MPI_Type_indexed / MPI_Type_indexed_c (
        count: N, array_of_blocklengths: Array<N>, array_of_displacements: Array<N>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let lens = array!(array_of_blocklengths[count])?;
        let places = array!(array_of_displacements[count])?;
        let made = Envelope::by(MPI_COMBINER_INDEXED, size_of::<N>() == 8).number(count.into());
        let made = made.numbers(lens.iter().map(|&len| len.into()));
        let made = made.numbers(places.iter().map(|&at| at.into()));
        let pairs = lens.iter().zip(places);
        let pairs = pairs.map(|(&len, &at)| Ok((len.into(), extents(at.into(), old.shape())?)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_hindexed / MPI_Type_create_hindexed_c (
        count: N, array_of_blocklengths: Array<N>, array_of_displacements: Array<B>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let lens = array!(array_of_blocklengths[count])?;
        let places = array!(array_of_displacements[count])?;
        let made = Envelope::by(MPI_COMBINER_HINDEXED, size_of::<N>() == 8).number(count.into());
        let made = made.numbers(lens.iter().map(|&len| len.into()));
        let made = made.addresses(places.iter().map(|&at| at as i64));
        let pairs = lens.iter().zip(places).map(|(&len, &at)| Ok((len.into(), at as isize)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_indexed_block / MPI_Type_create_indexed_block_c (
        count: N, blocklength: N, array_of_displacements: Array<N>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let places = array!(array_of_displacements[count])?;
        number(blocklength.into(), "blocklength")?;
        let made = Envelope::by(MPI_COMBINER_INDEXED_BLOCK, size_of::<N>() == 8);
        let made = made.number(count.into()).number(blocklength.into());
        let made = made.numbers(places.iter().map(|&at| at.into()));
        let pairs = places.iter();
        let pairs = pairs.map(|&at| Ok((blocklength.into(), extents(at.into(), old.shape())?)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_hindexed_block / MPI_Type_create_hindexed_block_c (
        count: N, blocklength: N, array_of_displacements: Array<B>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let places = array!(array_of_displacements[count])?;
        number(blocklength.into(), "blocklength")?;
        let made = Envelope::by(MPI_COMBINER_HINDEXED_BLOCK, size_of::<N>() == 8);
        let made = made.number(count.into()).number(blocklength.into());
        let made = made.addresses(places.iter().map(|&at| at as i64));
        let pairs = places.iter().map(|&at| Ok((blocklength.into(), at as isize)));
        give(newtype, blocks(made, old.shape(), pairs)?, false)
    }

    fn MPI_Type_create_struct / MPI_Type_create_struct_c (
        count: N, array_of_blocklengths: Array<N>, array_of_displacements: Array<B>,
        array_of_types: Array<MPI_Datatype>, newtype: Out<MPI_Datatype>,
    ) {
        let lens = array!(array_of_blocklengths[count])?;
        let places = array!(array_of_displacements[count])?;
        let types = array!(array_of_types[count])?;
        let made = Envelope::by(MPI_COMBINER_STRUCT, size_of::<N>() == 8).number(count.into());
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
        oldtype: MPI_Datatype, lb: B, extent: B, newtype: Out<MPI_Datatype>,
    ) {
        let old = get(oldtype)?;
        let made = Envelope::by(MPI_COMBINER_RESIZED, size_of::<N>() == 8);
        let made = made.address(lb as i64).address(extent as i64).of(old.shape());
        let part = old.shape().part.clone().marked(lb as isize, extent as isize)?;
        give(newtype, Shape::new(made, part)?, false)
    }

    fn MPI_Type_create_subarray / MPI_Type_create_subarray_c (
        ndims: c_int, array_of_sizes: Array<N>, array_of_subsizes: Array<N>, array_of_starts: Array<N>,
        order: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let (old, count) = (get(oldtype)?, dimensions(ndims)? as i64);
        let wide = |values: &[N]| -> Vec<i64> { values.iter().map(|&value| value.into()).collect() };
        let sizes = wide(array!(array_of_sizes[count])?);
        let lens = wide(array!(array_of_subsizes[count])?);
        let starts = wide(array!(array_of_starts[count])?);
        let part = subarray(old.shape(), &sizes, &lens, &starts, order)?;
        let made = Envelope::by(MPI_COMBINER_SUBARRAY, size_of::<N>() == 8).integer(ndims);
        let made = made.numbers(sizes).numbers(lens).numbers(starts).integer(order);
        give(newtype, Shape::new(made.of(old.shape()), part)?, false)
    }

    fn MPI_Type_create_darray / MPI_Type_create_darray_c (
        size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: Array<N>, array_of_distribs: Array<c_int>,
        array_of_dargs: Array<c_int>, array_of_psizes: Array<c_int>, order: c_int, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let (old, count) = (get(oldtype)?, dimensions(ndims)? as i64);
        let sizes = array!(array_of_gsizes[count])?;
        let distributions = array!(array_of_distribs[count])?;
        let arguments = array!(array_of_dargs[count])?;
        let processes = array!(array_of_psizes[count])?;
        let all: Vec<Dimension> = (0..count as usize)
            .map(|at| Dimension {
                size: sizes[at].into(),
                distribution: distributions[at],
                argument: arguments[at],
                processes: processes[at],
            })
            .collect();
        let part = darray(old.shape(), size, rank, &all, order)?;
        let made = Envelope::by(MPI_COMBINER_DARRAY, size_of::<N>() == 8);
        let made = made.integers(&[size, rank, ndims]).numbers(all.iter().map(|one| one.size));
        let made = made.integers(distributions).integers(arguments).integers(processes);
        give(newtype, Shape::new(made.integer(order).of(old.shape()), part)?, false)
    }

    fn MPI_Type_create_f90_integer(r: c_int, newtype: Out<MPI_Datatype>) {
        match INTEGERS.iter().find(|kind| (0..=kind.0).contains(&r)) {
            Some(kind) => out(newtype, "newtype", unnamed(MPI_COMBINER_F90_INTEGER, &[r], kind.1)?),
            None => {
                let why = "kinds of Fortran's integers have up to 38 digits";
                Err(Fault::argument(MPI_ERR_ARG, "r", r, why))
            }
        }
    }

    fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        out(newtype, "newtype", real(MPI_COMBINER_F90_REAL, REALS, p, r)?)
    }

    fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        out(newtype, "newtype", real(MPI_COMBINER_F90_COMPLEX, COMPLEXES, p, r)?)
    }

    fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) {
        match of_size(typeclass, size) {
            Some(found) => out(datatype, "datatype", found),
            None => {
                let what = format!("({typeclass}, {size})");
                let why = "there is no type of that class and size";
                Err(Fault::argument(MPI_ERR_ARG, "(typeclass, size)", what, why))
            }
        }
    }

    fn MPI_Type_get_value_index(
        value_type: MPI_Datatype, index_type: MPI_Datatype, pair_type: Out<MPI_Datatype>,
    ) {
        get(value_type)?;
        get(index_type)?;
        let pair = ROWS.iter().find(|row| match row.basic {
            Basic::Pair(pair) => pair.pair() == (value_type, index_type),
            _ => false,
        });
        out(pair_type, "pair_type", pair.map_or(MPI_DATATYPE_NULL, |row| row.handle))
    }
}
