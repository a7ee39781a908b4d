//! The whole stack in one call.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use marcel::{Mode, Runtime};
use pioman::Manager;

use crate::error::Error;
use crate::session::Session;

/// Starts the green threads' runtime and the I/O manager as the knobs say, opens the session, runs `f` as a
/// reactive green thread, closes everything, and returns what `f` returned.
///
/// # Context
/// A kernel thread, usually `main`'s.
/// # Blocking
/// That thread.
/// # Errors
/// A knob is wrong, another process does not come, the kernel refuses something.
/// # Panics
/// When `f` does, after the session has been closed.
pub fn run<T: Send>(f: impl FnOnce(&Session) -> T + Send) -> Result<T, Error> {
    let mode = Mode::from_env()?;
    let manager = Manager::builder().mode(mode).build()?;
    let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build()?;
    runtime.run(|| {
        let session = Session::builder().manager(manager).open()?;
        let result = catch_unwind(AssertUnwindSafe(|| f(&session)));
        let closed = session.close();
        match result {
            Ok(value) => closed.map(|()| value),
            Err(panic) => resume_unwind(panic),
        }
    })
}
