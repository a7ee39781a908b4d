//! An I/O manager that the thread scheduler calls.
mod completion;
mod error;
mod handover;
mod knobs;
mod shim;
mod source;
pub use completion::Completion;
pub use error::Error;
pub use handover::{Guard, Handover, HandoverLock};
pub use knobs::KNOBS;
pub use source::Source;
