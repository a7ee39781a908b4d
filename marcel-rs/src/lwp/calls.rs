//! The pool of kernel threads that make exported calls: its queue, and how it grows, shrinks and stops.
//!
//! A [`Call`] is a list node on the stack of the thread that makes it, so a submission allocates nothing for the
//! call. Everything else is under one lock, held for a few instructions: this is not the progress path, and each
//! call costs two wake-ups by the kernel anyhow.
//!
//! ```text
//!            submit                    a thread takes it            it has run
//!   (caller) ──────▶ QUEUED ─────────────────────────▶ RUNNING ──────────────▶ latch set
//!                      │ ├─ the kernel refuses the only thread ─▶ handed back, latch set: the caller runs it
//!                      │ └─ the caller is unwound ──────────────▶ withdrawn: never runs
//! ```
//!
//! The pool grows from within: a thread that takes a call first makes sure that another one is idle or on its
//! way, and starts one if not. So the pool keeps one thread more than it needs, and a caller's virtual
//! processor pays for a queue and a wake-up, not for a new kernel thread; nor do the pool's threads inherit its
//! niceness and its core, as they would from it. The first is started with the runtime. One always stays.
//!
//! A thread is *searching* from the moment that it is started or woken until it has looked at the queue under the
//! lock. What holds whenever the lock is free:
//!
//! > While a call is queued, a thread is searching, which will take the oldest and send for another one; or no
//! > thread is idle, and the pool is full or the kernel has refused another thread. A call is queued only while there
//! > is a thread, searching or running, that will take it.
//!
//! Hence no call is stranded (tokio's issue 8406: a thread that was refused counted on others that never served
//! the queue): a caller that was refused a thread takes the missing thread out of the count, and if none is left hands
//! back *all* queued calls, those of others that counted on it included. While some thread lives, it takes them when it
//! has ended its call, and it and later callers try again to start another. Shrinking is decided under the lock too: a
//! thread that has been idle for long leaves only if no caller has claimed it, and it is not the last.
//!
//! Idle threads are claimed last in, first out, so the ones too many are the ones that stay idle.
//!
//! Why not the pool of [`super::lwp`]: its submissions come from signal handlers, so it may neither lock nor start
//! threads, and its jobs live for ever. Rejected: a channel of boxed closures (allocates, and a call cannot be
//! withdrawn); a condition variable (wakes the longest idle thread first, so the pool would not shrink); a thread that
//! only starts others (one more wake-up each time, and it must be there from the beginning as well).

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::list::List;
use crate::lwp::call::{Call, How};
use crate::os::sleeper::Sleeper;
use crate::os::{JoinHandle, Mutex, join_another};

/// A thread of the pool, or one that is being started.
struct Member {
    place: Arc<Sleeper>,
    handle: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    queue: List<Call>,
    members: Vec<Member>,
    /// Those that sleep and are not claimed, the warmest last.
    idle: Vec<Arc<Sleeper>>,
    searching: usize,
    stopping: bool,
}

/// What a change of the queue asks for, to be done without the lock.
enum Help {
    Nothing,
    Wake(Arc<Sleeper>),
    Start(Arc<Sleeper>),
}

impl State {
    /// The call to make next: none when the runtime stops, since its caller is about to be unwound.
    fn next(&mut self) -> Option<NonNull<Call>> {
        if self.stopping { None } else { self.queue.pop_front() }
    }

    /// A call was queued: the thread to send for it.
    fn call(&mut self, max: usize) -> Help {
        if self.stopping || self.queue.len() <= self.searching {
            Help::Nothing
        } else if let Some(help) = self.wake_idle() {
            help
        } else if self.searching == 0 {
            self.grow(max)
        } else {
            Help::Nothing // the thread on its way sends for another one
        }
    }

    /// A thread was refused: the thread to send for those calls that counted on it. Not another one that is not there
    /// yet.
    fn call_instead(&mut self) -> Help {
        if self.stopping || self.queue.len() <= self.searching {
            return Help::Nothing;
        }
        self.wake_idle().unwrap_or(Help::Nothing)
    }

