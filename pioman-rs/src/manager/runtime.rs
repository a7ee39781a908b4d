//! A thread runtime and its I/O manager, made together.

use std::sync::Arc;

use crate::error::Error;
use crate::manager::Manager;
use crate::manager::builder::Builder;

/// A [`marcel::Runtime`] that a [`Manager`] serves.
///
/// ```
/// let runtime = pioman::Runtime::new()?;
/// let answer = runtime.run(|| marcel::spawn(|| 6 * 7).join().unwrap());
/// assert_eq!(answer, 42);
/// # Ok::<(), pioman::Error>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    // Before the manager: its virtual processors call the manager to their end.
    threads: marcel::Runtime,
    manager: Arc<Manager>,
}

impl Runtime {
    /// As the knobs say.
    ///
    /// # Errors
    /// A knob holds something unacceptable; the kernel gives no threads or descriptors.
    pub fn new() -> Result<Runtime, Error> {
        Self::build(Manager::builder(), marcel::Runtime::builder())
    }

    /// As these builders say. The runtime gets the manager's mode and hooks.
    ///
    /// # Errors
    /// As [`Runtime::new`].
    pub fn build(manager: Builder, threads: marcel::RuntimeBuilder) -> Result<Runtime, Error> {
        let manager = manager.build()?;
        let threads = threads.mode(manager.mode()).hooks(manager.clone()).build();
        let threads = threads.map_err(Error::of("starting the threads"))?;
        Ok(Runtime { threads, manager })
    }

    /// The I/O manager.
    pub fn manager(&self) -> &Arc<Manager> {
        &self.manager
    }

    /// The green threads.
    pub fn threads(&self) -> &marcel::Runtime {
        &self.threads
    }

    /// As [`marcel::Runtime::spawn`]: starts a compute thread, from anywhere.
    ///
    /// ```
    /// let runtime = pioman::Runtime::new()?;
    /// let thread = runtime.spawn(|| 6 * 7);
    /// assert_eq!(thread.join().unwrap(), 42);
    /// # Ok::<(), pioman::Error>(())
    /// ```
    ///
    /// # Panics
    /// In [`marcel::Mode::NoThread`], which has no green threads; when there is no memory.
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> marcel::JoinHandle<T> {
        self.threads.spawn(f)
    }

    /// As [`marcel::Runtime::run`].
    ///
    /// # Blocking
    /// The calling kernel thread, until `f` has returned.
    ///
    /// # Panics
    /// When `f` does.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        // Without green threads `f` runs here.
        let _entered = self.manager.enter();
        self.threads.run(f)
    }
}
