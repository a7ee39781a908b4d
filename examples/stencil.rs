//! A 2-D heat solver: several processes, several green threads in each, halo exchange overlapped with the
//! interior, the result compared bit for bit with the sequential one.
//!
//! ```text
//! cargo run --release --example stencil -- --size 512 --steps 200 --threads 4
//! mad run -n 2 target/release/examples/stencil --size 512 --steps 200 --threads 4
//! ```
//!
//! The grid's rows are dealt out in blocks, one per green thread of each process. In every step a thread
//! hands its first and last row to its neighbours, computes the rows that need none of theirs, and only then
//! waits for the two rows that it needs. A neighbour is another thread (a [`Mailbox`]) or, at the edges of a
//! process, a thread of the next process (an `isend` and an `irecv`). Which of the two it is makes no
//! difference to the thread: that is what blocking one green thread at a time is good for.
//!
//! Every cell is computed by [`relax`] alone, so the order of floating-point operations per cell is that of
//! the sequential program and the results must be equal to the last bit.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use marcel::sync::{Condvar, Mutex};
use newmad::{Request, Session};

/// Solves the heat equation on a square and checks the result.
#[derive(Parser, Debug, Clone)]
struct Options {
    /// Cells along one side
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(3..=32768))]
    size: u64,
    /// Steps of time
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    steps: u64,
    /// Green threads per process
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=4096))]
    threads: u64,
    /// Leave out the comparison with the sequential result
    #[arg(long)]
    no_check: bool,
}

type Row = Vec<f64>;
/// Why the solver stops early, in words.
type Solved<T> = Result<T, String>;

/// What a thread says that was stopped by another one's failure: not the cause.
const GIVEN_UP: &str = "a neighbouring thread has given up";

/// Tag of a row that travels towards smaller row numbers, and of one that travels towards larger ones.
const UP: u64 = 1;
const DOWN: u64 = 2;
const RESULT: u64 = 3;

/// The temperature at the start; cells at the border keep theirs.
fn initial(row: usize, column: usize, size: usize) -> f64 {
    match row {
        0 => 100.0,
        row if row + 1 == size => -20.0,
        row => ((row * 31 + column * 17) % 29) as f64,
    }
}

/// One row in the next step from three in this one.
fn relax(above: &[f64], row: &[f64], below: &[f64], next: &mut [f64]) {
    let last = row.len() - 1;
    next[0] = row[0];
    for i in 1..last {
        let around = above[i] + below[i] + row[i - 1] + row[i + 1];
        next[i] = row[i] + 0.2 * (around - 4.0 * row[i]);
    }
    next[last] = row[last];
}

/// A place for one row between two threads of a process.
#[derive(Default)]
struct Mailbox {
    row: Mutex<(Option<Row>, bool)>,
    changed: Condvar,
}

impl Mailbox {
    fn put(&self, row: Row) -> Solved<()> {
        let mut held =
            self.changed.wait_while(self.row.lock(), |(row, closed)| row.is_some() && !*closed);
        if held.1 {
            return Err(GIVEN_UP.into());
        }
        held.0 = Some(row);
        self.changed.notify_all();
        Ok(())
    }

    fn take(&self) -> Solved<Row> {
        let mut held =
            self.changed.wait_while(self.row.lock(), |(row, closed)| row.is_none() && !*closed);
        let row = held.0.take().ok_or(GIVEN_UP)?;
        self.changed.notify_all();
        Ok(row)
    }

    /// Nothing more is put or taken: a waiter gets an error, but a row that is there can be taken.
    fn close(&self) {
        self.row.lock().1 = true;
        self.changed.notify_all();
    }
}

/// What lies beyond the first or last row of a block.
enum Edge {
    /// The border of the grid.
    Border,
    /// Another thread: mailboxes for what goes there and what comes from there.
    Thread(Arc<Mailbox>, Arc<Mailbox>),
    /// A thread of another process: its rank, the tags of what goes there and what comes from there.
    Process(Session, u32, u64, u64),
}

