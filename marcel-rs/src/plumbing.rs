//! What pioman and newmad build on, and programs have no use for. It changes without notice.

pub use crate::list::{Chained, Inbox, Leave, Linked, Links, List, Listed, RawInbox};
#[cfg(not(loom))]
pub use crate::thread::current::{
    current_hooks, current_sleeper, from_raw, into_raw, others_runnable,
};
pub use crate::thread::latch::LatchNode;
pub use crate::vp::sleeper::Sleeper;

/// Spare kernel threads for calls that block.
pub mod lwp {
    pub use crate::blocking::lwp::*;
}

/// Declares the environment variables of a crate.
#[cfg(not(loom))]
pub mod knob {
    pub use crate::knob::*;
}

/// Numbers kernel threads.
#[cfg(not(loom))]
pub mod slot {
    pub use crate::thread::slot::*;
}
