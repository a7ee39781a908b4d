//! What libraries and applications say of a request.

use std::time::Duration;

use crate::progress::source::SourceId;

/// How events of a request are looked for, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By looking again and again.
    Poll,
    /// By a kernel thread that sleeps in the kernel until there is one.
    Block,
    /// At the ticks of busy virtual processors; while they are idle, at the same pace.
    Tick,
    /// By a kernel thread with a core of its own that does nothing but poll while something is pending.
    Dedicated,
    /// By a signal that the peer sends to a virtual processor that computes; ticks look as well. For sources that can
    /// ([`Source::can_interrupt`](crate::Source::can_interrupt)); nobody is interrupted who polls or sleeps.
    Interrupt,
}

/// What the library knows of a request's duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// May end at any moment: worth polling for.
    Short,
    /// Will outlast a spin, for instance a rendezvous that a computing peer has to answer.
    Long,
    /// Is expected to take about this long.
    Expected(Duration),
}

/// How urgent a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// May wait: no thread polls for it alone.
    Low,
    /// As most.
    #[default]
    Normal,
    /// Is polled for although other threads want the virtual processor.
    High,
}

/// Everything that may be said of a wait. A [`Hint`] alone is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// Its duration.
    pub hint: Hint,
    /// The only method that is accepted.
    pub only: Option<Method>,
    /// How urgent it is.
    pub priority: Priority,
    /// The source that its end will be found in.
    pub source: Option<SourceId>,
}

impl Hints {
    /// Nothing but the duration.
    pub const fn new(hint: Hint) -> Hints {
        Hints { hint, only: None, priority: Priority::Normal, source: None }
    }

    /// The wait polls, and never sleeps in the kernel.
    pub const fn poll_only(self) -> Hints {
        Hints { only: Some(Method::Poll), ..self }
    }

    /// The wait never polls.
    pub const fn block_only(self) -> Hints {
        Hints { only: Some(Method::Block), ..self }
    }

    /// How urgent it is.
    pub const fn priority(self, priority: Priority) -> Hints {
        Hints { priority, ..self }
    }

    /// The source that its end will be found in: its policy is asked, and its history is used and kept.
    pub const fn on(self, source: SourceId) -> Hints {
        Hints { source: Some(source), ..self }
    }
}

impl From<Hint> for Hints {
    fn from(hint: Hint) -> Hints {
        Hints::new(hint)
    }
}
