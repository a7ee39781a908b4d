//! A thread as users see it, and its line of text.

use std::fmt;
use std::time::Duration;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// A virtual processor runs it.
    Running,
    /// It waits; see [`Thread::reason`].
    Waiting,
    /// It is in a queue of runnable threads, woken or after a yield.
    Ready,
    /// It has not run yet.
    New,
}

/// A thread at one moment, from [`threads`](super::threads).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Thread {
    /// Number of the thread's control block, unique among the threads that live at the same time.
    pub number: u32,
    /// Name of the thread, if it has one.
    pub name: Option<String>,
    /// State of the thread.
    pub state: State,
    /// The reason of its wait, if it waits.
    pub reason: Option<&'static str>,
    /// The time it has waited, or an upper bound of the time it has run. Exact to the kernel's timer tick (1–4 ms).
    pub time: Option<Duration>,
    /// Its virtual processor, such as `vp0` (compute) or `rx1` (reactive). `None` before it runs, and for a kernel
    /// thread outside a runtime.
    pub vp: Option<String>,
    /// The kernel's number of its kernel thread, once it has run.
    pub kernel_thread: Option<u32>,
    /// Its stack. `None` before it runs, and for a kernel thread outside a runtime.
    pub stack: Option<StackUse>,
}

/// Size and high-water mark of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackUse {
    /// Usable bytes.
    pub size: usize,
    /// High-water mark in bytes, exact to the page, of all threads that have used the same memory: see
    /// [`stack_high_water`](crate::stack_high_water).
    pub most: usize,
}

/// Number and name, in the form that all messages use.
pub(super) fn title(thread: &Thread) -> String {
    match &thread.name {
        Some(name) => format!("{} '{name}'", thread.number),
        None => format!("{} <unnamed>", thread.number),
    }
}

impl fmt::Display for Thread {
    /// Writes the thread's line of a dump.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} ", title(self))?;
        let seconds = |f: &mut fmt::Formatter<'_>, before: &str| match self.time {
            Some(time) => write!(f, "{before} {:.3} s", time.as_secs_f64()),
            None => Ok(()),
        };
        match self.state {
            State::Running => {
                f.write_str("running")?;
                seconds(f, " for at most")?;
            }
            State::Waiting => {
                write!(f, "waiting ({})", self.reason.unwrap_or_default())?;
                seconds(f, " for")?;
            }
            State::Ready => f.write_str("ready")?,
            State::New => f.write_str("new")?,
        }
        if let Some(vp) = &self.vp {
            write!(f, ", {vp}")?;
        } else if let Some(tid) = self.kernel_thread {
            write!(f, ", kernel thread {tid}")?;
        }
        if let Some(stack) = self.stack {
            let kib = |bytes: usize| bytes.div_ceil(1024);
            write!(f, ", stack {} KiB, most used {} KiB", kib(stack.size), kib(stack.most))?;
        }
        Ok(())
    }
}
