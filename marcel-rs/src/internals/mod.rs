//! Inner pieces, for the benches of the root package (feature `bench-internals`): nothing here is promised to programs.
//!
//! Each piece is wrapped so that safe code cannot misuse it, at no cost: what a list links is owned by the thread that
//! has taken it out, so it is in one list at a time.

mod queue;
mod switch;

pub use queue::{Block, Deque, Inbox, RunQueue, Thief};
pub use switch::{BACK_END, Rounds, Starts};
