//! What the I/O manager itself costs, with nothing to find.
//!
//! Source: [Trahay07] table 2 (empty callbacks: polling 0.038 µs without threads, 0.085 mono, 0.142 SMP;
//! blocking call 1.68 µs, SMP; on a 1.8 GHz Opteron). No session and no peer: one process, a manager, and
//! - `method` poll: a look for events at a source that never has any;
//! - `method` task: a light task that does nothing, from submission to the end of the wait for it;
//! - `method` block: the same with a blocking alternative that returns at once, while every virtual processor
//!   computes, so that a spare kernel thread is woken to make the call, and wakes the waiter. The original
//!   mechanism of [Trahay07] only *prepared* another kernel thread. As then, only mode smp has it.
//!
//! A sample of poll and task is the mean of a hundred operations: the clock costs as much as one of them.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use marcel::{Mode, Runtime};
use pioman::{Manager, Point, Progress, Source, TaskBuilder};

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::spin::{Speed, compute};
use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{Key, MODE, POLICY, Takes};
use crate::harness::line::Line;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};
use crate::quantity::figure;

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "overhead",
    about: "what an empty poll, an empty light task and an empty blocking call cost",
    source: "[Trahay07] table 2",
    keys: &[Key { default: "no-thread,mono,smp", ..MODE }, POLICY, METHOD],
    metrics: &METRICS,
    ranks: 1,
    iters: 2000,
    points,
    work: Work::Process(work),
    summary: Some(summary),
    ..BASE
};

const METHOD: Key = Key {
    name: "method",
    takes: Takes::Words(&["poll", "task", "block"]),
    default: "poll,task,block",
    help: "what is empty: a poll, a light task, a blocking call (mode smp)",
};
const METRICS: [Metric; 1] = [Metric::new("op_time", "ns", "duration of one operation")];

const BATCH: u64 = 100;

fn points(grid: Vec<Config>) -> Vec<Config> {
    let possible = |point: &Config| point.text("method") != "block" || point.text("mode") == "smp";
    grid.into_iter().filter(possible).collect()
}

/// A source that never has anything.
struct Empty;

// SAFETY: constants only.
unsafe impl Source for Empty {
    fn name(&self) -> &str {
        "empty"
    }
    fn poll(&self) -> bool {
        false
    }
    fn pending(&self) -> bool {
        false
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
}

/// What an empty poll may cost, by mode (ns): a fifth to a quarter of the figures of [Trahay07].
const ALLOWED: [(&str, f64); 3] = [("no-thread", 10.0), ("mono", 20.0), ("smp", 30.0)];

/// The empty poll beside its bound.
fn summary(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines.iter().filter(|line| line.config.text("method") == "poll") {
        let mode = line.config.text("mode");
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == mode) else { continue };
        text.push_str(&format!(
            "an empty poll, mode {mode}, policy {}: {} ns{} {allowed} ns\n",
            line.config.text("policy"),
            figure(line.median),
            if line.median > *allowed { ", MORE than" } else { " of" },
        ));
    }
    text
}

fn work(spec: &Spec) -> WorkResult {
    let mode = Mode::from_env()?;
    let manager = Manager::builder().mode(mode).build()?;
    let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build()?;
    runtime.run(|| measure(spec, &manager))
}

fn measure(spec: &Spec, manager: &Arc<Manager>) -> WorkResult {
    let _source = manager.add_source(Arc::new(Empty))?;
    let emit = Emit::of(0);
    let count = spec.points.len() as u64;
    for (done, (number, config)) in spec.points.iter().enumerate() {
        let samples = match config.text("method") {
            "poll" => batches(spec.iters, || {
                manager.poll(Point::Library);
                Ok(())
            })?,
            "task" => batches(spec.iters / 10 + 1, || {
                let task = TaskBuilder::new().submit(manager, || Progress::Done)?;
                task.wait()?;
                Ok(())
            })?,
            _ => blocking(spec.iters, manager)?,
        };
        emit.samples(*number, "op_time", &samples)?;
        emit.progress(done as u64 + 1, count)?;
    }
    Ok(())
}

/// Samples of a short operation.
fn batches(
    samples: u64,
    mut operation: impl FnMut() -> std::io::Result<()>,
) -> WorkResult<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..samples {
        let start = now_ns();
        for _ in 0..BATCH {
            operation()?;
        }
        times.push((now_ns() - start) as f64 / BATCH as f64);
    }
    Ok(times)
}

/// Samples of a blocking call that a spare kernel thread makes.
fn blocking(samples: u64, manager: &Arc<Manager>) -> WorkResult<Vec<f64>> {
    let stop = Arc::new(AtomicBool::new(false));
    let steps = Speed::calibrate().steps(50);
    let busy: Vec<_> = (0..marcel::topology::vp_count())
        .map(|_| {
            let stop = stop.clone();
            marcel::spawn(move || {
                while !stop.load(Relaxed) {
                    compute(steps);
                }
            })
        })
        .collect();
    let result = exported(samples, manager);
    stop.store(true, Relaxed);
    for thread in busy {
        thread.join().map_err(|_| "a computing thread panicked".to_string())?;
    }
    result
}

fn exported(samples: u64, manager: &Arc<Manager>) -> WorkResult<Vec<f64>> {
    let until = now_ns() + 2_000_000_000;
    while !manager.is_loaded() {
        if now_ns() > until {
            return Err(
                "the virtual processors are not busy (MARCEL_NVP?): nothing would block".into()
            );
        }
        marcel::sleep(Duration::from_millis(1));
    }
    let before = manager.hits(Point::Block);
    let mut times = Vec::new();
    for _ in 0..samples {
        let start = now_ns();
        let task = TaskBuilder::new().blocking(|| ()).submit(manager, || Progress::Again)?;
        task.wait()?;
        times.push((now_ns() - start) as f64);
    }
    let made = manager.hits(Point::Block) - before;
    if made < samples {
        return Err(format!(
            "only {made} of {samples} blocking calls were made (PIOM_POINTS, PIOM_SPARE_LWP?)"
        )
        .into());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_smp_blocks() {
        let grid = crate::harness::key::grid("overhead", BENCH.keys, &[]).unwrap();
        let blocking: Vec<_> = points(grid)
            .iter()
            .filter(|p| p.text("method") == "block")
            .map(|p| p.text("mode").to_owned())
            .collect();
        assert_eq!(blocking, ["smp"]);
    }
}
