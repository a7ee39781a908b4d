//! Which mechanism makes a blocking call, and what a runtime keeps for both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::blocking::export::{self, export};
use crate::blocking::standby::{holds_up_nobody, standby};
use crate::error::Error;
use crate::lwp::calls::Pool;
use crate::sched::here;
use crate::{knobs, topology};

/// How [`blocking`] makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// By standby when the caller's virtual processor has started no other thread, which would have to wait;
    /// else by export.
    Auto,
    /// Always as [`export`].
    Export,
    /// Always as [`standby`].
    Standby,
}

/// What a runtime has for blocking calls.
pub(crate) struct Blocking {
    mechanism: Mechanism,
    pool: Arc<Pool>,
    standbys: Mutex<Standbys>,
}

/// The kernel threads of standbys.
#[derive(Default)]
struct Standbys {
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

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
        let start = move |pool, place| export::start(pool, place, Some(cpus.clone()));
        let pool = Pool::new(max, Some(keep), Box::new(start));
        Ok(Blocking { mechanism, pool, standbys: Mutex::default() })
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn standbys(&self) -> MutexGuard<'_, Standbys> {
        self.standbys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `start` start a standby, unless the runtime stops, and keeps its kernel thread to wait for its end.
    pub(super) fn start_standby<T>(
        &self,
        start: impl FnOnce() -> std::io::Result<(T, JoinHandle<()>)>,
    ) -> Option<T> {
        let mut standbys = self.standbys();
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
        let mut standbys = self.standbys();
        standbys.closed = true;
        standbys.threads.len()
    }

    /// Waits for the kernel threads. The regular virtual processors have ended.
    pub(crate) fn join(&self) {
        let standbys = std::mem::take(&mut self.standbys().threads);
        for standby in standbys {
            let _ = standby.join();
        }
        self.pool.join();
    }
}

/// Makes a call that may block in the kernel, and returns what it returns: the calling green thread waits, its
/// virtual processor's other threads go on. The closure may borrow. By [`export`] or by [`standby`]: see
/// [`Mechanism`], `MARCEL_BLOCKING`. In doubt, so both ways, the closure must be `Send`.
///
/// # Context
/// A green thread. Elsewhere the closure is just called.
///
/// # Blocking
/// The green thread, until the closure has ended. When the runtime is dropped meanwhile: a closure that has not begun
/// never runs; one that runs is waited for.
///
/// # Panics
/// With the closure's payload, when it panics.
pub fn blocking<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let mechanism = here::vp().map(|vp| vp.shared.blocking.mechanism);
    match mechanism {
        Some(Mechanism::Export) => export(f),
        Some(Mechanism::Auto) if !holds_up_nobody() => export(f),
        _ => standby(f),
    }
}
