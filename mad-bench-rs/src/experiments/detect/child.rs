//! The end of a child process, which the raiser kills.

use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use crate::experiments::detect::stage::Stage;

/// What a child does until it is killed.
const PROGRAM: (&str, &str) = ("sleep", "86400");

/// A child by the name of one library or the other, and how that starts it and waits for it.
struct Killed<C> {
    child: Mutex<Option<C>>,
    id: AtomicI32,
    start: fn() -> io::Result<(C, u32)>,
    wait: fn(C) -> io::Result<()>,
}

impl<C: Send> Killed<C> {
    fn stage(start: fn() -> io::Result<(C, u32)>, wait: fn(C) -> io::Result<()>) -> Arc<Self> {
        Arc::new(Killed { child: Mutex::new(None), id: AtomicI32::new(0), start, wait })
    }
}

impl<C: Send> Stage for Killed<C> {
    fn prepare(&self) -> Result<(), String> {
        let (child, id) = (self.start)().map_err(|e| format!("{}: {e}", PROGRAM.0))?;
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        self.id.store(id as i32, SeqCst);
        Ok(())
    }

    fn raise(&self) {
        // SAFETY: no pointers. The child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.id.load(SeqCst), libc::SIGKILL) };
    }

    fn wait(&self, _: u64) -> Result<(), String> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        child.map_or(Ok(()), self.wait).map_err(|e| format!("waiting for a child: {e}"))
    }
}

/// A green thread waits.
pub(super) fn pioman() -> Arc<dyn Stage> {
    Killed::stage(
        || {
            let mut command = pioman::process::Command::new(PROGRAM.0);
            let child =
                command.arg(PROGRAM.1).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
            let id = child.id();
            Ok((child, id))
        },
        |mut child| child.wait().map(drop),
    )
}

/// A kernel thread waits.
pub(super) fn kernel() -> Arc<dyn Stage> {
    Killed::stage(
        || {
            let mut command = std::process::Command::new(PROGRAM.0);
            let child =
                command.arg(PROGRAM.1).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
            let id = child.id();
            Ok((child, id))
        },
        |mut child| child.wait().map(drop),
    )
}
