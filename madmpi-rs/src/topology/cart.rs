//! Grids: the last dimension counts fastest.

use core::ffi::c_int;

use crate::abi::*;
use crate::error::Fault;

/// A grid.
#[derive(Clone, Debug)]
pub(crate) struct Cart {
    pub(crate) dims: Vec<u32>,
    /// Whether a dimension is a ring.
    pub(crate) periods: Vec<bool>,
}

impl Cart {
    pub(crate) fn new(dims: &[c_int], periods: &[c_int]) -> Result<Cart, Fault> {
        if dims.iter().any(|&dim| dim <= 0) {
            let why = "dimensions must be positive";
            return Err(Fault::argument(MPI_ERR_DIMS, "dims", format_args!("{dims:?}"), why));
        }
        Ok(Cart {
            dims: dims.iter().map(|&dim| dim as u32).collect(),
            periods: periods.iter().map(|&period| period != 0).collect(),
        })
    }

    /// The number of places, if it is at most `most`.
    pub(crate) fn places(&self, most: u32) -> Result<u32, Fault> {
        let places = self.dims.iter().fold(1u64, |all, &dim| all.saturating_mul(dim.into()));
        u32::try_from(places).ok().filter(|&places| places <= most).ok_or_else(|| {
            let why = format!("there are {most} processes");
            Fault::argument(MPI_ERR_DIMS, "dims", format_args!("{:?}", self.dims), &why)
        })
    }

    pub(crate) fn coords(&self, rank: u32) -> Vec<c_int> {
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

    /// The rank at coordinates; `None`: they are beyond an edge.
    pub(crate) fn rank(&self, coords: &[c_int]) -> Option<u32> {
        self.dims.iter().zip(&self.periods).zip(coords).try_fold(
            0,
            |rank, ((&dim, &ring), &coord)| {
                let wrapped = i64::from(coord).rem_euclid(dim.into()) as u32;
                (ring || i64::from(wrapped) == i64::from(coord)).then_some(rank * dim + wrapped)
            },
        )
    }

    /// The rank `by` places further along a dimension.
    pub(crate) fn shifted(&self, rank: u32, direction: usize, by: i64) -> c_int {
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

    /// For each dimension, the neighbour before and the neighbour after.
    pub(crate) fn neighbours(&self, rank: u32) -> Vec<c_int> {
        let both = |direction| [-1, 1].map(|by| self.shifted(rank, direction, by));
        (0..self.dims.len()).flat_map(both).collect()
    }

    /// The grid of the dimensions that remain, the number of this rank's grid among those, and its rank there.
    pub(crate) fn sub(&self, rank: u32, remain: &[bool]) -> (Cart, u32, u32) {
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
