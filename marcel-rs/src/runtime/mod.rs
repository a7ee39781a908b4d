//! The runtime: how it is built (`builder`), its start and its end.

pub(crate) mod builder;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use crate::diagnosis::{hold_up, overdue::Overdue, service};
use crate::os::KernelMutex;
use crate::os::stderr::to_stderr;
use crate::sched::hooks::Hooks;
use crate::sched::load::Load;
use crate::sched::mode::Mode;
use crate::sched::shared::Shared;
use crate::sched::worker::{self, Worker};
use crate::task::join::{JoinHandle, NoStack};
use crate::task::scope::{Scope, scope_in};
use crate::task::spawn;

/// A running set of virtual processors.
///
/// Dropping it stops them: each finishes what its current thread does until it next waits, yields or ends;
/// then the stacks of the remaining threads are unwound, so that their destructors run, and their join
/// handles report a panic with a [`crate::Stopped`] payload. Destructors may wait for what other threads hold, and
/// for other threads' ends; for what will not come any more they look at [`crate::is_stopping`].
///
/// A thread may hold the end up: it swallows the unwinding, waits in a destructor for what does not come, or never yields.
/// After a second such threads are named on standard error, with what they wait for, and again after growing pauses.
///
/// A program that is built with `panic = "abort"` cannot unwind: the threads that are left stay where they wait, their
/// destructors do not run, their stacks are not freed, and a message on standard error says so once.
///
/// # Blocking
/// The kernel thread, until all threads have ended; also when a green thread of another runtime drops it. One of its
/// own does not wait, and is unwound when it waits next; nor does one of its own exported blocking calls wait.
pub struct Runtime {
    shared: Arc<Shared>,
    workers: Vec<&'static Worker>,
    kernel_threads: Vec<std::thread::JoinHandle<()>>,
    /// Workers have it, too; in no-thread mode there are none.
    #[expect(dead_code, reason = "held")]
    hooks: Option<Arc<dyn Hooks>>,
    /// Disconnected when all kernel threads have ended.
    ended: KernelMutex<Option<Receiver<()>>>,
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
    /// When `f` panics, with its payload; when called from a green thread; when there is no memory for a stack, with a
    /// message on standard error and the payload [`NoStack`].
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
            Err(payload) => {
                // The panic hook has not told of it. Nor is it called now: where no memory is left, std's backtrace
                // may hang.
                if let Some(why) = payload.downcast_ref::<NoStack>() {
                    to_stderr(|out| writeln!(out, "marcel: Runtime::run: {why}"));
                }
                std::panic::resume_unwind(payload)
            }
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
    /// # Thread-locals
    /// Its contract is that of [`crate::spawn`].
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

/// Waits until the kernel threads of a stopping runtime have ended, and tells which threads hold them up.
fn wait_for(ended: &Receiver<()>, shared: &Shared) {
    let mut overdue = Overdue::new();
    loop {
        let left = overdue.at().saturating_duration_since(Instant::now());
        match ended.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(lasts) = overdue.due() {
            hold_up::tell(shared, lasts);
        }
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
        let ended = self.ended.lock().take();
        let finish = move || {
            let started = threads.len();
            if let Some(ended) = ended {
                wait_for(&ended, &shared);
            }
            for thread in threads {
                let _ = thread.join();
            }
            // Those that got no kernel thread have not told the I/O manager that they are over.
            for worker in &workers[started..] {
                if let Some(hooks) = worker.shared.hooks() {
                    hooks.ended(&worker.vp);
                }
                worker.sleeper.retire();
            }
            let retire = shared.blocking.join();
            shared.contexts.clear();
            retire.into_iter().for_each(|retire| retire());
            for worker in workers {
                // SAFETY: the kernel threads have ended.
                unsafe { worker.abandon() };
            }
        };
        let is_own = worker::current().is_some_and(|w| std::ptr::eq(&*w.shared, &*self.shared));
        if is_own || self.shared.blocking.is_carried_here() {
            // Refused: the kernel threads are not joined, and their stacks stay.
            let _ = std::thread::Builder::new().name("marcel-end".into()).spawn(finish);
        } else {
            finish();
        }
    }
}
