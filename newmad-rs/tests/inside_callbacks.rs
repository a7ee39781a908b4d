//! What programs do inside what the library calls: callbacks at the end of requests, strategies, operators, wakers.

mod common;
#[path = "../../marcel-rs/tests/common/mod.rs"]
mod processes;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use common::launch;
use newmad::coll::{Group, Op};
use newmad::strategy::{Lone, Packet, Strategy, Waiting};
use newmad::{ANY, Error, Session, Tag};
use pioman::Manager;

const LIMIT: Duration = Duration::from_secs(30);

fn world(size: u32) -> Vec<Session> {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    Session::local_world(size, &manager).unwrap()
}

/// Fails, instead of hanging, when the work takes very long: the machine may be busy.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        work();
        tell.send(()).unwrap();
    });
    told.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_callback_uses_the_engine_whose_owner_waits_for_a_large_message() {
    in_time(|| {
        const SHORT: u64 = 200;
        let sessions = world(2);
        let (first, last) = (&sessions[0], &sessions[1]);
        for round in 0..20 {
            let (tell, told) = channel();
            for tag in 0..SHORT {
                let (tell, session) = (tell.clone(), first.clone());
                first.irecv(1, tag, vec![0; 8]).unwrap().on_done(move |result| {
                    result.unwrap();
                    // Takes the engine's lock.
                    session.iprobe(ANY, Tag::ANY).unwrap();
                    tell.send(()).unwrap();
                });
            }
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let mut large = vec![0; 300_000];
                    first.recv(1, 1000, &mut large).unwrap();
                });
                if round % 2 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                for tag in 0..SHORT {
                    last.send(0, tag, b"short").unwrap();
                    if tag == SHORT / 2 {
                        drop(last.isend(0, 1000, vec![1; 300_000]).unwrap());
                    }
                }
            });
            (0..SHORT).for_each(|_| told.recv_timeout(LIMIT).unwrap());
        }
    });
}

/// Tells when its session has ended.
struct Witness(Sender<()>);

