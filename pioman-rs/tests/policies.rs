//! Every policy in every mode, from green and kernel threads, idle and loaded, and switched while requests pend: every
//! request completes. The source is an eventfd that a kernel thread writes.

mod common;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::Mailbox;
use marcel::Mode;
use pioman::policy::{Asker, Choice, Method, NAMES, Policy, Request, Snapshot, by_name};
use pioman::{Hint, Hints, Manager, Point, Priority, Runtime, SourceHandle};

const MODES: [Mode; 3] = [Mode::NoThread, Mode::Mono, Mode::Smp];
const LIMIT: Duration = Duration::from_secs(60);

fn policy(name: &str) -> Arc<dyn Policy> {
    by_name(name).unwrap()
}

fn runtime(mode: Mode, name: &str) -> Runtime {
    let manager = Manager::builder().mode(mode).policy(policy(name));
    Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap()
}

/// Delivers as many events as there are requests, now at once and now after a while.
fn deliver_all(mailbox: &Arc<Mailbox>) -> std::thread::JoinHandle<()> {
    let mailbox = mailbox.clone();
    std::thread::spawn(move || {
        for i in 0..mailbox.requests.len() {
            match i % 4 {
                0 => std::thread::sleep(Duration::from_micros(500)),
                1 => std::thread::yield_now(),
                _ => {}
            }
            mailbox.deliver();
        }
    })
}

/// Waits for every `step`th request from `first` on.
fn wait_for_some(manager: &Manager, mailbox: &Mailbox, first: usize, step: usize, hints: Hints) {
    for request in mailbox.requests.iter().skip(first).step_by(step) {
        mailbox.submitted.fetch_add(1, SeqCst);
        manager.wait(request, hints);
    }
}

