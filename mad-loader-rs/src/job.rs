//! The process that has the ranks.

use std::sync::OnceLock;

/// Number of the process that first loaded a program; a child of `fork` has another one.
pub(crate) fn process() -> u32 {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    *PROCESS.get_or_init(std::process::id)
}
