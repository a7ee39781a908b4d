//! What this library tells people, on standard error.

use std::fmt;
use std::io::Write;

/// Writes a line, in one piece, so that those of several processes do not mix.
///
/// Not `eprintln`, which panics if standard error cannot be written (closed, full): no caller can do anything about
/// that, and some hold what a panic would leave behind.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
