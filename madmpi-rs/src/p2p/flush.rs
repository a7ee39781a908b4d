//! Flushing a buffer of buffered sends, as a request.

use std::sync::Arc;

use newmad::raw::Awaited;
use pioman::Completion;

use crate::abi::*;
use crate::buffer::Buffer;
use crate::error::Fault;
use crate::job;
use crate::request::{Operation, Outcome, SENT, new_operation};

struct Flush {
    done: Arc<Completion>,
    session: newmad::Session,
}

impl Operation for Flush {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.session.awaited(&self.done).pending()
    }

    fn outcome(&self) -> Outcome {
        Outcome::EMPTY
    }
}

/// A request that is over when everything is sent that is in the buffer now.
///
/// # Errors
/// There are too many requests.
pub(crate) fn iflush(buffer: &Buffer) -> Result<MPI_Request, Fault> {
    let session = job::session()?.clone();
    match buffer.begin_flush() {
        Some(done) => new_operation(Arc::new(Flush { done, session })),
        None => Ok(SENT),
    }
}
