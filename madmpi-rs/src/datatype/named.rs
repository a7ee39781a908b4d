//! The predefined datatypes.

use std::sync::{Arc, OnceLock};

use super::object::Datatype;
use super::rows::{Basic, ROWS, Row};
use super::shape::{Join, Part, Shape};
use crate::abi::*;
use crate::error::Fault;

static ALL: OnceLock<[Option<Arc<Datatype>>; 256]> = OnceLock::new();

/// A predefined type, if the handle is its constant and this machine has it.
#[inline]
pub(crate) fn get(datatype: MPI_Datatype) -> Option<&'static Arc<Datatype>> {
    let index = datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0);
    ALL.get_or_init(make).get(index)?.as_ref()
}

/// The kind and the row of a predefined type that is not a pair.
fn kind(handle: MPI_Datatype) -> Option<(u8, &'static Row)> {
    let kind = ROWS.iter().position(|row| row.handle == handle)?;
    Some((kind as u8, &ROWS[kind]))
}

fn part(number: usize, row: &Row) -> Result<Part, Fault> {
    let Basic::Pair(value) = row.basic else { return Ok(Part::basic(row, number as u8)) };
    let (value, place) = value.pair();
    let (Some((value, of_value)), Some((place, of_place))) = (kind(value), kind(place)) else {
        return Err(Fault::new(MPI_ERR_INTERN, "a pair of unknown types"));
    };
    let mut pair = Join::default();
    pair.add(0, &Part::basic(of_value, value))?;
    let second = of_value.size.next_multiple_of(of_place.align);
    pair.add(second as isize, &Part::basic(of_place, place))?;
    Ok(pair.finish())
}

#[cold]
fn make() -> [Option<Arc<Datatype>>; 256] {
    let mut all = [const { None }; 256];
    for (number, row) in ROWS.iter().enumerate() {
        // Predefined types are small: none of them is refused.
        let shape = part(number, row).and_then(|part| Shape::predefined(number, part));
        all[row.handle.0 - MPI_DATATYPE_NULL.0] = shape.ok().map(|shape| {
            let _ = shape.fixed.set(row.handle);
            Arc::new(Datatype::new(shape, true, Some(row)))
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there_once_and_as_large_as_c_has_it() {
        for row in ROWS {
            let datatype = get(row.handle).unwrap();
            assert_eq!(datatype.size, row.size, "{}", row.name);
            assert_eq!(ROWS.iter().filter(|other| other.handle == row.handle).count(), 1);
            assert_eq!(datatype.contiguous, datatype.size as isize == datatype.extent);
        }
        let extent = |handle| get(handle).unwrap().extent;
        assert_eq!(extent(MPI_DOUBLE_INT), 16);
        assert_eq!(extent(MPI_SHORT_INT), 8);
        assert_eq!(extent(MPI_LONG_DOUBLE_INT), 32);
        assert_eq!(extent(MPI_2DOUBLE_PRECISION), 16);
        assert_eq!(extent(MPI_C_LONG_DOUBLE_COMPLEX), 32);
    }
}
