//! Threads that borrow: `std::thread::scope`'s semantics.
//!
//! The owner's frame must not go while a thread of the scope may use what it borrowed, however the owner leaves it:
//! so the wait is in a guard's destructor too, and there nothing ends it but the last thread's end, not even a
//! runtime that stops (which goes on with the other threads meanwhile).
//!
//! What a thread of the scope does last, in this order:
//! 1. its function has returned or panicked, and its green-thread-local values are destroyed;
//! 2. it leaves its result and sets the latch: a join goes on;
//! 3. it lets go of the result, which is dropped here if its handle is gone: a result may borrow, too;
//! 4. it counts itself out. From then on it touches neither the scope nor what was borrowed: the owner, whose control
//!    block is immortal, is woken through a pointer read before.
//!
//! A thread that never runs, since its runtime stops or there is no memory for its stack, drops its function and does
//! 2 to 4.

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

use crate::sched::here;
use crate::sched::mode::Mode;
use crate::sched::shared::Shared;
use crate::sched::worker;
use crate::task::current::Thread;
use crate::task::join::{NoStack, Stopped};
use crate::task::latch::Latch;
use crate::task::local_key;
use crate::task::park;
use crate::task::park::is_stopping;
use crate::task::spawn::Builder;
use crate::tcb::block::Tcb;
use crate::tcb::payload::contain;

/// What the threads of a scope and its owner share.
struct Count {
    running: AtomicUsize,
    /// A thread panicked and was not joined.
    panicked: AtomicBool,
    /// A thread got no stack and was not joined.
    no_stack: OnceLock<NoStack>,
    owner: &'static Tcb,
}

impl Count {
    fn wait(&self) {
        while self.running.load(Acquire) != 0 {
            park::park("scope");
        }
    }

    /// The calling thread's last use of the scope.
    ///
    /// # Safety
    /// `this` points to the count of a scope that has counted the calling thread in.
    unsafe fn leave(this: *const Count) {
        // SAFETY: the scope waits for us until the count has changed.
        let last = unsafe {
            let owner = (*this).owner;
            ((*this).running.fetch_sub(1, AcqRel) == 1).then_some(owner)
        };
        if let Some(owner) = last {
            park::unpark(owner);
        }
    }
}

/// Waits for the threads of a scope, whatever happens.
struct Wait<'a>(&'a Count);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Where a thread leaves its result.
struct Packet<T> {
    result: UnsafeCell<Option<std::thread::Result<T>>>,
    ended: Latch,
    count: *const Count,
}

// SAFETY: the result is written before the latch is set and read after it is seen set; the count is shared.
unsafe impl<T: Send> Sync for Packet<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Packet<T> {}

impl<T> Drop for Packet<T> {
    fn drop(&mut self) {
        // SAFETY: packets are dropped by the thread before it counts itself out, or by a join handle, which does not
        // outlive the scope.
        let count = unsafe { &*self.count };
        let mut result = self.result.get_mut().take();
        if let Some(Err(payload)) = result {
            result = match payload.downcast::<NoStack>() {
                Ok(why) => {
                    let _ = count.no_stack.set(*why); // the first one tells
                    None
                }
                Err(payload) => Some(Err(payload)),
            };
        }
        let panicked = matches!(result, Some(Err(_)));
        let dropped = contain(|| drop(result));
        if panicked || dropped.panicked {
            count.panicked.store(true, Relaxed);
        }
        if let Some(unwinding) = dropped.unwinding {
            unwinding.resume();
        }
    }
}

/// Counts the thread out of the scope that has this count, also when its result's destructor is unwound.
struct CountsOut(*const Count);

impl Drop for CountsOut {
    fn drop(&mut self) {
        // SAFETY: counted in when the packet was made.
        unsafe { Count::leave(self.0) };
    }
}

/// The thread's end of a packet.
struct Part<T>(Option<Arc<Packet<T>>>);

impl<T> Drop for Part<T> {
    fn drop(&mut self) {
        if let Some(packet) = self.0.take() {
            let _counts_out = CountsOut(packet.count);
            // SAFETY: only this end writes, before the latch is set.
            let result = unsafe { &mut *packet.result.get() };
            result.get_or_insert_with(|| {
                // The running thread is the one whose part this is; what got no stack says why.
                match here::tcb().and_then(|tcb| tcb.own.no_stack.take()) {
                    Some(error) => Err(Box::new(NoStack(error))),
                    None => Err(Box::new(Stopped)),
                }
            });
            packet.ended.set();
            drop(packet);
        }
    }
}

/// What a thread of a scope runs. Dropped without having run, it drops the function before it counts itself out.
struct Job<F, T> {
    f: F,
    part: Part<T>,
}

impl<T, F: FnOnce() -> T> Job<F, T> {
    fn run(self) {
        let Job { f, part } = self;
        let result = catch_unwind(AssertUnwindSafe(f));
        local_key::destroy();
        if let (Some(packet), false) = (&part.0, is_stopping()) {
            // SAFETY: as in `Part`'s drop.
            unsafe { *packet.result.get() = Some(result) };
        }
    }
}

/// Where threads that borrow are started; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<Shared>,
    count: Count,
    /// Invariant: a scope must not pass for a shorter one, whose borrows would end earlier.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Calls `f` with a scope, in which threads can be started that borrow what lives longer than the scope, and waits
