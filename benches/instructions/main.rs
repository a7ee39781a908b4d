//! Does one small thing N times, for a counter of instructions: `ci/instructions.sh` runs it under valgrind with two
//! values of N, so that what happens once drops out. Instruction counts do not depend on the machine's load.
//!
//! Messages are counted by `message.c` beside this file, whose interface is MPI's.

use std::process::ExitCode;

use marcel::internals::Rounds;
use marcel::{Mode, Runtime};
use newmad::internals::Tables;

/// Runs `body` as a green thread on one virtual processor.
fn green(body: impl FnOnce() + Send + 'static) {
    Runtime::builder().mode(Mode::Mono).build().expect("a runtime").run(body);
}

/// From one stack to another and back, without a scheduler.
fn switch(n: u64) {
    let rounds = Rounds::new(true).expect("memory for a stack");
    (0..n).for_each(|_| rounds.round());
}

/// Two green threads yield to each other, `n` switches in all.
fn yields(n: u64) {
    green(move || {
        let turns = move || (0..n / 2).for_each(|_| marcel::yield_now());
        let other = marcel::spawn(turns);
        turns();
        other.join().expect("no panic");
    });
}

fn spawn_join(n: u64) {
    green(move || {
        (0..n).for_each(|i| assert_eq!(marcel::spawn(move || i).join().expect("no panic"), i))
    });
}

/// Two green threads wake each other, `n` hand-overs in all.
fn park(n: u64) {
    green(move || {
        let me = marcel::current();
        let other = marcel::spawn(move || {
            for _ in 0..n / 2 {
                me.unpark();
                marcel::park();
            }
            me.unpark();
        });
        for _ in 0..n / 2 {
            marcel::park();
            other.thread().unpark();
        }
        marcel::park();
        other.join().expect("no panic");
    });
}

/// A message finds its receive among a hundred, which is posted again.
fn matching(n: u64) {
    let mut tables =
        Tables::new((0..100).map(|tag| (Some(0), tag.into()))).expect("a program's tags");
    (0..100).for_each(|i| assert!(tables.receive(i).is_none()));
    for i in 0..n {
        let wanted = (i * 37 % 100) as usize;
        assert_eq!(tables.arrive(0, wanted as u64, 0), Some(wanted));
        assert!(tables.receive(wanted).is_none());
    }
}

/// Eight bytes through a ring of shared memory.
fn ring(n: u64) {
    let (mut sender, mut receiver) = newmad::internals::ring(64, 8256).expect("memory for a ring");
    let mut buffer = [0; 8];
    for number in 0..n {
        assert!(sender.send(number, &[7; 8]));
        assert_eq!(receiver.receive(&mut buffer), Some((number, 8)));
    }
}

/// One of the things that are counted.
type Case = (&'static str, fn(u64));

const CASES: [Case; 6] = [
    ("switch", switch),
    ("yield", yields),
    ("spawn+join", spawn_join),
    ("park+unpark", park),
    ("match", matching),
    ("ring", ring),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let name = arguments.next();
    let case = CASES.iter().find(|(case, _)| Some(*case) == name.as_deref());
    let n = arguments.next().and_then(|n| n.parse().ok());
    match (case, n) {
        (Some((_, run)), Some(n)) => run(n),
        // `cargo bench` and `cargo test --benches` give no case: each runs once.
        _ if name.is_none() => CASES.iter().for_each(|(_, run)| run(100)),
        _ => {
            let names: Vec<&str> = CASES.iter().map(|(case, _)| *case).collect();
            eprintln!("instructions: one of {} and a number of times", names.join(", "));
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
