//! Long collectives that only copy: each member shows where its contribution lies, and the others read it there, by the
//! kernel's copy. A short exchange before says where, and one after that all have read.
//!
//! If the kernel refuses a copy (of memory that is mapped from a device, for instance) the second exchange tells all
//! members, which do this one by messages, and those that follow. A member that is gone, or has given up, is found out by
//! the exchanges: what was read of it goes to a result that is none.
//!
//! Measured (AMD EPYC, two cores, medians in µs; by messages in brackets): two ranks, alltoall of 32 KiB 5.4 (8.2), of 1 MiB
//! 103 (114), broadcast of 32 KiB 7.5 (9.4 to 17); four ranks, allgather of 256 KiB 155 (295 to 384). A broadcast of 1 MiB
//! to one other rank takes 117, and 68 by messages.
//! Rejected: pieces over the sheets, which copies twice (`exchange`).

use crate::coll::board::{Board, MOST};
use crate::coll::failure::Failure;
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::operator::{as_bytes, as_bytes_mut};
use crate::coll::shared::exchange::kind;
use crate::coll::task::{Blocks, Task};
use crate::error::Error;
use crate::net::shm::cma;

/// Part of a member's contribution, and where it belongs in the own result.
struct Part {
    rank: u32,
    from: usize,
    into: usize,
    len: usize,
}

/// Longest contribution that goes one way only. One side of it has nothing to copy; by messages both copy, where that has
/// been faster.
const ONE_WAY: usize = 128 * 1024;

/// Whether a task that does not fit the sheets goes so. The same at all members.
pub(in crate::coll) fn is_lent(task: &Task, in_place: bool) -> bool {
    match task {
        Task::Bcast { len, .. }
        | Task::Gather { own: len, blocks: Some(Blocks::Even(_)), .. }
        | Task::Scatter { own: len, blocks: Some(Blocks::Even(_)), .. } => *len <= ONE_WAY,
        Task::Allgather { .. } => true,
        // In place the blocks would be written while others read them.
        Task::Alltoall { send: Blocks::Even(_), recv: Blocks::Even(_) } => !in_place,
        _ => false,
    }
}

/// How long what that member gives to each is.
fn given(task: &Task, rank: u32) -> usize {
    match task {
        Task::Bcast { len, .. } => *len,
        Task::Gather { own, .. } | Task::Scatter { own, .. } => *own,
        Task::Allgather { blocks } | Task::Alltoall { send: blocks, .. } => blocks.len(rank),
        _ => 0,
    }
}

/// What this rank takes from another one, or from itself, if anything.
fn part(task: &Task, me: u32, rank: u32) -> Option<Part> {
    let (mine, theirs) = (me as usize, rank as usize);
    let (from, into, len) = match task {
        Task::Bcast { root, len } if *root == rank && rank != me => (0, 0, *len),
        Task::Gather { root, own, .. } if *root == me => (0, theirs * own, *own),
        Task::Scatter { root, own, .. } if *root == rank => (mine * own, 0, *own),
        Task::Allgather { blocks } => {
            let (start, len) = blocks.get(rank);
            (0, start, len)
        }
        Task::Alltoall { send, .. } => {
            let len = send.len(rank);
            (mine * len, theirs * len, len)
        }
        _ => return None,
    };
    Some(Part { rank, from, into, len })
}

impl Group {
    /// Does one that [`is_lent`]. False: the kernel has refused a copy to one of the members, and all do it in another way.
    ///
    /// # Safety
    /// As [`Group::exchange`].
    ///
    /// # Errors
    /// As of a collective.
    pub(in crate::coll) unsafe fn read_lent(
        &self,
        board: &mut Board,
        task: &Task,
        memory: &Memory,
        in_place: bool,
    ) -> Result<bool, Error> {
        let (me, into) = (self.rank(), memory.output.cast::<u8>());
        let contribution = match task {
            // In place it is at its place in the result.
            Task::Allgather { blocks } if in_place => into.wrapping_add(blocks.get(me).0),
            Task::Bcast { .. } => into,
            _ if in_place => into,
            _ => memory.input.cast::<u8>().cast_mut(),
        };
        let label = |rank: u32| kind(task) << 32 | given(task, rank) as u64 & u64::from(u32::MAX);
        let lent = self.show_all(board, [label(me), contribution.addr() as u64])?;
        for rank in 0..self.size() {
            let [shown, _] = lent[rank as usize];
            if shown != label(rank) {
                let (from, expected) = (self.members()[rank as usize], given(task, rank));
                let failure = Failure::Mismatch { from, expected, found: shown as u32 as usize };
                self.context.revoke(failure);
                return Err(failure.error());
            }
        }
        // Each begins with another one.
        let others = (1..self.size()).map(|distance| (me + distance) % self.size());
        let mut is_read = true;
        for part in others.filter_map(|rank| part(task, me, rank)) {
            let [_, address] = lent[part.rank as usize];
            let process = board.members[part.rank as usize].process;
            // SAFETY: the part is inside the result, which is the caller's alone.
            is_read &= unsafe { read(process, address, &part, into) };
        }
        if !in_place && let Some(own) = part(task, me, me) {
            // SAFETY: both are inside, and the two buffers do not overlap.
            unsafe {
                let from = contribution.cast_const().wrapping_add(own.from);
                std::ptr::copy_nonoverlapping(from, into.wrapping_add(own.into), own.len);
            }
        }
        let all = self.show_all(board, [u64::from(is_read)])?;
        Ok(all[..self.size() as usize].iter().all(|&[is_read]| is_read == 1))
    }

    /// Each shows some numbers to each.
    fn show_all<const N: usize>(
        &self,
        board: &mut Board,
        own: [u64; N],
    ) -> Result<[[u64; N]; MOST as usize], Error> {
        let mut all = [[0; N]; MOST as usize];
        all[self.rank() as usize] = own;
        let task = Task::Allgather { blocks: Blocks::Even(size_of_val(&own)) };
        let output = as_bytes_mut(&mut all) as *mut [u8];
        let memory = Memory { input: as_bytes::<u64>(&[]), output };
        // SAFETY: the memory is here until this returns, and has room for the numbers of all members.
        unsafe { self.exchange(board, &task, None, &memory, true)? };
        Ok(all)
    }
}

/// Reads a part from where a member has lent it; whether the kernel has copied all of it.
///
/// # Safety
/// The part is inside the result `into`, which is the caller's alone.
unsafe fn read(process: Option<i32>, lent: u64, part: &Part, into: *mut u8) -> bool {
    let Some(process) = process else { return false };
    let mut done = 0;
    while done < part.len {
        let remote = lent.wrapping_add((part.from + done) as u64);
        let to = into.wrapping_add(part.into + done);
        // SAFETY: the caller's promise.
        match unsafe { cma::read(process, remote, to, part.len - done) } {
            Ok(copied) => done += copied,
            Err(_) => return false,
        }
    }
    true
}
