//! Code of the program that the library's kernel threads call has a stack as large as a thread's.

mod common;

use std::hint::black_box;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::launch;
use newmad::Session;
use newmad::coll::Op;
use pioman::Manager;

const LIMIT: Duration = Duration::from_secs(60);

/// More than the library's threads had, less than any thread of a program has.
fn use_600_kb() -> u8 {
    let mut local = [1u8; 600_000];
    black_box(&mut local);
    local[black_box(599_999)]
}

/// Runs in the processes that the other tests start; does nothing otherwise. Rank 0 waits outside of the library until
/// the library has called it.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let manager = Manager::builder().build().unwrap();
    let session = Session::builder().manager(manager).open().unwrap();
    let (tell, told) = channel();
    if scenario == "operator" {
        let add = Op::new(move |a: u64, b: u64| {
            let _ = tell.send(());
            a + b + u64::from(use_600_kb()) - 1
        });
        let group = session.world().unwrap();
        if session.rank() == 1 {
            session.recv(0, 1, &mut []).unwrap();
            std::thread::sleep(Duration::from_millis(100)); // the other one is in the library no more
        }
        let sum = group.allreduce(vec![1, 2, 3], &add).start().unwrap();
        if session.rank() == 0 {
            session.send(1, 1, &[]).unwrap();
            told.recv_timeout(LIMIT).unwrap();
        }
        assert_eq!(sum.wait().unwrap(), [2, 4, 6]);
    } else if session.rank() == 0 {
        session.irecv(1, 1, vec![0; 8]).unwrap().on_done(move |result| {
            let length = result.unwrap().1.len + usize::from(use_600_kb());
            assert_eq!(length, 5);
            tell.send(()).unwrap();
        });
        session.send(1, 1, &[]).unwrap();
        told.recv_timeout(LIMIT).unwrap();
    } else {
        session.recv(0, 1, &mut []).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        session.send(0, 1, b"ball").unwrap();
    }
}

#[test]
fn an_operator_has_600_kb_of_local_variables_wherever_it_is_called() {
    launch("operator", 2, &[]).succeed(2 * LIMIT);
}

#[test]
fn a_function_called_at_a_requests_end_has_600_kb_of_local_variables() {
    launch("on_done", 2, &[]).succeed(2 * LIMIT);
}
