//! Collectives: how long they take by operation, size, members and algorithm, beside MPI libraries; and what they cost
//! a member that computes meanwhile.
//!
//! Eight processes are started, each on a core of its own as long as there are as many; the first `members` of them
//! make a group, the others wait. An MPI library has `members` processes (`peers/mpi/coll.c`), and its own choice of
//! algorithms. A sample is the time from the call to the return at the member that took longest, after a barrier of the
//! group. Reductions are sums of doubles.
//!
//! With `compute_us` every member starts the non-blocking operation, computes for so long without a call, and waits.
//! If the collective goes on meanwhile `total_time` is the longer of the two and `overlap_ratio` = 1 - (total_time -
//! compute_time) / op_time is 1, where op_time is the median without computation in the same round.

use newmad::Session;
use newmad::coll::{Group, Op, Pending};

use crate::clock::now_ns;
use crate::config::{Config, distinct};
use crate::experiments::spin::{Speed, compute};
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{AUTO, DRIVER, Key, LIBRARY, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, own_core};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "coll",
    about: "collectives by operation, size, members and algorithm; and while all members compute",
    source: "[Didelot14] 4.4: rounds that no thread sends while the victim computes",
    keys: &[
        DRIVER_SHM,
        MODE,
        POLICY,
        PROGRESSION,
        Key { default: "newmad", ..LIBRARY },
        OP,
        ALGORITHM,
        MEMBERS,
        Key { default: "8,1K,64K,1M", ..SIZE },
        COMPUTE,
    ],
    metrics: &METRICS,
    ranks: RANKS as u32,
    iters: 100,
    rounds: 3,
    points,
    work: Work::Session(measure),
    derive: Some(derive),
    mpi: Some(program),
    ..BASE
};

const RANKS: u64 = 8;
/// In the order of `coll.c`.
const OPERATIONS: [&str; 10] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce_scatter",
    "scan",
];
const DRIVER_SHM: Key = Key { default: "shm", ..DRIVER };
const OP: Key = Key {
    name: "op",
    takes: Takes::Words(&OPERATIONS),
    default: "barrier,bcast,allreduce,allgather,alltoall",
    help: "what the members do",
};
const ALGORITHM: Key = Key {
    name: "algorithm",
    takes: Takes::Words(&[
        AUTO,
        "binomial",
        "chain",
        "scatter_allgather",
        "scatter_gather",
        "doubling",
        "ring",
        "halving",
        "reduce_bcast",
        "linear",
        "bruck",
        "pairwise",
    ]),
    default: AUTO,
    help: "how; those that an operation does not have are left out for it",
};
const MEMBERS: Key = Key {
    name: "members",
    takes: Takes::Int(1, RANKS),
    default: "2,4",
    help: "processes of the group",
};
const COMPUTE: Key = Key {
    name: "compute_us",
    takes: Takes::Int(0, 10_000_000),
    default: "0",
    help: "computation of every member meanwhile; 0, the reference, is always measured too",
};
const METRICS: [Metric; 5] = [
    Metric::new("op_time", "ns", "from the call to the return, at the slowest member"),
    Metric::new("total_time", "us", "starting, computing and waiting"),
    Metric::new("compute_time", "us", "the computation as it took"),
    Metric::new("overlap_ratio", "ratio", "1 - (total_time - compute_time) / op_time"),
    mpi::PEER_RATIO,
];
/// Points take turns so often.
const BLOCKS: u64 = 5;

/// Whether the operation has that algorithm.
fn has(operation: &str, algorithm: &str) -> bool {
    let operation = if operation == "scatter" { "gather" } else { operation };
    let mut all = newmad::coll::algorithms();
    algorithm == AUTO
        || all.any(|(name, algorithms)| name == operation && algorithms.contains(&algorithm))
}

fn points(grid: Vec<Config>) -> Vec<Config> {
    let known = |point: &Config| has(point.text("op"), point.text("algorithm"));
    distinct(mpi::points(grid).into_iter().filter(known).flat_map(|point| {
        let point = if point.text("op") == "barrier" { point.with("size", 1) } else { point };
        [point.with("compute_us", 0), point]
    }))
}