/// An exchange under way.
#[allow(clippy::large_enum_variant, reason = "a thread has two, on its stack")]
enum Exchange<'a> {
    Nothing,
    Thread(&'a Mailbox),
    Process(Request, Request),
}

impl Edge {
    /// Hands over `row` and asks for the neighbour's.
    fn begin(&self, row: &[f64]) -> Solved<Exchange<'_>> {
        Ok(match self {
            Edge::Border => Exchange::Nothing,
            Edge::Thread(there, here) => {
                there.put(row.to_vec())?;
                Exchange::Thread(here)
            }
            Edge::Process(session, peer, there, here) => {
                let bytes = vec![0u8; size_of_val(row)];
                let receive = session.irecv(*peer, *here, bytes).map_err(|e| e.to_string())?;
                let send =
                    session.isend(*peer, *there, to_bytes(row)).map_err(|e| e.to_string())?;
                Exchange::Process(send, receive)
            }
        })
    }
}

impl Exchange<'_> {
    /// Waits for the neighbour's row; empty at the border.
    fn end(self) -> Solved<Row> {
        match self {
            Exchange::Nothing => Ok(Row::new()),
            Exchange::Thread(here) => here.take(),
            Exchange::Process(send, receive) => {
                let (bytes, status) = receive.wait().map_err(|e| e.to_string())?;
                send.wait().map_err(|e| e.to_string())?;
                Ok(from_bytes(&bytes[..status.len]))
            }
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        if let Edge::Thread(there, here) = self {
            there.close();
            here.close();
        }
    }
}

