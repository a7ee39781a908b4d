//! What the library does beside a program costs the program next to nothing. The first program is the one that showed when
//! it did not: two ranks compute, exchange halos, agree on a sum, and compute again (`mad-bench-rs/peers/mpi/halo.c`,
//! and the same over newmad). The others are the five small applications beside it, which wait in other ways.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use common::madmpi::{compile, prefix};
use common::{err, mad, out};

const STEPS: &str = "1000";
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mad-bench-rs/peers/mpi");

/// What `PIOM_STATS` told of all processes of a job.
#[derive(Debug, Default)]
struct Told {
    processes: u32,
    /// Sleeps of the background watchers, and events that these found.
    sleeps: u64,
    found: u64,
    /// Processes whose source told how often it has rung its peers and woken its own watcher.
    figures: u32,
    /// Milliseconds on a core: of the library's threads, and of everything.
    library_ms: f64,
    total_ms: f64,
}

fn told(text: &str) -> Told {
    let mut told = Told::default();
    for line in text.lines() {
        // The launcher may say of which rank it is: `[0] …`.
        let line =
            line.strip_prefix('[').and_then(|line| line.split_once("] ")).map_or(line, |l| l.1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        if line.starts_with("pioman: rank") {
            told.processes += 1;
        } else if words.get(1) == Some(&"block") {
            told.found += number(3).expect("a source, its point, polls and hits");
        } else if line.contains("bells rung ") && line.contains("self-wakes ") {
            told.figures += 1;
        } else if line.starts_with("sleeps:") {
            let watcher = line.split_once("leaders, ").and_then(|(_, rest)| rest.split(' ').next());
            told.sleeps +=
                watcher.and_then(|n| n.parse::<u64>().ok()).expect("sleeps of the watcher");
        } else if let Some(threads) = line.strip_prefix("time on a core: ") {
            for thread in threads.split(", ") {
                let (name, time) = thread.trim_end_matches(" ms").rsplit_once(' ').expect("a time");
                let ms: f64 = time.parse().expect("milliseconds");
                match name {
                    "total" => told.total_ms += ms,
                    _ => told.library_ms += ms,
                }
            }
        }
    }
    told
}

/// One of the small applications in C, for madmpi.
fn c_program(name: &str) -> PathBuf {
    let source = Path::new(PROGRAMS).join(name).with_extension("c");
    compile(&prefix().join("bin/mpicc"), &source, "background")
}

/// One test at a time: its jobs have the cores for their ranks, and nothing is compiled beside them.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Most jobs that a judgement is made of: in one of a second, a few wake-ups more or less are chance.
const JOBS: u32 = 3;
/// After so many seconds no further job is begun if they have computed for long enough: beside load, one job lasts longer
/// than three do on a quiet machine.
const ENOUGH: f64 = 10.0;

/// Time on a core that the programs together have to have computed for.
const COMPUTED_MS: f64 = 100.0;

/// Runs jobs of two processes, and holds them together to the bounds; one that keeps to half of each is enough if it has
/// computed for long enough.
fn is_cheap(mut command: Command, what: &str) {
    command.env("PIOM_STATS", "1");
    let (mut text, mut seconds, mut jobs) = (String::new(), 0.0, 0);
    let (told, costs) = loop {
        jobs += 1;
        let begun = Instant::now();
        let output: Output = command.output().expect("mad can be started");
        seconds += begun.elapsed().as_secs_f64();
        assert!(output.status.success(), "{what}: {}", err(&output));
        assert!(out(&output).contains("mpi_time"), "{what}: {}", out(&output));
        text += &err(&output);
        let told = told(&text);
        let costs = Costs::of(&told, seconds);
        let computed = told.total_ms > COMPUTED_MS;
        if jobs == JOBS || (computed && (seconds >= ENOUGH || costs.are_within(0.5))) {
            break (told, costs);
        }
    };
    println!("{what}: {told:?} in {seconds:.1} s");
    assert_eq!(told.processes, 2 * jobs, "{what}: {text}");
    assert_eq!(text.matches("background: ").count() as u32, 2 * jobs, "{what}: {text}");
    assert_eq!(told.figures, 2 * jobs, "{what}: {text}");
    // By the clock it computes for longer; beside load it has a core for a part of that.
    assert!(told.total_ms > COMPUTED_MS, "{what}: the program has computed: {told:?}");
    assert!(costs.are_within(1.0), "{what}: {costs:?} of what they may be: {told:?}");
}

/// What jobs of two processes have cost, as parts of what they may.
#[derive(Debug)]
struct Costs {
    /// Sleeps of the watchers: two for each event that they found, and ten a second.
    sleeps: f64,
    /// Time on a core of the library's threads: 2 % of all.
    time: f64,
}

impl Costs {
    fn of(told: &Told, seconds: f64) -> Costs {
        let most_sleeps = 2.0 * told.found as f64 + 10.0 * seconds * 2.0;
        // As `mad run --stats` counts: the bound is for ranks that have a core each, and then the two are the same.
        let time_ms = told.total_ms.max(2.0 * 1000.0 * seconds);
        Costs { sleeps: told.sleeps as f64 / most_sleeps, time: told.library_ms / (0.02 * time_ms) }
    }

    fn are_within(&self, part: f64) -> bool {
        self.sleeps <= part && self.time < part
    }
}

#[test]
fn the_background_of_an_mpi_program_costs_next_to_nothing() {
    let _alone = alone();
    let program = c_program("halo");
    for driver in ["shm", "tcp"] {
        for mode in ["smp", "mono"] {
            let mut command = mad(&["run", "-n", "2", "--driver", driver, "--mode", mode]);
            command.arg(&program).args(["0/1", STEPS, "0:8192:1000:6"]);
            is_cheap(command, &format!("madmpi, {driver}, {mode}"));
        }
    }
}

/// It computes nothing: each message of 8 bytes is followed at once by the wait for its answer.
#[test]
fn the_background_of_a_program_that_only_exchanges_costs_next_to_nothing() {
    application("halo", "120000", "0:8:0:1");
}

/// Over shm and tcp, in the default mode: a program, how many of its steps take a second or so, and their shape.
fn application(name: &str, steps: &str, point: &str) {
    let _alone = alone();
    let program = c_program(name);
    for driver in ["shm", "tcp"] {
        let mut command = mad(&["run", "-n", "2", "--driver", driver]);
        command.arg(&program).args(["0/1", steps, point]);
        is_cheap(command, &format!("{name}, {driver}"));
    }
}

/// Both sides of announced messages compute, and no thread waits.
#[test]
fn the_background_of_an_exchange_behind_a_computation_costs_next_to_nothing() {
    application("hidden", "500", "0:32768:1000:2");
}

#[test]
fn the_background_of_conjugate_gradients_costs_next_to_nothing() {
    application("cg", "4000", "0:256:0:0");
}

#[test]
fn the_background_of_a_wavefront_costs_next_to_nothing() {
    application("wavefront", "1000", "0:128:48:0");
}

#[test]
fn the_background_of_a_search_that_tests_costs_next_to_nothing() {
    application("bfs", "500", "0:14:8:512");
}

#[test]
fn the_background_of_a_sort_costs_next_to_nothing() {
    application("sort", "500", "0:32768:64:0");
}

#[test]
fn the_background_of_particles_that_probe_costs_next_to_nothing() {
    application("montecarlo", "500", "0:4000:16:64");
}

#[test]
fn the_background_of_a_program_over_newmad_costs_next_to_nothing() {
    let _alone = alone();
    for driver in ["shm", "tcp"] {
        for mode in ["smp", "mono"] {
            let mut command = mad(&["bench", "apps", "--json", "--rounds", "1", "--iters", STEPS]);
            command.args(["--timeout", "1200"]);
            command.args(["--driver", driver, "--mode", mode]);
            is_cheap(command, &format!("newmad, {driver}, {mode}"));
        }
    }
}
