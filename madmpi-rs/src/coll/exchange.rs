//! Exchanges: messages to and from several ranks at once, without a copy where the data lie in few pieces.

use std::sync::Arc;

use crate::comm::Comm;
use crate::datatype::Elements;
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{Messages, Operation, StatusOf};

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

impl Exchange {
    pub(super) fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        let mut messages = Messages::new(&self.comm, StatusOf::Nothing);
        for Message { process, tag, elements } in &self.receives {
            messages.receive(*process, *tag, elements.data()?)?;
        }
        for Message { process, tag, elements } in &self.sends {
            messages.send(*process, *tag, elements.outgoing()?)?;
        }
        Ok(Arc::new(messages))
    }
}