fn to_bytes(row: &[f64]) -> Vec<u8> {
    row.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Row {
    let (values, _) = bytes.as_chunks::<8>();
    values.iter().map(|value| f64::from_ne_bytes(*value)).collect()
}

/// Some rows of the grid, and what lies above and below them.
struct Block {
    rows: Vec<Row>,
    above: Edge,
    below: Edge,
}

impl Block {
    fn run(mut self, steps: u64) -> Solved<Vec<Row>> {
        let width = self.rows[0].len();
        let count = self.rows.len();
        let mut next = vec![vec![0.0; width]; count];
        for _ in 0..steps {
            let rows = &self.rows;
            let above = self.above.begin(&rows[0])?;
            let below = self.below.begin(&rows[count - 1])?;
            for i in 1..count.saturating_sub(1) {
                relax(&rows[i - 1], &rows[i], &rows[i + 1], &mut next[i]);
            }
            let (above, below) = (above.end()?, below.end()?);
            for i in [0, count - 1] {
                let up = if i == 0 { &above } else { &rows[i - 1] };
                let down = if i == count - 1 { &below } else { &rows[i + 1] };
                if up.is_empty() || down.is_empty() {
                    next[i].copy_from_slice(&rows[i]); // the grid's own border stays
                } else {
                    relax(up, &rows[i], down, &mut next[i]);
                }
            }
            std::mem::swap(&mut self.rows, &mut next);
        }
        Ok(std::mem::take(&mut self.rows))
    }
}

fn sequential(size: usize, steps: u64) -> Vec<Row> {
    let rows = (0..size).map(|i| (0..size).map(|j| initial(i, j, size)).collect()).collect();
    let block = Block { rows, above: Edge::Border, below: Edge::Border };
    block.run(steps).unwrap_or_default()
}

/// Where block `index` of `count` begins.
fn bound(size: usize, index: usize, count: usize) -> usize {
    size * index / count
}

/// The blocks of this process.
fn deal(session: &Session, size: usize, threads: usize) -> Vec<Block> {
    let (rank, ranks) = (session.rank() as usize, session.size() as usize);
    let boxes: Vec<_> = (1..threads)
        .map(|_| (Arc::new(Mailbox::default()), Arc::new(Mailbox::default())))
        .collect();
    let block = |thread: usize| {
        let index = rank * threads + thread;
        let rows = bound(size, index, ranks * threads)..bound(size, index + 1, ranks * threads);
        let above = match thread.checked_sub(1) {
            Some(neighbour) => {
                let (up, down) = &boxes[neighbour];
                Edge::Thread(up.clone(), down.clone())
            }
            None if rank > 0 => Edge::Process(session.clone(), rank as u32 - 1, UP, DOWN),
            None => Edge::Border,
        };
        let below = match boxes.get(thread) {
            Some((up, down)) => Edge::Thread(down.clone(), up.clone()),
            None if rank + 1 < ranks => Edge::Process(session.clone(), rank as u32 + 1, DOWN, UP),
            None => Edge::Border,
        };
        let rows = rows.map(|i| (0..size).map(|j| initial(i, j, size)).collect()).collect();
        Block { rows, above, below }
    };
    (0..threads).map(block).collect()
}

fn solve(session: &Session, options: &Options) -> Solved<()> {
    let size = options.size as usize;
    let ranks = session.size() as usize;
    // Without green threads (MARCEL_MODE=no-thread) the process is one block.
    let threads = if marcel::is_green() { options.threads as usize } else { 1 };
    if ranks * threads > size {
        return Err(format!(
            "{ranks} processes with {threads} threads need {} rows, --size is {size}",
            ranks * threads
        ));
    }
    let mut blocks = deal(session, size, threads);
    session.barrier().map_err(|e| e.to_string())?;
    let start = Instant::now();
    let steps = options.steps;
    if session.rank() == 0 {
        say(&format!("stencil: {steps} steps begin"));
    }
    let results: Vec<_> = if marcel::is_green() {
        let handles: Vec<_> =
            blocks.drain(..).map(|block| marcel::spawn(move || block.run(steps))).collect();
        handles
            .into_iter()
            .map(|h| h.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect()
    } else {
        blocks.drain(..).map(|block| block.run(steps)).collect()
    };
    if let Some(cause) =
        results.iter().filter_map(|r| r.as_ref().err()).find(|why| *why != GIVEN_UP)
    {
        return Err(cause.clone());
    }
    let rows: Vec<Row> = results.into_iter().collect::<Solved<Vec<_>>>()?.concat();
    session.barrier().map_err(|e| e.to_string())?;
    let took = start.elapsed();
    if session.rank() != 0 {
        let bytes: Vec<u8> = rows.iter().flat_map(|row| to_bytes(row)).collect();
        return session.send(0, RESULT, &bytes).map_err(|e| e.to_string());
    }
    let mut grid = rows;
    for rank in 1..ranks {
        let rows = bound(size, (rank + 1) * threads, ranks * threads)
            - bound(size, rank * threads, ranks * threads);
        let mut bytes = vec![0; rows * size * 8];
        session.recv(rank as u32, RESULT, &mut bytes).map_err(|e| e.to_string())?;
        grid.extend(from_bytes(&bytes).chunks(size).map(<[f64]>::to_vec));
    }
    say(&format!(
        "stencil: {size} x {size}, {steps} steps, {ranks} processes x {threads} green threads over {}: {:.1} µs per step",
        session.driver(),
        took.as_secs_f64() * 1e6 / steps.max(1) as f64,
    ));
    if options.no_check {
        return Ok(());
    }
    let start = Instant::now();
    let expected = sequential(size, steps);
    let alone = start.elapsed().as_secs_f64() * 1e6 / steps.max(1) as f64;
    let bits =
        |rows: &[Row]| rows.iter().flatten().map(|value| value.to_bits()).collect::<Vec<_>>();
    if bits(&grid) != bits(&expected) {
        let cell = bits(&grid).iter().zip(bits(&expected)).position(|(a, b)| *a != b).unwrap_or(0);
        return Err(format!(
            "the result differs from the sequential one, first in row {}, column {}",
            cell / size,
            cell % size
        ));
    }
    say(&format!(
        "stencil: equal to the sequential result in every bit; that took {alone:.1} µs per step"
    ));
    Ok(())
}

/// Prints a line, which need not have a reader.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

fn main() -> ExitCode {
    let options = Options::parse();
    let solved = newmad::run(|session: &Session| {
        solve(session, &options).map_err(|why| format!("rank {}: {why}", session.rank()))
    });
    match solved.map_err(|e| e.to_string()).and_then(|solved| solved) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr().lock(), "stencil: {why}");
            ExitCode::FAILURE
        }
    }
}
