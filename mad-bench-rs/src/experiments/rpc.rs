//! Remote calls: the time of a call, calls in a second with many outstanding, bandwidth of large arguments.
//!
//! Source: the role of PM2's LRPC; [Mythos16] 3.2, which describes remote invocation without figures.
//!
//! Rank 0 calls a service of rank 1 that takes `size` bytes and returns none, with `window` calls outstanding. `op`
//! inline: the service runs where the call is found; thread: on a green thread of its own. `threads` computing ones
//! that never yield occupy the target meanwhile; the reactive virtual processors serve the calls.

use std::collections::VecDeque;

use newmad::{CallError, Reply, Session};

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::crunch::Crunch;
use crate::experiments::spin::Speed;
use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{DRIVER, Key, MODE, POLICY, SIZE, Takes};
use crate::harness::results::Metric;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "rpc",
    about: "remote calls: their time, their rate, and the bandwidth of large arguments; idle and computing targets",
    source: "PM2's LRPC; [Mythos16] 3.2",
    keys: &[DRIVER, MODE, POLICY, OP, WINDOW, THREADS, Key { default: "1,64K,1M", ..SIZE }],
    metrics: &METRICS,
    iters: 2000,
    work: Work::Session(measure),
    ..BASE
};

const OP: Key = Key {
    name: "op",
    takes: Takes::Words(&["inline", "thread"]),
    default: "inline,thread",
    help: "where the service runs: where the call is found, or on a green thread of its own",
};
const WINDOW: Key = Key {
    name: "window",
    takes: Takes::Int(1, 100_000),
    default: "1,64",
    help: "calls outstanding at once",
};
const THREADS: Key = Key {
    name: "threads",
    takes: Takes::Int(0, 4096),
    default: "0,8",
    help: "computing threads of the target",
};
const METRICS: [Metric; 3] = [
    Metric::new("call_time", "us", "a call and its reply, window 1"),
    Metric::new("call_rate", "k/s", "thousands of calls in a second"),
    Metric::new("bandwidth", "MB/s", "of the arguments, from 1 KB up"),
];

const DONE: u64 = 1;
/// Length of a unit of computation.
const UNIT_US: u64 = 100;
/// Points take turns so often.
const BLOCKS: u64 = 5;

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    let rpc = session.rpc()?;
    let nothing = |_: &newmad::Context, _: Vec<u8>| Ok::<_, String>(Vec::new());
    rpc.service("inline").inline().bytes(nothing).map_err(said)?;
    rpc.service("thread").bytes(nothing).map_err(said)?;
    let speed = Speed::calibrate();
    let count = |config: &Config| turns::of_size(spec.iters, config.number("size"));
    turns::turns(session, emit, spec, BLOCKS, count, |at, config, calls| {
        if session.rank() == 0 {
            session.recv(1, DONE, &mut [])?;
            call(&rpc, emit, spec.points[at].0, config, calls)?;
            return Ok(session.send(1, DONE, &[])?);
        }
        let threads = config.number("threads") as usize;
        let crunch = Crunch::start(threads, speed.steps(UNIT_US));
        crunch.filled(marcel::topology::vp_count())?;
        session.send(0, DONE, &[])?;
        session.recv(0, DONE, &mut [])?;
        crunch.end()
    })?;
    Ok(session.barrier()?)
}

/// The caller's side of a point.
fn call(rpc: &newmad::Rpc, emit: &Emit, number: usize, config: &Config, calls: u64) -> WorkResult {
    let size = config.number("size");
    let (window, service) = (config.number("window"), config.text("op"));
    let start = || {
        let arguments = vec![1u8; size as usize];
        rpc.call_bytes(1, service, arguments).map_err(said)
    };
    let finish = |reply: Reply| reply.wait().map(drop).map_err(said);
    for _ in 0..2 + calls / 10 {
        finish(start()?)?;
    }
    let begin = now_ns();
    if window == 1 {
        let mut times = Vec::with_capacity(calls as usize);
        let mut before = begin;
        for _ in 0..calls {
            finish(start()?)?;
            let now = now_ns();
            times.push((now - before) as f64 / 1000.0);
            before = now;
        }
        emit.samples(number, "call_time", &times)?;
    } else {
        let mut outstanding = VecDeque::new();
        for _ in 0..calls {
            if outstanding.len() as u64 == window
                && let Some(oldest) = outstanding.pop_front()
            {
                finish(oldest)?;
            }
            outstanding.push_back(start()?);
        }
        outstanding.into_iter().try_for_each(finish)?;
    }
    let us = (now_ns() - begin).max(1) as f64 / 1000.0;
    emit.samples(number, "call_rate", &[calls as f64 * 1000.0 / us])?;
    if size >= 1024 {
        emit.samples(number, "bandwidth", &[(calls * size) as f64 / us])?;
    }
    Ok(())
}

fn said(error: CallError) -> String {
    error.to_string()
}
