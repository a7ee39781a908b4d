//! A record of what the scheduler and the I/O manager did, kept in memory while the program runs and written to a file:
//! `MARCEL_TRACE`, or [`start`] and [`save`]. `mad trace` makes pictures and tables of it.
//!
//! # How it works
//! Each kernel thread has a ring of fixed-size records (`ring`), preallocated by [`start`], in which the oldest are
//! overwritten; so a trace holds the last moments of each kernel thread, however long the program ran. Writing one
//! takes no lock and no atomic read-modify-write, and may happen in a signal handler that interrupts a writer. Names
//! are interned where things are made (`names`), records hold numbers. The time is the processor's counter where the
//! kernel trusts it, else the monotonic clock (`clock`). The format: `file`.
//!
//! # What it costs
//! Off: one load and a branch an event. On: some 15 ns a record, 10 of them for the time. So that it can be left on,
//! what may happen every few nanoseconds is recorded by [`often`] and its like: while such events follow each other
//! faster than they could be recorded for a twentieth of the time, most are only counted, and the next record says how
//! many were (see [`Kind::decode`]). Events that take a system call anyway are always recorded.
//!
//! # Rejected
//! * The crate `tracing` (which is there as well, as a feature): its subscribers allocate and lock, and a span costs
//!   some hundred nanoseconds.
//! * One ring for all: a line that wanders between cores at every event.
//! * Writing to the file while the program runs: the thread that writes it disturbs what it looks at.
//! * Recording everything: at 20 ns a yield, reading the time alone would halve the speed.

pub use crate::diagnosis::{
    trace_exit::from_env,
    trace_file::{MAGIC, VERSION, save},
};
pub use crate::recorder::*;
