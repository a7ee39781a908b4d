//! Exchanges: messages to and from several ranks at once, without a copy where the data lie in few pieces.

use std::sync::Arc;

use crate::comm::{Comm, Series};
use crate::datatype::Elements;
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{Messages, Operation, StatusOf};

/// The lane of messages to oneself.
pub(super) const OWN_LANE: u32 = 1;

/// One message: the process, the lane, the elements. Messages of an exchange between the same two ranks match in the
/// order of the lists if they are in the same lane.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) process: u32,
    pub(super) lane: u32,
    pub(super) elements: Elements,
}

/// An exchange.
pub(crate) struct Exchange {
    pub(super) comm: Ref<Comm>,
    pub(super) series: Option<Series>,
    pub(super) receives: Vec<Message>,
    pub(super) sends: Vec<Message>,
    /// Messages have the length that is expected; one without data says that its sender has given up.
    pub(super) full_length: bool,
}

impl Exchange {
    pub(super) fn new(comm: &Ref<Comm>, receives: Vec<Message>, sends: Vec<Message>) -> Exchange {
        Exchange { comm: comm.clone(), series: None, receives, sends, full_length: false }
    }

    /// # Errors
    /// The communicator is revoked; a message cannot be submitted.
    pub(super) fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        self.comm.check_not_revoked()?;
        let mut messages = Messages::new(&self.comm, StatusOf::Nothing);
        if self.full_length {
            messages.require_full_length();
        }
        let tag = |lane: u32| self.comm.exchange_tag(self.series, lane);
        for Message { process, lane, elements } in &self.receives {
            messages.receive(*process, tag(*lane), elements.data()?)?;
        }
        for Message { process, lane, elements } in &self.sends {
            messages.send(*process, tag(*lane), elements.outgoing()?)?;
        }
        Ok(Arc::new(messages))
    }

    /// Does this rank's part without data, since a stage before has failed here. A rank that receives from it finds a message
    /// without data; what others send is received, and dropped.
    pub(super) fn give_up(&self) {
        let session = &self.comm.session;
        let tag = |lane: u32| self.comm.exchange_tag(self.series, lane);
        for Message { process, lane, .. } in &self.receives {
            if let Ok(receive) = session.irecv(*process, tag(*lane), Vec::new()) {
                receive.on_done(drop);
            }
        }
        for Message { process, lane, .. } in &self.sends {
            let _ = session.send_and_leave(*process, tag(*lane), Vec::new()); // to one that is gone
        }
    }
}
