//! Files: writes and reads of two processes in one file, of MPI libraries side by side (`peers/mpi/files.c`). newmad itself
//! has none.
//!
//! A sample is the time until both processes have ended. `layout`: each has half of the file (`halves`), or blocks of `piece`
//! bytes in turn with the other (`blocks`). `iwrite` and `iread` compute 2 ms between call and wait; what they take beyond
//! that is counted.

use crate::config::{Config, distinct};
use crate::harness::experiment::{BASE, Bench, Program};
use crate::harness::key::{DRIVER, Key, LIBRARY, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "files",
    about: "writes and reads of MPI libraries in one file, alone and together",
    source: "none: what the sources' libraries do not have",
    keys: &[
        DRIVER,
        Key { default: "madmpi", ..LIBRARY },
        OP,
        LAYOUT,
        Key { default: "64K,1M", help: "bytes of each process", ..SIZE },
        PIECE,
    ],
    metrics: &METRICS,
    iters: 1000,
    points,
    derive: Some(|results| mpi::compare(results, ACCESS_TIME.name, false)),
    mpi: Some(program),
    outside_calls: true,
    ..BASE
};

/// In the order of `files.c`.
const OPERATIONS: [&str; 6] = ["write", "read", "write_all", "read_all", "iwrite", "iread"];
const OP: Key = Key {
    name: "op",
    takes: Takes::Words(&OPERATIONS),
    default: "write,read,write_all,read_all,iwrite,iread",
    help: "the access; _all: collective, i…: beside a computation",
};
const LAYOUTS: [&str; 2] = ["halves", "blocks"];
const LAYOUT: Key = Key {
    name: "layout",
    takes: Takes::Words(&LAYOUTS),
    default: "halves,blocks",
    help: "half of the file each, or blocks in turn",
};
const PIECE: Key = Key {
    name: "piece",
    takes: Takes::Bytes(1 << 24),
    default: "1K",
    help: "bytes of a block, where they are in turn",
};
const ACCESS_TIME: Metric = Metric::new("access_time", "ns", "until both processes have ended");
const METRICS: [Metric; 2] = [ACCESS_TIME, mpi::PEER_RATIO];

/// Those of MPI libraries; halves have no blocks, and sizes are whole blocks.
fn points(grid: Vec<Config>) -> Vec<Config> {
    let theirs = mpi::points(grid).into_iter().filter(mpi::is);
    distinct(theirs.map(|point| match point.text("layout") {
        "halves" => point.with("piece", 0),
        _ => {
            let piece = point.number("piece").max(1);
            let size = point.number("size").next_multiple_of(piece);
            point.with("size", size)
        }
    }))
}

fn program(config: &Config) -> Program {
    let index = |words: &[&str], key: &str| {
        words.iter().position(|word| *word == config.text(key)).unwrap_or(0) as u64
    };
    let operation = index(&OPERATIONS, "op") + 16 * index(&LAYOUTS, "layout");
    Program::pair("files", [config.number("size"), operation, config.number("piece")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_no_blocks_and_newmad_has_no_points() {
        let chosen = [
            ("library", "newmad,madmpi"),
            ("op", "read_all"),
            ("size", "1000"),
            ("piece", "64,128"),
            ("driver", "shm"),
        ];
        let grid = crate::harness::key::grid("files", BENCH.keys, &chosen).unwrap();
        let all = points(grid);
        let shown: Vec<_> = all.iter().map(|p| program(p).numbers).collect();
        assert_eq!(shown, [[1000, 3, 0], [1024, 3 + 16, 64], [1024, 3 + 16, 128]]);
    }
}
