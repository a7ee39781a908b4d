//! A hybrid program: heat that spreads in a rod, by several ranks in each process, and several green threads in each rank.
//!
//! ```text
//! cargo run --release --example heat -- --ranks 8                     8 ranks in one process
//! mad run -n 2 target/release/examples/heat --ranks 4 --threads 2     4 ranks in each of two processes
//! ```
//!
//! Ranks of one process share its connections, and a message between them is one copy. The program does not notice which of
//! its neighbours are in its process: all ways print the same line. `heat.c` is the same over MPI.

use std::process::ExitCode;

use clap::Parser;
use newmad::coll::Op;
use newmad::{Error, Session};

/// Lets heat spread in a rod.
#[derive(Parser, Clone, Copy)]
struct Options {
    /// Ranks of this process
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: u32,
    /// Green threads of each rank
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Cells of the rod
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    cells: u64,
    /// Steps of time
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
}

/// The tag of a rank's first cell, which goes to the left, and that of its last one.
const LEFT: u64 = 0;
const RIGHT: u64 = 1;

/// The heat of these cells after a step, from theirs before and their neighbours': `now` has one cell more at each end.
fn relax(next: &mut [f64], now: &[f64]) {
    for (next, around) in next.iter_mut().zip(now.windows(3)) {
        *next = around[1] + 0.25 * (around[0] - 2.0 * around[1] + around[2]);
    }
}

/// The cells at this rank's ends go to its neighbours, and theirs come. No heat leaves by the ends of the rod.
fn exchange(session: &Session, cells: &mut [f64]) -> Result<(), Error> {
    let (rank, mine) = (session.rank(), cells.len() - 2);
    (cells[0], cells[mine + 1]) = (cells[1], cells[mine]);
    let left = rank.checked_sub(1).map(|left| (left, 0, 1, LEFT, RIGHT));
    let right = (rank + 1 < session.size()).then_some((rank + 1, mine + 1, mine, RIGHT, LEFT));
    let neighbours = || left.into_iter().chain(right);
    let sends = neighbours()
        .map(|(peer, _, own, tag, _)| session.isend(peer, tag, cells[own].to_le_bytes().to_vec()))
        .collect::<Result<Vec<_>, Error>>()?;
    for (peer, theirs, _, _, tag) in neighbours() {
        let mut bytes = [0; 8];
        session.recv(peer, tag, &mut bytes)?;
        cells[theirs] = f64::from_le_bytes(bytes);
    }
    sends.into_iter().try_for_each(|send| send.wait().map(drop))
}

/// One rank: the heat of all ranks together, and of the hottest cell.
fn spread(session: &Session, options: Options) -> Result<(f64, f64), Error> {
    let (rank, size) = (u64::from(session.rank()), u64::from(session.size()));
    let first = options.cells * rank / size;
    let mine = (options.cells * (rank + 1) / size - first) as usize;
    // One cell more at each end: a neighbour's.
    let mut now = vec![0.0; mine + 2];
    if let Some(middle) = (options.cells / 2).checked_sub(first).filter(|&at| at < mine as u64) {
        now[middle as usize + 1] = 1000.0;
    }
    let mut next = now.clone();
    for _ in 0..options.steps {
        exchange(session, &mut now)?;
        let part = mine.div_ceil(options.threads as usize).max(1);
        marcel::scope(|scope| {
            for (number, next) in next[1..=mine].chunks_mut(part).enumerate() {
                let now = &now[number * part..][..next.len() + 2];
                scope.spawn(move || relax(next, now));
            }
        });
        std::mem::swap(&mut now, &mut next);
    }
    let world = session.world()?;
    let (mut heat, mut hottest) =
        ([now[1..=mine].iter().sum::<f64>()], [now[1..=mine].iter().copied().fold(0.0, f64::max)]);
    world.allreduce(&mut heat, &Op::sum()).wait()?;
    world.allreduce(&mut hottest, &Op::max()).wait()?;
    Ok((heat[0], hottest[0]))
}

fn main() -> ExitCode {
    let options = Options::parse();
    let spread = newmad::run_ranks(options.ranks, |session| {
        let (heat, hottest) = spread(session, options)?;
        if session.rank() == 0 {
            println!("heat {heat:.6}, hottest cell {hottest:.6}");
        }
        Ok::<(), Error>(())
    });
    match spread.and_then(|ranks| ranks.into_iter().collect::<Result<Vec<()>, Error>>()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heat: {error}");
            ExitCode::FAILURE
        }
    }
}
