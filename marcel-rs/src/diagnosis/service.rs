//! The diagnosis thread: a kernel thread that dumps on `SIGQUIT`, and runs the watchdog.
//!
//! It lives while the process has a runtime, if a knob asks for either service. It sleeps in the kernel, at the cost of
//! its stack's first pages. A signal's handler rings its [`bell`], which is one atomic operation and one system call,
//! whatever the interrupted code was doing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::watchdog::Watchdog;
use super::{bell, fatal, quit, report, runtimes, trace_exit};
use crate::error::Error;
use crate::knobs;
use crate::os::KernelMutex;
use crate::os::signal::spawn_blocked;
use crate::os::stderr::to_stderr;
use crate::sched::shared::Shared;

/// The diagnosis thread. The lock is held while the thread starts or stops, which does not take this lock.
static THREAD: KernelMutex<Option<JoinHandle<()>>> = KernelMutex::new(None);
static STOP: AtomicBool = AtomicBool::new(false);

/// Keeps a runtime visible to diagnosis until it is dropped.
pub(crate) struct Watched(Arc<Shared>);

/// Makes the virtual processors of `shared` visible, and starts the services that the knobs ask for.
///
/// # Errors
/// A knob does not accept its variable's value, or the kernel refuses the thread.
pub(crate) fn watch(shared: &Arc<Shared>) -> Result<Watched, Error> {
    trace_exit::from_env()?;
    let quit = knobs::SIGQUIT.bool()?;
    let stall = knobs::STALL_MS.int()?.filter(|ms| *ms > 0);
    let mut thread = THREAD.lock();
    if thread.is_none() && (quit || stall.is_some()) {
        STOP.store(false, Relaxed);
        let stall = stall.map(|ms| Duration::from_millis(ms as u64));
        *thread = Some(start(stall).map_err(|source| Error::Os {
            doing: "starting the kernel thread that answers SIGQUIT (MARCEL_SIGQUIT=0 does without)",
            source,
        })?);
        if quit {
            quit::take();
        }
    }
    runtimes::add(shared);
    Ok(Watched(shared.clone()))
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut thread = THREAD.lock();
        if runtimes::remove(&self.0) > 0 {
            return;
        }
        if let Some(thread) = thread.take() {
            quit::give_back();
            STOP.store(true, Release);
            bell::ring();
            let _ = thread.join();
        }
        trace_exit::save_now();
    }
}

/// Starts the kernel thread.
fn start(stall: Option<Duration>) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("marcel-diag".into());
    let thread = spawn_blocked(thread, move || serve(stall));
    // Already before its first turn, since it answers what was rung for until then.
    bell::set_served(thread.is_ok());
    thread
}

fn serve(stall: Option<Duration>) {
    fatal::serve();
    let mut watchdog = stall.map(Watchdog::new);
    while !STOP.load(Acquire) {
        let next = watchdog.as_ref().map(|w| Instant::now() + w.period());
        bell::sleep(next, || STOP.load(Acquire) || quit::is_asked() || fatal::is_asked());
        fatal::answer();
        quit::answer(|| {
            to_stderr(report::write);
            trace_exit::save_now();
        });
        if let Some(watchdog) = &mut watchdog {
            watchdog.check(&runtimes::vps());
        }
    }
    bell::set_served(false);
}
