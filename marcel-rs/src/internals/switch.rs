//! The bare switch: contexts without a scheduler.

use std::cell::Cell;
use std::hint::black_box;
use std::io;

use crate::stack::pool::{ContextCache, ContextPool};
use crate::stack::{Context, Modes, Switch};

/// What changes stacks in this build.
pub const BACK_END: &str = if cfg!(feature = "back-end-corosensei") {
    "corosensei"
} else if cfg!(feature = "back-end-context") {
    "context"
} else if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
    "assembly"
} else {
    "corosensei"
};

thread_local! {
    /// What the context that is resumed for the first time works on.
    static JOB: Cell<*const Job> = const { Cell::new(std::ptr::null()) };
    /// How many bodies have ended on this kernel thread.
    static ENDED: Cell<u64> = const { Cell::new(0) };
}

struct Job {
    context: Context,
    count: Cell<u64>,
    over: Cell<bool>,
}

impl Job {
    #[inline(always)]
    fn suspend(&self) {
        // SAFETY: called by the bodies below only, which run in this context.
        unsafe { self.context.suspend(Switch::Yield) };
    }

    /// Some calls deep, where threads suspend: in `park`, in `lock`.
    #[inline(never)]
    fn wait(&self) {
        self.park();
        black_box(self);
    }

    #[inline(never)]
    fn park(&self) {
        self.suspend();
        black_box(self);
    }
}

/// Counts and suspends, again and again.
fn body<const DEEP: bool>() {
    // SAFETY: `Rounds` has set it just before, keeps the job at its address, and ends us before it goes.
    let job = unsafe { &*JOB.get() };
    while !job.over.get() {
        job.count.set(job.count.get() + 1);
        if DEEP { job.wait() } else { job.suspend() }
    }
}

/// A context that counts how often it is resumed.
pub struct Rounds {
    job: Box<Job>,
    usual: Modes,
    pool: ContextPool,
    cache: ContextCache,
}

impl Rounds {
    /// `deep`: it suspends two calls deep instead of in its loop.
    ///
    /// # Errors
    /// No memory for a stack.
    pub fn new(deep: bool) -> io::Result<Rounds> {
        let pool = ContextPool::new(0, 0, if deep { body::<true> } else { body::<false> });
        let mut cache = ContextCache::default();
        let context = cache.take(&pool, 0)?;
        let job = Box::new(Job { context, count: Cell::new(0), over: Cell::new(false) });
        let rounds = Rounds { job, usual: Modes::now(), pool, cache };
        JOB.set(&*rounds.job);
        rounds.round();
        Ok(rounds)
    }

    /// A switch to it, and one back.
    #[inline(always)]
    pub fn round(&self) {
        // SAFETY: idle or suspended, and ours alone: the cells keep other threads away. What is suspended holds nothing
        // of a kernel thread, so it may be another one than before.
        unsafe { self.job.context.resume(self.usual) };
    }

    /// How often it was resumed.
    pub fn count(&self) -> u64 {
        self.job.count.get()
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.job.over.set(true);
        self.round();
        // SAFETY: it has ended, and the job's own is not used again: contexts have no destructor.
        let context = unsafe { std::ptr::read(&raw const self.job.context) };
        self.cache.put(&self.pool, context);
        self.cache.empty(&self.pool);
        self.pool.clear();
    }
}

fn ends() {
    ENDED.set(ENDED.get() + 1);
}

/// Bodies that end at once, each on a context of the pool's.
pub struct Starts {
    usual: Modes,
    pool: ContextPool,
    cache: ContextCache,
}

impl Starts {
    /// With an empty pool.
    #[allow(clippy::new_without_default, reason = "there is nothing to choose, and no other user")]
    pub fn new() -> Starts {
        Starts {
            usual: Modes::now(),
            pool: ContextPool::new(0, 0, ends),
            cache: ContextCache::default(),
        }
    }

    /// Takes a context, runs a body to its end, gives the context back. How many have ended on this kernel thread.
    ///
    /// # Errors
    /// No memory for a stack.
    #[inline]
    pub fn start(&mut self) -> io::Result<u64> {
        let context = self.cache.take(&self.pool, 0)?;
        // SAFETY: idle, and ours.
        unsafe { context.resume(self.usual) };
        self.cache.put(&self.pool, context);
        Ok(ENDED.get())
    }
}

impl Drop for Starts {
    fn drop(&mut self) {
        self.cache.empty(&self.pool);
        self.pool.clear();
    }
}
