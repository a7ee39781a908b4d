//! Light tasks: a function that is called where there is room for it, once or again and again until it says
//! that it is done; with a blocking alternative if the library has one.
//!
//! | file | what |
//! |---|---|
//! | `state` | the task's state word and its transitions |
//! | `block` | the task's block |
//! | `call` | one call, and its end |
//! | `report` | what a task says after a call, and how it has ended |
//! | `exclusion` | tasklets of one type exclude each other |
//! | `place` | which queue, which cores |
//! | `tree` | the queues over the topology, and what a submitter is promised |
//! | `scheduler` | all that belongs to a manager, and what a submission wakes |
//! | `visit`, `visitor` | visitors of the queues, where and how they look |
//! | `queue`, `stack` | one queue; lock-free, through the blocks |
//! | `inside` | a wait inside a task is an error |
//! | `counts` | how many there were |
//!
//! A task is in one queue, or called by one thread, or in the hands of one spare kernel thread: never two of these, so
//! it never runs twice at once and is never lost. Blocks are immortal and recycled; queues are links through the
//! blocks, so nothing is ever full, and a submission allocates what it needs before any visitor sees the task.
//!
//! A task that has a blocking alternative is *exported* to a spare kernel thread when every compute virtual processor
//! is busy (\[Trahay09\], 5.2.3), or all of them have polled for long enough and would sleep; not before the delay that
//! it asks for. If no spare kernel thread is free, or none can be had, it is polled.
//!
//! Tasks are safe code. So they are called in the scheduler, at waits and on the background watcher, but not in the
//! tick's handler, which may have interrupted anything. They should take some tens of microseconds and not block; one
//! that panics, takes too long, or waits for something of this crate is named on standard error.

#[cfg(not(loom))]
pub(crate) mod block;
#[cfg(not(loom))]
pub(crate) mod call;
#[cfg(not(loom))]
pub(crate) mod counts;
pub(crate) mod exclusion;
#[cfg(not(loom))]
pub(crate) mod inside;
#[cfg(all(feature = "bench-internals", not(loom)))]
pub mod internals;
#[cfg(not(loom))]
pub(crate) mod place;
pub(crate) mod queue;
#[cfg(not(loom))]
pub(crate) mod report;
#[cfg(not(loom))]
pub(crate) mod scheduler;
pub(crate) mod stack;
pub(crate) mod state;
#[cfg(not(loom))]
pub(crate) mod tree;
#[cfg(not(loom))]
pub(crate) mod visit;
#[cfg(not(loom))]
pub(crate) mod visitor;
