//! How a thread is to be run, and how it stands with panics.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How urgent a thread is. A thread that runs is not interrupted for another one, whatever its priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Runs when its virtual processor finds nothing else.
    Low,
    /// What threads have unless told otherwise.
    #[default]
    Normal,
    /// Runs before all others of its virtual processor.
    High,
}

/// A group of threads. A thread belongs to that of its spawner, unless its builder says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bubble(u32);

impl Bubble {
    /// A bubble of its own. (There are 2^32 of them, then they come again.)
    #[allow(clippy::new_without_default)] // the default is the one that every thread is in
    pub fn new() -> Bubble {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Bubble(NEXT.fetch_add(1, Relaxed))
    }
}

/// How a thread is to be run; as its builder says.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    pub(crate) priority: Priority,
    pub(crate) bubble: Bubble,
    /// The node of the topology that it is bound to.
    pub(crate) bound: Option<u32>,
}

/// Whether a suspended thread is in a panic of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Panics {
    #[default]
    No,
    /// It has run while another thread of the virtual processor was suspended in a panic.
    Maybe,
    Yes,
}
