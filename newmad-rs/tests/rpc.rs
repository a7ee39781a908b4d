//! Remote calls: what comes back, what is bounded, and how calls end.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{launch, message};
use newmad::{CallError, Cause, Error, Priority, Rpc, Session};
use pioman::Manager;

const LIMIT: Duration = Duration::from_secs(120);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "mixed" => mixed,
        "recursion" => recursion,
        "flood" => flood,
        "limits" => limits,
        "priorities" => priorities,
        "computing" => computing,
        "dies_in_handler" => dies_in_handler,
        "dies_with_calls_queued" => dies_with_calls_queued,
        "dies_in_arguments" => dies_in_arguments,
        "dies_in_result" => dies_in_result,
        "caller_dies" => caller_dies,
        "leaves" => leaves,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

type Ran = Result<(), Error>;

/// Every driver, and shared memory without cross-memory attach.
fn everywhere(scenario: &str, size: usize, env: &[(&str, &str)]) {
    for driver in
        common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp"), ("NMAD_CMA", "0")])
    {
        let env: Vec<_> = [driver].into_iter().chain(env.iter().copied()).collect();
        launch(scenario, size, &env).succeed(LIMIT);
    }
}

fn world(size: u32) -> (Vec<Session>, Vec<Rpc>) {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    let sessions = Session::local_world(size, &manager).unwrap();
    let rpcs = sessions.iter().map(|session| session.rpc().unwrap()).collect();
    (sessions, rpcs)
}

/// Waits until something is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: not after 30 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

// In one process, on kernel threads: nothing here needs a runtime.

