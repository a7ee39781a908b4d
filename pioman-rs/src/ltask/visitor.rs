//! Visitors of the queues of light tasks, and what a visit has done.

use crate::ltask::inside::Caller;

/// What a visit has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ran {
    /// No task was called.
    Nothing,
    /// Those that were wait for something.
    Waiting,
    /// Some task has done something.
    Useful,
}

/// A visitor of the queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    /// Its core; `None`: nowhere in particular.
    pub(crate) core: Option<usize>,
    /// Whether it has nothing better to do: tasks of idle times as well, and late ones where there is no watcher.
    pub(crate) idle: bool,
    /// Whether it will sleep next: what can block is exported.
    pub(crate) patient: bool,
    pub(crate) caller: Caller,
}
