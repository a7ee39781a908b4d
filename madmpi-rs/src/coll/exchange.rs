//! Exchanges: messages to and from several ranks at once, without a copy where the data lie in few pieces.

use std::sync::{Arc, OnceLock};

use newmad::SendOptions;
use newmad::raw::{Awaited, RawRequest};

use crate::comm::Comm;
use crate::datatype::{Data, Elements};
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{Operation, Outcome};

/// Internal tags of a communicator (see `comm`): of exchanges, of messages to oneself, and of neighbours from that one
/// on.
pub(super) const TAG: u32 = 16;
pub(super) const OWN_TAG: u32 = 17;
pub(super) const NEIGHBOURS: u32 = 1024;

/// One message: the process, the tag on the wire, the elements.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) process: u32,
    pub(super) tag: u64,
    pub(super) elements: Elements,
}

/// An exchange. Messages between the same two ranks and with the same tag match in the order of the lists.
pub(crate) struct Exchange {
    pub(super) comm: Ref<Comm>,
    pub(super) receives: Vec<Message>,
    pub(super) sends: Vec<Message>,
}

/// An exchange under way.
struct ExchangeOperation {
    comm: Ref<Comm>,
    // Dropped before the data beside them, which they use.
    receives: Vec<(RawRequest, Data)>,
    sends: Vec<(RawRequest, Data)>,
    known: OnceLock<Outcome>,
}

impl Exchange {
    pub(super) fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        let session = &self.comm.session;
        let (mut receives, mut sends) = (Vec::new(), Vec::new());
        for Message { process, tag, elements } in &self.receives {
            let data = elements.data()?;
            // SAFETY: the program leaves its buffers to the collective until that is over; the list of pieces is kept.
            let into = unsafe { data.memory().trusted() };
            let mut request = RawRequest::idle();
            request.start_recv(session, *process, *tag, into)?;
            receives.push((request, data));
        }
        for Message { process, tag, elements } in &self.sends {
            let data = elements.outgoing()?;
            // SAFETY: as above.
            let from = unsafe { data.memory().trusted() };
            let request = session.isend_with(*process, *tag, from, SendOptions::new())?;
            sends.push((request, data));
        }
        let comm = self.comm.clone();
        Ok(Arc::new(ExchangeOperation { comm, receives, sends, known: OnceLock::new() }))
    }
}

impl ExchangeOperation {
    fn requests(&self) -> impl Iterator<Item = &RawRequest> {
        self.receives.iter().chain(&self.sends).map(|(request, _)| request)
    }

    fn finish(&self) -> Result<(), Fault> {
        for (request, data) in &self.receives {
            let status = request.result().ok_or(newmad::Error::Active)??;
            // SAFETY: the message has come; the program's buffer is lent until the operation is over.
            unsafe { data.unpack(status.len) };
        }
        for (request, _) in &self.sends {
            request.result().ok_or(newmad::Error::Active)??;
        }
        Ok(())
    }
}

impl Operation for ExchangeOperation {
    fn awaited(&self) -> Option<Awaited<'_>> {
        let pending = self.requests().find(|request| !request.is_over());
        // SAFETY: one thread at a time waits for an operation.
        pending.map(|request| unsafe { request.awaited() })
    }

    fn outcome(&self) -> Outcome {
        let outcome = || match self.finish() {
            Ok(()) => Outcome::EMPTY,
            Err(fault) => Outcome::failed(fault.on(self.comm.share())),
        };
        self.known.get_or_init(outcome).clone()
    }
}
