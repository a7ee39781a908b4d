//! Replaces `backtrace` in a build without the feature `backtraces`: bare addresses, for a tool to look up.

use super::frames::Frames;

/// Turns frames into lines.
pub(super) struct Backtracer;

impl Backtracer {
    pub(super) fn new() -> Backtracer {
        Backtracer
    }

    /// The code address of the innermost frame.
    pub(super) fn walk(&mut self, frames: &Frames) -> Vec<usize> {
        vec![frames.registers.pc]
    }

    /// One line per frame.
    pub(super) fn lines(&mut self, addresses: &[usize]) -> Vec<String> {
        addresses.iter().map(|at| format!("{at:#x}")).collect()
    }
}
