//! Where a packet of several messages is made: their heads, and what is copied behind them.

use crate::memory::span::Span;
use crate::strategy::packet::STAGE;

/// The heads and copied messages of the packet that is being made.
pub(crate) struct Stage(Box<[u8]>);

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage(vec![0; STAGE].into_boxed_slice())
    }

    /// Copies `data` to `at`, as far as there is room. The place behind it.
    pub(crate) fn add(&mut self, at: usize, data: Span) -> usize {
        let data = data.part(0, self.0.len().saturating_sub(at));
        // SAFETY: inside the stage, which no request's memory overlaps.
        unsafe { data.copy_to(self.0.as_mut_ptr().add(at)) };
        at + data.len()
    }

    pub(crate) fn span(&self, from: usize, to: usize) -> Span {
        let run = &self.0[from..to];
        // SAFETY: the stage lives as long as the core, and is written again only after the packet has been posted.
        unsafe { Span::new(run.as_ptr(), run.len()) }
    }
}