impl Strategy for Witness {
    fn name(&self) -> &str {
        "witness"
    }
    fn fill(&self, _: &Waiting<'_>, _: &mut Packet<'_>) {}
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

fn wait_for(file: &str) {
    let until = Instant::now() + LIMIT;
    while !std::fs::exists(file).unwrap() {
        assert!(Instant::now() < until, "{file} is not there");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let manager = Manager::builder().build().unwrap();
    let session = Session::builder().manager(manager).open().unwrap();
    let mark = std::env::var("MARK").unwrap();
    let given_up = format!("{mark}-given-up");
    if session.rank() == 1 {
        wait_for(&given_up);
        match scenario.as_str() {
            "callback" => session.send(0, 1, b"the end").unwrap(),
            _ => session.world().unwrap().barrier().wait().unwrap(),
        }
        // Until then the other's session cannot close.
        wait_for(&mark);
        return session.close().unwrap();
    }
    let (tell, ended) = channel();
    session.set_strategy(1, Arc::new(Witness(tell))).unwrap();
    let (tell, told) = channel();
    if scenario == "callback" {
        let receive = session.irecv(1, 1, vec![0; 8]).unwrap();
        receive.on_done(move |result| {
            result.unwrap();
            drop(session);
            tell.send(()).unwrap();
        });
        std::fs::write(given_up, "").unwrap();
    } else {
        // Another session's callbacks are called by the same threads.
        let others = world(2);
        let group = session.world().unwrap();
        drop(group.barrier().start().unwrap());
        let receive = others[0].irecv(1, 1, vec![0; 8]).unwrap();
        drop((group, session));
        std::fs::write(given_up, "").unwrap();
        std::thread::sleep(Duration::from_millis(200));
        receive.on_done(move |_| tell.send(()).unwrap());
        others[1].send(0, 1, b"later").unwrap();
    }
    told.recv_timeout(LIMIT).unwrap();
    std::fs::write(&mark, "").unwrap();
    ended.recv_timeout(LIMIT).unwrap();
}

/// To close a session is to wait for others: a callback that did would hold up all other callbacks.
#[test]
fn the_last_owner_of_a_session_is_a_callback_or_a_forgotten_collective() {
    for scenario in ["callback", "collective"] {
        let mark = std::env::temp_dir().join(format!("newmad-{scenario}-{}", std::process::id()));
        let env = [("MARK", mark.to_str().unwrap())];
        launch(scenario, 2, &env).succeed(2 * LIMIT);
        for file in [format!("{}-given-up", mark.display()), mark.display().to_string()] {
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_strategy_is_asked_what_it_is_without_the_engine() {
    struct Curious(Session);
    impl Strategy for Curious {
        fn name(&self) -> &str {
            "curious"
        }
        fn fill(&self, _: &Waiting<'_>, _: &mut Packet<'_>) {}
        fn may_hold(&self) -> bool {
            self.0.iprobe(ANY, Tag::ANY).unwrap().is_some()
        }
    }
    in_time(|| {
        let session = world(1).pop().unwrap();
        session.set_strategy(0, Arc::new(Curious(session.clone()))).unwrap();
    });
}

/// Asked about the first lone message, it makes a call.
struct Caller<C>(Mutex<Option<C>>);

impl<C: FnOnce() + Send> Strategy for Caller<C> {
    fn name(&self) -> &str {
        "caller"
    }
    fn fill(&self, _: &Waiting<'_>, _: &mut Packet<'_>) {}
    fn may_hold(&self) -> bool {
        true
    }
    fn hold(&self, _: &Lone) -> bool {
        let call = self.0.lock().unwrap().take();
        call.into_iter().for_each(|call| call());
        false
    }
}

/// Sends a message while the strategy makes this call, and receives it.
fn send_with_caller(call: impl FnOnce(&Session) + Send + 'static) {
    in_time(|| {
        let sessions = world(2);
        let own = sessions[0].clone();
        let caller = Caller(Mutex::new(Some(move || call(&own))));
        sessions[0].set_strategy(1, Arc::new(caller)).unwrap();
        let sent = sessions[0].isend(1, 1, b"lone").unwrap();
        let mut text = [0; 8];
        assert_eq!(sessions[1].recv(0, 1, &mut text).unwrap().len, 4);
        sent.wait().unwrap();
    });
}

#[test]
fn a_strategy_that_uses_its_session_gets_an_error() {
    let (tell, told) = channel();
    send_with_caller(move |session| {
        let errors = [
            session.send(1, 2, b"short").unwrap_err(),
            session.send(1, 2, &[0; 1_000_000]).unwrap_err(),
            session.isend(1, 2, b"short").unwrap_err(),
            session.recv(1, 2, &mut [0]).unwrap_err(),
            session.iprobe(ANY, Tag::ANY).unwrap_err(),
            session.barrier().unwrap_err(),
            session.close().unwrap_err(),
        ];
        errors.into_iter().for_each(|error| tell.send(error).unwrap());
    });
    let errors: Vec<Error> = told.iter().collect();
    assert_eq!(errors.len(), 7);
    for error in errors {
        assert!(matches!(error, Error::InStrategy), "{error}");
        assert!(error.to_string().contains("a strategy used a session"));
    }
}

#[test]
fn a_strategy_whose_call_has_no_error_to_return_panics_and_the_default_takes_its_place() {
    send_with_caller(|session| drop(session.connections()));
}

#[test]
fn a_strategy_that_waits_for_a_request_panics_and_neither_hangs_nor_aborts() {
    in_time(|| {
        let sessions = world(2);
        let receive = sessions[0].irecv(1, 5, vec![0; 8]).unwrap();
        let caller = Caller(Mutex::new(Some(move || drop(receive.wait()))));
        sessions[0].set_strategy(1, Arc::new(caller)).unwrap();
        sessions[0].isend(1, 1, b"lone").unwrap().wait().unwrap();
        sessions[1].recv(0, 1, &mut [0; 8]).unwrap();
        // The receive has nobody left, and gets its message: its buffer is still there.
        sessions[1].send(0, 5, b"too late").unwrap();
        sessions[1].send(0, 6, b"after it").unwrap();
        sessions[0].recv(1, 6, &mut [0; 8]).unwrap();
    });
}

#[test]
fn a_strategy_that_receives_a_message_that_was_probed_for_gets_an_error() {
    let (tell, told) = channel();
    in_time(|| {
        let sessions = world(2);
        sessions[1].send(0, 3, b"probed").unwrap();
        let message = sessions[0].mprobe(1, 3).unwrap();
        let caller = Caller(Mutex::new(Some(move || {
            tell.send(message.recv(&mut [0; 8]).unwrap_err()).unwrap();
        })));
        sessions[0].set_strategy(1, Arc::new(caller)).unwrap();
        sessions[0].isend(1, 1, b"lone").unwrap().wait().unwrap();
        sessions[1].recv(0, 1, &mut [0; 8]).unwrap();
    });
    assert!(matches!(told.recv().unwrap(), Error::InStrategy));
}

/// Whether what `scenario` writes to standard error, in a process of its own, contains this.
fn says(scenario: &str, expected: &str) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "speaker", "--nocapture"])
        .env("SPEAKER", scenario)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    let says = child.status.success() && text.contains(expected);
    if !says {
        eprintln!("{text}");
    }
    says
}

/// Runs in the processes of [`says`]; does nothing otherwise.
#[test]
fn speaker() {
    if std::env::var("SPEAKER").is_err() {
        return;
    }
    let sessions = world(2);
    let (tell, told) = channel::<()>();
    sessions[0].irecv(1, 1, vec![0; 8]).unwrap().on_done(move |_| {
        let _tell = tell;
        panic!("the callback's own words")
    });
    sessions[1].send(0, 1, b"ball").unwrap();
    assert!(told.recv_timeout(LIMIT).is_err());
}

#[test]
fn a_panic_in_on_done_is_told_of_as_such() {
    assert!(says(
        "on_done",
        "function \"on_done\" of a newmad request panicked: the callback's own words"
    ));
}

/// It is not to wait. Its thread is unwound there: the thread ends, and so does its runtime.
#[test]
fn a_function_of_on_done_that_waits_does_not_keep_the_runtime() {
    let test = "a_function_of_on_done_that_waits_does_not_keep_the_runtime";
    processes::in_a_child(test, LIMIT, || {
        let manager = Manager::builder().mode(marcel::Mode::Mono);
        let runtime = pioman::Runtime::build(manager, marcel::Runtime::builder()).unwrap();
        let session = Session::local_world(1, runtime.manager()).unwrap().pop().unwrap();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        session.irecv(0, 1, vec![0; 8]).unwrap().on_done(move |_| {
            begins.store(true, SeqCst);
            loop {
                marcel::park();
            }
        });
        let sender = session.clone();
        runtime.run(|| {
            drop(marcel::spawn(move || {
                // Which ends the receive.
                sender.send(0, 1, b"ball").unwrap();
                loop {
                    marcel::park();
                }
            }));
            while !begun.load(SeqCst) {
                marcel::yield_now();
            }
        });
        drop(runtime);
        assert_eq!(pioman::faults(), 0, "it is told of as a panic");
        // Others use it as before.
        session.send(0, 2, b"ball").unwrap();
        session.recv(0, 2, &mut [0; 8]).unwrap();
    });
}

/// Has a green thread do `work`, which waits in the program's code where it says so, and ends the runtime meanwhile.
/// The thread, whose unwinding comes once, waits on afterwards: if a collective kept that for itself, it never ended.
fn unwound_in_a_collective(
    test: &str,
    work: impl FnOnce(Session, [Group; 2], Arc<WaitsOnce>) + Send + 'static,
    afterwards: impl FnOnce(),
) {
    processes::in_a_child(test, LIMIT, || {
        let manager = Manager::builder().mode(marcel::Mode::Mono);
        let runtime = pioman::Runtime::build(manager, marcel::Runtime::builder()).unwrap();
        let sessions = Session::local_world(2, runtime.manager()).unwrap();
        let groups = [0, 1].map(|rank: usize| sessions[rank].world().unwrap());
        let code = Arc::new(WaitsOnce::default());
        let (called, session) = (code.clone(), sessions[0].clone());
        runtime.run(|| {
            drop(marcel::spawn(move || {
                called.waits_here();
                work(session, groups, called);
                loop {
                    marcel::park();
                }
            }));
            // Asleep, this thread is not the one that finds the end.
            while !code.begun.load(SeqCst) {
                marcel::sleep(Duration::from_millis(20));
            }
        });
        drop(runtime);
        assert_eq!(pioman::faults(), 0, "it is told of as a panic");
        // Others use the sessions as before.
        sessions[0].isend(1, 2, b"ball".to_vec()).unwrap().wait().unwrap();
        sessions[1].recv(0, 2, &mut [0; 8]).unwrap();
        afterwards();
    });
}

/// Sends a message to itself: a call that finds the ends of collectives, and has the thread tell them itself.
fn find_ends(session: &Session) {
    let me = session.rank();
    let receive = session.irecv(me, 9, vec![0; 8]).unwrap();
    session.send(me, 9, b"ball").unwrap();
    receive.wait().unwrap();
}

/// The program's code, which waits once it is called on the stack of one green thread.
#[derive(Default)]
struct WaitsOnce {
    stack: AtomicUsize,
    begun: AtomicBool,
}

impl WaitsOnce {
    /// On the calling thread's stack, not far below.
    fn waits_here(&self) {
        let local = 0_u8;
        self.stack.store(&raw const local as usize, SeqCst);
    }

    fn call(&self) {
        let local = 0_u8;
        let depth = self.stack.load(SeqCst).wrapping_sub(&raw const local as usize);
        if depth < 64 << 10 && !self.begun.swap(true, SeqCst) {
            loop {
                marcel::park();
            }
        }
    }
}

#[test]
fn a_waker_of_a_collective_that_waits_does_not_keep_the_runtime() {
    struct Waits(Arc<WaitsOnce>);
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            self.0.call();
        }
    }
    let test = "a_waker_of_a_collective_that_waits_does_not_keep_the_runtime";
    let work = |session: Session, [first, second]: [Group; 2], code: Arc<WaitsOnce>| {
        // A kernel thread of the library's may find the end, too.
        while !code.begun.load(SeqCst) {
            let mut pending = Box::pin(first.barrier().start().unwrap());
            let waker = Waker::from(Arc::new(Waits(code.clone())));
            let _ = Future::poll(pending.as_mut(), &mut Context::from_waker(&waker));
            let _other = second.barrier().start().unwrap();
            find_ends(&session);
        }
    };
    unwound_in_a_collective(test, work, || ());
}

