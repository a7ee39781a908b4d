//! Collectives between the two groups of an intercommunicator.
//!
//! | what | how |
//! |---|---|
//! | barrier, all-to-all kinds, gather, scatter | messages to and from each rank of the other side |
//! | broadcast | the root sends to the other side's leader (its rank 0), which broadcasts there |
//! | reductions | to the own leader; the leaders exchange; the result goes to the ranks that receive it |
//!
//! A rank at which a stage fails does its part of the later ones without data (`give_up`): they fail at the others, too, and no rank
//! waits for it.
//!
//! A stage begins when the one before is over, at each rank at another time. So each call is a series of its own
//! (`comm::series`), and several that are outstanding do not meet each other's stages.

use core::ffi::c_int;

use newmad::coll::{Blocks, Operator, Task};

use super::buffers::{self, Buffer, Layout};
use super::exchange::{Exchange, Message, OWN_LANE};
use super::group_plan::GroupPlan;
use super::plan::{Plan, Stages};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{self, Choice, Elements};
use crate::error::Fault;
use crate::handle::Ref;

/// The role of a rank in a rooted collective.
enum Role {
    /// The root.
    Root,
    /// A rank beside the root: it does nothing, and its other arguments mean nothing.
    Idle,
    /// A rank on the other side, with the root's rank there.
    Opposite(u32),
}

fn role(comm: &Comm, root: c_int) -> Result<Role, Fault> {
    match root {
        MPI_ROOT => Ok(Role::Root),
        MPI_PROC_NULL => Ok(Role::Idle),
        _ => {
            let rank = u32::try_from(root).ok().filter(|&rank| rank < comm.peers().size());
            rank.map(Role::Opposite).ok_or_else(|| {
                let why = format!(
                    "it must be a rank of the other group (0 to {}), MPI_ROOT, or MPI_PROC_NULL beside the root",
                    comm.peers().size() as i64 - 1
                );
                Fault::argument(MPI_ERR_ROOT, "root", root, &why)
            })
        }
    }
}

fn message(comm: &Comm, rank: u32, elements: Elements) -> Result<Message, Fault> {
    let process = comm.peers().process(rank);
    let process = process.ok_or_else(|| comm.bad_rank("rank", rank as c_int))?;
    Ok(Message { process, lane: 0, elements })
}

fn messages(comm: &Comm, blocks: Vec<Elements>) -> Result<Vec<Message>, Fault> {
    (0..).zip(blocks).map(|(rank, block)| message(comm, rank, block)).collect()
}

/// Memory for packed elements, which goes with the stages that use it. A vector, not a box: moving a box would claim
/// the memory that the stages have pointers to.
struct Room(Vec<u8>);

impl Room {
    fn of(buffer: Choice) -> Result<Room, Fault> {
        Ok(Room(vec![0; datatype::get(buffer.datatype)?.size * buffer.count()?]))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&mut self) -> Result<Elements, Fault> {
        // SAFETY: the memory is on the heap, and the stages keep it until they are over.
        unsafe { Elements::bytes(&raw mut self.0[..]) }
    }

    fn buffer(&mut self) -> Result<Buffer, Fault> {
        Ok(Buffer::of_bytes(&raw mut self.0[..]))
    }
}

/// A block to, and one from, each rank of the other side.
pub(super) fn all(
    comm: &Ref<Comm>,
    sends: Vec<Elements>,
    receives: Vec<Elements>,
) -> Result<Plan, Fault> {
    Ok(exchange(comm, messages(comm, receives)?, messages(comm, sends)?))
}

pub(super) fn barrier(comm: &Ref<Comm>) -> Result<Plan, Fault> {
    let each = vec![Elements::none()?; comm.peers().size() as usize];
    all(comm, each.clone(), each)
}

fn exchange(comm: &Ref<Comm>, receives: Vec<Message>, sends: Vec<Message>) -> Plan {
    Plan::Exchange(Exchange::new(comm, receives, sends))
}

/// An exchange with the other side's leader or root, which sends nothing when it has given up.
fn exchange_of_leaders(comm: &Ref<Comm>, receives: Vec<Message>, sends: Vec<Message>) -> Plan {
    Plan::Exchange(Exchange { full_length: true, ..Exchange::new(comm, receives, sends) })
}

pub(super) fn bcast(comm: &Ref<Comm>, buffer: Choice, root: c_int) -> Result<Plan, Fault> {
    match role(comm, root)? {
        Role::Idle => Ok(Plan::Nothing(comm.clone())),
        Role::Root => {
            Ok(exchange(comm, Vec::new(), vec![message(comm, 0, buffer.elements()?.checked()?)?]))
        }
        Role::Opposite(root) => {
            let output = buffers::one(buffer)?;
            let reads = comm.rank() == 0;
            let plan = GroupPlan::new(comm, Task::Bcast { root: 0, len: output.len() });
            let spread = Plan::Group(GroupPlan { output, reads, ..plan });
            if !reads {
                return Ok(spread);
            }
            let from_root = exchange_of_leaders(
                comm,
                vec![message(comm, root, buffer.elements()?.checked()?)?],
                Vec::new(),
            );
            Ok(Plan::Stages(Stages::new(vec![from_root, spread], Vec::new())))
        }
    }
}

