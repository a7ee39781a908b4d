//! One-sided accesses: puts, gets and accumulations of one process to the memory of another, of MPI libraries side by
//! side (`peers/mpi/onesided.c`). newmad itself has none.
//!
//! A sample is the time of one access to its end at the target, which a flush awaits; for `puts`, `gets` and
//! `accumulates` that of 64 accesses with one flush, divided by 64. With `compute_us` the target computes meanwhile and
//! calls nothing: a library without progress outside calls takes as long as the computation.

use crate::config::{Config, distinct};
use crate::harness::experiment::{BASE, Bench, Program};
use crate::harness::key::{DRIVER, Key, LIBRARY, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "onesided",
    about: "one-sided accesses of MPI libraries, also to a target that computes",
    source: "none: what the sources' libraries do not have",
    keys: &[
        DRIVER,
        Key { default: "madmpi", ..LIBRARY },
        OP,
        MEMORY,
        Key { default: "8,64K", help: "bytes of an access", ..SIZE },
        COMPUTE,
    ],
    metrics: &METRICS,
    iters: 1000,
    points,
    derive: Some(|results| mpi::compare(results, ACCESS_TIME.name, false)),
    mpi: Some(program),
    outside_calls: true,
    ..BASE
};

/// In the order of `onesided.c`.
const OPERATIONS: [&str; 8] =
    ["put", "get", "accumulate", "fetch", "swap", "puts", "gets", "accumulates"];
/// Of one element, whatever the size.
const SINGLE: [&str; 2] = ["fetch", "swap"];
const OP: Key = Key {
    name: "op",
    takes: Takes::Words(&OPERATIONS),
    default: "put,get,accumulate,fetch,swap,puts,gets,accumulates",
    help: "the access; puts, gets, accumulates: 64 with one flush",
};
const MEMORIES: [&str; 2] = ["allocated", "created"];
const MEMORY: Key = Key {
    name: "memory",
    takes: Takes::Words(&MEMORIES),
    default: "allocated",
    help: "of MPI_Win_allocate, or the program's own",
};
const COMPUTE: Key = Key {
    name: "compute_us",
    takes: Takes::Int(0, 1_000_000),
    default: "0,20000",
    help: "computation of the target meanwhile; 0: it waits in a barrier",
};
const ACCESS_TIME: Metric = Metric::new("access_time", "ns", "of an access, with its flush");
const METRICS: [Metric; 2] = [ACCESS_TIME, mpi::PEER_RATIO];

/// Those of MPI libraries; fetch and swap with 8 bytes only.
fn points(grid: Vec<Config>) -> Vec<Config> {
    let theirs = mpi::points(grid).into_iter().filter(mpi::is);
    distinct(theirs.map(|point| match SINGLE.contains(&point.text("op")) {
        true => point.with("size", 8),
        false => point,
    }))
}

fn program(config: &Config) -> Program {
    let index = |words: &[&str], key: &str| {
        words.iter().position(|word| *word == config.text(key)).unwrap_or(0) as u64
    };
    let operation = index(&OPERATIONS, "op") + 16 * index(&MEMORIES, "memory");
    let size = config.number("size").next_multiple_of(8);
    Program::pair("onesided", [size, operation, config.number("compute_us")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_elements_have_one_size_and_newmad_has_no_points() {
        let chosen = [
            ("library", "newmad,madmpi"),
            ("op", "put,swap"),
            ("size", "8,64"),
            ("memory", "created"),
            ("driver", "shm"),
            ("compute-us", "5"),
        ];
        let grid = crate::harness::key::grid("onesided", BENCH.keys, &chosen).unwrap();
        let all = points(grid);
        let shown: Vec<_> =
            all.iter().map(|p| (p.text("library"), p.text("op"), p.number("size"))).collect();
        let expected = [("madmpi", "put", 8), ("madmpi", "put", 64), ("madmpi", "swap", 8)];
        assert_eq!(shown, expected);
        assert_eq!(program(&all[2]).numbers, [8, 4 + 16, 5]);
    }
}
