//! Sources that come with `pioman`: what ordinary code reads from.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::now_ns;
use crate::experiments::detect::child;
use crate::experiments::detect::kernel::{Ends, EventFd, connection};
use crate::experiments::detect::stage::Stage;

/// Names of these sources.
#[cfg(test)]
pub(crate) const NAMES: [&str; 5] = ["tcp", "pipe", "uring", "timer", "child"];

/// A stage whose waiter reads; `None`: there is no such source.
///
/// # Context
/// A thread of the runtime that is to be measured.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn stage(source: &str) -> Option<Result<Arc<dyn Stage>, String>> {
    Some(match source {
        "tcp" => tcp(),
        "pipe" => pipe(),
        "uring" => uring(),
        "timer" => Ok(Arc::new(Deadline)),
        "child" => Ok(child::pioman()),
        _ => return None,
    })
}

fn tcp() -> Result<Arc<dyn Stage>, String> {
    let (near, far): (TcpStream, TcpStream) = connection()?;
    let near = pioman::net::TcpStream::from(near);
    Ok(Arc::new(Ends { near, far, bytes: 1, what: "a TCP connection" }))
}

fn pipe() -> Result<Arc<dyn Stage>, String> {
    let (near, far) = std::io::pipe().map_err(|e| format!("a pipe: {e}"))?;
    let near = pioman::pipe::PipeReader::from(near);
    Ok(Arc::new(Ends { near, far, bytes: 1, what: "a pipe" }))
}

fn uring() -> Result<Arc<dyn Stage>, String> {
    let fd: OwnedFd = EventFd::new(true)?.into();
    let far: std::fs::File =
        fd.try_clone().map_err(|e| format!("an event descriptor: {e}"))?.into();
    let near = pioman::fs::File::from(fd);
    Ok(Arc::new(Ends { near, far, bytes: 8, what: "an event descriptor" }))
}

/// A timer.
struct Deadline;

impl Stage for Deadline {
    fn is_timed(&self) -> bool {
        true
    }
    fn wait(&self, due: u64) -> Result<(), String> {
        let left = Duration::from_nanos(due.saturating_sub(now_ns()));
        let timer = pioman::time::Timer::at(Instant::now() + left);
        timer.map_err(|e| format!("a timer: {e}"))?.wait();
        Ok(())
    }
}
