//! Several messages as one operation.

use core::any::Any;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use newmad::raw::{Awaited, RawRequest};
use newmad::{RecvOptions, SendOptions};

use super::operation::Operation;
use super::outcome::Outcome;
use crate::comm::Comm;
use crate::datatype::Data;
use crate::error::Fault;
use crate::handle::Ref;
use crate::under_way::UnderWay;

/// What the status of an operation of several messages says.
pub(crate) enum StatusOf {
    /// Nothing.
    Nothing,
    /// The message that is received, or that there is none.
    Received,
}

/// Messages under way, as one operation.
pub(crate) struct Messages {
    comm: Ref<Comm>,
    status: StatusOf,
    all: Vec<Message>,
    /// Messages fill the memory for them; one without data says that its sender has given up.
    full_length: bool,
    known: KernelMutex<Option<Outcome>>,
}

struct Message {
    /// Dropped before the data, whose memory it uses.
    request: RawRequest,
    data: Data,
    receives: bool,
}

impl Messages {
    pub(crate) fn new(comm: &Ref<Comm>, status: StatusOf) -> Messages {
        let (comm, all, known) = (comm.clone(), Vec::new(), KernelMutex::new(None));
        Messages { comm, status, all, full_length: false, known }
    }

    /// From now on a message that is shorter than the memory for it is a fault; one without data says that its sender has given up.
    pub(crate) fn require_full_length(&mut self) {
        self.full_length = true;
    }

    /// Begins to receive a message.
    pub(crate) fn receive(
        &mut self,
        from: impl Into<newmad::Origin>,
        tag: impl Into<newmad::Tag>,
        data: Data,
    ) -> Result<(), Fault> {
        // SAFETY: the program leaves the elements to the operation, which keeps the list of pieces or the copy.
        let memory = unsafe { data.memory().trusted() };
        // No `start_recv`: a receive from any rank is to end when a rank fails.
        let request = self.comm.session.irecv_with(from, tag, memory, RecvOptions::new())?;
        self.all.push(Message { request, data, receives: true });
        Ok(())
    }

    /// Begins to send a message.
    pub(crate) fn send(&mut self, to: u32, tag: u64, data: Data) -> Result<(), Fault> {
        // SAFETY: as above.
        let memory = unsafe { data.memory().trusted() };
        let request = self.comm.session.isend_with(to, tag, memory, SendOptions::new())?;
        self.all.push(Message { request, data, receives: false });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The messages that an operation is, if it is some and nobody else waits for them; else the operation.
    pub(super) fn alone(operation: Arc<dyn Operation>) -> Result<Messages, Arc<dyn Operation>> {
        if !(&*operation as &dyn Any).is::<Messages>() {
            return Err(operation);
        }
        let any: Arc<dyn Any + Send + Sync> = operation;
        let messages = any.downcast().unwrap_or_else(|_| unreachable!("it was asked for its type"));
        Arc::try_unwrap(messages).map_err(|shared| shared as Arc<dyn Operation>)
    }

    /// Lets them go on by themselves: what comes is in the program's memory when it has come, not when somebody looks.
    pub(super) fn let_go(self, under_way: &'static UnderWay) {
        for Message { request, data, receives } in self.all {
            go_on(request, (data, receives, self.comm.clone()), under_way);
        }
    }
}

/// Lets a message go on by itself; it counts as under way until it is over.
pub(super) fn go_on(
    request: RawRequest,
    (data, receives, comm): (Data, bool, Ref<Comm>),
    under_way: &'static UnderWay,
) {
    under_way.begins();
    request.on_done(move |result| {
        let result = result.map(|(_, status)| status);
        // Nobody is left to hear of a fault.
        drop(Outcome::of_message(result, receives, &data, &comm));
        under_way.ends();
    });
}

impl Operation for Messages {
    fn awaited(&self) -> Option<Awaited<'_>> {
        let pending = self.all.iter().find(|message| !message.request.is_over());
        // SAFETY: one thread at a time waits for an operation.
        pending.map(|message| unsafe { message.request.awaited() })
    }

    /// The first fault counts.
    fn outcome(&self) -> Outcome {
        let mut known = self.known.lock();
        if let Some(known) = &*known {
            return known.clone();
        }
        let mut outcome = match self.status {
            StatusOf::Nothing => Outcome::EMPTY,
            StatusOf::Received => Outcome::NO_PROC,
        };
        for Message { request, data, receives } in &self.all {
            let mut result = request.result().unwrap_or(Err(newmad::Error::Active));
            if let Ok(newmad::Status { source, len, .. }) = result
                && self.full_length
                && *receives
                && len < data.len()
            {
                result = Err(match len {
                    0 => newmad::Error::Revoked { by: Some(source), gone: true },
                    _ => newmad::Error::Mismatch { from: source, expected: data.len(), found: len },
                });
            }
            let Outcome { status, fault } =
                Outcome::of_message(result, *receives, data, &self.comm);
            if let StatusOf::Received = self.status
                && *receives
            {
                outcome.status = status;
            }
            outcome.fault = outcome.fault.or(fault);
        }
        *known = Some(outcome.clone());
        outcome
    }
}
