//! Light tasks: a function that is called where there is room for it, once or again and again until it says
//! that it is done; with a blocking alternative if the library has one.
//!
//! | file | what |
//! |---|---|
//! | `builder` | what a task is told at its submission |
//! | `task` | the handle: wait, test, cancel, mask |
//! | `tasklet` | tasks that are scheduled again and again, one of a type at a time |
//! | `state` | the task's state word and its transitions |
//! | `block` | the task's block: one call, and its end |
//! | `place` | which queue, which cores |
//! | `tree` | the queues over the topology, who visits them, what is promised to whom |
//! | `points` | where the manager comes by the queues, and whom a submission wakes |
//! | `queue`, `stack` | one queue; lock-free, through the blocks |
//! | `inside` | a wait inside a task is an error |
//! | `counts` | how many there were |
//!
//! A task is in one queue, or called by one thread, or in the hands of one spare kernel thread: never two of these, so
//! it never runs twice at once and is never lost. Blocks are immortal and recycled; queues are links through the
//! blocks, so nothing is ever full, and what a submission needs it has allocated before anybody sees the task.
//!
//! A task that has a blocking alternative is *exported* to a spare kernel thread when every compute virtual processor is
//! busy (thesis 5.2.3), or all of them have polled for long enough and would sleep; not before the delay that it asks
//! for. If no spare kernel thread is free, or none can be had, it is polled.
//!
//! Tasks are safe code. So they are called in the scheduler, at waits and on the spare watcher, but not in the tick's
//! handler, which may have interrupted anything. They should take some tens of microseconds and not block; one
//! that panics, takes too long, or waits for something of this crate is named on standard error.

#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
pub(crate) mod counts;
#[cfg(not(loom))]
pub(crate) mod inside;
#[cfg(all(feature = "bench-internals", not(loom)))]
pub mod internals;
#[cfg(not(loom))]
pub(crate) mod place;
#[cfg(not(loom))]
mod points;
mod queue;
mod stack;
mod state;
#[cfg(not(loom))]
mod task;
pub(crate) mod tasklet;
#[cfg(not(loom))]
pub(crate) mod tree;

#[cfg(not(loom))]
pub use builder::{Polling, TaskBuilder};
#[cfg(not(loom))]
pub use counts::TaskCounts;
#[cfg(not(loom))]
pub use task::{Task, TaskError};
#[cfg(not(loom))]
pub use tasklet::{Tasklet, TaskletBuilder, TaskletType};

/// What a light task says after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do: call it again, as soon as the others have had their turn.
    Again,
    /// It waits for something that has not come: call it again, but nobody need burn a core for it. When idle virtual
    /// processors have polled for the spin time of waits (`PIOM_BUSY_WAIT_USEC`), it is called at the tick's pace, or
    /// its blocking alternative is used.
    Waiting,
    /// It has done its work.
    Done,
}
