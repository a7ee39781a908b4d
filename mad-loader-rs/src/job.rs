//! The process that has the ranks.

use std::sync::OnceLock;

use pioman::plumbing::Birth;

fn first() -> (u32, Birth) {
    static FIRST: OnceLock<(u32, Birth)> = OnceLock::new();
    *FIRST.get_or_init(|| (std::process::id(), Birth::here()))
}

/// Number of the process that first loaded a program; a child of `fork` or `vfork` has another one.
pub(crate) fn process() -> u32 {
    first().0
}

/// Whether this process is a child of `fork` or `vfork`: what it ends concerns no rank.
pub(crate) fn is_forked() -> bool {
    process() != std::process::id()
}

/// Whether this process is a child of `fork`, without a system call. (A child of `vfork` may not wait at all.)
pub(crate) fn is_child() -> bool {
    !first().1.is_here()
}
