//! Futures under executors that know nothing of this crate, callbacks, and the descriptor for other event loops.

use std::future::IntoFuture;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_executor::{LocalPool, ThreadPool};
use futures_util::future::{Either, join_all, select};
use futures_util::task::{LocalSpawnExt, SpawnExt};
use pioman::{Completion, Cond, Notifier, Semaphore};

#[path = "../../marcel-rs/tests/common/mod.rs"]
mod common;
use common::in_a_child;

#[test]
fn futures_end_under_a_tiny_executor() {
    for round in 0..200 {
        let (completion, cond, semaphore) = (Completion::new(), Cond::new(), Semaphore::new(0));
        std::thread::scope(|s| {
            s.spawn(|| {
                (0..round % 50).for_each(|_| std::thread::yield_now());
                completion.complete();
                cond.signal(1);
                cond.signal(2);
                semaphore.release();
            });
            pollster::block_on(async {
                (&completion).await;
                cond.all(3).await;
                semaphore.permit().await;
            });
        });
        assert!(completion.is_done() && !semaphore.try_acquire());
    }
}

/// Futures on several kernel threads, threads that wait, and futures that are dropped: all for the same things.
#[test]
fn futures_of_a_thread_pool_wait_beside_threads() {
    const TASKS: usize = 20;
    let pool = ThreadPool::builder().pool_size(2).create().unwrap();
    let manager = pioman::Manager::here().unwrap();
    for _ in 0..50 {
        let things = Arc::new((Completion::new(), Semaphore::new(0)));
        let ended = Arc::new(AtomicUsize::new(0));
        for i in 0..TASKS {
            let (things, ended) = (things.clone(), ended.clone());
            let task = async move {
                let (completion, semaphore) = &*things;
                if i % 2 == 0 {
                    // One of both futures is dropped, the permit perhaps with it.
                    let both = (semaphore.permit().into_future(), completion.into_future());
                    let (permit, done) = (std::pin::pin!(both.0), std::pin::pin!(both.1));
                    if let Either::Left(_) = select(permit, done).await {
                        semaphore.release();
                    }
                } else {
                    semaphore.permit().await;
                    semaphore.release();
                }
                completion.await;
                ended.fetch_add(1, SeqCst);
            };
            pool.spawn(task).unwrap();
        }
        things.1.release();
        std::thread::scope(|s| {
            s.spawn(|| manager.wait(&things.0, pioman::Hint::Short));
            s.spawn(|| things.1.permit().wait(&manager));
            things.1.release();
            things.0.complete();
        });
        while ended.load(SeqCst) < TASKS {
            std::thread::yield_now();
        }
        assert_eq!(things.1.available(), 1);
    }
}

#[test]
fn a_waker_may_drop_the_futures_that_are_told_with_it() {
    let completion = Arc::new(Completion::new());
    let mut pool = LocalPool::new();
    let count = std::rc::Rc::new(std::cell::Cell::new(0));
    for _ in 0..10 {
        let (completion, count) = (completion.clone(), count.clone());
        let task = async move {
            join_all((0..5).map(|_| completion.into_future())).await;
            count.set(count.get() + 1);
        };
        pool.spawner().spawn_local(task).unwrap();
    }
    pool.run_until_stalled();
    completion.complete();
    pool.run();
    assert_eq!(count.get(), 10);
}

/// What a callback brings about is called after it, not inside it.
#[test]
fn a_chain_of_callbacks_needs_no_stack() {
    const LINKS: usize = 20_000;
    let links: &'static [Completion] =
        Box::leak((0..LINKS).map(|_| Completion::new()).collect::<Vec<_>>().into_boxed_slice());
    let over: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let callbacks: Vec<_> = links
        .iter()
        .enumerate()
        .map(|(index, link)| {
            link.on_complete(move || {
                over.fetch_add(1, SeqCst);
                if let Some(next) = links.get(index + 1) {
                    next.complete();
                }
            })
        })
        .collect();
    links[0].complete();
    while over.load(SeqCst) < LINKS {
        std::thread::yield_now(); // a part of it may be called by another thread
    }
    drop(callbacks);
}

