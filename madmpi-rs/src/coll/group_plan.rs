//! Collectives of newmad, with their data.

use std::sync::Arc;

use newmad::coll::{Bytes, Collective, Operator, Task};

use super::buffers::{Buffer, Memory};
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
        }
    }

    /// Lends the memory of the input and of the output.
    fn lend(&self) -> Result<(Memory, Memory), Fault> {
        let input = self.input.lend(true)?;
        Ok((input, self.output.lend(self.in_place || self.reads || self.keeps)?))
    }

    /// The collective over lent memory, which stays until the collective is over.
    fn collective<'a>(
        &'a self,
        input: &Memory,
        output: &Memory,
    ) -> Result<Collective<'a, Bytes>, Fault> {
        let (group, operator) = (self.comm.coll_group()?, self.operator.as_ref());
        let (input, output) = (input.memory(), output.memory());
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
    pub(super) fn run(self) -> Result<(), Fault> {
        let (input, output) = self.lend()?;
        let over = self.collective(&input, &output)?.wait();
        drop(input);
        over?;
        // SAFETY: the collective is over; the program's buffer is lent during the call.
        unsafe { output.unpack_into(self.results()) };
        Ok(())
    }

    /// Starts it as an operation.
    pub(super) fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        let (input, output) = self.lend()?;
        let collective = self.collective(&input, &output)?;
        let pending = match self.series {
            None => collective.start()?,
            Some(series) => collective.start_in(series.number())?,
        };
        let blocks = self.results().to_vec();
        let finish: Finish = Box::new(move || {
            drop(input);
            // SAFETY: the collective is over; the program leaves its buffer alone until its request is over.
            unsafe { output.unpack_into(&blocks) };
            Ok(())
        });
        Ok(operation(&self.comm, pending, finish))
    }
}
