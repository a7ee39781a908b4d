//! Collectives between the two groups of an intercommunicator.
//!
//! | what | how |
//! |---|---|
//! | barrier, all-to-all kinds, gather, scatter | messages to and from each rank of the other side |
//! | broadcast | the root sends to the other side's leader (its rank 0), which broadcasts there |
//! | reductions | to the own leader; leaders exchange; the result goes to those who are to have it |

use core::ffi::{c_int, c_void};

use newmad::coll::{Blocks, Operator, Task};

use super::Plan;
use super::exchange::{Exchange, Message};
use super::recipe::Recipe;
use super::side::{self, Block};
use super::stages::Stages;
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype;
use crate::error::Fault;
use crate::handle::Held;

type Elements<P> = (P, i64, MPI_Datatype);

/// What a rank is in a rooted collective.
enum Part {
    /// The root.
    Root,
    /// Beside the root: it does nothing, and its other arguments mean nothing.
    Beside,
    /// On the other side; the root's rank there.
    Opposite(u32),
}

fn part(comm: &Comm, root: c_int) -> Result<Part, Fault> {
    match root {
        MPI_ROOT => Ok(Part::Root),
        MPI_PROC_NULL => Ok(Part::Beside),
        _ => {
            let rank = u32::try_from(root).ok().filter(|&rank| rank < comm.peers().size());
            rank.map(Part::Opposite).ok_or_else(|| {
                let why = format!(
                    "it is a rank of the other group (0 to {}), MPI_ROOT, or MPI_PROC_NULL beside the root",
                    comm.peers().size() as i64 - 1
                );
                Fault::argument(MPI_ERR_ROOT, "root", root, &why)
            })
        }
    }
}

fn tag(comm: &Comm) -> u64 {
    comm.internal_tag(super::exchange::TAG)
}

fn message(comm: &Comm, rank: u32, block: Block) -> Result<Message, Fault> {
    let process = comm.peers().process(rank);
    let process = process.ok_or_else(|| comm.bad_rank("rank", rank as c_int))?;
    Ok(Message { process, tag: tag(comm), block })
}

fn messages(comm: &Comm, blocks: Vec<Block>) -> Result<Vec<Message>, Fault> {
    (0..).zip(blocks).map(|(rank, block)| message(comm, rank, block)).collect()
}

/// Blocks of `count` elements, one after the other.
pub(super) fn spread(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    ranks: u32,
) -> Result<Vec<Block>, Fault> {
    let datatype = datatype::get(datatype)?;
    let step = datatype.extent.wrapping_mul(count as isize);
    let at = |rank: u32| buf.wrapping_byte_offset(step.wrapping_mul(rank as isize));
    (0..ranks).map(|rank| Block::new(at(rank), count, &datatype)).collect()
}

/// The same elements for each.
pub(super) fn repeated(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    ranks: u32,
) -> Result<Vec<Block>, Fault> {
    let block = Block::new(buf, count, &datatype::get(datatype)?)?;
    Ok(vec![block; ranks as usize])
}

/// A block for, and one of, each rank of the other side.
pub(super) fn all(
    comm: &Held<Comm>,
    sends: Vec<Block>,
    receives: Vec<Block>,
) -> Result<Plan, Fault> {
    let (receives, sends) = (messages(comm, receives)?, messages(comm, sends)?);
    Ok(Plan::Exchange(Exchange { comm: comm.clone(), receives, sends }))
}

/// Bytes of our own.
fn bytes(at: &mut [u8]) -> Result<Block, Fault> {
    Block::new(at.as_mut_ptr().cast_const().cast(), at.len() as i64, &datatype::get(MPI_BYTE)?)
}

pub(super) fn barrier(comm: &Held<Comm>) -> Result<Plan, Fault> {
    let nothing = Block::new(std::ptr::dangling::<u8>().cast(), 0, &datatype::get(MPI_BYTE)?)?;
    let each = vec![nothing; comm.peers().size() as usize];
    all(comm, each.clone(), each)
}

