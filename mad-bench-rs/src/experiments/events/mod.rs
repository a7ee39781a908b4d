//! How long it takes from raising an event to the first line of its receiver, by mechanism.
//!
//! Source: [Goedefroit23], figures 4 (between threads) and 15 (between processes): signals and user interrupts, with
//! `clock_gettime` just before the event is raised and in the first line of the handler. The other mechanisms are what
//! this project sleeps on and polls, measured in the same way.
//!
//! Two sides, each bound to a core of its own, share a page ([`pair`]). The *receiver* says that it is ready and
//! waits in the mechanism's way ([`mechanism`]); the *raiser* polls for that, gives it some tens of microseconds to
//! fall asleep, notes the moment and raises the event. A receiver in a handler never slept; a woken one always did,
//! unless the machine is so busy that the raiser came first.
//!
//! User interrupts are never emulated. Where the processor lacks them this is said and they are left out; where it has
//! them, too: the system calls that set them up are in no released kernel, only in patched ones that do not agree on
//! their numbers, so a program that tries may call something else. Each point is a process of its own.

mod mechanism;
mod page;
mod pair;

use std::time::Duration;

use marcel::topology::{allowed_cpus, bind_current_thread};

use crate::clock::processor_has_user_interrupts;
use crate::config::Config;
use crate::harness::experiment::{Absent, Apart, BASE, Bench, Work};
use crate::harness::key::{Key, Takes};
use crate::harness::line::Line;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};
use mechanism::Mechanism;

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "events",
    about: "the time from an event to the first line of the handler or of the woken thread, by mechanism",
    source: "[Goedefroit23] 4.1, figures 4 and 15",
    keys: &[BETWEEN, METHOD],
    metrics: &METRICS,
    ranks: 1,
    iters: 3000,
    work: Work::Process(work),
    apart: Some(&Apart {
        prepare,
        builds: false,
        vital: |point| point.text("method") != UINTR,
        timeout: Duration::from_secs(60),
        knobs: &[],
        column: "to poll",
        ratio: to_poll,
    }),
    ..BASE
};

const BETWEEN: Key = Key {
    name: "between",
    takes: Takes::Words(&["threads", "processes"]),
    default: "threads,processes",
    help: "the raiser of the event: another thread of the process, or another process",
};
const METHOD: Key = Key {
    name: "method",
    takes: Takes::Words(&["signal", "eventfd", "pipe", "futex", "poll", UINTR]),
    default: "signal,eventfd,pipe,futex,poll,uintr",
    help: "signal: tgkill to a running thread; eventfd, pipe, futex: to one that sleeps on it; poll: a flag that it \
           polls; uintr: user interrupts, where there are any",
};
const METRICS: [Metric; 1] = [Metric::new(
    "event_time",
    "ns",
    "from just before the event is raised to the first line of the handler or the woken thread",
)];
const UINTR: &str = "uintr";

/// Samples that are not kept.
const WARM_UP: u64 = 50;

fn prepare(points: &[Config], _: bool) -> Vec<Absent> {
    let cores = allowed_cpus().len();
    let why = |point: &Config| {
        match point.text("method") {
        _ if cores < 2 => Some(format!("events need two cores; this process may use {cores}")),
        UINTR if processor_has_user_interrupts() => Some(
            "uintr: this processor has user interrupts, but no released kernel lets programs use them".into(),
        ),
        UINTR => Some("uintr: this processor has no user interrupts".into()),
        _ => None,
    }
    };
    points.iter().enumerate().filter_map(|(at, point)| Some((at, why(point)?))).collect()
}

fn work(spec: &Spec) -> WorkResult {
    let emit = Emit::of(0);
    let cores = allowed_cpus();
    let [first, second, ..] = cores[..] else { return Err("events need two cores".into()) };
    bind_current_thread(first).map_err(|e| format!("binding to core {first}: {e}"))?;
    for (number, config) in &spec.points {
        let mechanism = Mechanism::by_name(config.text("method"))?;
        let processes = config.text("between") == "processes";
        let samples = pair::measure(mechanism, processes, second, WARM_UP, spec.iters)?;
        emit.samples(*number, "event_time", &samples)?;
    }
    Ok(())
}

/// The median of a line over that of the polled flag.
fn to_poll(lines: &[Line], index: usize) -> Option<f64> {
    let line = &lines[index];
    let flag = line.config.with("method", "poll");
    let flag = lines.iter().find(|other| other.config == flag)?.median;
    (flag > 0.0).then(|| line.median / flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_and_every_other_word_is_a_mechanism() {
        let points = crate::harness::key::grid("events", BENCH.keys, &[]).unwrap();
        let absent = prepare(&points, false);
        for (at, point) in points.iter().enumerate() {
            let gone = absent.iter().any(|(gone, _)| *gone == at);
            let known = Mechanism::by_name(point.text("method")).is_ok();
            assert!(gone || known, "{point:?}");
            assert_eq!(known, point.text("method") != UINTR);
        }
    }
}
