//! Parts of arrays: `MPI_Type_create_subarray`, `MPI_Type_create_darray`.
//!
//! Both go through the dimensions, from the one with neighbouring elements to the outermost one, and carry a part and
//! the distance of its repetitions. The bounds are those of the whole array.

use core::ffi::c_int;

use super::construct::number;
use super::shape::{Join, Part, Shape};
use crate::abi::*;
use crate::error::Fault;

/// A part of an array, grown dimension by dimension.
struct Pieces {
    part: Part,
    /// The distance of elements in the next dimension.
    step: isize,
    begin: isize,
}

impl Pieces {
    fn of(old: &Shape) -> Pieces {
        Pieces { part: old.part.clone(), step: old.extent, begin: 0 }
    }

    /// Adds a dimension: `len` of its `size` elements, from `start` on.
    fn range(self, size: i64, start: i64, len: i64) -> Result<Pieces, Fault> {
        Ok(Pieces {
            part: self.part.repeat(len as usize, self.step)?,
            begin: reach(self.step, start)?.checked_add(self.begin).ok_or_else(too_far)?,
            step: reach(self.step, size)?,
        })
    }

    /// Adds a dimension: of its `size` elements, every block of `block` whose number is `place` modulo `places`.
    fn cyclic(self, size: i64, block: i64, place: i64, places: i64) -> Result<Pieces, Fault> {
        // In 128 bits, which hold every product of two of these.
        let [size_, block_, place, places] = [size, block, place, places].map(i128::from);
        let first = place * block_;
        let round = places * block_;
        let whole = if size_ >= first + block_ { (size_ - first - block_) / round + 1 } else { 0 };
        let last = first + whole * round;
        let stride = reach(self.step, i64::try_from(round).unwrap_or(i64::MAX).min(size))?;
        let mut join = Join::default();
        let block =
            self.part.clone().repeat(if whole > 0 { block as usize } else { 0 }, self.step)?;
        let at = |element: i128| reach(self.step, element as i64);
        if whole > 0 {
            join.add(at(first)?, &block.repeat(whole as usize, stride)?)?;
        }
        if last < size_ {
            let rest = (size_ - last) as usize;
            join.add(at(last)?, &self.part.clone().repeat(rest, self.step)?)?;
        }
        Ok(Pieces { part: join.finish(), step: reach(self.step, size)?, begin: self.begin })
    }

    fn finish(self) -> Result<Part, Fault> {
        let mut join = Join::default();
        join.add(self.begin, &self.part)?;
        join.finish().marked(0, self.step)
    }
}

#[cold]
fn too_far() -> Fault {
    Fault::new(MPI_ERR_ARG, "the array is larger than addresses reach")
}

fn reach(step: isize, count: i64) -> Result<isize, Fault> {
    isize::try_from(count).ok().and_then(|count| step.checked_mul(count)).ok_or_else(too_far)
}

fn refuse<T>(name: &str, dimension: usize, value: i64, why: &str) -> Result<T, Fault> {
    Err(Fault::argument(MPI_ERR_ARG, &format!("{name}[{dimension}]"), value, why))
}

/// The dimensions, beginning with the one whose elements are neighbours.
fn inwards(dimensions: usize, order: c_int) -> Result<Vec<usize>, Fault> {
    match order {
        MPI_ORDER_C => Ok((0..dimensions).rev().collect()),
        MPI_ORDER_FORTRAN => Ok((0..dimensions).collect()),
        _ => {
            let why = "it must be MPI_ORDER_C or MPI_ORDER_FORTRAN";
            Err(Fault::argument(MPI_ERR_ARG, "order", order, why))
        }
    }
}

pub(crate) fn dimensions(ndims: c_int) -> Result<usize, Fault> {
    match number(ndims.into(), "ndims")? {
        0 => Err(Fault::argument(MPI_ERR_ARG, "ndims", 0, "an array has at least one dimension")),
        ndims => Ok(ndims),
    }
}

