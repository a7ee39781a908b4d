//! Dimensions of a grid for a number of processes, as equal as possible.

use core::ffi::c_int;

use crate::abi::*;
use crate::error::Fault;

/// The divisors, the smallest first.
fn divisors(of: u32) -> Vec<u32> {
    let small = (1u32..).take_while(|divisor| divisor.saturating_mul(*divisor) <= of);
    let mut found: Vec<u32> = small.filter(|&divisor| of.is_multiple_of(divisor)).collect();
    let large = found.iter().rev().map(|divisor| of / divisor);
    let large: Vec<u32> = large.filter(|divisor| found.last() != Some(divisor)).collect();
    found.extend(large);
    found
}

/// `count` factors of `of`, none larger than `most`: the first as small as possible but the largest, and likewise the
/// next ones. `divisors` has at least the divisors of `of`.
fn balanced(of: u32, count: usize, most: u32, divisors: &[u32]) -> Option<Vec<u32>> {
    if count == 0 {
        return (of == 1).then(Vec::new);
    }
    // The largest of so many factors is no smaller than the root.
    let large = |divisor: u32| u64::from(divisor).saturating_pow(count as u32) >= u64::from(of);
    let fit = divisors.iter().copied().take_while(|&divisor| divisor <= most);
    fit.filter(|&divisor| large(divisor) && of.is_multiple_of(divisor)).find_map(|divisor| {
        let mut rest = balanced(of / divisor, count - 1, divisor, divisors)?;
        rest.insert(0, divisor);
        Some(rest)
    })
}

/// Fills in the dimensions that are 0.
pub(crate) fn fill(nodes: c_int, dims: &mut [c_int]) -> Result<(), Fault> {
    let bad = |value: String, why: &str| Fault::argument(MPI_ERR_DIMS, "dims", value, why);
    let given = format!("{dims:?}");
    if dims.iter().any(|&dim| dim < 0) {
        return Err(bad(given, "a dimension must be positive, or 0 to be filled in"));
    }
    let free = dims.iter().filter(|&&dim| dim == 0).count();
    let fixed = dims.iter().filter(|&&dim| dim != 0);
    let fixed = fixed.fold(1i64, |all, &dim| all.saturating_mul(dim.into()));
    let nodes = i64::from(nodes);
    if nodes % fixed != 0 || free == 0 && nodes != fixed {
        return Err(bad(given, &format!("no grid like that has {nodes} processes")));
    }
    let filled = u32::try_from(nodes / fixed)
        .ok()
        .and_then(|left| balanced(left, free, left, &divisors(left)));
    let filled = filled.ok_or_else(|| bad(given, "no grid like that exists"))?;
    for (dim, filled) in dims.iter_mut().filter(|dim| **dim == 0).zip(filled) {
        *dim = filled as c_int;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All ways to write a number as so many factors, the largest first.
    fn all(of: u32, count: usize, most: u32) -> Vec<Vec<u32>> {
        if count == 0 {
            return if of == 1 { vec![vec![]] } else { vec![] };
        }
        let mut found = Vec::new();
        for divisor in (1..=of.min(most)).filter(|&divisor| of.is_multiple_of(divisor)) {
            for mut rest in all(of / divisor, count - 1, divisor) {
                rest.insert(0, divisor);
                found.push(rest);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn the_largest_is_as_small_as_it_may_be(of in 1..400u32, count in 1..5usize) {
            let by_trial: Vec<u32> = (1..=of).filter(|&divisor| of.is_multiple_of(divisor)).collect();
            prop_assert_eq!(&divisors(of), &by_trial);
            prop_assert_eq!(balanced(of, count, of, &by_trial), all(of, count, of).into_iter().min());
        }

        #[test]
        fn a_grid_has_as_many_places_and_keeps_what_was_given(
            nodes in 1..200i32,
            given in proptest::collection::vec(0..7i32, 0..5),
        ) {
            let mut dims = given.clone();
            match fill(nodes, &mut dims) {
                Ok(()) => {
                    prop_assert_eq!(dims.iter().product::<i32>(), nodes);
                    prop_assert!(given.iter().zip(&dims).all(|(given, dim)| *given == 0 || given == dim));
                    let filled: Vec<i32> =
                        given.iter().zip(&dims).filter(|(given, _)| **given == 0).map(|(_, dim)| *dim).collect();
                    prop_assert!(filled.is_sorted_by(|a, b| a >= b));
                }
                Err(_) => {
                    let fixed: i32 = given.iter().filter(|dim| **dim != 0).product();
                    let free = given.contains(&0);
                    prop_assert!(nodes % fixed != 0 || !free && nodes != fixed);
                    prop_assert_eq!(dims, given);
                }
            }
        }
    }

    #[test]
    fn the_standards_examples() {
        for (nodes, mut dims, expected) in [
            (6, vec![0, 0], vec![3, 2]),
            (7, vec![0, 0], vec![7, 1]),
            (6, vec![0, 3, 0], vec![2, 3, 1]),
        ] {
            assert!(fill(nodes, &mut dims).is_ok());
            assert_eq!(dims, expected);
        }
        assert!(fill(7, &mut [0, 3, 0]).is_err());
    }

    #[test]
    fn large_numbers_take_no_time() {
        for nodes in [i32::MAX, 1 << 30, 2_147_483_646, 2_095_133_040, 2_147_483_629 - 1] {
            let mut dims = [0; 6];
            assert!(fill(nodes, &mut dims).is_ok());
            assert_eq!(dims.iter().map(|&dim| i64::from(dim)).product::<i64>(), nodes.into());
        }
    }
}
