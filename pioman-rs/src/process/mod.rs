//! Child processes: `std::process`'s names and meaning; a green thread that waits for a child, or for what it writes,
//! blocks alone.
//!
//! ```
//! # let runtime = pioman::Runtime::new()?;
//! # runtime.run(|| {
//! let output = pioman::process::Command::new("echo").arg("hello").output()?;
//! assert!(output.status.success() && output.stdout == b"hello\n");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How
//! The end of a child makes its *pidfd* readable, and a pipe is readable when there is something in it: both are waited
//! for as sockets are ([`crate::fd`]). So no kernel thread is occupied, however many children there are, and a wait can
//! have a time-out. Where there are no pidfds (before Linux 5.3; seccomp; no descriptor left), the child is asked now
//! and then, every millisecond at first and every 20 in the end.

mod child;
mod command;
mod pipe;

pub use self::child::Child;
pub use self::command::Command;
pub use self::pipe::{ChildStderr, ChildStdin, ChildStdout};
pub use std::process::{ExitStatus, Output, Stdio};