/// for all of them. As `std::thread::scope`; moreover, green-thread-local values of the threads have been destroyed
/// when it returns.
///
/// ```
/// let runtime = marcel::Runtime::builder().vps(1).build()?;
/// let sum = runtime.run(|| {
///     let mut numbers = vec![1, 2, 3];
///     let (left, right) = numbers.split_at_mut(1);
///     marcel::scope(|s| {
///         s.spawn(|| left[0] += 10);
///         s.spawn(|| right.iter_mut().for_each(|n| *n += 10));
///     });
///     numbers.into_iter().sum::<i32>()
/// });
/// assert_eq!(sum, 36);
/// # Ok::<(), marcel::Error>(())
/// ```
///
/// What lives in the closure itself is too short-lived, and handles do not leave it:
///
/// ```compile_fail
/// marcel::scope(|s| {
///     let short = 5;
///     s.spawn(|| println!("{short}"));
/// });
/// ```
/// ```compile_fail
/// let handle = marcel::scope(|s| s.spawn(|| ()));
/// ```
///
/// # Context
/// A green thread; elsewhere [`Runtime::scope`](crate::Runtime::scope). A thread of the scope may start others in it.
///
/// # Blocking
/// The green thread. A runtime that stops does not end the wait: the scope's threads are unwound before their owner's
/// frame goes.
///
/// # Panics
/// Outside a runtime. With the payload of `f`'s panic, after all threads have ended. If a thread that was not joined
/// has panicked, or got no stack.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    match worker::current() {
        Some(worker) => scope_in(worker.shared.shared().clone(), f),
        None => panic!("marcel::scope: no runtime here; kernel threads use Runtime::scope"),
    }
}

#[track_caller]
pub(crate) fn scope_in<'env, F, T>(shared: Arc<Shared>, f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope {
        shared,
        count: Count {
            running: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            no_stack: OnceLock::new(),
            owner: park::current(),
        },
        scope: PhantomData,
        env: PhantomData,
    };
    let wait = Wait(&scope.count);
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.count.wait(); // may be unwound out of: then the guard goes on waiting
    std::mem::forget(wait);
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(_) if scope.count.panicked.load(Relaxed) => panic!("a scoped thread panicked"),
        Ok(value) => match scope.count.no_stack.get() {
            Some(why) => panic!("a scoped thread was not joined: {why}"),
            None => value,
        },
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a compute thread in the scope.
    ///
    /// # Context
    /// Anywhere in the scope, its threads included.
    ///
    /// # Wakes
    /// A sleeping virtual processor, if there is one.
    ///
    /// # Panics
    /// In [`crate::Mode::NoThread`], which has no green threads.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match Builder::new().spawn_scoped(self, f) {
            Ok(handle) => handle,
            Err(error) => panic!("marcel::Scope::spawn: {error}"),
        }
    }
}

impl Builder {
    /// Starts the thread in `scope`; see [`crate::scope`].
    ///
    /// # Context
    /// Anywhere in the scope, its threads included.
    ///
    /// # Wakes
    /// A sleeping virtual processor, if there is one.
    ///
    /// # Errors
    /// As [`Builder::spawn`]; in [`crate::Mode::NoThread`], which has no green threads.
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        if scope.shared.mode == Mode::NoThread {
            return Err(io::Error::other("no green threads in no-thread mode"));
        }
        let packet = Arc::new(Packet {
            result: UnsafeCell::new(None),
            ended: Latch::new(),
            count: &scope.count,
        });
        // Overflow is impossible: each thread has a stack.
        scope.count.running.fetch_add(1, Relaxed);
        let job = Job { f, part: Part(Some(packet.clone())) };
        // SAFETY: the scope's owner does not leave before the job has been dropped.
        let spawned = unsafe { self.spawn_unchecked(&scope.shared, move || job.run()) };
        let spawned = spawned.inspect_err(|_| {
            // SAFETY: the job has been dropped, and with it the thread's end of the packet. No thread panicked.
            unsafe { *packet.result.get() = None };
        })?;
        Ok(ScopedJoinHandle { packet, thread: *spawned.thread(), scope: PhantomData })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("running", &self.count.running.load(Relaxed)).finish()
    }
}

/// Owned right to wait for the end of a thread of a scope. If it is dropped, the scope waits.
pub struct ScopedJoinHandle<'scope, T> {
    packet: Arc<Packet<T>>,
    thread: Thread,
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread's end: its value, or the payload of its panic, which the scope then does not report.
    ///
    /// # Blocking
    /// The calling green thread; outside a runtime, the kernel thread.
    ///
    /// # Errors
    /// The thread panicked, or did not run to its end ([`Stopped`], [`NoStack`]).
    pub fn join(self) -> std::thread::Result<T> {
        self.packet.ended.wait("join");
        // SAFETY: the latch is set: the thread has written its result and does not look at it any more.
        unsafe { (*self.packet.result.get()).take() }.unwrap_or_else(|| Err(Box::new(Stopped)))
    }

    /// As [`ScopedJoinHandle::join`], unless the calling thread has been asked to stop: then the handle comes back.
    ///
    /// # Blocking
    /// As [`ScopedJoinHandle::join`].
    ///
    /// # Errors
    /// The handle, when the caller has been asked to stop before the thread's end.
    pub fn join_interruptible(self) -> Result<std::thread::Result<T>, Self> {
        match self.packet.ended.wait_interruptible("join") {
            Ok(()) => Ok(self.join()),
            Err(_) => Err(self),
        }
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.packet.ended.is_set()
    }

    /// The thread, to unpark it or to ask it to stop.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("finished", &self.is_finished()).finish()
    }
}