pub(super) fn gather(
    comm: &Ref<Comm>,
    send: Choice,
    recv: Layout,
    root: c_int,
) -> Result<Plan, Fault> {
    match role(comm, root)? {
        Role::Idle => Ok(Plan::Nothing(comm.clone())),
        Role::Root => {
            let receives = recv.blocks(comm.peers().size())?;
            Ok(exchange(comm, messages(comm, receives)?, Vec::new()))
        }
        Role::Opposite(root) => {
            Ok(exchange(comm, Vec::new(), vec![message(comm, root, send.elements()?.checked()?)?]))
        }
    }
}

pub(super) fn scatter(
    comm: &Ref<Comm>,
    send: Layout,
    recv: Choice,
    root: c_int,
) -> Result<Plan, Fault> {
    match role(comm, root)? {
        Role::Idle => Ok(Plan::Nothing(comm.clone())),
        Role::Root => {
            let sends = send.blocks(comm.peers().size())?;
            Ok(exchange(comm, Vec::new(), messages(comm, sends)?))
        }
        Role::Opposite(root) => {
            Ok(exchange(comm, vec![message(comm, root, recv.elements()?.checked()?)?], Vec::new()))
        }
    }
}

/// Combines the own side's contributions in `room` of the own leader.
fn to_leader(
    comm: &Ref<Comm>,
    send: Choice,
    operator: Operator,
    room: &mut Room,
) -> Result<Plan, Fault> {
    let input = buffers::one(send)?;
    let len = input.len();
    let output = match comm.rank() {
        0 => room.buffer()?,
        _ => Buffer::Nothing,
    };
    let plan = GroupPlan::new(comm, Task::Reduce { root: 0, len });
    Ok(Plan::Group(GroupPlan { operator: Some(operator), input, output, ..plan }))
}

pub(super) fn reduce(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    operator: impl FnOnce() -> Result<Operator, Fault>,
    root: c_int,
) -> Result<Plan, Fault> {
    match role(comm, root)? {
        Role::Idle => Ok(Plan::Nothing(comm.clone())),
        Role::Root => {
            operator()?;
            // The result arrives packed, as a message of these elements does.
            let result = message(comm, 0, recv.elements()?.checked()?)?;
            Ok(exchange_of_leaders(comm, vec![result], Vec::new()))
        }
        Role::Opposite(root) => {
            let mut room = Room::of(send)?;
            let combine = to_leader(comm, send, operator()?, &mut room)?;
            if comm.rank() != 0 {
                return Ok(combine);
            }
            let to_root = exchange(comm, Vec::new(), vec![message(comm, root, room.elements()?)?]);
            Ok(Plan::Stages(Stages::new(vec![combine, to_root], vec![room.0])))
        }
    }
}

/// The plans so far, the own side's combination, and the other side's.
type Crossing = (Vec<Plan>, Room, Room);

/// Combines both sides' contributions, each side's at the other's leader.
fn crossed(comm: &Ref<Comm>, send: Choice, operator: Operator) -> Result<Crossing, Fault> {
    let (mut ours, mut theirs) = (Room::of(send)?, Room::of(send)?);
    let mut plans = vec![to_leader(comm, send, operator, &mut ours)?];
    if comm.rank() == 0 {
        let receives = vec![message(comm, 0, theirs.elements()?)?];
        let sends = vec![message(comm, 0, ours.elements()?)?];
        plans.push(exchange_of_leaders(comm, receives, sends));
    }
    Ok((plans, ours, theirs))
}

pub(super) fn allreduce(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    operator: Operator,
) -> Result<Plan, Fault> {
    let (mut plans, ours, mut theirs) = crossed(comm, send, operator)?;
    // The leader's result goes to all of this side, each rank with a buffer of its own. A scatter of equal blocks
    // would need copies, so it is a broadcast into the memory here and a message to oneself that unpacks it.
    let share = GroupPlan::new(comm, Task::Bcast { root: 0, len: theirs.len() });
    let output = theirs.buffer()?;
    plans.push(Plan::Group(GroupPlan { output, reads: comm.rank() == 0, ..share }));
    plans.push(to_oneself(comm, theirs.elements()?, recv.elements()?.checked()?)?);
    Ok(Plan::Stages(Stages::new(plans, vec![ours.0, theirs.0])))
}

/// Unpacks by a message to oneself.
fn to_oneself(comm: &Ref<Comm>, from: Elements, into: Elements) -> Result<Plan, Fault> {
    let process = comm.session.rank();
    let message = |elements| Message { process, lane: OWN_LANE, elements };
    Ok(exchange(comm, vec![message(into)], vec![message(from)]))
}

/// Both sides contribute as many elements as each side's counts add up to, which `send` has; `recv` has the own count.
pub(super) fn reduce_scatter(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    counts: &[i64],
    operator: Operator,
) -> Result<Plan, Fault> {
    let size = datatype::get(send.datatype)?.size;
    let (mut plans, ours, mut theirs) = crossed(comm, send, operator)?;
    let output = buffers::one(recv)?;
    let input = match comm.rank() {
        0 => theirs.buffer()?,
        _ => Buffer::Nothing,
    };
    let blocks = Blocks::of_lengths(counts.iter().map(|&count| size * count as usize));
    let blocks = (comm.rank() == 0).then_some(blocks);
    let task = Task::Scatter { root: 0, own: output.len(), blocks };
    plans.push(Plan::Group(GroupPlan { input, output, ..GroupPlan::new(comm, task) }));
    Ok(Plan::Stages(Stages::new(plans, vec![ours.0, theirs.0])))
}