/// Green and kernel threads wait for all requests of a mailbox, while `meanwhile` is called again and again.
fn all_complete(
    runtime: &Runtime,
    hints: Hints,
    loaded: bool,
    mut meanwhile: impl FnMut(&SourceHandle) + Send,
) {
    const WAITERS: usize = 4;
    let manager = runtime.manager().clone();
    let mailbox = Mailbox::new(48);
    let source = manager.add_source(mailbox.clone()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let waiter = |i: usize| {
        let (manager, mailbox) = (manager.clone(), mailbox.clone());
        move || wait_for_some(&manager, &mailbox, i, WAITERS, hints)
    };
    let mut kernel: Vec<_> = (0..2).map(|i| std::thread::spawn(waiter(i))).collect();
    let threads = runtime.threads();
    let mut green = Vec::new();
    if manager.mode() == Mode::NoThread {
        kernel.extend((2..WAITERS).map(|i| std::thread::spawn(waiter(i))));
    } else {
        green.extend((2..WAITERS).map(|i| threads.spawn(waiter(i))));
        let computing = if loaded { 3 } else { 0 };
        green.extend((0..computing).map(|_| {
            let stop = stop.clone();
            threads.spawn(move || {
                while !stop.load(SeqCst) {
                    (0..5000).for_each(|_| std::hint::spin_loop());
                    marcel::yield_now(); // or the waiters, once started, would never have the virtual processor again
                }
            })
        }));
    }
    let sender = deliver_all(&mailbox);
    let limit = Instant::now() + LIMIT;
    while mailbox.requests.iter().any(|request| !request.is_done()) {
        if Instant::now() > limit {
            let done = mailbox.requests.iter().filter(|request| request.is_done()).count();
            let all = mailbox.requests.len();
            // Not `eprintln!`: what is captured goes with the process.
            let _ = writeln!(
                std::io::stderr(),
                "{done} of {all} after {LIMIT:?}\n{}",
                manager.explain()
            );
            std::process::abort(); // the threads that wait could not be joined
        }
        meanwhile(&source);
        std::thread::sleep(Duration::from_micros(200));
    }
    stop.store(true, SeqCst);
    sender.join().unwrap();
    kernel.into_iter().for_each(|thread| thread.join().unwrap());
    green.into_iter().for_each(|thread| thread.join().unwrap());
}

fn every_mode_and_load(mut f: impl FnMut(Mode, bool)) {
    for mode in MODES {
        for loaded in [false, true] {
            f(mode, loaded);
        }
    }
}

#[test]
fn every_request_completes_under_every_policy() {
    for name in NAMES {
        every_mode_and_load(|mode, loaded| {
            let runtime = runtime(mode, name);
            all_complete(&runtime, Hint::Short.into(), loaded, |_| {});
        });
    }
}

#[test]
fn every_request_completes_whatever_is_said_of_it() {
    let short = Hints::new(Hint::Short);
    let all = [
        short.poll_only(),
        short.block_only(),
        short.priority(Priority::High),
        short.priority(Priority::Low),
        Hints::new(Hint::Expected(Duration::from_micros(3))),
        Hints::new(Hint::Expected(Duration::from_secs(3))),
        Hints::new(Hint::Long),
    ];
    for (name, hints) in ["adaptive", "timer-only"].into_iter().flat_map(|n| all.map(|h| (n, h))) {
        for mode in MODES {
            all_complete(&runtime(mode, name), hints, false, |_| {});
        }
    }
}

/// The policy of the source changes all the time while its requests pend, and the dedicated thread goes on and off.
#[test]
fn every_request_completes_although_its_method_changes_meanwhile() {
    every_mode_and_load(|mode, loaded| {
        for round in 0..5 {
            let runtime = runtime(mode, "load-aware");
            let manager = runtime.manager().clone();
            let mut turn = round;
            all_complete(&runtime, Hint::Short.into(), loaded, |source| {
                turn = turn * 5 + 1; // all names in turn, in an order that differs from round to round
                source.set_policy(policy(NAMES[turn % NAMES.len()])).unwrap();
                manager.set_dedicated(turn / 7 % 2).unwrap();
                turn %= 1 << 20;
            });
        }
    });
}

/// Waits until the kernel threads of this name, those of other tests among them, have been seen asleep, each at some time.
fn until_all_sleep(name: &str) {
    let is_named = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let limit = Instant::now() + LIMIT;
    // A thread names itself when it has its first core.
    let named: Vec<_> = loop {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let named: Vec<_> = tasks.map(|task| task.unwrap().path()).filter(is_named).collect();
        if !named.is_empty() {
            break named;
        }
        assert!(Instant::now() < limit, "no {name}");
        std::thread::sleep(Duration::from_millis(1));
    };
    for task in named {
        // Of a thread that has ended there is no file any more.
        while std::fs::read_to_string(task.join("stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" S"))
        {
            assert!(Instant::now() < limit, "{name} does not sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A thread that sleeps in the kernel is found by who polls from now on, and the other way round.
#[test]
fn a_pending_request_is_found_by_the_method_that_it_is_switched_to() {
    for (from, to) in [("always-block", "dedicated"), ("dedicated", "always-block")] {
        let runtime = runtime(Mode::Smp, from);
        let manager = runtime.manager().clone();
        let mailbox = Mailbox::new(1);
        let source = manager.add_source(mailbox.clone()).unwrap();
        mailbox.submitted.store(1, SeqCst);
        let waiter = {
            let (manager, mailbox) = (manager.clone(), mailbox.clone());
            std::thread::spawn(move || manager.wait(&mailbox.requests[0], Hint::Short))
        };
        std::thread::sleep(Duration::from_millis(5));
        source.set_policy(policy(to)).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        if to == "always-block" {
            // A dedicated thread that is off its core may be about to poll by what it was given before.
            until_all_sleep("pioman-poll0");
        }
        let dedicated = manager.hits(Point::Dedicated);
        mailbox.deliver();
        waiter.join().unwrap();
        assert_eq!(dedicated, 0);
        if to == "always-block" {
            assert_eq!(manager.hits(Point::Dedicated), 0, "the dedicated thread went on");
        }
    }
}

#[test]
fn a_source_that_is_left_to_ticks_is_found_without_anybody_who_polls_or_sleeps_on_it() {
    let runtime = runtime(Mode::Smp, "timer-only");
    let manager = runtime.manager().clone();
    let mailbox = Mailbox::new(20);
    let _source = manager.add_source(mailbox.clone()).unwrap();
    runtime.run(|| {
        for request in &mailbox.requests {
            mailbox.submitted.fetch_add(1, SeqCst);
            manager.ensure_watched();
            mailbox.deliver();
            let limit = Instant::now() + LIMIT;
            while !request.is_done() {
                assert!(Instant::now() < limit);
                std::hint::spin_loop();
            }
        }
    });
    assert_eq!(manager.hits(Point::Block), 0);
    assert_eq!(manager.hits(Point::Wait), 0);
}

/// CPU time of the process so far.
fn cpu_time() -> Duration {
    // SAFETY: an all-zero rusage is valid, and is filled in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Only `always-poll` burns the core of a kernel thread that waits long.
#[test]
fn a_long_wait_burns_no_cpu_unless_that_is_the_policy() {
    for name in NAMES {
        let manager = Manager::builder().mode(Mode::NoThread).policy(policy(name)).build().unwrap();
        let mailbox = Mailbox::new(1);
        let _source = manager.add_source(mailbox.clone()).unwrap();
        mailbox.submitted.store(1, SeqCst);
        let before = cpu_time();
        let soon = Instant::now() + Duration::from_millis(400);
        assert!(!manager.wait_until(&mailbox.requests[0], Hint::Short, soon));
        let burnt = cpu_time() - before;
        // A spin of 50 or 100 µs, or a hundred looks: an eighth of the time waited would be a bug.
        assert!(name == "always-poll" || burnt < Duration::from_millis(50), "{name}: {burnt:?}");
    }
}

/// Has waits do the same always, and counts how often one was asked about that had just begun, how many events it was told of,
/// and how often one had begun that was not expected to be long.
struct Gaps(Method, AtomicUsize, AtomicUsize, AtomicUsize);

impl Policy for Gaps {
    fn name(&self) -> &str {
        "gaps"
    }
    fn choose(&self, request: &Request<'_>, _: &Snapshot) -> Choice {
        if request.asker == Asker::Waiter && request.waited.is_zero() {
            self.1.fetch_add(1, SeqCst);
            self.3.fetch_add(usize::from(request.hint == Hint::Short), SeqCst);
        }
        Choice::new(self.0, "a test").again(Duration::from_micros(20))
    }
    fn completed(&self, _: &Request<'_>, _: &Snapshot) {
        self.2.fetch_add(1, SeqCst);
    }
}

#[test]
fn each_event_of_another_begins_a_wait_anew_for_the_policy() {
    const EVENTS: usize = 5;
    for method in [Method::Poll, Method::Block] {
        let [asked, told, short] = [(); 3].map(|()| AtomicUsize::new(0));
        let gaps = Arc::new(Gaps(method, asked, told, short));
        let manager = Manager::builder().mode(Mode::NoThread).policy(gaps.clone()).build().unwrap();
        let mailbox = Mailbox::new(EVENTS);
        let _source = manager.add_source(mailbox.clone()).unwrap();
        mailbox.submitted.store(EVENTS, SeqCst);
        let sender = {
            let (gaps, mailbox) = (gaps.clone(), mailbox.clone());
            std::thread::spawn(move || {
                let limit = Instant::now() + LIMIT;
                for event in 0..EVENTS {
                    while gaps.2.load(SeqCst) < event && Instant::now() < limit {
                        std::thread::yield_now();
                    }
                    mailbox.deliver();
                }
            })
        };
        let limit = Instant::now() + LIMIT;
        manager.wait_until(&mailbox.requests[EVENTS - 1], Hint::Long, limit);
        sender.join().unwrap();
        assert!(Instant::now() < limit, "{method:?}: {} of {EVENTS} gaps", gaps.2.load(SeqCst));
        assert_eq!(gaps.2.load(SeqCst), EVENTS, "{method:?}");
        assert!(gaps.1.load(SeqCst) >= EVENTS, "{method:?}: asked {} times", gaps.1.load(SeqCst));
        let short = gaps.3.load(SeqCst);
        assert!(
            short >= EVENTS - 1,
            "{method:?}: the whole wait is to be long, its {short} gaps are not"
        );
    }
}

/// Panics whenever it is asked.
struct Broken;

impl Policy for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    fn choose(&self, _: &Request<'_>, _: &Snapshot) -> Choice {
        panic!("a policy is a user's code");
    }
}

#[test]
fn a_policy_that_panics_harms_nobody() {
    let manager = Manager::builder().mode(Mode::Smp).policy(Arc::new(Broken));
    let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap();
    all_complete(&runtime, Hint::Short.into(), false, |_| {});
}

const METHODS: [Method; 5] =
    [Method::Poll, Method::Block, Method::Tick, Method::Dedicated, Method::Interrupt];

/// Answers anything, and counts who has asked.
struct Random([AtomicUsize; 4]);

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }
    fn choose(&self, request: &Request<'_>, _: &Snapshot) -> Choice {
        let n = self.0[request.asker as usize].fetch_add(1, SeqCst);
        let choice = Choice::new(METHODS[n.wrapping_mul(7) / 3 % METHODS.len()], "any");
        if n.is_multiple_of(2) { choice.again(Duration::from_micros(100)) } else { choice }
    }
}

#[test]
fn whatever_a_policy_answers_every_request_completes() {
    every_mode_and_load(|mode, loaded| {
        let random = Arc::new(Random(Default::default()));
        let manager = Manager::builder().mode(mode).policy(random.clone());
        let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap();
        all_complete(&runtime, Hint::Short.into(), loaded, |_| {});
        assert!(random.0[Asker::Waiter as usize].load(SeqCst) > 0);
    });
}

#[test]
fn what_is_chosen_is_explained() {
    let runtime = runtime(Mode::Mono, "adaptive");
    let manager = runtime.manager();
    let mailbox = Mailbox::new(40);
    let source = manager.add_source(mailbox.clone()).unwrap();
    runtime.run(|| {
        let sender = deliver_all(&mailbox);
        let hints = Hints::new(Hint::Short).on(source.id());
        wait_for_some(manager, &mailbox, 0, 1, hints);
        sender.join().unwrap();
    });
    let explanation = manager.explain();
    assert_eq!(explanation.sources[0].source, "mailbox");
    let text = explanation.to_string();
    for part in ["mode mono, policy adaptive", "cost(x) = ", "waits so far", "x = "] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    source.set_policy(policy("always-block")).unwrap();
    let text = manager.explain().to_string();
    assert!(text.contains("mailbox: policy always-block"), "{text}");
}

/// A callback is called by who has found its event, but when nobody looks at sources any more.
#[test]
fn a_callback_may_remove_the_source_that_calls_it() {
    let manager = Manager::builder().build().unwrap();
    let mailbox = Mailbox::new(2);
    mailbox.submitted.store(2, SeqCst);
    let source = std::sync::Mutex::new(Some(manager.add_source(mailbox.clone()).unwrap()));
    let removed = Arc::new(AtomicBool::new(false));
    let seen = removed.clone();
    let remove = move || {
        drop(source.lock().unwrap().take());
        seen.store(true, SeqCst);
    };
    let _callback = mailbox.requests[0].on_complete(remove);
    mailbox.deliver();
    manager.poll(Point::Library);
    let limit = Instant::now() + LIMIT;
    while !removed.load(SeqCst) {
        assert!(Instant::now() < limit, "never called"); // by whoever has found it: the spare watcher, perhaps
        std::thread::yield_now();
    }
    assert!(!manager.poll(Point::Library));
}

/// Always the same choice, and what is to be done when the policy goes.
struct Fixed(Choice, Option<Box<dyn Fn() + Send + Sync>>);

impl Policy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }
    fn choose(&self, _: &Request<'_>, _: &Snapshot) -> Choice {
        self.0
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        if let Some(last) = &self.1 {
            last();
        }
    }
}

#[test]
fn a_choice_for_longer_than_there_is_time_is_for_good() {
    for method in [Method::Poll, Method::Block] {
        let choice = Choice::new(method, "a test").again(Duration::MAX);
        let builder = Manager::builder().policy(Arc::new(Fixed(choice, None)));
        let runtime = Runtime::build(builder, marcel::Runtime::builder().vps(2)).unwrap();
        all_complete(&runtime, Hint::Short.into(), false, |_| ());
    }
}

/// One answer for waits, another for what is left pending: no pair of them, with or without the threads that they speak
/// of, lets a lone waiter sleep for ever.
#[test]
fn a_lone_wait_ends_whatever_is_answered() {
    struct Pair(Method, Method);
    impl Policy for Pair {
        fn name(&self) -> &str {
            "pair"
        }
        fn choose(&self, request: &Request<'_>, _: &Snapshot) -> Choice {
            let waits = request.asker == Asker::Waiter;
            Choice::new(if waits { self.0 } else { self.1 }, "a test")
        }
    }
    let answers = METHODS.into_iter().flat_map(|wait| METHODS.map(|leave| (wait, leave)));
    for ((wait, leave), mode) in answers.flat_map(|pair| MODES.map(|mode| (pair, mode))) {
        let manager = || Manager::builder().mode(mode).policy(Arc::new(Pair(wait, leave)));
        let runtime = Runtime::build(manager(), marcel::Runtime::builder().vps(1)).unwrap();
        let alone = manager().build().unwrap();
        let cases = [(0, true), (0, false), (1, true), (1, false)];
        let managers = [runtime.manager(), &alone];
        for (manager, (dedicated, has_fd)) in
            managers.into_iter().flat_map(|manager| cases.map(|case| (manager, case)))
        {
            manager.set_dedicated(dedicated).unwrap();
            let mailbox = Mailbox::showing(has_fd, 1);
            let source = manager.add_source(mailbox.clone()).unwrap();
            mailbox.submitted.store(1, SeqCst);
            let sender = std::thread::spawn({
                let mailbox = mailbox.clone();
                move || {
                    std::thread::sleep(Duration::from_millis(4));
                    mailbox.deliver();
                }
            });
            // A wait whose time is over looks once more: it was let down all the same.
            let limit = Instant::now() + LIMIT;
            manager.wait_until(&mailbox.requests[0], Hint::Short, limit);
            assert!(
                Instant::now() < limit,
                "mode {mode}, a wait: {wait:?}, left pending: {leave:?}, {dedicated} dedicated threads, a runtime: {}, \
                 a descriptor: {has_fd}",
                !std::ptr::eq(manager, &alone),
            );
            sender.join().unwrap();
            drop(source);
        }
    }
}

/// A policy stays in its source's place until another source has that; its destructor may do what others may.
#[test]
fn a_policy_that_goes_may_add_sources() {
    let manager = Manager::builder().build().unwrap();
    let added = Arc::new(AtomicUsize::new(0));
    let last = {
        let (manager, added) = (manager.clone(), added.clone());
        move || {
            drop(manager.add_source(Mailbox::new(1)).unwrap());
            added.fetch_add(1, SeqCst);
        }
    };
    let choice = Choice::new(Method::Block, "a test");
    let source = manager.add_source(Mailbox::new(1)).unwrap();
    source.set_policy(Arc::new(Fixed(choice, Some(Box::new(last))))).unwrap();
    drop(source);
    let _again = manager.add_source(Mailbox::new(1)).unwrap();
    assert_eq!(added.load(SeqCst), 1);
}