/// The block length with which a dimension is distributed.
fn block_of(
    dimension: usize,
    distribution: c_int,
    argument: c_int,
    size: i64,
    places: i64,
) -> Result<i64, Fault> {
    let default = argument == MPI_DISTRIBUTE_DFLT_DARG;
    if !default && argument <= 0 && distribution != MPI_DISTRIBUTE_NONE {
        return refuse("array_of_dargs", dimension, argument.into(), "it must be positive");
    }
    match distribution {
        MPI_DISTRIBUTE_NONE if places != 1 => {
            let why = "a dimension that is not distributed has one process";
            refuse("array_of_psizes", dimension, places, why)
        }
        MPI_DISTRIBUTE_NONE => Ok(size),
        MPI_DISTRIBUTE_BLOCK if default => Ok((size - 1) / places + 1),
        MPI_DISTRIBUTE_BLOCK if i64::from(argument).saturating_mul(places) < size => {
            let why = "blocks of that length do not cover the dimension";
            refuse("array_of_dargs", dimension, argument.into(), why)
        }
        MPI_DISTRIBUTE_CYCLIC if default => Ok(1),
        MPI_DISTRIBUTE_BLOCK | MPI_DISTRIBUTE_CYCLIC => Ok(argument.into()),
        _ => {
            let why = "it is MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC or MPI_DISTRIBUTE_NONE";
            refuse("array_of_distribs", dimension, distribution.into(), why)
        }
    }
}

/// The place of a process in a grid: the last dimension counts fastest.
fn places(rank: c_int, grid: &[c_int]) -> Vec<i64> {
    let mut rest = i64::from(rank);
    let mut places: Vec<i64> = Vec::with_capacity(grid.len());
    for &size in grid.iter().rev() {
        places.push(rest % i64::from(size));
        rest /= i64::from(size);
    }
    places.reverse();
    places
}

/// The part of an array that is a subarray.
pub(crate) fn subarray(
    old: &Shape,
    sizes: &[i64],
    lens: &[i64],
    starts: &[i64],
    order: c_int,
) -> Result<Part, Fault> {
    let mut pieces = Pieces::of(old);
    for at in inwards(sizes.len(), order)? {
        let (size, len, start) = (sizes[at], lens[at], starts[at]);
        if size < 1 {
            return refuse("array_of_sizes", at, size, "it must be positive");
        }
        if !(1..=size).contains(&len) {
            return refuse("array_of_subsizes", at, len, "it must be from 1 to the size");
        }
        if !(0..=size - len).contains(&start) {
            return refuse("array_of_starts", at, start, "the subarray must lie inside the array");
        }
        pieces = pieces.range(size, start, len)?;
    }
    pieces.finish()
}

/// One dimension of a distributed array: its size, its distribution with its argument, and the processes along it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    pub(crate) size: i64,
    pub(crate) distribution: c_int,
    pub(crate) argument: c_int,
    pub(crate) processes: c_int,
}

/// A process's part of a distributed array.
pub(crate) fn darray(
    old: &Shape,
    size: c_int,
    rank: c_int,
    all: &[Dimension],
    order: c_int,
) -> Result<Part, Fault> {
    for (at, dimension) in all.iter().enumerate() {
        if dimension.size < 1 {
            return refuse("array_of_gsizes", at, dimension.size, "it must be positive");
        }
        if dimension.processes < 1 {
            return refuse(
                "array_of_psizes",
                at,
                dimension.processes.into(),
                "it must be positive",
            );
        }
    }
    let grid: Vec<c_int> = all.iter().map(|dimension| dimension.processes).collect();
    let product = grid.iter().try_fold(1i64, |product, &size| product.checked_mul(size.into()));
    if product != Some(size.into()) {
        let why = "it must be the product of array_of_psizes";
        return Err(Fault::argument(MPI_ERR_ARG, "size", size, why));
    }
    if !(0..size).contains(&rank) {
        let why = format!("ranks are from 0 to {}", size - 1);
        return Err(Fault::argument(MPI_ERR_ARG, "rank", rank, &why));
    }
    let places = places(rank, &grid);
    let mut pieces = Pieces::of(old);
    for at in inwards(all.len(), order)? {
        let Dimension { size, distribution, argument, processes } = all[at];
        let block = block_of(at, distribution, argument, size, processes.into())?;
        pieces = pieces.cyclic(size, block, places[at], processes.into())?;
    }
    pieces.finish()
}

#[cfg(test)]
mod tests {
    use super::super::get;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// All places of an array, in the order of memory, as coordinates.
    fn all(sizes: &[i64], order: c_int) -> Vec<Vec<i64>> {
        let mut places = vec![vec![0; sizes.len()]];
        for &at in inwards(sizes.len(), order).ok().unwrap().iter().rev() {
            let spread = |place: Vec<i64>| {
                (0..sizes[at]).map(move |index| {
                    let mut place = place.clone();
                    place[at] = index;
                    place
                })
            };
            places = places.into_iter().flat_map(spread).collect();
        }
        places
    }

