//! What a runtime keeps for calls that block: the pool that makes exported ones, and the kernel threads of standbys.

use std::cell::Cell;
use std::ptr::null;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Error;
use crate::lwp::calls::Pool;
use crate::lwp::spare;
use crate::os::KernelMutex;
use crate::os::sleeper::Sleeper;
use crate::{knobs, topology};

/// How [`crate::blocking()`] makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// By standby when the caller's virtual processor has started no other thread, which would have to wait;
    /// else by export.
    Auto,
    /// Always as [`export`](crate::blocking::export).
    Export,
    /// Always as [`standby`](crate::blocking::standby).
    Standby,
}

std::thread_local! {
    /// The pool whose thread the calling kernel thread is. A thread keeps its pool alive.
    static CARRIED: Cell<*const Pool> = const { Cell::new(null()) };
}

/// What a runtime has for blocking calls.
pub(crate) struct Blocking {
    mechanism: Mechanism,
    pool: Arc<Pool>,
    standbys: KernelMutex<Standbys>,
}

/// The kernel threads of standbys.
#[derive(Default)]
struct Standbys {
    threads: Vec<JoinHandle<Retire>>,
    closed: bool,
}

/// What the kernel thread of a standby leaves: to be called when all kernel threads of the runtime have ended.
pub(crate) type Retire = Box<dyn FnOnce() + Send>;

/// What was set in a runtime's builder.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) mechanism: Option<Mechanism>,
    pub(crate) max: Option<usize>,
    pub(crate) keep: Option<Duration>,
}

impl Blocking {
    /// No thread is started yet. What is not set comes from the knobs.
    pub(crate) fn new(settings: Settings) -> Result<Blocking, Error> {
        let mechanism = match settings.mechanism {
            Some(mechanism) => mechanism,
            None => match knobs::BLOCKING.text()?.as_str() {
                "export" => Mechanism::Export,
                "standby" => Mechanism::Standby,
                _ => Mechanism::Auto,
            },
        };
        let max = match settings.max {
            Some(n) => n,
            None => knobs::LWP_MAX.int()?.unwrap_or(512) as usize,
        };
        if max == 0 {
            return Err(Error::Config {
                what: "blocking_max",
                why: "no thread for blocking calls; it takes at least 1".into(),
            });
        }
        let keep = match settings.keep {
            Some(time) => time,
            None => Duration::from_millis(knobs::LWP_KEEP.int()?.unwrap_or(10_000) as u64),
        };
        // Not those of the kernel thread that starts it, which may be a virtual processor's.
        let cpus: Arc<[usize]> = topology::allowed_cpus().into();
        let start = move |pool, place| start(pool, place, Some(cpus.clone()));
        let pool = Pool::new(max, Some(keep), Box::new(start));
        Ok(Blocking { mechanism, pool, standbys: KernelMutex::default() })
    }

    pub(crate) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Whether the calling kernel thread is one of the pool's, so that it must not wait for their end.
    pub(crate) fn is_carried_here(&self) -> bool {
        std::ptr::eq(CARRIED.get(), &*self.pool)
    }

    /// Lets `start` start a standby, unless the runtime stops, and keeps its kernel thread to wait for its end.
    pub(crate) fn start_standby<T>(
        &self,
        start: impl FnOnce() -> std::io::Result<(T, JoinHandle<Retire>)>,
    ) -> Option<T> {
        let mut standbys = self.standbys.lock();
        if standbys.closed {
            return None;
        }
        let (standby, thread) = start().ok()?;
        standbys.threads.push(thread);
        Some(standby)
    }

    /// Starts what the first call needs.
    ///
    /// # Errors
    /// When the kernel refuses a thread.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        self.pool.prepare()
    }

    /// The runtime stops: no call begins on the pool any more, and no standby is started. How many standbys there are.
    pub(crate) fn close(&self) -> usize {
        self.pool.close();
        let mut standbys = self.standbys.lock();
        standbys.closed = true;
        standbys.threads.len()
    }

    /// Waits for the kernel threads. The regular virtual processors have ended. What is to be called when all that is
    /// theirs is over.
    pub(crate) fn join(&self) -> Vec<Retire> {
        let standbys = std::mem::take(&mut self.standbys.lock().threads);
        let retire = standbys.into_iter().filter_map(|thread| thread.join().ok()).collect();
        self.pool.join();
        retire
    }
}

/// Starts a thread of the pool, which may run on `cpus`.
pub(crate) fn start(
    pool: Arc<Pool>,
    place: Arc<Sleeper>,
    cpus: Option<Arc<[usize]>>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    spare::start("marcel-blk".into(), None, move || {
        if let Some(cpus) = cpus {
            // Refused, as outside the cpuset by now: where it was started will do.
            let _ = topology::restrict_current_thread(&cpus);
        }
        CARRIED.set(&*pool);
        pool.carry(place);
    })
}
