//! Grids: the last dimension counts fastest.

use core::ffi::c_int;
use std::sync::Arc;

use super::{Topology, first, mapped, none, rank, without_sides};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::{Comm, Place, give};
use crate::error::{Fault, array, array_mut, out};

/// A grid.
#[derive(Clone, Debug)]
pub(crate) struct Cart {
    dims: Vec<u32>,
    /// Whether a dimension is a ring.
    periods: Vec<bool>,
}

impl Cart {
    fn new(ndims: c_int, dims: *const c_int, periods: *const c_int) -> Result<Cart, Fault> {
        if ndims < 0 {
            return Err(Fault::argument(MPI_ERR_DIMS, "ndims", ndims, "it is not negative"));
        }
        let dims = array(dims, ndims.into(), "dims")?;
        let periods = array(periods, ndims.into(), "periods")?;
        if dims.iter().any(|&dim| dim <= 0) {
            let why = "dimensions are positive";
            return Err(Fault::argument(MPI_ERR_DIMS, "dims", format_args!("{dims:?}"), why));
        }
        Ok(Cart {
            dims: dims.iter().map(|&dim| dim as u32).collect(),
            periods: periods.iter().map(|&period| period != 0).collect(),
        })
    }

    /// How many places it has, if they are no more than `most`.
    fn places(&self, most: u32) -> Result<u32, Fault> {
        let places = self.dims.iter().fold(1u64, |all, &dim| all.saturating_mul(dim.into()));
        u32::try_from(places).ok().filter(|&places| places <= most).ok_or_else(|| {
            let why = format!("there are {most} processes");
            Fault::argument(MPI_ERR_DIMS, "dims", format_args!("{:?}", self.dims), &why)
        })
    }

    fn coords(&self, rank: u32) -> Vec<c_int> {
        let mut rest = rank;
        let mut coords: Vec<c_int> = self
            .dims
            .iter()
            .rev()
            .map(|&dim| {
                let coord = rest % dim;
                rest /= dim;
                coord as c_int
            })
            .collect();
        coords.reverse();
        coords
    }

    /// `None`: beyond the edge.
    fn rank(&self, coords: &[c_int]) -> Option<u32> {
        self.dims.iter().zip(&self.periods).zip(coords).try_fold(
            0,
            |rank, ((&dim, &ring), &coord)| {
                let wrapped = i64::from(coord).rem_euclid(dim.into()) as u32;
                (ring || i64::from(wrapped) == i64::from(coord)).then_some(rank * dim + wrapped)
            },
        )
    }

    /// The rank `by` places further along a dimension.
    fn shifted(&self, rank: u32, direction: usize, by: i64) -> c_int {
        let mut coords = self.coords(rank);
        let (dim, ring) = (i64::from(self.dims[direction]), self.periods[direction]);
        let to = i64::from(coords[direction]) + by;
        let to = if ring { to.rem_euclid(dim) } else { to };
        if !(0..dim).contains(&to) {
            return MPI_PROC_NULL;
        }
        coords[direction] = to as c_int;
        self.rank(&coords).map_or(MPI_PROC_NULL, |rank| rank as c_int)
    }

    /// Dimension by dimension: the one before, the one after.
    pub(super) fn neighbours(&self, rank: u32) -> Vec<c_int> {
        let both = |direction| [-1, 1].map(|by| self.shifted(rank, direction, by));
        (0..self.dims.len()).flat_map(both).collect()
    }

    /// The grid of the dimensions that remain; which of such grids a rank is in, and its rank there.
    fn sub(&self, rank: u32, remain: &[bool]) -> (Cart, u32, u32) {
        let coords = self.coords(rank);
        let (mut which, mut within) = (0, 0);
        for ((&dim, &remains), &coord) in self.dims.iter().zip(remain).zip(&coords) {
            let number = if remains { &mut within } else { &mut which };
            *number = *number * dim + coord as u32;
        }
        let of = (0..self.dims.len()).filter(|&place| remain[place]);
        let (dims, periods) = of.map(|place| (self.dims[place], self.periods[place])).unzip();
        (Cart { dims, periods }, which, within)
    }
}

