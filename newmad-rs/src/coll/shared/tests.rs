//! Groups of ranks of one process, each on a kernel thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pioman::Manager;

use crate::coll::board::{SOME, Stage};
use crate::coll::{Group, Op};
use crate::error::Error;
use crate::net::segment::PLACES;
use crate::session::Session;

fn world(size: u32) -> Vec<Session> {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    Session::local_world(size, &manager).unwrap()
}

/// Each session on a thread of its own.
fn each(sessions: &[Session], work: impl Fn(&Session) + Sync) {
    std::thread::scope(|threads| {
        for session in sessions {
            threads.spawn(|| work(session));
        }
    });
}

fn is_shared(group: &Group) -> bool {
    matches!(group.context.shared.enter().unwrap().stage(), Stage::On(_))
}

/// A group that has been set up.
fn shared(session: &Session) -> Group {
    let group = session.world().unwrap();
    (0..=SOME).for_each(|_| group.barrier().wait().unwrap());
    assert!(is_shared(&group));
    group
}

#[test]
fn a_group_shares_memory_after_some_collectives_and_no_more_groups_than_there_are_places() {
    each(&world(3), |session| {
        let mut groups: Vec<Group> = (0..PLACES).map(|_| shared(session)).collect();
        let none_left = session.world().unwrap();
        for _ in 0..10 {
            none_left.barrier().wait().unwrap();
        }
        assert!(!is_shared(&none_left));
        // A place is free again when all have left it, which the next group's first collectives make sure of.
        groups.pop();
        none_left.barrier().wait().unwrap();
        groups.push(shared(session));
        for group in &groups {
            let mut sum = [1u64];
            group.allreduce(&mut sum, &Op::sum()).wait().unwrap();
            assert_eq!(sum, [3]);
        }
    });
}

#[test]
fn the_last_to_leave_a_group_still_reads_what_it_was_shown() {
    each(&world(3), |session| {
        for round in 0..30u64 {
            let group = shared(session);
            // The root goes on at once, leaves, and shows something else in the next round.
            for turn in 0..20 {
                let mut data = [if group.rank() == 0 { round * 100 + turn } else { 0 }; 100];
                if group.rank() == 2 && turn % 7 == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
                group.bcast(0, &mut data).wait().unwrap();
                assert_eq!(data, [round * 100 + turn; 100]);
            }
        }
    });
}

#[test]
fn members_that_are_late_wake_those_that_sleep() {
    each(&world(4), |session| {
        let group = shared(session);
        let me = u64::from(session.rank());
        for round in 0..60 {
            if (round + me).is_multiple_of(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let root = (round % 4) as u32;
            let mut sum = [me + round];
            group.reduce(root, &mut sum, &Op::sum()).wait().unwrap();
            let expected = if group.rank() == root { 6 + 4 * round } else { me + round };
            assert_eq!(sum, [expected]);
            let mut all = [0; 4];
            group.allgather(&[me * round], &mut all).wait().unwrap();
            assert_eq!(all, [0, round, 2 * round, 3 * round]);
        }
    });
}

#[test]
fn green_threads_of_one_processor_wait_for_each_other() {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    let runtime = marcel::Runtime::builder().vps(1).hooks(manager.clone()).build().unwrap();
    let sessions = Session::local_world(3, &manager).unwrap();
    runtime.run(|| {
        marcel::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || {
                    let group = shared(session);
                    for round in 0..100 {
                        let mut sum = [u64::from(session.rank()) + round];
                        group.allreduce(&mut sum, &Op::sum()).wait().unwrap();
                        assert_eq!(sum, [3 + 3 * round]);
                    }
                });
            }
        });
    });
}

#[test]
fn long_ones_and_chosen_algorithms_go_by_messages_in_between() {
    each(&world(3), |session| {
        let group = shared(session);
        for round in 0..40usize {
            if round == 20 {
                group.set_algorithm("allreduce", "ring").unwrap();
            }
            let count = if round % 3 == 0 { 5000 } else { 5 };
            let mut sum = vec![round as u64; count];
            group.allreduce(&mut sum, &Op::sum()).wait().unwrap();
            assert_eq!(sum, vec![3 * round as u64; count]);
            let pending = group.allreduce(vec![1u64; count], &Op::sum()).start().unwrap();
            group.barrier().wait().unwrap();
            assert_eq!(pending.wait().unwrap(), vec![3; count]);
        }
        assert!(is_shared(&group));
    });
}

/// One member does something else than the others: all get an error, at least one the cause.
fn all_learn_of(what: impl Fn(&Group) -> Result<(), Error> + Sync) {
    let causes = AtomicUsize::new(0);
    each(&world(3), |session| {
        let group = shared(session);
        let error = what(&group).and_then(|()| group.barrier().wait().map(drop)).unwrap_err();
        match error {
            Error::Mismatch { .. } => drop(causes.fetch_add(1, Ordering::Relaxed)),
            Error::Revoked { .. } => {}
            other => panic!("{other}"),
        }
        assert!(group.barrier().wait().is_err());
        // The survivors of a group are all here: they go on with another one.
        shared(session);
    });
    assert!(causes.into_inner() > 0);
}

#[test]
fn other_lengths_are_found_out() {
    all_learn_of(|group| {
        let mut data = vec![1u64; 1 + usize::from(group.rank() == 1)];
        group.allreduce(&mut data, &Op::sum()).wait().map(drop)
    });
}

#[test]
fn other_operations_are_found_out() {
    all_learn_of(|group| match group.rank() {
        1 => group.barrier().wait().map(drop),
        _ => group.allreduce(&mut [1u64], &Op::sum()).wait().map(drop),
    });
}

#[test]
fn one_that_goes_by_messages_is_found_out() {
    all_learn_of(|group| {
        let mut data = vec![1u64; if group.rank() == 1 { 5000 } else { 1 }];
        group.allreduce(&mut data, &Op::sum()).wait().map(drop)
    });
}

#[test]
fn an_operator_that_panics_ends_the_group_at_all_members() {
    each(&world(3), |session| {
        let group = shared(session);
        let mine = session.rank();
        let op =
            Op::new(move |a: u64, b: u64| if mine == 1 { panic!("on purpose") } else { a + b });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            group.allreduce(&mut [1], &op).wait().map(drop)
        }));
        assert_eq!(ended.is_err(), mine == 1);
        // The others may have had the result; the next collective tells them.
        assert!(matches!(group.barrier().wait(), Err(Error::Revoked { .. })));
    });
}

#[test]
fn two_threads_in_one_group_are_an_error() {
    let sessions = world(2);
    let groups: Vec<Group> = std::thread::scope(|threads| {
        let make: Vec<_> =
            sessions.iter().map(|session| threads.spawn(|| shared(session))).collect();
        make.into_iter().map(|one| one.join().unwrap()).collect()
    });
    std::thread::scope(|threads| {
        let first = threads.spawn(|| groups[0].barrier().wait().map(drop));
        // Until the first one is inside.
        while !groups[0].context.shared.is_busy() {
            std::thread::yield_now();
        }
        let second = groups[0].barrier().wait().map(drop).unwrap_err();
        assert!(matches!(second, Error::BadGroup(_)), "{second}");
        groups[1].barrier().wait().unwrap();
        first.join().unwrap().unwrap();
    });
}