#[test]
fn results_come_back_and_errors_say_what_went_wrong() {
    let (_sessions, rpcs) = world(2);
    rpcs[1].serve("sum", |_, (a, b): (u64, u64)| a + b).unwrap();
    rpcs[1].serve(7u64, |context, ()| context.source()).unwrap();
    rpcs[1].serve("panic", |_, text: String| -> () { panic!("on purpose: {text}") }).unwrap();
    let fails = |_: &newmad::Context, ()| Err::<(), _>("no such thing");
    rpcs[1].service("fail").fallible(fails).unwrap();
    let first = &rpcs[0];
    assert_eq!(first.call::<_, u64>(1, "sum", &(1u64, 2u64)).unwrap().wait().unwrap(), 3);
    assert_eq!(first.call::<_, u32>(1, 7, &()).unwrap().wait().unwrap(), 0);
    match first.call::<_, ()>(1, "panic", "x").unwrap().wait() {
        Err(CallError::Panicked { peer: 1, message, .. }) => assert_eq!(message, "on purpose: x"),
        other => panic!("{other:?}"),
    }
    match first.call::<_, ()>(1, "fail", &()).unwrap().wait() {
        Err(CallError::Failed { message, .. }) => assert_eq!(message, "no such thing"),
        other => panic!("{other:?}"),
    }
    match first.call::<_, u64>(1, "mus", &()).unwrap().wait() {
        Err(CallError::NoService { peer: 1, service }) => assert_eq!(service, "\"mus\""),
        other => panic!("{other:?}"),
    }
    for (arguments, result) in [(false, true), (true, false)] {
        let wrong = if arguments {
            first.call::<_, u64>(1, "sum", "text").unwrap().wait().map(drop)
        } else {
            first.call::<_, String>(1, "sum", &(300u64, 2u64)).unwrap().wait().map(drop)
        };
        match wrong {
            Err(CallError::Undecodable { result: r, .. }) => assert_eq!(r, result),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(first.call_bytes(1, "", []), Err(CallError::BadName(_))));
    assert!(matches!(first.call_bytes(1, &"x".repeat(256), []), Err(CallError::BadName(_))));
    assert!(matches!(
        first.call_bytes(2, "sum", []),
        Err(CallError::Session(Error::BadRank { rank: 2, size: 2 }))
    ));
    let again = rpcs[1].serve("sum", |_, ()| ());
    assert!(matches!(again, Err(CallError::Taken(_))), "{again:?}");
}

#[test]
fn a_service_that_is_removed_completes_what_it_runs() {
    let (_sessions, rpcs) = world(2);
    let (entered, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let inside = (entered.clone(), go.clone());
    rpcs[1]
        .serve("slow", move |_, ()| {
            inside.0.store(true, SeqCst);
            until("go", || inside.1.load(SeqCst));
            5u8
        })
        .unwrap();
    let running = rpcs[0].call::<_, u8>(1, "slow", &()).unwrap();
    until("the handler runs", || entered.load(SeqCst));
    assert!(!running.wait_timeout(Duration::from_millis(5)) && !running.test());
    assert!(rpcs[1].remove("slow") && !rpcs[1].remove("slow"));
    let later = rpcs[0].call::<_, u8>(1, "slow", &()).unwrap().wait();
    assert!(matches!(later, Err(CallError::NoService { .. })), "{later:?}");
    go.store(true, SeqCst);
    assert!(running.wait_timeout(Duration::MAX));
    assert_eq!(running.wait().unwrap(), 5);
    rpcs[1].serve("slow", |_, ()| 6u8).unwrap();
    assert_eq!(rpcs[0].call::<_, u8>(1, "slow", &()).unwrap().wait().unwrap(), 6);
}

#[test]
fn replies_are_futures_and_may_be_dropped() {
    let (_sessions, rpcs) = world(2);
    let count = Arc::new(AtomicU64::new(0));
    let counter = count.clone();
    rpcs[1]
        .serve("make", move |_, len: usize| {
            counter.fetch_add(1, SeqCst);
            message(len as u64, len)
        })
        .unwrap();
    const SIZES: [usize; 6] = [0, 100, 480, 600, 20_000, 1_000_000];
    pollster::block_on(async {
        for len in SIZES {
            let made = rpcs[0].call::<_, Vec<u8>>(1, "make", &len).unwrap().await.unwrap();
            assert!(made == message(len as u64, len), "{len} bytes");
        }
    });
    for len in SIZES.repeat(20) {
        drop(rpcs[0].call::<_, Vec<u8>>(1, "make", &len).unwrap());
        rpcs[0].cast(1, "make", &len).unwrap();
        std::mem::forget(rpcs[0].call::<_, Vec<u8>>(1, "make", &100usize).unwrap());
    }
    until("every call has been made", || count.load(SeqCst) == 6 + 360);
    // None of them holds a place of the target's: more than there are places have been dropped.
    assert_eq!(rpcs[0].call::<_, Vec<u8>>(1, "make", &9usize).unwrap().wait().unwrap().len(), 9);
}

#[test]
fn a_process_calls_itself_and_is_called_by_those_it_calls() {
    let (_sessions, rpcs) = world(2);
    for rpc in &rpcs {
        let down = |context: &newmad::Context, depth: u32| {
            if depth == 0 {
                return Ok(0);
            }
            let client = context.client();
            let back = client.call::<_, u32>(context.source(), "down", &(depth - 1));
            // Of an error only its beginning: each level adds something.
            back.and_then(|back| back.wait()).map(|depth| depth + 1).map_err(|error| match error {
                CallError::Failed { message, .. } => message,
                other => other.to_string(),
            })
        };
        rpc.service("down").fallible(down).unwrap();
    }
    for rank in 0..2 {
        assert_eq!(rpcs[0].call::<_, u32>(rank, "down", &7u32).unwrap().wait().unwrap(), 7);
    }
    // One level more than there are: the innermost handler is told.
    match rpcs[0].call::<_, u32>(1, "down", &8u32).unwrap().wait() {
        Err(CallError::Failed { message, .. }) => {
            assert_eq!(message, CallError::TooDeep { limit: 8 }.to_string());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn ten_thousand_calls_are_outstanding() {
    let (_sessions, rpcs) = world(2);
    rpcs[1].service("echo").inline().typed(|_, number: u64| number).unwrap();
    let calls: Vec<_> =
        (0..10_000u64).map(|n| rpcs[0].call::<_, u64>(1, "echo", &n).unwrap()).collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap(), number as u64);
    }
}

#[test]
fn sessions_end_at_odd_moments() {
    for round in 0..40u64 {
        let (mut sessions, mut rpcs) = world(2);
        rpcs[1].serve("echo", |_, bytes: Vec<u8>| bytes).unwrap();
        let calls: Vec<_> = (0..round)
            .map(|n| {
                // Short ones: ranks of one process that end do not wait for the others, which may still be
                // copying long messages from their memory.
                let bytes = message(n, (n as usize * 37) % 400);
                (rpcs[0].call::<_, Vec<u8>>(1, "echo", &bytes).unwrap(), bytes)
            })
            .collect();
        if round % 4 == 0 {
            std::thread::sleep(Duration::from_micros(50 * round));
        }
        let (last, rpc) = (sessions.pop().unwrap(), rpcs.pop().unwrap());
        let ends = std::thread::spawn(move || match round % 3 {
            // The target closes with calls outstanding, or only ends its services before.
            0 => last.close().unwrap(),
            1 => drop((rpc, last)),
            _ => {
                drop(rpc);
                last.close().unwrap();
            }
        });
        for (call, bytes) in calls {
            match call.wait() {
                Ok(same) => assert!(same == bytes),
                Err(CallError::Session(Error::PeerDied { rank: 1, cause: Cause::Left })) => {}
                Err(CallError::Failed { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        if round % 2 == 0 {
            sessions[0].close().unwrap();
        }
        drop((sessions, rpcs));
        ends.join().unwrap();
    }
}

#[test]
fn services_end_with_the_last_handle_and_may_begin_again() {
    let (sessions, mut rpcs) = world(2);
    let (token, witness) = (Arc::new(()), Arc::new(()));
    let held = token.clone();
    rpcs[1]
        .serve("x", move |_, ()| {
            let _ = &held;
        })
        .unwrap();
    rpcs[0].call::<_, ()>(1, "x", &()).unwrap().wait().unwrap();
    let other = rpcs[1].clone();
    drop(rpcs.pop());
    rpcs[0].call::<_, ()>(1, "x", &()).unwrap().wait().unwrap();
    drop(other);
    assert_eq!(Arc::strong_count(&token), 1, "what handlers hold is dropped");
    // No answer comes until a service is there.
    let early = rpcs[0].call::<_, u8>(1, "y", &()).unwrap();
    assert!(!early.wait_timeout(Duration::from_millis(20)));
    let again = sessions[1].rpc().unwrap();
    again.serve("y", move |_, ()| Arc::strong_count(&witness) as u8).unwrap();
    assert_eq!(early.wait().unwrap(), 1);
}

#[test]
fn packets_that_are_not_of_this_protocol_are_passed_over() {
    // Another session of this process speaks over the reserved tags: no safe call does that, so it takes a service that
    // is sent garbage as arguments instead, and typed decoding that meets it.
    let (_sessions, rpcs) = world(2);
    rpcs[1].serve("strict", |_, _: (String, Vec<u64>)| ()).unwrap();
    for n in 0..500u64 {
        let garbage = message(n, n as usize % 70);
        match rpcs[0].call_bytes(1, "strict", garbage).unwrap().wait() {
            Ok(_) | Err(CallError::Undecodable { result: false, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

// In several processes.

fn echo(session: &Session) -> Rpc {
    let rpc = session.rpc().unwrap();
    rpc.service("echo").bytes(|_, bytes| Ok::<_, String>(bytes)).unwrap();
    rpc
}

/// A green thread where there is a runtime.
enum Thread {
    Green(marcel::JoinHandle<()>),
    Kernel(std::thread::JoinHandle<()>),
}

impl Thread {
    fn start(f: impl FnOnce() + Send + 'static) -> Thread {
        if marcel::is_green() {
            Thread::Green(marcel::spawn(f))
        } else {
            Thread::Kernel(std::thread::spawn(f))
        }
    }

    fn join(self) {
        match self {
            Thread::Green(thread) => thread.join().unwrap(),
            Thread::Kernel(thread) => thread.join().unwrap(),
        }
    }
}

fn mixed(session: &Session) -> Ran {
    let rpc = echo(session);
    rpc.service("quick").inline().bytes(|_, bytes| Ok::<_, String>(bytes)).unwrap();
    rpc.service("far").compute().bytes(|_, bytes| Ok::<_, String>(bytes)).unwrap();
    session.barrier()?;
    let peers = session.size();
    // Several green threads of each process call all ranks, with everything that changes the protocol.
    let threads: Vec<_> = (0..6u64)
        .map(|thread| {
            let rpc = rpc.clone();
            let calls = move || {
                let sizes = [0, 1, 490, 500, 8_000, 8_155, 8_156, 8_157, 40_000, 700_000];
                let mut calls = Vec::new();
                for (at, len) in sizes.into_iter().enumerate() {
                    for peer in 0..peers {
                        let number = thread << 32 | u64::from(peer) << 16 | at as u64;
                        let service = ["echo", "quick", "far"][at % 3];
                        let bytes = message(number, len);
                        calls.push((rpc.call_bytes(peer, service, bytes).unwrap(), number, len));
                    }
                }
                for (call, number, len) in calls {
                    assert!(call.wait().unwrap() == message(number, len), "{len} bytes");
                }
            };
            Thread::start(calls)
        })
        .collect();
    threads.into_iter().for_each(Thread::join);
    session.barrier()
}

#[test]
fn arguments_and_results_of_every_size() {
    everywhere("mixed", 3, &[]);
    launch("mixed", 2, &[("MARCEL_MODE", "mono")]).succeed(LIMIT);
    launch("mixed", 2, &[("MARCEL_MODE", "no-thread")]).succeed(LIMIT);
    launch("mixed", 2, &[("NMAD_RDV_THRESHOLD", "0")]).succeed(LIMIT);
}

fn recursion(session: &Session) -> Ran {
    // One place in each lane, and handlers of all processes that call each other: a single bound would be a deadlock.
    let rpc = session.rpc()?;
    rpc.serve("down", |context, (depth, ballast): (u32, Vec<u8>)| -> u32 {
        if depth == 0 {
            return 0;
        }
        let client = context.client();
        let next = (client.session().rank() + 1) % client.session().size();
        client.call::<_, u32>(next, "down", &(depth - 1, ballast)).unwrap().wait().unwrap() + 1
    })
    .unwrap();
    session.barrier()?;
    let next = (session.rank() + 1) % session.size();
    let calls: Vec<_> = (0..100u32)
        .map(|n| {
            let ballast = vec![1u8; if n % 10 == 0 { 30_000 } else { 10 }];
            rpc.call::<_, u32>(next, "down", &(n % 8, ballast)).unwrap()
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap(), n as u32 % 8);
    }
    session.barrier()
}

#[test]
fn handlers_that_call_each_other_do_not_wait_in_a_circle() {
    let narrow = [("NMAD_RPC_THREADS", "1"), ("NMAD_RPC_MEMORY", "32768")];
    everywhere("recursion", 2, &narrow);
    launch("recursion", 3, &narrow).succeed(LIMIT);
}

fn flood(session: &Session) -> Ran {
    let rpc = session.rpc()?;
    let now = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let inside = now.clone();
    rpc.service("busy")
        .bytes(move |_, bytes| {
            let running = inside.0.fetch_add(1, SeqCst) + 1;
            inside.1.fetch_max(running, SeqCst);
            for _ in 0..10 {
                marcel::yield_now();
            }
            inside.0.fetch_sub(1, SeqCst);
            Ok::<_, String>(bytes)
        })
        .unwrap();
    session.barrier()?;
    if session.rank() > 0 {
        let calls: Vec<_> = (0..5_000u64)
            .map(|n| rpc.call_bytes(0, "busy", message(n, n as usize % 300)).unwrap())
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert!(call.wait().unwrap() == message(n as u64, n % 300));
        }
    }
    session.barrier()?;
    if session.rank() == 0 {
        let most = now.1.load(SeqCst);
        assert!((1..=4).contains(&most), "{most} at once, of 4 that may be");
    }
    session.barrier()
}

#[test]
fn calls_beyond_the_bound_wait() {
    everywhere("flood", 3, &[("NMAD_RPC_THREADS", "4")]);
}

fn limits(session: &Session) -> Ran {
    let rpc = echo(session);
    rpc.serve("make", |_, len: usize| vec![1u8; len]).unwrap();
    session.barrier()?;
    let peer = 1 - session.rank();
    for _ in 0..100 {
        match rpc.call_bytes(peer, "echo", vec![0; 70_000]).unwrap().wait() {
            Err(CallError::TooLong { result: false, bytes: 70_000, limit: 65_536, .. }) => {}
            other => panic!("{:?}", other.map(|bytes| bytes.len())),
        }
        match rpc.call::<_, Vec<u8>>(peer, "make", &100_000usize).unwrap().wait() {
            Err(CallError::TooLong { result: true, limit: 65_536, .. }) => {}
            other => panic!("{:?}", other.map(|bytes| bytes.len())),
        }
        match rpc.call_bytes(peer, "unknown", vec![0; 70_000]).unwrap().wait() {
            Err(CallError::NoService { .. }) => {}
            other => panic!("{:?}", other.map(|bytes| bytes.len())),
        }
    }
    // Together they want more than there is: they take turns.
    let calls: Vec<_> =
        (0..50u64).map(|n| rpc.call_bytes(peer, "echo", message(n, 50_000)).unwrap()).collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert!(call.wait().unwrap() == message(n as u64, 50_000));
    }
    session.barrier()
}

#[test]
fn what_is_too_long_is_refused_and_what_is_long_takes_turns() {
    everywhere("limits", 2, &[("NMAD_RPC_MEMORY", "65536")]);
}

fn priorities(session: &Session) -> Ran {
    let rpc = session.rpc()?;
    let (order, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (log, opened) = (order.clone(), gate.clone());
    rpc.serve("note", move |context, number: u32| {
        log.lock().unwrap().push((context.priority(), number));
    })
    .unwrap();
    rpc.serve("hold", move |_, ()| {
        while !opened.load(SeqCst) {
            marcel::yield_now();
        }
    })
    .unwrap();
    session.barrier()?;
    if session.rank() == 1 {
        // The only place for normal calls is taken; urgent ones pass those that wait for it.
        let hold = rpc.call::<_, ()>(0, "hold", &()).unwrap();
        let note = |priority, number| rpc.call_at::<u32, ()>(priority, 0, "note", &number).unwrap();
        let normal: Vec<_> = (0..5).map(|n| note(Priority::Normal, n)).collect();
        for n in 0..5 {
            note(Priority::Urgent, n).wait().unwrap();
        }
        assert!(normal.iter().all(|call| !call.test()));
        drop(note(Priority::Background, 0));
        session.send(0, 1, b"go")?;
        hold.wait().unwrap();
        normal.into_iter().for_each(|call| call.wait().unwrap());
        note(Priority::Background, 1).wait().unwrap();
    } else {
        session.recv(1, 1, &mut [0; 2])?;
        let urgent: Vec<_> = (0..5).map(|n| (Priority::Urgent, n)).collect();
        assert!(order.lock().unwrap().starts_with(&urgent));
        gate.store(true, SeqCst);
    }
    session.barrier()?;
    if session.rank() == 0 {
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 12, "{order:?}");
        assert_eq!(order.iter().filter(|(p, _)| *p == Priority::Background).count(), 2);
    }
    session.barrier()
}

#[test]
fn urgent_calls_pass_those_that_wait() {
    everywhere("priorities", 2, &[("NMAD_RPC_THREADS", "1")]);
}

fn computing(session: &Session) -> Ran {
    let rpc = echo(session);
    session.barrier()?;
    let stop = Arc::new(AtomicBool::new(false));
    if session.rank() == 0 {
        // More computing threads than virtual processors, which never yield.
        let crunch: Vec<_> = (0..8)
            .map(|_| {
                let stop = stop.clone();
                marcel::spawn(move || {
                    while !stop.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        session.recv(1, 1, &mut [])?;
        stop.store(true, SeqCst);
        crunch.into_iter().for_each(|thread| thread.join().unwrap());
    } else {
        for n in 0..200u64 {
            let len = if n % 10 == 0 { 50_000 } else { 20 };
            let same = rpc.call_bytes(0, "echo", message(n, len)).unwrap().wait().unwrap();
            assert!(same == message(n, len));
        }
        session.send(0, 1, b"")?;
    }
    session.barrier()
}

#[test]
fn calls_are_served_while_every_core_computes() {
    for driver in ["shm", "tcp"] {
        launch("computing", 2, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
}

// Deaths.

fn kill_oneself() -> ! {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("SIGKILL does not return")
}

/// Rank 1 dies; the others succeed.
fn one_dies(scenario: &str, size: usize) {
    for env in
        common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp"), ("NMAD_CMA", "0")])
    {
        let ended = launch(scenario, size, &[env, ("NMAD_RPC_THREADS", "4")]).end(LIMIT);
        for (rank, end) in ended.iter().enumerate() {
            let expected = if rank == 1 { None } else { Some(0) };
            assert!(end.code == expected, "{env:?}: rank {rank}: {end:#?}");
        }
    }
}

fn died<T: std::fmt::Debug>(result: Result<T, CallError>) {
    match result {
        Err(CallError::Session(Error::PeerDied { rank: 1, cause: Cause::Vanished })) => {}
        other => panic!("{other:?}"),
    }
}

/// Rank 1 dies in the handler of a call; others are outstanding.
fn dies_in_handler(session: &Session) -> Ran {
    let rpc = echo(session);
    rpc.serve("die", |_, ()| -> () { kill_oneself() }).unwrap();
    rpc.serve("wait", |_, ()| marcel::sleep(Duration::from_secs(60))).unwrap();
    session.barrier()?;
    if session.rank() == 1 {
        marcel::sleep(Duration::from_secs(60));
    }
    let waiting: Vec<_> = (0..50).map(|_| rpc.call::<_, ()>(1, "wait", &()).unwrap()).collect();
    session.barrier_without_one()?;
    if session.rank() == 0 {
        let start = Instant::now();
        died(rpc.call_at::<_, ()>(Priority::Urgent, 1, "die", &()).unwrap().wait());
        for call in waiting {
            died(call.wait());
        }
        // Far from the network's own time-outs, and from what a busy machine does to three processes.
        assert!(start.elapsed() < Duration::from_secs(20));
    } else {
        waiting.into_iter().for_each(|call| died(call.wait()));
    }
    died(rpc.call_bytes(1, "echo", []).unwrap().wait());
    // The survivors go on.
    let other = 2 - session.rank();
    assert_eq!(rpc.call_bytes(other, "echo", b"alive").unwrap().wait().unwrap(), b"alive");
    assert_eq!(rpc.call_bytes(session.rank(), "echo", b"me").unwrap().wait().unwrap(), b"me");
    session.barrier_without_one()
}

/// A barrier of ranks 0 and 2.
trait WithoutOne {
    fn barrier_without_one(&self) -> Ran;
}

impl WithoutOne for Session {
    fn barrier_without_one(&self) -> Ran {
        let other = 2 - self.rank();
        self.send(other, 99, b"")?;
        self.recv(other, 99, &mut []).map(drop)
    }
}

#[test]
fn killed_in_a_handler() {
    one_dies("dies_in_handler", 3);
}

/// Rank 1 dies while far more calls than it runs at once wait for it, long ones among them.
fn dies_with_calls_queued(session: &Session) -> Ran {
    let rpc = echo(session);
    rpc.serve("wait", |_, _: Vec<u8>| marcel::sleep(Duration::from_secs(60))).unwrap();
    session.barrier()?;
    if session.rank() == 1 {
        session.recv(0, 1, &mut [])?;
        kill_oneself();
    }
    let calls: Vec<_> = (0..2_000usize)
        .map(|n| {
            let arguments = vec![1u8; if n % 50 == 0 { 100_000 } else { n % 500 }];
            rpc.call::<_, ()>(1, "wait", &arguments).unwrap()
        })
        .collect();
    let last_word = session.isend(1, 1, "")?;
    for call in calls {
        died(call.wait());
    }
    let _ = last_word.wait();
    Ok(())
}

#[test]
fn killed_with_calls_queued() {
    one_dies("dies_with_calls_queued", 2);
}

/// Rank 1 dies while long arguments move.
fn dies_in_arguments(session: &Session) -> Ran {
    let rpc = echo(session);
    session.barrier()?;
    if session.rank() == 1 {
        marcel::sleep(Duration::from_millis(15));
        kill_oneself();
    }
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(rpc.call_bytes(1, "echo", vec![1; 60_000_000]).unwrap());
    }
    for call in calls {
        match call.wait() {
            Ok(bytes) => assert_eq!(bytes.len(), 60_000_000),
            failed => died(failed.map(|bytes| bytes.len())),
        }
    }
    died(rpc.call_bytes(1, "echo", []).unwrap().wait());
    Ok(())
}

#[test]
fn killed_while_arguments_move() {
    one_dies("dies_in_arguments", 2);
}

/// Rank 1 dies while a long result moves.
fn dies_in_result(session: &Session) -> Ran {
    let rpc = session.rpc()?;
    rpc.serve("long", |_, ()| {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(8));
            kill_oneself();
        });
        vec![3u8; 100_000_000]
    })
    .unwrap();
    session.barrier()?;
    if session.rank() == 1 {
        marcel::sleep(Duration::from_secs(60));
    }
    match rpc.call::<_, Vec<u8>>(1, "long", &()).unwrap().wait() {
        Ok(bytes) => assert_eq!(bytes.len(), 100_000_000),
        failed => died(failed.map(|bytes| bytes.len())),
    }
    died(rpc.call::<_, Vec<u8>>(1, "long", &()).unwrap().wait());
    Ok(())
}

#[test]
fn killed_while_a_result_moves() {
    one_dies("dies_in_result", 2);
}

/// Rank 1 dies as a caller; its calls' places are free again afterwards.
fn caller_dies(session: &Session) -> Ran {
    let rpc = echo(session);
    session.barrier()?;
    if session.rank() == 1 {
        for n in 0..100usize {
            let long = vec![7; if n % 2 == 0 { 10_000_000 } else { 10 }];
            std::mem::forget(rpc.call_bytes(0, "echo", long).unwrap());
        }
        marcel::sleep(Duration::from_millis(3));
        kill_oneself();
    }
    // Everything of rank 1 has failed; with four places only, nothing of it may be left in one.
    loop {
        if rpc.call_bytes(1, "echo", []).unwrap().wait().is_err() {
            break;
        }
    }
    for n in 0..20u64 {
        let len = if n % 2 == 0 { 100_000 } else { 5 };
        assert!(
            rpc.call_bytes(0, "echo", message(n, len)).unwrap().wait().unwrap() == message(n, len)
        );
    }
    Ok(())
}

#[test]
fn the_places_of_a_dead_caller_are_free_again() {
    one_dies("caller_dies", 2);
}

/// Rank 1 closes its session in order while calls to it are outstanding.
fn leaves(session: &Session) -> Ran {
    let rpc = session.rpc()?;
    rpc.serve("wait", |_, ()| marcel::sleep(Duration::from_secs(60))).unwrap();
    session.barrier()?;
    if session.rank() == 1 {
        return session.recv(0, 1, &mut []).map(drop);
    }
    let calls: Vec<_> = (0..200).map(|_| rpc.call::<_, ()>(1, "wait", &()).unwrap()).collect();
    session.send(1, 1, b"")?;
    for call in calls {
        match call.wait() {
            Err(CallError::Session(Error::PeerDied { rank: 1, cause: Cause::Left })) => {}
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

#[test]
fn calls_to_a_process_that_leaves_end() {
    for driver in ["shm", "tcp"] {
        launch("leaves", 2, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
}

#[test]
fn services_that_begin_while_others_end_share_no_lane_with_them() {
    let (sessions, rpcs) = world(1);
    drop(rpcs);
    let (done, ended) = std::sync::mpsc::channel();
    for number in 0..2u64 {
        let (session, done) = (sessions[0].clone(), done.clone());
        std::thread::spawn(move || {
            for round in 0..1500u64 {
                let rpc = session.rpc().unwrap();
                let service = number << 32 | round;
                rpc.service(service).bytes(|_, bytes| Ok::<_, String>(bytes)).unwrap();
                let reply = rpc.call_bytes(0, service, [7]).unwrap();
                assert_eq!(reply.wait().unwrap(), [7], "{number}, {round}");
                drop(rpc);
                std::thread::sleep(Duration::from_micros(round * 37 % 400));
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(LIMIT).expect("an end of services waits for ever");
    }
}
