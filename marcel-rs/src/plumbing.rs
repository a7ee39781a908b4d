//! What pioman and newmad build on, and programs have no use for. It changes without notice.

#[cfg(not(loom))]
pub use crate::diagnosis::overdue::Overdue;
#[cfg(not(loom))]
pub use crate::knobs::STACK_SIZE;
pub use crate::list::{Chained, Inbox, InboxItems, Leave, Linked, Links, List, Listed, RawInbox};
pub use crate::os::KernelMutex;
#[cfg(loom)]
pub use crate::os::kernel_mutex::ModelMutex;
pub use crate::os::sleeper::Sleeper;
#[cfg(not(loom))]
pub use crate::sched::signal_target::SignalTarget;
#[cfg(not(loom))]
pub use crate::stack::is_forced_unwinding;
pub use crate::sync::spin::Spin;
#[cfg(not(loom))]
pub use crate::task::current::{
    current_hooks, current_sleeper, from_raw, has_work, into_raw, others_runnable, wait_until, wake,
};
pub use crate::task::latch::{Alone, LatchNode};

/// The budget of a green thread's turn.
#[cfg(not(loom))]
pub mod budget {
    pub use crate::task::budget::*;
}

/// Spare kernel threads for calls that block.
pub mod lwp {
    pub use crate::lwp::jobs::*;
}

/// Declares the environment variables of a crate.
#[cfg(not(loom))]
pub mod knob {
    pub use crate::knob::*;
}

/// The kernel's clocks.
pub mod clock {
    pub use crate::os::clock::*;
}

/// Signals and their handlers.
pub mod signal {
    pub use crate::os::signal::*;
}

/// User interrupts, of processors that have them.
#[cfg(all(not(loom), target_arch = "x86_64"))]
pub mod user_interrupts {
    pub use crate::sched::user_interrupts::*;
}

/// Numbers kernel threads.
#[cfg(not(loom))]
pub mod slot {
    pub use crate::os::slot::*;
}

/// A count of the I/O manager's for each kernel thread.
#[cfg(not(loom))]
pub mod manager_count {
    pub use crate::os::manager_count::*;
}
