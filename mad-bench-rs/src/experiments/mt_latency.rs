//! Half round trip while each process has several threads in the library, beside MPI libraries.
//!
//! Every thread has a tag of its own. *turns* (`osu_latency_mt`): one thread of rank 0 plays ping-pong with each of the
//! threads of rank 1 in turn, while the others are blocked in their receives: what blocked threads cost a message that
//! is not theirs. *together*: as many pairs of threads play at once; the time of all of them over the number of
//! messages is what one message costs. newmad's are green threads on the virtual processors of its process, MPI's are
//! kernel threads (`MPI_THREAD_MULTIPLE`) that may use the same cores. Blocks are of thousands of messages: that the threads of a
//! block start and end takes up to some ms on shared cores, which is not what is asked. `thread_growth` compares with one thread.

use newmad::Session;

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::bandwidth::LIBRARY;
use crate::harness::experiment::{BASE, Bench, Program};
use crate::harness::key::{DRIVER, Key, MODE, POLICY, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::harness::worker::{Emit, Spec, Worked, text, with_session};

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
    work,
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
    Metric {
        name: "half_round_trip",
        unit: "us",
        help: "half the time of a message there and back (together: per message)",
    },
    Metric { name: "thread_growth", unit: "ratio", help: "over that with one thread, per round" },
    mpi::PEER_RATIO,
];
const DATA: u64 = 1;
const BLOCKS: u64 = 10;
/// A block ends after this time even when trips are left: threads that poll without a core of their own need milliseconds for
/// each.
const BLOCK_NS: u64 = 200_000_000;

fn together(config: &Config) -> bool {
    config.text("workload") == "together"
}

fn program(config: &Config) -> Program {
    let numbers = [config.number("threads"), u64::from(together(config)), config.number("size")];
    Program { name: "mt_latency", numbers, share: true }
}

fn work(spec: &Spec) -> Worked {
    with_session(|session, emit| measure(session, emit, spec))
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> Worked {
    let mut samples = vec![Vec::new(); spec.points.len()];
    let (blocks, count) = (BLOCKS.min(spec.iters), spec.points.len() as u64);
    for block in 0..blocks {
        for (at, (_, config)) in spec.points.iter().enumerate() {
            let n = spec.iters * (block + 1) / blocks - spec.iters * block / blocks;
            session.barrier().map_err(text)?;
            samples[at].extend(block_of(session, config, n)?);
            emit.progress(block * count + at as u64, blocks * count)?;
        }
    }
    for ((number, _), samples) in spec.points.iter().zip(&samples) {
        emit.samples(*number, "half_round_trip", samples)?;
    }
    Ok(())
}

/// About `n` trips in all, as many for each thread; fewer when the block has taken its time. Rank 0 says in the first byte which
/// trip of a thread is the last.
fn block_of(session: &Session, config: &Config, n: u64) -> Result<Vec<f64>, String> {
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
                trip(&session, &mut buffer, thread)?;
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
fn play(session: &Session, threads: u64, trips: u64, size: usize) -> Result<u64, String> {
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
                    trip(&session, &mut buffer, thread)?;
                    made += 1;
                }
                Ok::<u64, String>(made)
            })
        })
        .collect();
    players
        .into_iter()
        .map(|player| player.join().map_err(|_| "a thread panicked".to_owned())?)
        .sum()
}

fn trip(session: &Session, buffer: &mut [u8], thread: u64) -> Worked {
    let tag = DATA + thread;
    if session.rank() == 0 {
        session.send(1, tag, buffer).map_err(text)?;
        session.recv(1, tag, buffer).map_err(text)?;
    } else {
        session.recv(0, tag, buffer).map_err(text)?;
        session.send(0, tag, buffer).map_err(text)?;
    }
    Ok(())
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let Some(one) = results.find(&results.points[index].with("threads", 1)) else { continue };
        for round in 0..results.rounds {
            let many = median(results.round(index, "half_round_trip", round));
            let one = median(results.round(one, "half_round_trip", round));
            if let (Some(many), Some(one)) = (many, one) {
                results.add(index, "thread_growth", round, &[many / one]);
            }
        }
    }
    mpi::compare(results, "half_round_trip", false);
}
