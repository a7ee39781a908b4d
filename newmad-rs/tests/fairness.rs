//! One virtual processor, and a thread whose messages are always there: its neighbours run all the same.
//!
//! Each test runs in a process of its own, since its failure is a hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use marcel::Mode;
use newmad::Session;
use pioman::{Manager, Runtime};

#[path = "../../marcel-rs/tests/common/mod.rs"]
mod common;
#[path = "../../marcel-rs/tests/common/neighbour.rs"]
mod neighbour;

use common::in_a_child;

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
fn runtime() -> Runtime {
    let manager = Manager::builder().mode(Mode::Mono);
    Runtime::build(manager, marcel::Runtime::builder()).unwrap()
}

fn session(runtime: &Runtime) -> Session {
    Session::local_world(1, runtime.manager()).unwrap().pop().unwrap()
}

/// In a process of its own, on one virtual processor: makes `operation` until the neighbour has run.
fn lets_a_sleeper_run(name: &str, operation: impl Fn(&Session) + Send + Sync) {
    in_a_child(name, LIMIT, || {
        let runtime = runtime();
        let session = session(&runtime);
        runtime.run(|| neighbour::lets_a_sleeper_run(|| operation(&session)));
    });
}

#[test]
fn messages_to_oneself_let_others_run() {
    lets_a_sleeper_run("messages_to_oneself_let_others_run", |session| {
        session.send(0, 7, b"ball").unwrap();
        assert_eq!(session.recv(0, 7, &mut [0; 8]).unwrap().len, 4);
    });
}

/// The receive is posted, and the send ends it: a loop of sends alone.
#[test]
fn sends_that_end_at_once_let_others_run() {
    lets_a_sleeper_run("sends_that_end_at_once_let_others_run", |session| {
        let receive = session.irecv(0, 7, vec![0; 8]).unwrap();
        session.send(0, 7, b"ball").unwrap();
        assert!(receive.test());
    });
}

#[test]
fn requests_that_are_over_let_others_run() {
    lets_a_sleeper_run("requests_that_are_over_let_others_run", |session| {
        let receive = session.irecv(0, 7, vec![0; 8]).unwrap();
        session.isend(0, 7, *b"ball").unwrap().wait().unwrap();
        assert_eq!(receive.wait().unwrap().1.len, 4);
    });
}

#[test]
fn requests_that_are_waited_for_together_let_others_run() {
    lets_a_sleeper_run("requests_that_are_waited_for_together_let_others_run", |session| {
        let mut both = [session.irecv(0, 7, vec![0; 8]).unwrap()];
        let send = session.isend(0, 7, *b"ball").unwrap();
        assert_eq!(newmad::wait_any(&mut both), Some(0));
        newmad::wait_all(&mut both);
        assert!(send.test());
    });
}

#[test]
fn probes_that_find_a_message_let_others_run() {
    lets_a_sleeper_run("probes_that_find_a_message_let_others_run", |session| {
        if session.iprobe(0, 7).unwrap().is_none() {
            assert!(session.isend(0, 7, *b"ball").unwrap().test());
        }
        assert_eq!(session.probe(0, 7).unwrap().len, 4);
    });
}

#[test]
fn collectives_of_one_let_others_run() {
    lets_a_sleeper_run("collectives_of_one_let_others_run", |session| {
        let world = session.world().unwrap();
        for _ in 0..100 {
            world.barrier().wait().unwrap();
        }
    });
}

/// Threads whose messages never end are unwound in a call, and the session stays whole.
#[test]
fn a_runtime_whose_threads_send_on_and_on_can_be_dropped() {
    in_a_child("a_runtime_whose_threads_send_on_and_on_can_be_dropped", LIMIT, || {
        let runtime = runtime();
        let session = session(&runtime);
        let sent = Arc::new(AtomicUsize::new(0));
        for tag in 0..3 {
            let (session, sent) = (session.clone(), sent.clone());
            drop(runtime.threads().spawn(move || {
                loop {
                    let receive = session.irecv(0, tag, vec![0; 8]).unwrap();
                    session.send(0, tag, b"ball").unwrap();
                    receive.wait().unwrap();
                    sent.fetch_add(1, SeqCst);
                }
            }));
        }
        while sent.load(SeqCst) < 10_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(runtime);
        session.send(0, 9, b"ball").unwrap();
        assert_eq!(session.recv(0, 9, &mut [0; 8]).unwrap().len, 4);
        session.close().unwrap();
    });
}