fn program(config: &Config) -> Program {
    let operation = OPERATIONS.iter().position(|name| *name == config.text("op")).unwrap_or(0);
    let numbers = [config.number("size"), operation as u64, config.number("compute_us")];
    Program { ranks: config.number("members") as u32, ..Program::pair("coll", numbers) }
}

/// One operation of a group.
struct Operation<'a> {
    group: &'a Group,
    name: &'a str,
    size: usize,
    op: Op<f64>,
}

/// The memory of the blocking calls, used again and again.
struct Memory {
    one: Vec<u8>,
    all: Vec<u8>,
    result: Vec<u8>,
    doubles: Vec<f64>,
    parts: Vec<f64>,
    part: Vec<f64>,
}

impl Operation<'_> {
    fn memory(&self) -> Memory {
        let (size, members) = (self.size, self.group.size() as usize);
        let doubles = size.div_ceil(size_of::<f64>());
        let part = doubles.div_ceil(members);
        Memory {
            one: vec![1; size],
            all: vec![1; size * members],
            result: vec![1; size * members],
            doubles: vec![0.0; doubles],
            parts: vec![0.0; part * members],
            part: vec![0.0; part],
        }
    }

    fn blocking(&self, memory: &mut Memory) -> Result<(), newmad::Error> {
        let Operation { group, name, size, op } = self;
        let Memory { one, all, result, doubles, parts, part } = memory;
        let root = 0;
        match *name {
            "barrier" => group.barrier().wait()?,
            "bcast" => group.bcast(root, one).wait().map(drop)?,
            "reduce" => group.reduce(root, doubles, op).wait().map(drop)?,
            "allreduce" => group.allreduce(doubles, op).wait().map(drop)?,
            "gather" => group.gather(root, one, result).wait().map(drop)?,
            "scatter" => group.scatter(root, all, &mut result[..*size]).wait().map(drop)?,
            "allgather" => group.allgather(one, result).wait().map(drop)?,
            "alltoall" => group.alltoall(all, result).wait().map(drop)?,
            "reduce_scatter" => group.reduce_scatter(parts, part, op).wait().map(drop)?,
            _ => group.scan(doubles, op).wait().map(drop)?,
        }
        Ok(())
    }

    /// Starts it, computes so many steps, and waits. How long the computation took.
    fn beside(&self, memory: Memory, steps: u64) -> Result<u64, newmad::Error> {
        let Operation { group, name, op, size } = self;
        let Memory { one, all, mut result, doubles, parts, part } = memory;
        let root = 0;
        match *name {
            "barrier" => computed(steps, group.barrier().start()?),
            "bcast" => computed(steps, group.bcast(root, one).start()?),
            "reduce" => computed(steps, group.reduce(root, doubles, op).start()?),
            "allreduce" => computed(steps, group.allreduce(doubles, op).start()?),
            "gather" => computed(steps, group.gather(root, one, result).start()?),
            "scatter" => {
                result.truncate(*size);
                computed(steps, group.scatter(root, all, result).start()?)
            }
            "allgather" => computed(steps, group.allgather(one, result).start()?),
            "alltoall" => computed(steps, group.alltoall(all, result).start()?),
            "reduce_scatter" => computed(steps, group.reduce_scatter(parts, part, op).start()?),
            _ => computed(steps, group.scan(doubles, op).start()?),
        }
    }

    /// One time, with a computation of so many steps meanwhile: how long all of it took, and the computation.
    fn once(&self, memory: &mut Memory, steps: u64) -> Result<(u64, u64), newmad::Error> {
        // The non-blocking calls own their memory.
        let own = (steps > 0).then(|| self.memory());
        self.group.barrier().wait()?;
        let start = now_ns();
        let computed = match own {
            None => self.blocking(memory).map(|()| 0)?,
            Some(own) => self.beside(own, steps)?,
        };
        Ok((now_ns() - start, computed))
    }

    /// So many times; what it took at the slowest member each time.
    fn times(&self, count: u64, steps: u64) -> Result<Vec<[u64; 2]>, newmad::Error> {
        let mut times = Vec::with_capacity(count as usize);
        let (mut memory, warm) = (self.memory(), turns::warm(count));
        for turn in 0..warm + count {
            let (total, computed) = self.once(&mut memory, steps)?;
            if turn >= warm {
                times.push([total, computed]);
            }
        }
        // The one with the longest wait.
        let slower = |a: [u64; 2], b: [u64; 2]| if a[0] - a[1] >= b[0] - b[1] { a } else { b };
        self.group.allreduce(&mut times, &Op::ordered(slower)).wait()?;
        Ok(times)
    }
}

