//! The runtime: how it is built (`builder`), its start and its end.

pub(crate) mod builder;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::diagnosis::service;
use crate::sched::hooks::Hooks;
use crate::sched::load::Load;
use crate::sched::mode::Mode;
use crate::sched::shared::Shared;
use crate::sched::worker::{self, Worker};
use crate::task::join::JoinHandle;
use crate::task::scope::{Scope, scope_in};
use crate::task::spawn;

/// A running set of virtual processors.
///
/// Dropping it stops them: each finishes what its current thread does until it next waits, yields or ends;
/// then the stacks of the remaining threads are unwound, so that their destructors run, and their join
/// handles report a panic with a [`crate::Stopped`] payload. Destructors may wait for what other threads hold, and
/// for other threads' ends; for what will not come any more they look at [`crate::is_stopping`].
///
/// # Blocking
/// The kernel thread, until all threads have ended; also when a green thread of another runtime drops it. One of its
/// own does not wait, and is unwound when it waits next.
pub struct Runtime {
    shared: Arc<Shared>,
    workers: Vec<&'static Worker>,
    kernel_threads: Vec<std::thread::JoinHandle<()>>,
    /// Workers have it, too; in no-thread mode there are none.
    #[expect(dead_code, reason = "held")]
    hooks: Option<Arc<dyn Hooks>>,
    /// Dumps and the watchdog look at it until it is gone.
    #[expect(dead_code, reason = "held")]
    watched: service::Watched,
}

impl Runtime {
    /// Runs `f` as a green thread (a reactive one in smp mode) and returns what it returns.
    ///
    /// # Context
    /// A kernel thread.
    ///
    /// # Blocking
    /// Blocks that kernel thread. In [`Mode::NoThread`] `f` runs on it.
    ///
    /// # Panics
    /// When `f` panics, with its payload; when called from a green thread.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        assert!(
            worker::current().is_none(),
            "marcel: Runtime::run was called from a green thread; spawn a thread instead, or call it from a kernel \
             thread"
        );
        if self.shared.mode == Mode::NoThread {
            return f();
        }
        // SAFETY: this function does not return before the thread has ended and dropped `f`.
        let spawned = unsafe {
            spawn::Builder::new().name("main").reactive(true).spawn_unchecked(&self.shared, f)
        };
        let spawned = spawned.unwrap_or_else(|error| panic!("Runtime::run: {error}"));
        match spawned.join() {
            Ok(value) => value,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    /// As [`scope`](crate::scope()), from a kernel thread or from a green thread of another runtime: the threads belong
    /// to this runtime.
    ///
    /// # Context
    /// Green and kernel threads.
    ///
    /// # Blocking
    /// The green thread; outside a runtime, the kernel thread.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()). In [`crate::Mode::NoThread`], which has no green threads, when one is started.
    #[track_caller]
    pub fn scope<'env, F, T>(&'env self, f: F) -> T
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    {
        scope_in(self.shared().clone(), f)
    }

    /// Starts a compute thread from outside the runtime.
    ///
    /// # Panics
    /// In [`Mode::NoThread`], which has no green threads; when there is no memory.
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        assert!(self.shared.mode != Mode::NoThread, "no green threads in no-thread mode");
        // SAFETY: everything is 'static.
        let spawned = unsafe { spawn::Builder::new().spawn_unchecked(&self.shared, f) };
        spawned.unwrap_or_else(|error| panic!("Runtime::spawn: {error}"))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// How loaded it is.
    pub fn load(&self) -> Load {
        Load(self.shared.clone())
    }

    /// Its mode.
    pub fn mode(&self) -> Mode {
        self.shared.mode
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("mode", &self.shared.mode)
            .field("load", &self.load())
            .finish()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let standbys = self.shared.blocking.close();
        self.shared.ending.expect(self.kernel_threads.len() + standbys);
        self.shared.stopping.store(true, SeqCst);
        for vp in self.shared.all_vps() {
            vp.sleeper.notify();
        }
        let shared = self.shared.clone();
        let workers = std::mem::take(&mut self.workers);
        let threads = std::mem::take(&mut self.kernel_threads);
        let finish = move || {
            for thread in threads {
                let _ = thread.join();
            }
            let retire = shared.blocking.join();
            shared.contexts.clear();
            retire.into_iter().for_each(|retire| retire());
            for worker in workers {
                // SAFETY: the kernel threads have ended.
                unsafe { worker.abandon() };
            }
        };
        match worker::current() {
            // Refused: the kernel threads are not joined, and their stacks stay.
            Some(worker) if std::ptr::eq(&*worker.shared, &*self.shared) => {
                let _ = std::thread::Builder::new().name("marcel-end".into()).spawn(finish);
            }
            _ => finish(),
        }
    }
}
