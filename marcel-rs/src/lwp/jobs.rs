//! Spare kernel threads for an I/O manager: they make the calls that block, so that no virtual processor does
//! (\[Trahay09\], 5.2.3).
//!
//! A [`LwpPool`] starts threads as they are needed, up to a bound, and keeps them. Jobs are intrusive nodes
//! of `'static` memory, so that a job can be handed over from the progress path: no allocation, a push and a
//! wake-up. A spare thread asks the kernel for a short time slice, like a reactive virtual processor: when
//! the event comes, the kernel lets it preempt a computing thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::list::{Chained, Inbox};
#[cfg(not(loom))]
use crate::lwp::spare;
#[cfg(not(loom))]
pub use crate::lwp::spare::{
    SHORT_SLICE, prefer_current_thread, program_stack, slice_of_current_thread,
};
use crate::os::sleeper::Sleeper;
use crate::os::{
    AtomicBool, AtomicPtr, AtomicUsize, JoinHandle, Mutex, const_unless_modelled, fence,
    join_another,
};

/// A blocking piece of work.
pub trait LwpJob: Send + Sync {
    /// Does it, on a spare kernel thread. May block; must not unwind (a panic ends the process).
    fn run(&self);
}

/// Link and work of a job; lives forever, may be submitted again once it has begun to run.
pub struct JobNode {
    next: AtomicPtr<JobNode>,
    job: &'static dyn LwpJob,
}

impl JobNode {
    const_unless_modelled! {
        /// A node for `job`.
        pub fn new(job: &'static dyn LwpJob) -> JobNode {
            JobNode { next: AtomicPtr::new(std::ptr::null_mut()), job }
        }
    }
}

// SAFETY: a field that nothing else touches.
unsafe impl Chained for JobNode {
    fn next(&self) -> &AtomicPtr<JobNode> {
        &self.next
    }
}

impl std::fmt::Debug for JobNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobNode")
    }
}

struct Pool {
    jobs: Inbox<JobNode>,
    /// One for each thread that could be running; threads take the first that is not `used`.
    places: Box<[Place]>,
    stopping: AtomicBool,
    running: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Place {
    sleeper: Sleeper,
    idle: AtomicBool,
}

/// A pool of spare kernel threads; see the module's description. Dropping it waits for the jobs
/// that were submitted.
pub struct LwpPool(Arc<Pool>);

impl LwpPool {
    /// A pool of at most `max` threads; none is started yet.
    pub fn new(max: usize) -> LwpPool {
        LwpPool(Arc::new(Pool {
            jobs: Inbox::default(),
            places: (0..max.max(1)).map(|_| Place::default()).collect(),
            stopping: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
        }))
    }

    /// Starts threads until `n` exist (or the bound is reached).
    ///
    /// # Context
    /// Not the progress path: it allocates.
    ///
    /// # Errors
    /// When the kernel gives no thread and there is none at all.
    pub fn ensure(&self, n: usize) -> std::io::Result<()> {
        let mut threads = self.0.threads.lock();
        while threads.len() < n.min(self.0.places.len()) {
            let index = threads.len();
            let pool = self.0.clone();
            let name = format!("marcel-lwp{index}");
            match start(name, move || pool.carry(index)) {
                Ok(thread) => threads.push(thread),
                Err(_) if !threads.is_empty() => break, // the others will do the work
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Number of its threads.
    ///
    /// # Context
    /// Not the progress path.
    pub fn threads(&self) -> usize {
        self.0.threads.lock().len()
    }

    /// Hands a job to the pool; an idle thread takes it, or the next that becomes idle.
    ///
    /// # Context
    /// Anywhere, signal handlers included. The node must not be queued already.
    pub fn submit(&self, node: &'static JobNode) {
        self.0.jobs.push(node);
        fence(SeqCst);
        self.0.wake_one();
    }

    /// Number of jobs that run now.
    pub fn running(&self) -> usize {
        self.0.running.load(Relaxed)
    }
}

impl std::fmt::Debug for LwpPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LwpPool({} running)", self.running())
    }
}

impl Drop for LwpPool {
    fn drop(&mut self) {
        self.0.stopping.store(true, SeqCst);
        self.0.places.iter().for_each(|p| p.sleeper.notify());
        let threads = self.0.threads.lock().split_off(0);
        // A job may hold the last handle: its thread sees `stopping` when the job has ended.
        threads.into_iter().for_each(join_another);
    }
}

impl Pool {
    /// Takes all jobs, keeps the oldest and gives the others back. To take one alone would be open to ABA.
    fn take(&self) -> Option<&'static JobNode> {
        let mut oldest = None;
        self.jobs.drain(|node| match oldest {
            None => oldest = Some(node),
            Some(_) => self.jobs.push(node),
        });
        oldest
    }

