//! A collective of newmad's.

use std::sync::Arc;

use newmad::coll::{Operator, Pending, Task};

use super::buffers::{Buffer, Memory};
use crate::comm::Comm;
use crate::datatype::Elements;
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::Operation;
use crate::request::collective::{Finish, operation};

/// What is to be done, and with which data.
pub(crate) struct Recipe {
    pub(super) comm: Ref<Comm>,
    pub(super) task: Task,
    pub(super) operator: Option<Operator>,
    pub(super) input: Buffer,
    pub(super) output: Buffer,
    /// The contribution is where the result goes.
    pub(super) in_place: bool,
    /// The memory of the result is only read: the root of a broadcast, or what it scatters in place.
    pub(super) reads: bool,
    /// Part of the result may stay as it is.
    pub(super) keeps: bool,
}

impl Recipe {
    pub(super) fn new(comm: &Ref<Comm>, task: Task) -> Recipe {
        Recipe {
            comm: comm.clone(),
            task,
            operator: None,
            input: Buffer::Nothing,
            output: Buffer::Nothing,
            in_place: false,
            reads: false,
            keeps: false,
        }
    }

    /// The memory of both sides.
    fn lend(&self) -> Result<(Memory, Memory), Fault> {
        // SAFETY: the program leaves its buffers to the collective until that is over.
        unsafe {
            let input = self.input.lend(true)?;
            Ok((input, self.output.lend(self.in_place || self.reads || self.keeps)?))
        }
    }

    fn begin(&self) -> Result<(Pending<()>, Memory, Memory), Fault> {
        let group = self.comm.coll_group()?;
        let (input, output) = self.lend()?;
        // SAFETY: as in `lend`.
        unsafe {
            let pending = group
                .bytes(
                    &self.task,
                    self.operator.as_ref(),
                    input.memory(),
                    output.memory(),
                    self.in_place,
                )
                .start()?;
            Ok((pending, input, output))
        }
    }

    /// The blocks that are to be filled from a stage.
    fn results(&self) -> &[Elements] {
        match &self.output {
            Buffer::Staged { blocks, .. } if !self.reads => blocks,
            _ => &[],
        }
    }

    /// Does it, and waits.
    pub(super) fn run(self) -> Result<(), Fault> {
        let group = self.comm.coll_group()?;
        let (input, output) = self.lend()?;
        // SAFETY: as in `lend`.
        let over = unsafe {
            group
                .bytes(
                    &self.task,
                    self.operator.as_ref(),
                    input.memory(),
                    output.memory(),
                    self.in_place,
                )
                .wait()
        };
        drop(input);
        over?;
        // SAFETY: it is over; the program's buffer is still ours.
        unsafe { Buffer::take_back(self.results(), &output) };
        Ok(())
    }

    /// Begins.
    pub(super) fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        let (pending, input, output) = self.begin()?;
        let blocks = self.results().to_vec();
        let finish: Finish = Box::new(move || {
            drop(input);
            // SAFETY: it is over; the program leaves its buffer alone until it has been told.
            unsafe { Buffer::take_back(&blocks, &output) };
            Ok(())
        });
        Ok(operation(&self.comm, pending, Some(finish)))
    }
}