fn of(comm: &Comm) -> Result<&Cart, Fault> {
    match comm.topology() {
        Some(Topology::Cart(cart)) => Ok(cart),
        _ => Err(none("Cartesian")),
    }
}

/// Room for values of each dimension; there may be more.
fn room<'a>(
    place: *mut c_int,
    most: c_int,
    cart: &Cart,
    name: &str,
) -> Result<&'a mut [c_int], Fault> {
    if i64::from(most) < cart.dims.len() as i64 {
        let why = format!("there are {} dimensions", cart.dims.len());
        return Err(Fault::argument(MPI_ERR_ARG, "maxdims", most, &why));
    }
    array_mut(place, cart.dims.len() as i64, name)
}

mpi! {
    fn MPI_Cart_create(
        comm_old: MPI_Comm, ndims: c_int, dims: *const c_int, periods: *const c_int, _reorder: c_int,
        comm_cart: *mut MPI_Comm,
    ) on comm_old {
        give(comm_cart, None)?;
        without_sides(&comm_old)?;
        let cart = Cart::new(ndims, dims, periods)?;
        let places = cart.places(comm_old.group.size())?;
        give(comm_cart, first(&comm_old, places, Topology::Cart(cart))?)
    }

    fn MPI_Cart_map(
        comm: MPI_Comm, ndims: c_int, dims: *const c_int, periods: *const c_int, newrank: *mut c_int,
    ) on comm {
        let places = Cart::new(ndims, dims, periods)?.places(comm.group.size())?;
        out(newrank, "newrank", mapped(&comm, places))
    }

    fn MPI_Cartdim_get(comm: MPI_Comm, ndims: *mut c_int) on comm {
        out(ndims, "ndims", of(&comm)?.dims.len() as c_int)
    }

    fn MPI_Cart_get(
        comm: MPI_Comm, maxdims: c_int, dims: *mut c_int, periods: *mut c_int, coords: *mut c_int,
    ) on comm {
        let cart = of(&comm)?;
        let here = cart.coords(comm.rank());
        for (place, &dim) in room(dims, maxdims, cart, "dims")?.iter_mut().zip(&cart.dims) {
            *place = dim as c_int;
        }
        for (place, &period) in room(periods, maxdims, cart, "periods")?.iter_mut().zip(&cart.periods) {
            *place = c_int::from(period);
        }
        room(coords, maxdims, cart, "coords")?.copy_from_slice(&here);
        Ok(())
    }

    fn MPI_Cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) on comm {
        let cart = of(&comm)?;
        let coords = array(coords, cart.dims.len() as i64, "coords")?;
        let found = cart.rank(coords).ok_or_else(|| {
            let why = format!("the grid is {:?}, and that dimension is no ring", cart.dims);
            Fault::argument(MPI_ERR_ARG, "coords", format_args!("{coords:?}"), &why)
        })?;
        out(rank, "rank", found as c_int)
    }

    fn MPI_Cart_coords(comm: MPI_Comm, rank_: c_int, maxdims: c_int, coords: *mut c_int) on comm {
        let cart = of(&comm)?;
        let rank = rank(&comm, rank_)?;
        room(coords, maxdims, cart, "coords")?.copy_from_slice(&cart.coords(rank));
        Ok(())
    }

    fn MPI_Cart_shift(
        comm: MPI_Comm, direction: c_int, disp: c_int, rank_source: *mut c_int, rank_dest: *mut c_int,
    ) on comm {
        let cart = of(&comm)?;
        let along = usize::try_from(direction).ok().filter(|&along| along < cart.dims.len());
        let along = along.ok_or_else(|| {
            let why = format!("there are dimensions 0 to {}", cart.dims.len() as i64 - 1);
            Fault::argument(MPI_ERR_ARG, "direction", direction, &why)
        })?;
        out(rank_source, "rank_source", cart.shifted(comm.rank(), along, -i64::from(disp)))?;
        out(rank_dest, "rank_dest", cart.shifted(comm.rank(), along, disp.into()))
    }

    fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: *const c_int, newcomm: *mut MPI_Comm) on comm {
        give(newcomm, None)?;
        let cart = of(&comm)?;
        let remain = array(remain_dims, cart.dims.len() as i64, "remain_dims")?;
        let remain: Vec<bool> = remain.iter().map(|&remains| remains != 0).collect();
        let (sub, which, within) = cart.sub(comm.rank(), &remain);
        let new = comm.split(Place { colour: u64::from(which) + 1, key: within as c_int })?;
        if let Some(new) = &new {
            new.set_topology(Arc::new(Topology::Cart(sub)));
        }
        give(newcomm, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cart() -> impl Strategy<Value = Cart> {
        proptest::collection::vec((1..5u32, any::<bool>()), 0..5).prop_map(|all| {
            let (dims, periods) = all.into_iter().unzip();
            Cart { dims, periods }
        })
    }

    proptest! {
        #[test]
        fn every_rank_has_its_coordinates(cart in cart()) {
            let places = cart.dims.iter().product::<u32>();
            prop_assert_eq!(cart.places(places).ok(), Some(places));
            prop_assert!(cart.places(places - 1).is_err());
            // The order is that of counting, the last digit fastest.
            let mut counted = vec![0; cart.dims.len()];
            for rank in 0..places {
                prop_assert_eq!(&cart.coords(rank), &counted);
                prop_assert_eq!(cart.rank(&counted), Some(rank));
                for place in (0..counted.len()).rev() {
                    counted[place] += 1;
                    if counted[place] < cart.dims[place] as c_int {
                        break;
                    }
                    counted[place] = 0;
                }
            }
        }

        #[test]
        fn a_step_there_is_a_step_back(cart in cart(), by in -7..8i64) {
            for rank in 0..cart.dims.iter().product::<u32>() {
                for direction in 0..cart.dims.len() {
                    let to = cart.shifted(rank, direction, by);
                    if to >= 0 {
                        prop_assert_eq!(cart.shifted(to as u32, direction, -by), rank as c_int);
                    } else {
                        prop_assert!(!cart.periods[direction] && by != 0);
                    }
                }
                let neighbours = cart.neighbours(rank);
                prop_assert_eq!(neighbours.len(), 2 * cart.dims.len());
                for (direction, pair) in neighbours.chunks(2).enumerate() {
                    prop_assert_eq!(pair[0], cart.shifted(rank, direction, -1));
                    prop_assert_eq!(pair[1], cart.shifted(rank, direction, 1));
                }
            }
        }

        #[test]
        fn parts_of_a_grid_are_grids(cart in cart(), bits in any::<u8>()) {
            let remain: Vec<bool> = (0..cart.dims.len()).map(|place| bits >> place & 1 != 0).collect();
            for rank in 0..cart.dims.iter().product::<u32>() {
                let (sub, which, within) = cart.sub(rank, &remain);
                let coords = cart.coords(rank);
                let mut kept = remain.iter();
                let inside: Vec<c_int> =
                    coords.iter().copied().filter(|_| kept.next() == Some(&true)).collect();
                prop_assert_eq!(sub.coords(within), inside);
                // The others of the part differ in what remains only.
                for other in 0..cart.dims.iter().product::<u32>() {
                    let there = cart.coords(other);
                    let alike = (0..remain.len()).all(|place| remain[place] || there[place] == coords[place]);
                    prop_assert_eq!(cart.sub(other, &remain).1 == which, alike);
                }
            }
        }
    }

    #[test]
    fn far_away_is_no_overflow() {
        let cart = Cart { dims: vec![3, 2], periods: vec![true, false] };
        assert_eq!(cart.shifted(0, 0, i64::from(i32::MIN)), cart.shifted(0, 0, -2));
        assert_eq!(cart.shifted(0, 1, i64::from(i32::MAX)), MPI_PROC_NULL);
        assert_eq!(cart.rank(&[i32::MIN, 1]), cart.rank(&[1, 1]));
    }
}
