//! How much of the runtime there is.

use std::fmt;

use crate::error::Error;
use crate::knobs;

/// How green threads are carried by kernel threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No green threads: [`crate::Runtime::run`] calls its closure on the calling kernel thread.
    NoThread,
    /// One virtual processor carries everything.
    Mono,
    /// One virtual processor for each allowed core, and reactive ones.
    Smp,
}

impl Mode {
    /// The mode that `MARCEL_MODE` asks for.
    ///
    /// # Errors
    /// When the knob holds something else.
    pub fn from_env() -> Result<Mode, Error> {
        Ok(match knobs::MODE.text()?.as_str() {
            "no-thread" => Mode::NoThread,
            "mono" => Mode::Mono,
            _ => Mode::Smp,
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::NoThread => "no-thread",
            Mode::Mono => "mono",
            Mode::Smp => "smp",
        })
    }
}