    fn wake_one(&self) {
        for place in &self.places {
            if place.idle.load(SeqCst) && place.idle.swap(false, SeqCst) {
                place.sleeper.notify();
                return;
            }
        }
    }

    fn carry(&self, index: usize) {
        let place = &self.places[index];
        loop {
            // First: what was submitted before the pool was dropped is still found.
            let stopping = self.stopping.load(SeqCst);
            if let Some(node) = self.take() {
                if !self.jobs.is_empty() {
                    self.wake_one();
                }
                self.running.fetch_add(1, Relaxed);
                let job = node.job;
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run())).is_err() {
                    std::process::abort(); // the panic hook has said why
                }
                self.running.fetch_sub(1, Relaxed);
                continue;
            }
            if stopping {
                return;
            }
            place.idle.store(true, SeqCst); // the sleeper's fence comes before the last look
            place.sleeper.sleep(None, || !self.jobs.is_empty() || self.stopping.load(SeqCst));
            place.idle.store(false, SeqCst);
        }
    }
}

#[cfg(not(loom))]
fn start(name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    spare::start(name, Some(spare::program_stack()), f)
}

#[cfg(loom)]
fn start(_: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    Ok(loom::thread::spawn(f))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    struct Count(AtomicUsize);
    impl LwpJob for Count {
        fn run(&self) {
            std::thread::sleep(Duration::from_millis(1));
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// A job that owns the last handle of its own pool: the pool cannot wait for that thread.
    #[test]
    fn a_job_may_drop_its_pool() {
        struct Last(Mutex<Option<Arc<LwpPool>>>, AtomicUsize);
        impl LwpJob for Last {
            fn run(&self) {
                let pool = self.0.lock().take();
                drop(pool);
                self.1.store(1, SeqCst);
            }
        }
        let pool = Arc::new(LwpPool::new(2));
        pool.ensure(2).unwrap();
        let job: &'static Last =
            Box::leak(Box::new(Last(Mutex::new(Some(pool.clone())), AtomicUsize::new(0))));
        let node = Box::leak(Box::new(JobNode::new(job)));
        let inner = pool.0.clone();
        drop(pool); // the job's is the last
        inner.jobs.push(node);
        inner.wake_one();
        let limit = Instant::now() + Duration::from_secs(30);
        while job.1.load(SeqCst) == 0 && Instant::now() < limit {
            std::thread::yield_now();
        }
        assert_eq!(job.1.load(SeqCst), 1);
    }

    #[test]
    fn every_job_runs_once_whatever_the_number_of_threads() {
        for threads in [1, 3] {
            let pool = LwpPool::new(threads);
            pool.ensure(threads).unwrap();
            let job: &'static Count = Box::leak(Box::new(Count(AtomicUsize::new(0))));
            for _ in 0..50 {
                pool.submit(Box::leak(Box::new(JobNode::new(job))));
            }
            let limit = Instant::now() + Duration::from_secs(30);
            while job.0.load(SeqCst) < 50 && Instant::now() < limit {
                std::thread::yield_now();
            }
            assert_eq!(job.0.load(SeqCst), 50);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::task::latch::Latch;

    /// Two jobs, one and the same.
    struct Both {
        runs: AtomicUsize,
        done: Latch,
    }
    impl LwpJob for Both {
        fn run(&self) {
            if self.runs.fetch_add(1, Relaxed) == 1 {
                self.done.set();
            }
        }
    }

    /// Both from here or one from another thread. They are waited for (a deadlock in the model if one is
    /// stranded), or the pool is dropped with what is queued.
    fn model(threads: usize, submitters: usize, wait: bool) {
        loom::model(move || {
            let both: &'static Both =
                Box::leak(Box::new(Both { runs: AtomicUsize::new(0), done: Latch::new() }));
            let pool = Arc::new(LwpPool::new(threads));
            pool.ensure(threads).unwrap();
            let submit = |pool: &LwpPool| pool.submit(Box::leak(Box::new(JobNode::new(both))));
            let other = (submitters == 2).then(|| {
                let pool = pool.clone();
                loom::thread::spawn(move || submit(&pool))
            });
            (0..3 - submitters).for_each(|_| submit(&pool));
            other.into_iter().for_each(|t| t.join().unwrap());
            if wait {
                both.done.wait("a model");
            }
            drop(pool); // waits for the threads
            assert_eq!(both.runs.load(Relaxed), 2);
        });
    }

    #[test]
    fn one_thread_runs_every_job() {
        model(1, 2, true);
    }

    #[test]
    fn of_two_threads_one_runs_each_job() {
        model(2, 1, true);
    }

    #[test]
    fn what_is_queued_when_the_pool_is_dropped_is_run() {
        model(1, 2, false);
        model(2, 1, false);
    }
}