    fn wake_idle(&mut self) -> Option<Help> {
        let place = self.idle.pop()?;
        self.searching += 1;
        Some(Help::Wake(place))
    }

    /// A thread has taken a call: the one that comes after it.
    fn follow(&mut self, max: usize) -> Help {
        match self.queue.len() {
            0 if self.idle.is_empty() && self.searching == 0 => self.grow(max),
            _ => self.call(max),
        }
    }

    fn grow(&mut self, max: usize) -> Help {
        if self.stopping || self.members.len() >= max {
            return Help::Nothing;
        }
        let place = Arc::new(Sleeper::new());
        self.members.push(Member { place: place.clone(), handle: None });
        self.searching += 1;
        Help::Start(place)
    }

    fn dismiss(&mut self, place: &Arc<Sleeper>) {
        self.members.retain(|member| !Arc::ptr_eq(&member.place, place));
    }
}

/// Starts a kernel thread that calls [`Pool::carry`] with the sleeper.
pub(crate) type Start = dyn Fn(Arc<Pool>, Arc<Sleeper>) -> io::Result<JoinHandle<()>> + Send + Sync;

/// See the module's description.
pub(crate) struct Pool {
    state: Mutex<State>,
    max: usize,
    /// How long a thread without work stays; `None`: for ever.
    keep: Option<Duration>,
    start: Box<Start>,
}

impl Pool {
    /// A pool of at most `max` threads, none of which is started yet.
    pub(crate) fn new(max: usize, keep: Option<Duration>, start: Box<Start>) -> Arc<Pool> {
        Arc::new(Pool { state: Mutex::new(State::default()), max: max.max(1), keep, start })
    }

    /// Queues a call. It will end: it is made, or handed back.
    ///
    /// # Safety
    /// The call is fresh, and stays in place until it has ended or [`Pool::withdraw`] has taken it back.
    pub(crate) unsafe fn submit(self: &Arc<Self>, call: &Call) {
        let mut state = self.state.lock();
        // SAFETY: the caller's promise.
        unsafe { state.queue.push_back(NonNull::from(call)) };
        let help = state.call(self.max);
        drop(state);
        let _ = self.give(help);
    }

