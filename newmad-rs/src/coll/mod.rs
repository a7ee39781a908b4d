//! Collectives: what all members of a group do together.
//!
//! A collective is *recorded* when it starts, as a schedule of sends, receives, copies and combinations that wait for
//! each other. The thread that finds the end of one of its messages carries it on: an idle core, a thread that waits
//! for something else, a kernel thread of the library's. So round k + 1 goes out when round k has come in, while the
//! program computes; and no thread is there for that alone.
//!
//! | file | what |
//! |---|---|
//! | `group` | which ranks do it together, and how their messages are told from others' |
//! | `collective` | the operations, which are waited for or started; `buffers`, `memory`: their memory; `check`: whether it fits |
//! | `operator` | elements, and how they are combined |
//! | `algo/` | the algorithms, and the choice among them (`choose`) |
//! | `recorder`, `plan` | what waits for what |
//! | `run` | carrying it out; `scratch`: memory for that; `pending`: the handle; `straight`: short ones, by the caller that waits |
//! | `shared/` | short ones among ranks that share memory, without messages; `board/`: what a group knows of the memory |
//! | `failure` | what happens when a member dies or gives up |
//! | `simulator` | all plans in one thread, against an oracle |
//!
//! # What each call blocks
//! Those of [`Group`] without `i`, and [`Pending::wait`]: the calling thread, green or kernel. The others nothing.

mod algo;
mod board;
mod buffers;
mod check;
mod collective;
mod context;
mod failure;
mod group;
mod memory;
mod operator;
mod pending;
mod plan;
mod recorder;
mod revoke;
mod run;
mod scratch;
pub(crate) mod shared;
#[cfg(test)]
mod simulator;
mod straight;
mod task;
mod unwinding;

pub use algo::choose::algorithms;
pub use buffers::{Buffer, BufferMut, Buffers, Bytes, One, Two};
pub use collective::Collective;
pub use group::Group;
pub use operator::{Element, Integer, Number, Op, Operator};
pub use pending::Pending;
pub use task::{Blocks, Task};