#[test]
fn an_operator_that_waits_does_not_keep_the_runtime_and_ends_its_group() {
    let test = "an_operator_that_waits_does_not_keep_the_runtime_and_ends_its_group";
    let (give, given) = channel();
    let work = move |_: Session, [first, second]: [Group; 2], code: Arc<WaitsOnce>| {
        let waits = Op::new(move |a: u32, _| {
            code.call();
            a
        });
        // Its message is there when the second one begins, which combines in its call.
        let _pending = first.allreduce(vec![1u32], &waits).start().unwrap();
        let second = Arc::new(second);
        give.send(second.clone()).unwrap();
        let _ = second.allreduce(vec![1u32], &waits).start();
    };
    let afterwards = move || {
        let second = given.recv().unwrap();
        assert!(matches!(second.barrier().wait(), Err(Error::Revoked { by: None, .. })));
    };
    unwound_in_a_collective(test, work, afterwards);
}

#[test]
fn a_destructor_of_an_operator_that_waits_does_not_keep_the_runtime() {
    struct Waits(Arc<WaitsOnce>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.call();
        }
    }
    let test = "a_destructor_of_an_operator_that_waits_does_not_keep_the_runtime";
    let work = |session: Session, [first, second]: [Group; 2], code: Arc<WaitsOnce>| {
        let sum = Op::new(|a: u32, b| a + b);
        // A kernel thread of the library's may find the end, too.
        while !code.begun.load(SeqCst) {
            let waits = Waits(code.clone());
            let same = Op::new(move |a: u32, b| {
                let _ = &waits;
                a + b
            });
            // Without a handle, it goes on by itself: its last owner is the thread that ends it.
            drop(first.allreduce(vec![1u32], &same).start().unwrap());
            drop(same);
            let _other = second.allreduce(vec![1u32], &sum).start().unwrap();
            find_ends(&session);
        }
    };
    unwound_in_a_collective(test, work, || ());
}

#[test]
fn a_waker_that_panics_holds_up_no_other_collective() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    in_time(|| {
        let sessions = world(2);
        for _ in 0..5 {
            let groups: Vec<_> = sessions.iter().map(|session| session.world().unwrap()).collect();
            let mut pending = Box::pin(groups[0].barrier().start().unwrap());
            let waker = Waker::from(Arc::new(Bad));
            assert!(Future::poll(pending.as_mut(), &mut Context::from_waker(&waker)).is_pending());
            let other = groups[1].barrier().start().unwrap();
            // Whatever the panic unwinds, it is not this thread that waits.
            other.wait().unwrap();
            drop(pending);
            std::thread::scope(|threads| {
                for group in &groups {
                    threads.spawn(|| (0..100).for_each(|_| group.barrier().wait().unwrap()));
                }
            });
        }
    });
}