/// Computes so many steps, then waits. How long the computation took.
fn computed<T>(steps: u64, pending: Pending<T>) -> Result<u64, newmad::Error> {
    let start = now_ns();
    compute(steps);
    let computed = now_ns() - start;
    pending.wait()?;
    Ok(computed)
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    own_core();
    let speed = Speed::calibrate();
    let count = |config: &Config| {
        (spec.iters * 65536 / config.number("size").max(65536)).max(5).min(spec.iters)
    };
    let mut samples = vec![Vec::new(); spec.points.len()];
    turns::turns(session, emit, spec, BLOCKS, count, |at, config, times| {
        let members: Vec<u32> = (0..config.number("members") as u32).collect();
        if members.contains(&session.rank()) {
            let group = session.group(&members)?;
            let (name, algorithm) = (config.text("op"), config.text("algorithm"));
            let of = if name == "scatter" { "gather" } else { name };
            if algorithm != AUTO {
                group.set_algorithm(of, algorithm)?;
            }
            let steps = speed.steps(config.number("compute_us"));
            let size = config.number("size") as usize;
            let operation = Operation { group: &group, name, size, op: Op::sum() };
            samples[at].extend(operation.times(times, steps)?);
        }
        Ok(())
    })?;
    for ((number, config), samples) in spec.points.iter().zip(&samples) {
        let of = |index: usize, unit: f64| -> Vec<f64> {
            samples.iter().map(|times| times[index] as f64 / unit).collect()
        };
        if config.number("compute_us") == 0 {
            emit.samples(*number, "op_time", &of(0, 1.0))?;
        } else {
            emit.samples(*number, "total_time", &of(0, 1000.0))?;
            emit.samples(*number, "compute_time", &of(1, 1000.0))?;
        }
    }
    Ok(())
}

fn derive(results: &mut Results) {
    let of_operation = |point: &Config| (point.number("compute_us") == 0).then_some("op_time");
    mpi::compare_by(results, of_operation, median, false);
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        if point.number("compute_us") == 0 {
            continue;
        }
        let Some(reference) = results.find(&point.with("compute_us", 0)) else { continue };
        for round in 0..results.rounds {
            let Some(op) = median(results.round(reference, "op_time", round)) else { continue };
            let total = results.round(index, "total_time", round).to_vec();
            let computed = results.round(index, "compute_time", round).to_vec();
            let ratios: Vec<f64> =
                total.iter().zip(&computed).map(|(t, c)| 1.0 - (t - c) * 1000.0 / op).collect();
            results.add(index, "overlap_ratio", round, &ratios);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_measured_with_the_algorithms_that_it_has() {
        let chosen = [
            ("op", "barrier,allreduce,scatter"),
            ("algorithm", "auto,ring,binomial"),
            ("size", "8,64"),
            ("members", "2"),
            ("compute-us", "100"),
        ];
        let grid = crate::harness::key::grid("coll", BENCH.keys, &chosen).unwrap();
        let points = points(grid);
        let shown = |operation: &str| -> Vec<(String, u64, u64)> {
            let of = points.iter().filter(|point| point.text("op") == operation);
            of.map(|p| (p.text("algorithm").into(), p.number("size"), p.number("compute_us")))
                .collect()
        };
        let each = |algorithm: &str, size: u64| {
            [(algorithm.to_owned(), size, 0), (algorithm.to_owned(), size, 100)]
        };
        assert_eq!(shown("barrier"), each(AUTO, 1));
        let with = |second: &str| {
            [(AUTO, 8), (AUTO, 64), (second, 8), (second, 64)]
                .into_iter()
                .flat_map(|(algorithm, size)| each(algorithm, size))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown("allreduce"), with("ring"));
        assert_eq!(shown("scatter"), with("binomial"));
    }
}
