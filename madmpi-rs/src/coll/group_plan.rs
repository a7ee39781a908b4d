//! Collectives of newmad, with their data.

use std::ops::Range;
use std::sync::Arc;

use newmad::coll::{Blocks, Bytes, Collective, Operator, Task};

use super::buffers::{Buffer, Memory};
use crate::abi::MPI_ERR_BUFFER;
use crate::comm::{Comm, Series};
use crate::datatype::Elements;
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::Operation;
use crate::request::collective::{Finish, operation};

/// A collective of newmad, and the data that it is started with.
pub(crate) struct GroupPlan {
    pub(super) comm: Ref<Comm>,
    pub(super) series: Option<Series>,
    pub(super) task: Task,
    pub(super) operator: Option<Operator>,
    pub(super) input: Buffer,
    pub(super) output: Buffer,
    /// The contribution lies where the result goes.
    pub(super) in_place: bool,
    /// The memory of the result is only read: at the root of a broadcast, or of a scatter in place.
    pub(super) reads: bool,
    /// Part of the memory of the result may stay as it is.
    pub(super) keeps: bool,
    /// What is wrong at this rank alone: it is told when the others have what they wait for.
    pub(super) fault: Option<Fault>,
}

impl GroupPlan {
    pub(super) fn new(comm: &Ref<Comm>, task: Task) -> GroupPlan {
        GroupPlan {
            comm: comm.clone(),
            series: None,
            task,
            operator: None,
            input: Buffer::Nothing,
            output: Buffer::Nothing,
            in_place: false,
            reads: false,
            keeps: false,
            fault: None,
        }
    }

    /// Checks that no byte is both sent and received into. Data that are packed are not looked at: they are copied
    /// before anything is received.
    ///
    /// # Errors
    /// One is.
    #[inline]
    pub(super) fn check_apart(&self) -> Result<(), Fault> {
        match (&self.input, &self.output) {
            (Buffer::Direct { at, len }, Buffer::Direct { at: into, len: room })
                if *len > 0 && *room > 0 && *at < into + room && *into < at + len =>
            {
                self.check_blocks(*at..at + len, *into..into + room)
            }
            _ => Ok(()),
        }
    }

    /// As [`GroupPlan::check_apart`], of memory that overlaps unless the blocks lie in each other's gaps.
    #[cold]
    fn check_blocks(&self, from: Range<usize>, into: Range<usize>) -> Result<(), Fault> {
        let (sent, received) = match &self.task {
            Task::Alltoall { send, recv } => (Some(send), Some(recv)),
            Task::Scatter { blocks, .. } => (blocks.as_ref(), None),
            Task::Gather { blocks, .. } => (None, blocks.as_ref()),
            Task::Allgather { blocks } => (None, Some(blocks)),
            _ => (None, None),
        };
        let mut all = ranges(from, sent, 0);
        all.extend(ranges(into, received, 1));
        all.sort_by_key(|(range, _)| range.start);
        let mut ends = [0, 0];
        for (range, side) in all {
            if range.start < ends[1 - side] {
                let why = "sendbuf and recvbuf have bytes in common: MPI_IN_PLACE as sendbuf (recvbuf at the root of a \
                           scatter) is for data that are replaced";
                return Err(Fault::new(MPI_ERR_BUFFER, why));
            }
            ends[side] = range.end.max(ends[side]);
        }
        Ok(())
    }

    /// Lends the memory of the input and of the output.
    fn lend(&self) -> Result<(Memory, Memory), Fault> {
        let input = self.input.lend(true)?;
        Ok((input, self.output.lend(self.in_place || self.reads || self.keeps)?))
    }

    /// The collective over lent memory, which stays until the collective is over.
    #[inline]
    fn collective(
        &self,
        input: *mut [u8],
        output: *mut [u8],
    ) -> Result<Collective<'_, Bytes>, Fault> {
        let (group, operator) = (self.comm.coll_group()?, self.operator.as_ref());
        // SAFETY: the program leaves its buffers to the collective until that is over; both callers keep the stages.
        Ok(unsafe { group.bytes(&self.task, operator, input, output, self.in_place) })
    }

    /// The elements that a stage is unpacked into.
    fn results(&self) -> &[Elements] {
        match &self.output {
            Buffer::Staged { blocks, .. } if !self.reads => blocks,
            _ => &[],
        }
    }

    /// Starts it and waits for its end.
    pub(super) fn run(&self) -> Result<(), Fault> {
        match (self.input.unstaged(), self.output.unstaged()) {
            (Some(input), Some(output)) => self.collective(input, output)?.wait()?,
            _ => self.run_staged()?,
        }
        match &self.fault {
            None => Ok(()),
            Some(fault) => Err(fault.clone()),
        }
    }

    /// The same, where data go through a stage.
    #[inline(never)]
    fn run_staged(&self) -> Result<(), Fault> {
        let (input, output) = self.lend()?;
        let over = self.collective(input.memory(), output.memory())?.wait();
        drop(input);
        over?;
        // SAFETY: the collective is over; the program's buffer is lent during the call.
        unsafe { output.unpack_into(self.results()) };
        Ok(())
    }

    /// Starts it as an operation.
    pub(super) fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        let (input, output) = self.lend()?;
        let collective = self.collective(input.memory(), output.memory())?;
        let pending = match self.series {
            None => collective.start()?,
            Some(series) => collective.start_in(series.number())?,
        };
        let (blocks, fault) = (self.results().to_vec(), self.fault.clone());
        let finish: Finish = Box::new(move || {
            drop(input);
            // SAFETY: the collective is over; the program leaves its buffer alone until its request is over.
            unsafe { output.unpack_into(&blocks) };
            fault.map_or(Ok(()), Err)
        });
        Ok(operation(&self.comm, pending, finish))
    }
}

/// The bytes of blocks that lie in `whole`, each with the side that it is on.
fn ranges(whole: Range<usize>, blocks: Option<&Blocks>, side: usize) -> Vec<(Range<usize>, usize)> {
    match blocks {
        Some(Blocks::Each(blocks)) => {
            let used = blocks.iter().filter(|block| block.1 > 0);
            used.map(|&(at, len)| (whole.start + at..whole.start + at + len, side)).collect()
        }
        _ => vec![(whole, side)],
    }
}