fn one_way(comm: &Held<Comm>, receives: Vec<Message>, sends: Vec<Message>) -> Plan {
    Plan::Exchange(Exchange { comm: comm.clone(), receives, sends })
}

pub(super) fn bcast(
    comm: &Held<Comm>,
    (buf, count, datatype): Elements<*mut c_void>,
    root: c_int,
) -> Result<Plan, Fault> {
    let block = || Block::new(buf, count, &datatype::get(datatype)?);
    match part(comm, root)? {
        Part::Beside => Ok(Plan::Nothing),
        Part::Root => Ok(one_way(comm, Vec::new(), vec![message(comm, 0, block()?)?])),
        Part::Opposite(root) => {
            let output = side::one(buf, count, datatype)?;
            let reads = comm.rank() == 0;
            let recipe = Recipe::new(comm, Task::Bcast { root: 0, len: output.len() });
            let spread = Plan::Group(Recipe { output, reads, ..recipe });
            if !reads {
                return Ok(spread);
            }
            let from_root = one_way(comm, vec![message(comm, root, block()?)?], Vec::new());
            Ok(Plan::Stages(Stages::new(vec![from_root, spread], Vec::new())))
        }
    }
}

pub(super) fn gather(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    root: c_int,
    receives: impl FnOnce() -> Result<Vec<Block>, Fault>,
) -> Result<Plan, Fault> {
    match part(comm, root)? {
        Part::Beside => Ok(Plan::Nothing),
        Part::Root => Ok(one_way(comm, messages(comm, receives()?)?, Vec::new())),
        Part::Opposite(root) => {
            let block = Block::new(send.0, send.1, &datatype::get(send.2)?)?;
            Ok(one_way(comm, Vec::new(), vec![message(comm, root, block)?]))
        }
    }
}

pub(super) fn scatter(
    comm: &Held<Comm>,
    recv: Elements<*mut c_void>,
    root: c_int,
    sends: impl FnOnce() -> Result<Vec<Block>, Fault>,
) -> Result<Plan, Fault> {
    match part(comm, root)? {
        Part::Beside => Ok(Plan::Nothing),
        Part::Root => Ok(one_way(comm, Vec::new(), messages(comm, sends()?)?)),
        Part::Opposite(root) => {
            let block = Block::new(recv.0, recv.1, &datatype::get(recv.2)?)?;
            Ok(one_way(comm, vec![message(comm, root, block)?], Vec::new()))
        }
    }
}

/// The own side's contributions, combined, in `room` of the own leader.
fn to_leader(
    comm: &Held<Comm>,
    send: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    operator: Operator,
    room: &mut [u8],
) -> Result<Recipe, Fault> {
    let input = side::one(send, count, datatype)?;
    let len = input.len();
    let output = match comm.rank() {
        0 => side::one(room.as_mut_ptr().cast(), len as i64, MPI_BYTE)?,
        _ => side::Side::Nothing,
    };
    let recipe = Recipe::new(comm, Task::Reduce { root: 0, len });
    Ok(Recipe { operator: Some(operator), input, output, ..recipe })
}

fn packed_len(count: i64, datatype: MPI_Datatype) -> Result<usize, Fault> {
    if count < 0 {
        return Err(Fault::argument(MPI_ERR_COUNT, "count", count, "it is not negative"));
    }
    Ok(datatype::get(datatype)?.size * count as usize)
}

pub(super) fn reduce(
    comm: &Held<Comm>,
    (send, recv): (*const c_void, *mut c_void),
    count: i64,
    datatype: MPI_Datatype,
    operator: impl FnOnce() -> Result<Operator, Fault>,
    root: c_int,
) -> Result<Plan, Fault> {
    match part(comm, root)? {
        Part::Beside => Ok(Plan::Nothing),
        Part::Root => {
            operator()?;
            // What comes is packed as a message of these elements is.
            let block = Block::new(recv, count, &datatype::get(datatype)?)?;
            Ok(one_way(comm, vec![message(comm, 0, block)?], Vec::new()))
        }
        Part::Opposite(root) => {
            let mut room = vec![0; packed_len(count, datatype)?].into_boxed_slice();
            let combine = to_leader(comm, send, count, datatype, operator()?, &mut room)?;
            if comm.rank() != 0 {
                return Ok(Plan::Group(combine));
            }
            let to_root = one_way(comm, Vec::new(), vec![message(comm, root, bytes(&mut room)?)?]);
            Ok(Plan::Stages(Stages::new(vec![Plan::Group(combine), to_root], vec![room])))
        }
    }
}

