//! Messages between two processes: sends in every mode and receives, in every form.
//!
//! | file | what |
//! |---|---|
//! | `forms` | one message: blocking, with a request, persistent |
//! | `sendrecv` | a message out and one in |
//! | `probe` | looking at messages before they are received |
//! | `partitioned` | messages that several threads make ready part by part |
//! | `flush` | requests for the end of buffered sends |

mod flush;
mod forms;
pub(crate) mod partitioned;
pub(crate) mod probe;
pub(crate) mod sendrecv;

pub(crate) use flush::iflush;
pub(crate) use forms::{irecv, isend, recv, recv_init, send, send_init};
