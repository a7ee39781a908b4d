//! Partitioned receives.
//!
//! Contiguous elements are received in place. Otherwise a unit of whole elements is received like any other message.
//! If units end inside elements, all of them go through one copy, and no partition arrives before all have.

use core::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use newmad::raw::{Awaited, RawRequest};
use pioman::Completion;

use super::matching::{Announcement, expect};
use super::{Partitions, first, unit_of, unit_tag, units};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Data;
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{Operation, Outcome, new_persistent_operation};

/// A request for a partitioned receive.
struct Receiver {
    partitions: Partitions,
    /// `None`: `MPI_PROC_NULL`.
    from: Option<u32>,
    source: c_int,
    tag: c_int,
    state: KernelMutex<State>,
}

enum State {
    /// The sender is not known yet; a started receive waits for it.
    Unmatched(Option<Arc<Round>>),
    Matched(Announcement),
    Failed(Fault),
}

/// One start of the receive.
struct Round {
    receiver: Arc<Receiver>,
    state: KernelMutex<Progress>,
    done: Completion,
}

#[derive(Default)]
struct Progress {
    announced: Option<Announcement>,
    arrived: Vec<bool>,
    /// Units that have not arrived.
    left: usize,
    /// The copy that all units go through, if they do.
    copy: Vec<u8>,
    fault: Option<Fault>,
    over: bool,
}

/// Makes a persistent request for a partitioned receive.
pub(crate) fn recv_init(
    partitions: Partitions,
    source: c_int,
    tag: c_int,
) -> Result<MPI_Request, Fault> {
    // Wildcards are as wrong here as for a send.
    let from = partitions.comm.destination(source, tag)?.map(|(from, _)| from);
    let state = KernelMutex::new(State::Unmatched(None));
    let receiver = Arc::new(Receiver { partitions, from, source, tag, state });
    if let Some(from) = from {
        let matched = receiver.clone();
        let matched = move |announcement| matched.matched(announcement);
        expect(receiver.comm(), from, tag as u32, Box::new(matched))?;
    }
    new_persistent_operation(move || Ok(Receiver::start(&receiver)))
}

impl Receiver {
    fn comm(&self) -> &Ref<Comm> {
        &self.partitions.comm
    }

    fn start(receiver: &Arc<Receiver>) -> Arc<dyn Operation> {
        let (state, done) = (KernelMutex::default(), Completion::new());
        let round = Arc::new(Round { receiver: receiver.clone(), state, done });
        if receiver.from.is_none() {
            round.end(None);
            return Arc::new(ReceiveOperation(round));
        }
        let mut state = receiver.state.lock();
        match &mut *state {
            State::Unmatched(started) => *started = Some(round.clone()),
            State::Matched(announced) => {
                let announced = *announced;
                drop(state);
                Round::begin(&round, announced);
            }
            State::Failed(fault) => round.end(Some(fault.clone())),
        }
        Arc::new(ReceiveOperation(round))
    }

    /// Records the sender, or that there will be none.
    fn matched(&self, announcement: Result<Announcement, Fault>) {
        let now = match &announcement {
            Ok(announced) => State::Matched(*announced),
            Err(fault) => State::Failed(fault.clone()),
        };
        let before = std::mem::replace(&mut *self.state.lock(), now);
        if let State::Unmatched(Some(round)) = before {
            match announcement {
                Ok(announced) => Round::begin(&round, announced),
                Err(fault) => round.end(Some(fault)),
            }
        }
    }
}

/// The bytes of a unit: so there are partitions.
fn range(unit: usize, announced: &Announcement) -> Range<usize> {
    let (partitions, bytes) = (announced.partitions as usize, announced.bytes as usize);
    let each = bytes / partitions;
    first(unit, partitions) * each..first(unit + 1, partitions) * each
}

/// The first of so many units of which that is true, as of all behind it.
fn first_unit(units: usize, is_so: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, units);
    while from < to {
        let middle = from.midpoint(to);
        if is_so(middle) { to = middle } else { from = middle + 1 }
    }
    from
}

impl Round {
    /// Posts the receives of all units. Without units the round is over.
    fn begin(round: &Arc<Round>, announced: Announcement) {
        let partitions = &round.receiver.partitions;
        let datatype = &partitions.elements.datatype;
        let units = units(announced.partitions as usize);
        let room = partitions.bytes() * partitions.number;
        let size = datatype.size.max(1);
        let in_row = datatype.contiguous;
        let copied =
            !in_row && (0..units).any(|unit| !range(unit, &announced).end.is_multiple_of(size));
        let at = {
            let mut state = round.state.lock();
            state.announced = Some(announced);
            state.arrived = vec![false; units];
            state.left = units;
            if copied {
                state.copy = vec![0; room];
            }
            match in_row {
                true => partitions.elements.address().cast::<u8>(),
                false => state.copy.as_mut_ptr(),
            }
        };
        if units == 0 {
            return round.end(None);
        }
        for unit in 0..units {
            // A message that is longer than the room is cut off, and that is an error.
            let Range { start, end } = range(unit, &announced);
            let (start, end) = (start.min(room), end.min(room));
            let data = if in_row || copied {
                Ok(Data::Whole(at.wrapping_add(start), end - start))
            } else {
                let number = (end.div_ceil(size) - start / size) as i64;
                partitions.elements.part((start / size) as i64, number).data()
            };
            Round::receive(round, unit, &announced, data);
        }
    }

