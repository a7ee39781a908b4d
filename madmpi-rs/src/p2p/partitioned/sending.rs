//! Partitioned sends.

use core::ffi::c_int;
use std::collections::VecDeque;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use newmad::SendOptions;
use newmad::raw::Awaited;
use pioman::Completion;

use super::matching::{Announcement, announce};
use super::{CHANNEL_BITS, Partitions, first, unit_of, unit_tag, units};
use crate::abi::*;
use crate::error::Fault;
use crate::request::{Operation, Outcome, new_persistent_operation};

/// The free channels, in the order in which they were freed, and the first one that was never used.
static CHANNELS: KernelMutex<(VecDeque<u32>, u32)> = KernelMutex::new((VecDeque::new(), 0));

/// A channel; it is free again when the request is.
struct Channel(u32);

impl Channel {
    fn new() -> Result<Channel, Fault> {
        let (free, fresh) = &mut *CHANNELS.lock();
        if *fresh < 1 << CHANNEL_BITS {
            *fresh += 1;
            return Ok(Channel(*fresh - 1));
        }
        let most = 1 << CHANNEL_BITS;
        let none = || Fault::new(MPI_ERR_OTHER, format!("{most} partitioned sends exist already"));
        free.pop_front().map(Channel).ok_or_else(none)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        CHANNELS.lock().0.push_back(self.0);
    }
}

/// A request for a partitioned send.
struct Sender {
    partitions: Partitions,
    /// `None`: `MPI_PROC_NULL`.
    to: Option<(u32, Channel)>,
}

/// One start of the send.
struct Round {
    sender: Arc<Sender>,
    state: KernelMutex<State>,
    done: Completion,
}

struct State {
    ready: Vec<bool>,
    /// Partitions of each unit that are not ready.
    missing: Vec<u32>,
    /// Units that are not sent.
    left: usize,
    fault: Option<Fault>,
}

/// Makes a persistent request for a partitioned send.
pub(crate) fn send_init(
    partitions: Partitions,
    dest: c_int,
    tag: c_int,
) -> Result<MPI_Request, Fault> {
    let to = match partitions.comm.destination(dest, tag)? {
        Some((to, _)) => {
            let channel = Channel::new()?;
            let announced = Announcement {
                tag: tag as u32,
                channel: channel.0,
                partitions: partitions.number as u32,
                bytes: (partitions.bytes() * partitions.number) as u64,
            };
            announce(&partitions.comm, to, announced)?;
            Some((to, channel))
        }
        None => None,
    };
    let sender = Arc::new(Sender { partitions, to });
    new_persistent_operation(move || Ok(Sender::start(&sender)))
}

/// The operation of a started request.
struct SendOperation(Arc<Round>);

impl Sender {
    fn start(sender: &Arc<Sender>) -> Arc<dyn Operation> {
        let partitions = sender.partitions.number;
        let units = units(partitions);
        let size = |unit| (first(unit + 1, partitions) - first(unit, partitions)) as u32;
        let state = State {
            ready: vec![false; partitions],
            missing: (0..units).map(size).collect(),
            left: units,
            fault: None,
        };
        let (sender, state) = (sender.clone(), KernelMutex::new(state));
        let round = Round { sender, state, done: Completion::new() };
        if units == 0 {
            round.done.complete();
        }
        Arc::new(SendOperation(Arc::new(round)))
    }
}

impl Operation for SendOperation {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.0.sender.partitions.comm.session.awaited(&self.0.done).pending()
    }

    fn outcome(&self) -> Outcome {
        Outcome { status: MPI_Status::SENT, fault: self.0.state.lock().fault.clone() }
    }

    fn ready(&self, partition: c_int) -> Result<(), Fault> {
        let partitions = &self.0.sender.partitions;
        let index = partitions.check(partition)?;
        let unit = unit_of(index, partitions.number);
        let whole = {
            let mut state = self.0.state.lock();
            if std::mem::replace(&mut state.ready[index], true) {
                let why = "it was ready before";
                let fault = Fault::argument(MPI_ERR_ARG, "partition", partition, why);
                return Err(fault.on(partitions.comm.share()));
            }
            state.missing[unit] -= 1;
            state.missing[unit] == 0
        };
        if whole {
            Round::send(&self.0, unit);
        }
        Ok(())
    }

    fn arrived(&self, partition: c_int) -> Result<bool, Fault> {
        self.0.sender.partitions.check(partition)?;
        let fault = Fault::new(MPI_ERR_REQUEST, "argument request is a partitioned send");
        Err(fault.on(self.0.sender.partitions.comm.share()))
    }
}

impl Round {
    /// Sends a unit whose partitions are all ready.
    fn send(round: &Arc<Round>, unit: usize) {
        let Sender { partitions, to } = &*round.sender;
        let Some((to, channel)) = to else { return round.sent(Ok(())) };
        let Partitions { comm, elements, number, count } = partitions;
        let (begin, end) = (first(unit, *number), first(unit + 1, *number));
        let part = elements.part((begin * count) as i64, ((end - begin) * count) as i64);
        let tag = unit_tag(comm, channel.0, unit);
        let begun = comm.check_not_revoked().and_then(|()| part.outgoing()).and_then(|data| {
            // SAFETY: the program leaves a partition that is ready alone until the request is over, which is when the
            // last unit is sent; the list of pieces goes with the request.
            let from = unsafe { data.memory().trusted() };
            let request = comm.session.isend_with(*to, tag, from, SendOptions::new())?;
            Ok((request, data))
        });
        match begun {
            Ok((request, data)) => {
                let round = round.clone();
                request.on_done(move |result| {
                    drop(data);
                    round.sent(result.map(drop).map_err(Fault::from));
                });
            }
            Err(fault) => round.sent(Err(fault)),
        }
    }

    /// Records that a unit is sent.
    fn sent(&self, result: Result<(), Fault>) {
        let mut state = self.state.lock();
        if let Err(fault) = result {
            state.fault.get_or_insert(fault.on(self.sender.partitions.comm.share()));
        }
        state.left -= 1;
        let last = state.left == 0;
        drop(state);
        if last {
            self.done.complete();
        }
    }
}