/// The plans so far, what is combined here, and what the other side has.
type Crossed = (Vec<Plan>, Box<[u8]>, Box<[u8]>);

/// Both sides' contributions combined, each side's at the other's leader: the plans so far, and the memory.
fn crossed(
    comm: &Held<Comm>,
    send: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    operator: Operator,
    theirs: usize,
) -> Result<Crossed, Fault> {
    let mut ours = vec![0; packed_len(count, datatype)?].into_boxed_slice();
    let mut other = vec![0; theirs].into_boxed_slice();
    let mut plans = vec![Plan::Group(to_leader(comm, send, count, datatype, operator, &mut ours)?)];
    if comm.rank() == 0 {
        let receives = vec![message(comm, 0, bytes(&mut other)?)?];
        plans.push(one_way(comm, receives, vec![message(comm, 0, bytes(&mut ours)?)?]));
    }
    Ok((plans, ours, other))
}

pub(super) fn allreduce(
    comm: &Held<Comm>,
    (send, recv): (*const c_void, *mut c_void),
    count: i64,
    datatype: MPI_Datatype,
    operator: Operator,
) -> Result<Plan, Fault> {
    let len = packed_len(count, datatype)?;
    let (mut plans, ours, mut other) = crossed(comm, send, count, datatype, operator, len)?;
    // From the leader to all of this side, each into its own buffer: a scatter of equal blocks would need copies, so a
    // broadcast into the memory here, and then a message to oneself unpacks it.
    let output = side::one(other.as_mut_ptr().cast(), len as i64, MPI_BYTE)?;
    let share = Recipe::new(comm, Task::Bcast { root: 0, len });
    plans.push(Plan::Group(Recipe { output, reads: comm.rank() == 0, ..share }));
    plans.push(to_oneself(
        comm,
        bytes(&mut other)?,
        Block::new(recv, count, &datatype::get(datatype)?)?,
    )?);
    Ok(Plan::Stages(Stages::new(plans, vec![ours, other])))
}

/// Unpacks.
fn to_oneself(comm: &Held<Comm>, from: Block, into: Block) -> Result<Plan, Fault> {
    let process = comm.session.rank();
    let tag = comm.internal_tag(super::exchange::OWN_TAG);
    let message = |block| Message { process, tag, block };
    Ok(one_way(comm, vec![message(into)], vec![message(from)]))
}

pub(super) fn reduce_scatter(
    comm: &Held<Comm>,
    (send, recv): (*const c_void, *mut c_void),
    counts: &[i64],
    datatype: MPI_Datatype,
    operator: Operator,
) -> Result<Plan, Fault> {
    // Both sides contribute as many elements as each side's counts say: the same sum.
    let size = datatype::get(datatype)?.size;
    let total: i64 = counts.iter().sum();
    let len = packed_len(total, datatype)?;
    let (mut plans, ours, mut other) = crossed(comm, send, total, datatype, operator, len)?;
    let own = counts[comm.rank() as usize];
    let output = side::one(recv, own, datatype)?;
    let input = match comm.rank() {
        0 => side::one(other.as_mut_ptr().cast(), len as i64, MPI_BYTE)?,
        _ => side::Side::Nothing,
    };
    let blocks = Blocks::of_lengths(counts.iter().map(|&count| size * count as usize));
    let blocks = (comm.rank() == 0).then_some(blocks);
    let task = Task::Scatter { root: 0, own: size * own as usize, blocks };
    plans.push(Plan::Group(Recipe { input, output, ..Recipe::new(comm, task) }));
    Ok(Plan::Stages(Stages::new(plans, vec![ours, other])))
}
