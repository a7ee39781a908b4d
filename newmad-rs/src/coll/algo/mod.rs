//! The algorithms: each records the plan of one rank. What a collective is to do is a [`Task`]; the algorithm is chosen
//! in `choose.rs`.
//!
//! | operation | algorithms |
//! |---|---|
//! | barrier | dissemination |
//! | bcast | binomial tree; pipelined chain; scatter, then allgather |
//! | reduce | binomial tree; reduce-scatter, then gather |
//! | allreduce | recursive doubling; ring; halving and doubling (Rabenseifner); reduce, then bcast |
//! | gather, scatter | linear; binomial tree |
//! | allgather | linear; ring; Bruck |
//! | alltoall | linear; pairwise; Bruck |
//! | reduce-scatter | pairwise; ring; recursive halving |
//! | scan | doubling |

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
pub(super) mod choose;
mod gather;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod tree;

use crate::coll::plan::Plan;
use crate::coll::recorder::Recorder;
use crate::coll::task::{Blocks, Task};
use choose::Algorithm;

/// Whether all members have one length, and this one's is 0. They exchange messages all the same: a member with another
/// length would wait for ever.
fn is_of_nothing(task: &Task) -> bool {
    match task {
        Task::Bcast { len, .. }
        | Task::Reduce { len, .. }
        | Task::Allreduce { len }
        | Task::Scan { len, .. } => *len == 0,
        Task::Gather { blocks: Some(blocks), .. }
        | Task::Scatter { blocks: Some(blocks), .. }
        | Task::Allgather { blocks }
        | Task::ReduceScatter { blocks } => *blocks == Blocks::Even(0),
        Task::Alltoall { send, recv } => [send, recv] == [&Blocks::Even(0); 2],
        Task::Barrier | Task::Gather { .. } | Task::Scatter { .. } => false,
    }
}

/// Records the plan of a task.
pub(crate) fn record(mut rec: Recorder, task: &Task, algorithm: Algorithm) -> Plan {
    let r = &mut rec;
    if is_of_nothing(task) {
        r.send_nothing();
    }
    use Algorithm as A;
    match task {
        Task::Barrier => barrier::dissemination(r),
        Task::Bcast { root, len } => match algorithm {
            A::Chain { segment } => bcast::chain(r, *root, *len, segment),
            A::ScatterAllgather => bcast::scatter_allgather(r, *root, *len),
            _ => bcast::binomial(r, *root, r.output(0, *len)),
        },
        Task::Reduce { root, len } => match algorithm {
            A::ScatterGather => reduce::scatter_gather(r, *root, *len),
            A::Ordered => reduce::binomial(r, *root, *len, true),
            _ => reduce::binomial(r, *root, *len, false),
        },
        Task::Allreduce { len } => match algorithm {
            A::Ring => allreduce::ring(r, *len),
            A::Halving => allreduce::halving_doubling(r, *len),
            A::ReduceBcast => allreduce::reduce_bcast(r, *len),
            _ => allreduce::doubling(r, *len),
        },
        Task::Gather { root, own, blocks } => match (algorithm, blocks) {
            (A::Binomial, Some(Blocks::Even(_))) => gather::binomial(r, *root, *own),
            _ => gather::linear(r, *root, *own, blocks.as_ref()),
        },
        Task::Scatter { root, own, blocks } => match (algorithm, blocks) {
            (A::Binomial, Some(Blocks::Even(_))) => scatter::binomial(r, *root, *own),
            _ => scatter::linear(r, *root, *own, blocks.as_ref()),
        },
        Task::Allgather { blocks } => match algorithm {
            A::Linear => allgather::linear(r, blocks),
            A::Bruck => allgather::bruck(r, blocks),
            _ => {
                let out = r.output(0, blocks.end(r.size));
                allgather::contribute(r, blocks, out);
                allgather::ring(r, blocks, out, 0);
            }
        },
        Task::Alltoall { send, recv } => match (algorithm, send) {
            (A::Bruck, Blocks::Even(len)) => alltoall::bruck(r, *len),
            (A::Pairwise, _) => alltoall::pairwise(r, send, recv),
            _ => alltoall::linear(r, send, recv),
        },
        Task::ReduceScatter { blocks } => match algorithm {
            A::Ring => reduce_scatter::ring(r, blocks),
            A::Halving if r.size.is_power_of_two() => reduce_scatter::halving(r, blocks),
            _ => reduce_scatter::pairwise(r, blocks),
        },
        Task::Scan { len, inclusive } => scan::doubling(r, *len, *inclusive),
    }
    rec.plan()
}