    /// Starts the first thread, from a kernel thread whose niceness and cores the pool is to have.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(crate) fn prepare(self: &Arc<Self>) -> io::Result<()> {
        let help = self.state.lock().grow(self.max);
        self.give(help)
    }

    /// Takes a submitted call back; false if a thread has taken it, or it was handed back: then it has ended, or
    /// will.
    pub(crate) fn withdraw(&self, call: &Call) -> bool {
        // SAFETY: a call is in no other queue.
        unsafe { self.state.lock().queue.remove(call) }
    }

    fn give(self: &Arc<Self>, help: Help) -> io::Result<()> {
        let place = match help {
            Help::Nothing => return Ok(()),
            Help::Wake(place) => {
                place.notify();
                return Ok(());
            }
            Help::Start(place) => place,
        };
        let started = (self.start)(self.clone(), place.clone());
        let mut state = self.state.lock();
        match started {
            Ok(handle) => {
                // It may have come and gone; then the handle is dropped.
                let member = state.members.iter_mut().find(|m| Arc::ptr_eq(&m.place, &place));
                if let Some(member) = member {
                    member.handle = Some(handle);
                }
                Ok(())
            }
            Err(error) => {
                state.dismiss(&place);
                state.searching -= 1;
                // Of a closed pool too: a caller that is unwound finds its latch set.
                while state.members.is_empty()
                    && let Some(call) = state.queue.pop_front()
                {
                    // SAFETY: just taken.
                    unsafe { Call::end(call.as_ptr(), How::HandBack) };
                }
                // Calls that came meanwhile counted on this thread, and another may be idle by now.
                let help = state.call_instead();
                drop(state);
                if let Help::Wake(place) = help {
                    place.notify();
                }
                Err(error)
            }
        }
    }

    /// Main function of a thread of the pool.
    pub(crate) fn carry(self: Arc<Self>, place: Arc<Sleeper>) {
        let mut state = self.state.lock();
        state.searching -= 1;
        loop {
            if let Some(call) = state.next() {
                let help = state.follow(self.max);
                drop(state);
                let _ = self.give(help);
                // SAFETY: just taken.
                unsafe { Call::end(call.as_ptr(), How::Make) };
                state = self.state.lock();
                continue;
            }
            if state.stopping {
                return; // `join` has the handle, or will find it
            }
            let mut until = self.keep.and_then(|keep| Instant::now().checked_add(keep));
            state.idle.push(place.clone());
            loop {
                drop(state);
                place.sleep(until, || false);
                state = self.state.lock();
                let Some(at) = state.idle.iter().position(|p| Arc::ptr_eq(p, &place)) else {
                    state.searching -= 1; // claimed
                    break;
                };
                if state.stopping {
                    return; // as above
                }
                let late = until.is_some_and(|t| t <= Instant::now());
                if late && state.members.len() == 1 {
                    until = None;
                } else if late {
                    state.idle.remove(at);
                    state.dismiss(&place);
                    return;
                }
            }
        }
    }

    /// From now on no call begins. Those that wait, or still come, are withdrawn when their callers are unwound.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        state.idle.iter().for_each(|place| place.notify());
    }

    /// Waits for the threads of a closed pool. Nothing is submitted any more.
    pub(crate) fn join(&self) {
        let mut state = self.state.lock();
        // Again as long as there are any: a thread that we wait for may have been starting another one.
        while let Some(handle) = state.members.iter_mut().find_map(|m| m.handle.take()) {
            drop(state);
            // A call may own the runtime: its thread sees `stopping` when the call has ended.
            join_another(handle);
            state = self.state.lock();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::os::AtomicUsize;
    use crate::task::latch::Latch;
    use loom::thread;
    use std::sync::atomic::Ordering::*;

    /// A pool whose kernel refuses the first `refusals` threads.
    fn pool(max: usize, keep: Option<Duration>, refusals: usize) -> Arc<Pool> {
        let refusals = AtomicUsize::new(refusals);
        let start =
            move |pool: Arc<Pool>, place| match refusals
                .fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1))
            {
                Ok(_) => Err(io::ErrorKind::WouldBlock.into()),
                Err(_) => Ok(thread::spawn(move || pool.carry(place))),
            };
        Pool::new(max, keep, Box::new(start))
    }

    fn stop(pool: &Pool) {
        pool.close();
        pool.join();
    }

    #[repr(C)]
    struct Counted {
        call: Call,
        done: Latch,
        runs: loom::cell::UnsafeCell<u32>,
    }

    unsafe fn end(call: *const Call, how: How) {
        // SAFETY: the first field of a `Counted`.
        let counted = unsafe { &*call.cast::<Counted>() };
        if how == How::Make {
            count(counted);
        }
        counted.done.set();
    }

    fn count(counted: &Counted) {
        // SAFETY: the pool's protocol, which loom checks here.
        counted.runs.with_mut(|n| unsafe { *n += 1 });
    }

    /// As `export` does it: submits, waits, makes the call itself if it was handed back. Loom reports a deadlock
    /// if the call is stranded, and a race if it is made twice, or touched after its latch is set.
    fn make(pool: &Arc<Pool>) {
        // SAFETY: the first field of a `Counted`.
        let call = unsafe { Call::new(end) };
        let (done, runs) = (Latch::new(), loom::cell::UnsafeCell::new(0));
        let counted = Counted { call, done, runs };
        // SAFETY: in place until the latch is set.
        unsafe { pool.submit(&counted.call) };
        counted.done.wait("a model");
        // SAFETY: the latch is set.
        if counted.runs.with(|n| unsafe { *n == 0 }) {
            count(&counted); // handed back: ours again
        }
        // SAFETY: as above.
        counted.runs.with(|n| unsafe { assert_eq!(*n, 1) });
    }

    fn two_callers(max: usize, keep: Option<Duration>, refusals: usize) {
        loom::model(move || {
            let pool = pool(max, keep, refusals);
            let _ = pool.prepare();
            let other = {
                let pool = pool.clone();
                thread::spawn(move || make(&pool))
            };
            make(&pool);
            other.join().unwrap();
            stop(&pool);
        });
    }

    #[test]
    fn calls_beyond_the_bound_are_made_by_the_first_that_ends() {
        two_callers(1, None, 0);
    }

    #[test]
    fn a_thread_for_each_call() {
        two_callers(2, None, 0);
    }

    /// A time-out of zero: whenever a thread is idle it may leave.
    #[test]
    fn a_shrinking_pool_strands_nothing() {
        two_callers(1, Some(Duration::ZERO), 0);
    }

    #[test]
    fn a_shrinking_pool_of_two_strands_nothing() {
        two_callers(2, Some(Duration::ZERO), 0);
    }

    /// The kernel gives one thread only. A call that comes while a second one is being refused counts on that one,
    /// and the first may be idle by then.
    #[test]
    fn a_thread_that_became_idle_while_another_was_refused_is_sent_for() {
        loom::model(|| {
            let given = AtomicUsize::new(1);
            let start =
                move |pool: Arc<Pool>, place| match given
                    .fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1))
                {
                    Ok(_) => Ok(thread::spawn(move || pool.carry(place))),
                    Err(_) => Err(io::ErrorKind::WouldBlock.into()),
                };
            let pool = Pool::new(2, None, Box::new(start));
            pool.prepare().unwrap();
            let other = {
                let pool = pool.clone();
                thread::spawn(move || make(&pool))
            };
            make(&pool);
            make(&pool);
            other.join().unwrap();
            stop(&pool);
        });
    }

    /// Both callers' threads are refused, in any order: each call is made by its caller, or by the thread that
    /// the other one did get.
    #[test]
    fn refused_threads_strand_nothing() {
        two_callers(2, None, 2);
        two_callers(1, None, 1);
        two_callers(2, Some(Duration::ZERO), 1);
    }

    /// One caller after the other: idle threads are found, whichever leaves meanwhile.
    #[test]
    fn a_thread_that_leaves_is_not_counted_on() {
        loom::model(|| {
            let pool = pool(1, Some(Duration::ZERO), 0);
            make(&pool);
            make(&pool);
            stop(&pool);
        });
    }

    /// As `export` does it when its caller is unwound: either the call never runs, or it is waited for.
    fn unwind(pool: &Arc<Pool>) {
        // SAFETY: the first field of a `Counted`.
        let call = unsafe { Call::new(end) };
        let (done, runs) = (Latch::new(), loom::cell::UnsafeCell::new(0));
        let counted = Counted { call, done, runs };
        // SAFETY: in place until withdrawn, or the latch is set.
        unsafe { pool.submit(&counted.call) };
        let withdrawn = pool.withdraw(&counted.call);
        if !withdrawn {
            counted.done.wait("a model");
        }
        // SAFETY: ours again.
        counted.runs.with_mut(|n| unsafe { assert!(*n <= !withdrawn as u32) });
    }

    #[test]
    fn a_withdrawn_call_does_not_run() {
        loom::model(|| {
            let pool = pool(1, None, 0);
            let other = {
                let pool = pool.clone();
                thread::spawn(move || make(&pool))
            };
            unwind(&pool);
            other.join().unwrap();
            stop(&pool);
        });
    }

    /// A pool is closed while its callers are on their way to being unwound.
    #[test]
    fn a_pool_that_closes_leaves_every_call_to_its_caller() {
        for refusals in [0, 1] {
            loom::model(move || {
                let pool = pool(1, None, refusals);
                let others: Vec<_> = (0..2)
                    .map(|_| {
                        let pool = pool.clone();
                        thread::spawn(move || unwind(&pool))
                    })
                    .collect();
                pool.close();
                others.into_iter().for_each(|t| t.join().unwrap());
                pool.join();
            });
        }
    }
}