#[test]
fn callbacks_are_called_once_or_taken_back() {
    let calls = Arc::new(AtomicUsize::new(0));
    let call = || {
        let calls = calls.clone();
        move || {
            calls.fetch_add(1, SeqCst);
        }
    };
    let completion = Completion::new();
    let called = completion.on_complete(call());
    let panics = completion.on_complete(|| panic!("a callback that panics, in a test"));
    drop(completion.on_complete(call()));
    let faults = pioman::faults();
    completion.complete();
    completion.complete();
    // The library's kernel thread, which has just begun, may have taken them over and still be at it.
    until("a panic is reported", || pioman::faults() > faults);
    until("one is called", || calls.load(SeqCst) > 0);
    assert_eq!(calls.load(SeqCst), 1, "the other one was taken back");
    let at_once = completion.on_complete(call());
    assert_eq!(calls.load(SeqCst), 2);
    drop((called, panics, at_once));
    // The last reference to what a callback holds goes with it.
    until("nobody holds them", || Arc::strong_count(&calls) == 1);
}

#[test]
fn the_permit_of_a_function_that_was_called_does_not_come_back() {
    let (permits, calls) = (Semaphore::new(0), Arc::new(AtomicUsize::new(0)));
    let call = || {
        let calls = calls.clone();
        move || {
            calls.fetch_add(1, SeqCst);
        }
    };
    let called = permits.permit().on_ready(call());
    permits.release();
    until("it is called", || calls.load(SeqCst) == 1);
    assert_eq!(permits.available(), 0);
    drop(called);
    assert_eq!(permits.available(), 0, "the permit is the function's");
    permits.release();
    drop(permits.permit().on_ready(call()));
    assert_eq!((calls.load(SeqCst), permits.available()), (2, 0), "it was there at once");
    drop(permits.permit().on_ready(call()));
    permits.release();
    assert_eq!((calls.load(SeqCst), permits.available()), (2, 1), "that one was taken back");
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let late = std::time::Instant::now() + LONG;
    while !holds() {
        assert!(std::time::Instant::now() < late, "{what}");
        std::thread::yield_now();
    }
}

/// Whether a descriptor is readable within the time.
fn readable(notifier: &Notifier, time: Duration) -> bool {
    let fd = notifier.as_fd().as_raw_fd();
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    unsafe { libc::poll(&mut poll, 1, time.as_millis() as i32) == 1 }
}

const NOT_AT_ALL: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_descriptor_rings_once_for_a_burst_and_only_if_it_is_armed() {
    let notifier = Notifier::new().unwrap();
    let completions: [Completion; 4] = Default::default();
    let cond = Cond::new();
    let _watched = completions.each_ref().map(|completion| notifier.watch(completion));
    let _cond = notifier.watch(cond.any(1));
    completions[0].complete();
    assert!(!readable(&notifier, NOT_AT_ALL), "nobody has armed it");
    notifier.arm();
    assert!(!readable(&notifier, NOT_AT_ALL), "that was before");
    completions[1].complete();
    completions[2].complete();
    assert!(readable(&notifier, LONG));
    let mut count = [0u8; 8];
    // SAFETY: eight writable bytes.
    unsafe { libc::read(notifier.as_fd().as_raw_fd(), count.as_mut_ptr().cast(), 8) };
    assert_eq!(u64::from_ne_bytes(count), 1, "one write for two events");
    notifier.arm();
    assert!(!readable(&notifier, NOT_AT_ALL));
    cond.signal(1);
    assert!(readable(&notifier, LONG));
    notifier.arm();
    drop(notifier.watch(&completions[3]));
    completions[3].complete();
    assert!(readable(&notifier, LONG), "the first one still watches it");
}