    /// Displacements of the elements, which are ints.
    fn displacements(part: &Part) -> Vec<isize> {
        let mut found = Vec::new();
        part.flat.strips(1, 0, usize::MAX, |strip| {
            for index in 0..strip.count as isize {
                let at = strip.at + index * strip.stride;
                found.extend((at..at + strip.len as isize).step_by(4));
            }
        });
        found
    }

    fn int() -> std::sync::Arc<Shape> {
        get(MPI_INT).ok().unwrap().shape().clone()
    }

    /// Displacements of those places that are wanted.
    fn wanted(sizes: &[i64], order: c_int, keep: impl Fn(&[i64]) -> bool) -> Vec<isize> {
        let places = all(sizes, order);
        let numbered = places.iter().enumerate().filter(|(_, place)| keep(place));
        numbered.map(|(number, _)| number as isize * 4).collect()
    }

    proptest! {
        #[test]
        fn a_subarray_is_what_lies_inside(
            shape in vec((1i64..5, 0.0f64..1.0, 0.0f64..1.0), 1..4), fortran: bool,
        ) {
            let order = if fortran { MPI_ORDER_FORTRAN } else { MPI_ORDER_C };
            let sizes: Vec<i64> = shape.iter().map(|one| one.0).collect();
            let lens: Vec<i64> = shape.iter().map(|one| 1 + (one.1 * one.0 as f64) as i64).collect();
            let starts: Vec<i64> =
                (0..sizes.len()).map(|at| (shape[at].2 * (sizes[at] - lens[at] + 1) as f64) as i64).collect();
            let part = subarray(&int(), &sizes, &lens, &starts, order).ok().unwrap();
            let inside = |place: &[i64]| {
                (0..place.len()).all(|at| (starts[at]..starts[at] + lens[at]).contains(&place[at]))
            };
            prop_assert_eq!(displacements(&part), wanted(&sizes, order, inside));
            let bytes = sizes.iter().product::<i64>() as isize * 4;
            prop_assert_eq!(part.bounds().ok().unwrap(), (0, bytes));
        }

        #[test]
        fn a_distributed_array_is_what_the_process_has(
            shape in vec((1i64..9, 0usize..5, 1i32..4), 1..4), fortran: bool,
        ) {
            let order = if fortran { MPI_ORDER_FORTRAN } else { MPI_ORDER_C };
            let dimensions: Vec<Dimension> = shape.iter().map(|&(size, how, processes)| {
                let default = MPI_DISTRIBUTE_DFLT_DARG;
                let (distribution, argument, processes) = match how {
                    0 => (MPI_DISTRIBUTE_NONE, default, 1),
                    1 => (MPI_DISTRIBUTE_BLOCK, default, processes),
                    2 => (MPI_DISTRIBUTE_BLOCK, (size as c_int - 1) / processes + 2, processes),
                    3 => (MPI_DISTRIBUTE_CYCLIC, default, processes),
                    _ => (MPI_DISTRIBUTE_CYCLIC, 2, processes),
                };
                Dimension { size, distribution, argument, processes }
            }).collect();
            let sizes: Vec<i64> = shape.iter().map(|one| one.0).collect();
            let count: c_int = dimensions.iter().map(|one| one.processes).product();
            for rank in 0..count {
                // Coordinates of the process, counted one by one.
                let grid: Vec<i64> = dimensions.iter().map(|one| one.processes.into()).collect();
                let own = all(&grid, MPI_ORDER_C)[rank as usize].clone();
                let has = |place: &[i64]| (0..place.len()).all(|at| {
                    let Dimension { size, distribution, argument, processes } = dimensions[at];
                    let block = match (distribution, argument) {
                        (MPI_DISTRIBUTE_NONE, _) => size,
                        (MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG) => {
                            (size + i64::from(processes) - 1) / i64::from(processes)
                        }
                        (_, MPI_DISTRIBUTE_DFLT_DARG) => 1,
                        (_, argument) => argument.into(),
                    };
                    place[at] / block % i64::from(processes) == own[at]
                });
                let part = darray(&int(), count, rank, &dimensions, order).ok().unwrap();
                prop_assert_eq!(displacements(&part), wanted(&sizes, order, has));
                let bytes = sizes.iter().product::<i64>() as isize * 4;
                prop_assert_eq!(part.bounds().ok().unwrap(), (0, bytes));
            }
        }
    }
}
