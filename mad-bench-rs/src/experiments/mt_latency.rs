//! Half round trip while each process has several threads in the library, beside MPI libraries.
//!
//! Every thread has a tag of its own. *turns* (`osu_latency_mt`): one thread of rank 0 plays ping-pong with each of
//! the threads of rank 1 in turn, while the others are blocked in their receives: what blocked threads cost a message
//! that is not theirs. *together*: as many pairs of threads play at once; the time of all of them over the number of
//! messages is what one message costs. newmad's are green threads on the virtual processors of its process, MPI's are
//! kernel threads (`MPI_THREAD_MULTIPLE`) that may use the same cores. Blocks are of thousands of messages: that the
//! threads of a block start and end takes up to some ms on shared cores, which is not what is asked. `thread_growth`
//! compares with one thread.

use newmad::Session;

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::latency::{DATA, trip};
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{DRIVER, Key, LIBRARY, MODE, POLICY, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "mt_latency",
    about: "half round trip with several threads in the library, beside MPI libraries",
    source: "osu_latency_mt of the OSU benchmarks; [Trahay09] 7.2.2",
    keys: &[
        DRIVER,
        MODE,
        POLICY,
        LIBRARY,
        WORKLOAD,
        Key {
            takes: Takes::Int(1, 1000),
            default: "1,2,4,8,16,32,64",
            name: "threads",
            help: "threads in each process (turns: in rank 1)",
        },
        Key { default: "1", ..SIZE },
    ],
    metrics: &METRICS,
    iters: 20_000,
    points: mpi::points,
    work: Work::Session(measure),
    derive: Some(derive),
    mpi: Some(program),
    ..BASE
};

const WORKLOAD: Key = Key {
    name: "workload",
    takes: Takes::Words(&["turns", "together"]),
    default: "turns,together",
    help: "turns: one thread at a time has a message; together: all play at once",
};
const METRICS: [Metric; 3] = [
    Metric::new(
        "half_round_trip",
        "us",
        "half the time of a message there and back (together: per message)",
    ),
    Metric::new("thread_growth", "ratio", "over that with one thread, per round"),
    mpi::PEER_RATIO,
];
/// A block ends after this time even when trips are left: threads that poll without a core of their own need
/// milliseconds for each.
const BLOCK_NS: u64 = 200_000_000;

fn together(config: &Config) -> bool {
    config.text("workload") == "together"
}

fn program(config: &Config) -> Program {
    let numbers = [config.number("threads"), u64::from(together(config)), config.number("size")];
    Program { share: true, ..Program::pair("mt_latency", numbers) }
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    let block = |config: &Config, count| block_of(session, config, count);
    turns::sampled(session, emit, spec, &METRICS[0], |_| spec.iters, block)
}

/// About `n` trips in all, as many for each thread; fewer when the block has taken its time. Rank 0 says in the first
/// byte which trip of a thread is the last.
fn block_of(session: &Session, config: &Config, n: u64) -> WorkResult<Vec<f64>> {
    let (threads, size) = (config.number("threads"), config.number("size") as usize);
    let each = n.div_ceil(threads);
    let all = each + (2 + n / 10).div_ceil(threads);
    if together(config) {
        let before = now_ns();
        let made = play(session, threads, all, size)?;
        return Ok(vec![(now_ns() - before) as f64 / 2000.0 / made as f64]);
    }
    if session.rank() != 0 {
        play(session, threads, all, size)?;
        return Ok(Vec::new());
    }
    let session = session.clone();
    let alone = marcel::spawn(move || {
        let (mut buffer, mut samples) = (vec![0; size], Vec::new());
        let mut before = now_ns();
        let until = before + BLOCK_NS;
        for pass in 0.. {
            let last = pass + 1 == all || before > until;
            for thread in 0..threads {
                buffer[0] = u8::from(last);
                trip(&session, DATA + thread, &mut buffer)?;
                let now = now_ns();
                if pass >= all - each || last {
                    samples.push((now - before) as f64 / 2000.0);
                }
                before = now;
            }
            if last {
                break;
            }
        }
        Ok(samples)
    });
    alone.join().map_err(|_| "a thread panicked".to_owned())?
}

/// The threads of this process, each with so many trips at the most; how many all of them have made.
fn play(session: &Session, threads: u64, trips: u64, size: usize) -> WorkResult<u64> {
    let until = now_ns() + BLOCK_NS;
    let players: Vec<_> = (0..threads)
        .map(|thread| {
            let session = session.clone();
            marcel::spawn(move || {
                let (mut buffer, mut made) = (vec![0; size], 0);
                while buffer[0] == 0 {
                    if session.rank() == 0 {
                        buffer[0] = u8::from(made + 1 == trips || now_ns() > until);
                    }
                    trip(&session, DATA + thread, &mut buffer)?;
                    made += 1;
                }
                WorkResult::Ok(made)
            })
        })
        .collect();
    players
        .into_iter()
        .map(|player| player.join().map_err(|_| "a thread panicked".to_owned())?)
        .sum()
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        if let Some(one) = results.find(&results.points[index].with("threads", 1)) {
            results.ratio((index, one), "half_round_trip", "thread_growth");
        }
    }
    mpi::compare(results, "half_round_trip", false);
}