/// An event loop that sleeps by the protocol gets to the end; with a lost event it would sleep for a minute, and fail.
#[test]
fn no_event_is_lost_on_an_event_loop() {
    const ROUNDS: usize = 2000;
    let notifier = Notifier::new().unwrap();
    let completions: Vec<_> = (0..ROUNDS).map(|_| Completion::new()).collect();
    let _watched: Vec<_> = completions.iter().map(|done| notifier.watch(done)).collect();
    std::thread::scope(|s| {
        for half in 0..2 {
            let completions = &completions;
            s.spawn(move || {
                for (i, completion) in completions.iter().enumerate().skip(half).step_by(2) {
                    completion.complete();
                    if i % 64 < 2 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut seen = 0;
        while seen < ROUNDS {
            notifier.arm();
            let before = seen;
            while seen < ROUNDS && completions[seen].is_done() {
                seen += 1;
            }
            if seen == before {
                assert!(readable(&notifier, LONG), "nothing came, and {seen} have come");
            }
        }
    });
}

/// Completes its request when it is polled after `come`.
struct Once {
    come: std::sync::atomic::AtomicBool,
    done: Completion,
}

// SAFETY: an atomic and a completion.
unsafe impl pioman::Source for Once {
    fn name(&self) -> &str {
        "once"
    }
    fn poll(&self) -> bool {
        let found = self.come.swap(false, SeqCst);
        if found {
            self.done.complete();
        }
        found
    }
    fn pending(&self) -> bool {
        !self.done.is_done()
    }
    fn fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
}

/// The only virtual processor computes, so only the tick's handler finds the event: the callback, which allocates and
/// says where it is, is called on another kernel thread, while the computation goes on.
#[test]
fn a_callback_of_what_a_handler_finds_is_called_outside_of_it() {
    use marcel::Mode;
    use pioman::{Manager, Points, Runtime};
    let points = Points { tick: true, ..Points::NONE };
    let manager = Manager::builder().mode(Mode::Mono).points(points);
    let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(1)).unwrap();
    let manager = runtime.manager();
    for _ in 0..20 {
        let source = Arc::new(Once { come: false.into(), done: Completion::new() });
        let _registered = manager.add_source(source.clone()).unwrap();
        let (tx, rx) = std::sync::mpsc::channel();
        let _callback = source.done.on_complete(move || {
            tx.send((marcel::in_tick(), std::thread::current().id())).unwrap();
        });
        let come = &source.come;
        let (in_handler, thread, own) = runtime.run(move || {
            manager.ensure_watched();
            come.store(true, SeqCst);
            let start = std::time::Instant::now();
            // Computes: no call that would let anybody poll.
            let called = loop {
                if let Ok(called) = rx.try_recv() {
                    break called;
                }
                assert!(start.elapsed() < LONG, "never called");
                std::hint::spin_loop();
            };
            (called.0, called.1, std::thread::current().id())
        });
        assert!(!in_handler && thread != own);
    }
}

/// Counts, and waits for ever.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn wait(&self) -> ! {
        self.0.fetch_add(1, SeqCst);
        loop {
            marcel::park();
        }
    }
}

impl std::task::Wake for Waits {
    fn wake(self: Arc<Self>) {
        Waits::wait(&self);
    }
}

/// Neither is to wait. Its thread is unwound there, once: the thread ends, and so does its runtime, and the callback that
/// comes next is called all the same.
#[test]
fn a_callback_or_waker_that_waits_does_not_keep_the_runtime() {
    let test = "a_callback_or_waker_that_waits_does_not_keep_the_runtime";
    in_a_child(test, LONG, || {
        for by_waker in [false, true] {
            let manager = pioman::Manager::builder().mode(marcel::Mode::Mono);
            let runtime = pioman::Runtime::build(manager, marcel::Runtime::builder()).unwrap();
            let [begun, called] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
            let completion = Arc::new(Completion::new());
            let waits = Arc::new(Waits(begun.clone()));
            let mut future = std::pin::pin!(completion.into_future());
            let mut callback = None;
            if by_waker {
                let waker = waits.into();
                let mut context = std::task::Context::from_waker(&waker);
                assert!(future.as_mut().poll(&mut context).is_pending());
            } else {
                callback = Some(completion.on_complete(move || waits.wait()));
            }
            let counted = called.clone();
            let next = completion.on_complete(move || {
                counted.fetch_add(1, SeqCst);
            });
            let completes = completion.clone();
            runtime.run(|| {
                drop(marcel::spawn(move || {
                    completes.complete();
                    loop {
                        marcel::park();
                    }
                }));
                while begun.load(SeqCst) == 0 {
                    marcel::yield_now();
                }
            });
            drop(runtime);
            while called.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            drop((callback, next));
        }
    });
}
