//! One virtual processor, and a thread whose messages and requests are always there: its neighbours run all the same.

use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{Manager, Runtime};
use pioman_extras::channel::{Urgency, channel, mailbox};
use pioman_extras::server::{Options, Outcome, Pending, Server};

#[path = "../../marcel-rs/tests/common/neighbour.rs"]
mod neighbour;

/// The neighbour that has not run by then never does.
const LIMIT: Duration = Duration::from_secs(60);
/// On one virtual processor: makes `operations` until the neighbour has run.
fn lets_a_sleeper_run<F: FnMut(&Manager)>(operations: impl FnOnce() -> F + Send) {
    let manager = Manager::builder().mode(Mode::Mono);
    let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
    runtime.run(|| {
        let (mut operation, manager) = (operations(), pioman::current().unwrap());
        let end = Instant::now() + LIMIT;
        neighbour::lets_a_sleeper_run(|| {
            assert!(Instant::now() < end, "the neighbour does not run");
            operation(&manager);
        });
    });
}

#[test]
fn messages_that_are_there_let_others_run() {
    lets_a_sleeper_run(|| {
        let (producer, mut consumer) = channel(4);
        move |manager| {
            assert!(producer.acquire_send().try_send(7).is_ok());
            assert_eq!(consumer.recv(manager), Ok(7));
        }
    });
}

#[test]
fn a_deadline_that_is_not_needed_lets_others_run() {
    lets_a_sleeper_run(|| {
        let (producer, mut consumer) = channel(4);
        move |manager| {
            assert!(producer.acquire_send().try_send(7).is_ok());
            assert_eq!(consumer.recv_until(manager, Instant::now() + LIMIT), Ok(7));
        }
    });
}

#[test]
fn sends_that_have_room_let_others_run() {
    lets_a_sleeper_run(|| {
        let (producer, mut consumer) = channel(4);
        move |manager| {
            producer.send(manager, 7).unwrap();
            assert_eq!(consumer.try_recv(), Ok(7));
        }
    });
}

#[test]
fn a_mailbox_that_is_not_empty_lets_others_run() {
    lets_a_sleeper_run(|| {
        let (sender, mut mailbox) = mailbox(4);
        move |manager| {
            sender.send(manager, Urgency::Normal, 7).unwrap();
            assert_eq!(mailbox.recv(manager).unwrap().1, 7);
        }
    });
}

#[test]
fn a_server_s_request_that_has_ended_lets_others_run() {
    lets_a_sleeper_run(|| {
        let server = Server::builder(&pioman::current().unwrap(), "ready");
        let complete = |request: &Pending<()>| assert!(request.complete(7));
        let server = server.poll_one(complete).start();
        let server = server.unwrap();
        let request = server.submit(()).unwrap();
        move |_| {
            let _server = &server;
            assert_eq!(request.wait(), Outcome::Completed(7));
        }
    });
}

#[test]
fn a_server_s_own_requests_that_have_ended_let_others_run() {
    lets_a_sleeper_run(|| {
        let server = Server::builder(&pioman::current().unwrap(), "ready");
        let server = server.poll_one(|_: &Pending<u64>| ()).start().unwrap();
        move |_| {
            server.post(7, Options::default()).unwrap().complete(7);
            assert_eq!(**server.wait_any(None).unwrap().as_ref().unwrap(), 7);
        }
    });
}