    fn receive(
        round: &Arc<Round>,
        unit: usize,
        announced: &Announcement,
        data: Result<Data, Fault>,
    ) {
        let Receiver { partitions, from, .. } = &*round.receiver;
        let tag = unit_tag(&partitions.comm, announced.channel, unit);
        let begun = partitions.comm.check_not_revoked().and(data).and_then(|data| {
            let from = from.unwrap_or_default();
            // SAFETY: the program leaves the buffer alone until the request is over, which is when the last unit has
            // come; the list of pieces goes with the request, the copy stays in the round.
            let into = unsafe { data.memory().trusted() };
            let mut request = RawRequest::idle();
            request.start_recv(&partitions.comm.session, from, tag, into)?;
            Ok((request, data))
        });
        match begun {
            Ok((request, data)) => {
                let round = round.clone();
                request.on_done(move |result| {
                    if let Ok((_, status)) = &result {
                        // SAFETY: as above; so many bytes have come.
                        unsafe { data.unpack(status.len) };
                    }
                    round.came(unit, result.map(drop).map_err(Fault::from));
                });
            }
            Err(fault) => round.came(unit, Err(fault)),
        }
    }

    /// Records that a unit has come.
    fn came(&self, unit: usize, result: Result<(), Fault>) {
        let mut state = self.state.lock();
        state.arrived[unit] = true;
        state.left -= 1;
        let fault = result.err();
        if state.fault.is_none() {
            state.fault = fault.map(|fault| fault.on(self.receiver.comm().share()));
        }
        if state.left > 0 {
            return;
        }
        if !state.copy.is_empty() {
            let bytes = state.announced.map_or(0, |announced| announced.bytes as usize);
            let came = &state.copy[..bytes.min(state.copy.len())];
            self.receiver.partitions.elements.unpack_from(came);
        }
        drop(state);
        self.end(None);
    }

    fn end(&self, fault: Option<Fault>) {
        let mut state = self.state.lock();
        state.over = true;
        if let Some(fault) = fault {
            state.fault.get_or_insert(fault.on(self.receiver.comm().share()));
        }
        drop(state);
        self.done.complete();
    }
}

/// The operation of a started request.
struct ReceiveOperation(Arc<Round>);

impl Operation for ReceiveOperation {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.0.receiver.comm().session.awaited(&self.0.done).pending()
    }

    fn outcome(&self) -> Outcome {
        let Receiver { partitions, from, source, tag, .. } = &*self.0.receiver;
        if from.is_none() {
            return Outcome::NO_PROC;
        }
        let state = self.0.state.lock();
        let room = partitions.bytes() * partitions.number;
        let bytes = state.announced.map_or(0, |announced| announced.bytes as usize);
        let status = MPI_Status::of(*source, *tag, bytes.min(room));
        Outcome { status, fault: state.fault.clone() }
    }

    fn ready(&self, partition: c_int) -> Result<(), Fault> {
        self.0.receiver.partitions.check(partition)?;
        let fault = Fault::new(MPI_ERR_REQUEST, "argument request is a partitioned receive");
        Err(fault.on(self.0.receiver.comm().share()))
    }

    fn arrived(&self, partition: c_int) -> Result<bool, Fault> {
        let partitions = &self.0.receiver.partitions;
        let index = partitions.check(partition)?;
        let state = self.0.state.lock();
        let Some(announced) = state.announced.filter(|_| !state.over) else {
            return Ok(state.over);
        };
        if !state.copy.is_empty() {
            return Ok(false);
        }
        let bytes = partitions.bytes();
        let theirs = announced.partitions as usize;
        if theirs == partitions.number {
            return Ok(state.arrived[unit_of(index, theirs)]);
        }
        if bytes == 0 {
            // A partition without bytes arrives with the last unit.
            return Ok(state.left == 0);
        }
        // Units follow each other in memory. Only those that touch the partition are looked at: a program that asks again
        // and again would keep the lock from the thread that records what comes.
        let (begin, end) = (index * bytes, (index + 1) * bytes);
        let first = first_unit(state.arrived.len(), |unit| range(unit, &announced).end > begin);
        let behind = first_unit(state.arrived.len(), |unit| range(unit, &announced).start >= end);
        Ok(state.arrived[first..behind.max(first)].iter().all(|&arrived| arrived))
    }
}
