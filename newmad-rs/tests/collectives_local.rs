//! Collectives between the ranks of one process: results, groups, handles that are dropped, awaited, forgotten.

#[path = "common/collectives.rs"]
mod collectives;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use collectives::{all_operations, values};
use newmad::coll::{Group, Op};
use newmad::{Error, Session};
use pioman::Manager;

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

#[test]
fn every_operation_in_groups_of_every_size() {
    for size in [1, 2, 3, 4, 5, 8] {
        each(&world(size), |session| {
            let group = session.world().unwrap();
            for (seed, count) in [0, 1, 5, 700, 30_000].into_iter().enumerate() {
                all_operations(&group, count, seed).unwrap();
            }
        });
    }
}

#[test]
fn series_of_collectives_are_started_in_any_order() {
    each(&world(4), |session| {
        let (group, rank) = (session.world().unwrap(), session.rank());
        for round in 0..200u64 {
            let mut order: Vec<u16> = (0..5).collect();
            order.rotate_left((rank as usize + round as usize) % 5);
            let sum = Op::sum();
            let started: Vec<_> = order
                .into_iter()
                .map(|series| {
                    let data = vec![1000 * u64::from(series) + round; 300];
                    (series, group.allreduce(data, &sum).start_in(series).unwrap())
                })
                .collect();
            let mut own = [round];
            group.allreduce(&mut own, &sum).wait().unwrap();
            assert_eq!(own, [4 * round]);
            for (series, pending) in started {
                let expected = 4 * (1000 * u64::from(series) + round);
                assert!(pending.wait().unwrap().iter().all(|&value| value == expected));
            }
        }
    });
}

#[test]
fn every_algorithm_over_real_messages() {
    let forced = [
        ("bcast", &["binomial", "chain", "scatter_allgather"][..]),
        ("reduce", &["binomial", "scatter_gather"]),
        ("allreduce", &["doubling", "ring", "halving", "reduce_bcast"]),
        ("gather", &["linear", "binomial"]),
        ("allgather", &["linear", "ring", "bruck"]),
        ("alltoall", &["linear", "pairwise", "bruck"]),
        ("reduce_scatter", &["pairwise", "ring", "halving"]),
    ];
    for size in [3, 4] {
        each(&world(size), |session| {
            for turn in 0..4 {
                let group = session.world().unwrap();
                for (operation, algorithms) in forced {
                    let algorithm = algorithms[turn % algorithms.len()];
                    group.set_algorithm(operation, algorithm).unwrap();
                }
                for count in [3, 1_000, 20_000] {
                    all_operations(&group, count, turn).unwrap();
                }
            }
            let group = session.world().unwrap();
            assert!(matches!(group.set_algorithm("bcast", "magic"), Err(Error::BadGroup(_))));
        });
    }
}

#[test]
fn groups_and_outstanding_collectives_do_not_mix() {
    each(&world(4), |session| {
        let world = session.world().unwrap();
        let copy = world.dup().unwrap();
        let again = session.world().unwrap();
        let me = session.rank();
        // Odd and even ranks, counted from behind.
        let half = world.split(Some(me % 2), 10 - me).unwrap().unwrap();
        assert_eq!((half.size(), half.rank()), (2, 1 - me / 2));
        let alone = world.split((me == 2).then_some(7), 0).unwrap();
        assert_eq!(alone.is_some(), me == 2);
        let pair = if me < 2 { Some(session.group_with_key(&[1, 0], 5).unwrap()) } else { None };
        let sum = Op::<u64>::sum();
        for round in 0..30 {
            let groups: Vec<&Group> =
                [&world, &copy, &half, &again].into_iter().chain(&pair).chain(&alone).collect();
            let mut pending = Vec::new();
            for turn in 0..5 {
                for group in &groups {
                    let mine = u64::from(me) * 100 + round * 7 + turn;
                    let data = vec![mine; 1 + turn as usize * 300];
                    pending.push((group, group.allreduce(data, &sum).start().unwrap(), mine));
                }
            }
            // Waited for backwards.
            for (group, pending, mine) in pending.into_iter().rev() {
                let ranks: u64 = group.members().iter().map(|&rank| u64::from(rank) * 100).sum();
                let rest = mine - u64::from(me) * 100;
                let expected = ranks + rest * u64::from(group.size());
                assert!(pending.wait().unwrap().iter().all(|&sum| sum == expected));
            }
        }
        world.barrier().wait().unwrap();
    });
}

#[test]
fn a_panic_in_an_operators_destructor_stops_no_other_collective() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
            panic!("the destructor's own panic");
        }
    }
    const ROUNDS: usize = 20;
    let sessions = world(2);
    let groups: Vec<Group> = sessions.iter().map(|session| session.world().unwrap()).collect();
    for round in 1..=ROUNDS {
        let loud = Loud;
        let op = Op::<u64>::new(move |left, right| {
            let _ = &loud;
            left + right
        });
        // Whichever thread finds rank 1's message carries rank 0's collective on, and drops it.
        drop(groups[0].allreduce(vec![1; 10], &op).start().unwrap());
        drop(op);
        let sum = groups[1].allreduce(vec![2u64; 10], &Op::sum()).start().unwrap();
        assert_eq!(sum.wait().unwrap(), [3; 10]);
        while DROPPED.load(Ordering::SeqCst) < round {
            std::thread::sleep(Duration::from_millis(1));
        }
        let start = |group: &Group| group.allreduce(vec![5u64; 10], &Op::sum()).start().unwrap();
        // Without polling, so that the library's thread carries them on; and by this thread.
        let after: Vec<_> = groups.iter().map(start).collect();
        after.into_iter().for_each(|one| assert_eq!(pollster::block_on(one).unwrap(), [10; 10]));
        let after: Vec<_> = groups.iter().map(start).collect();
        after.into_iter().for_each(|one| assert_eq!(one.wait().unwrap(), [10; 10]));
    }
    assert_eq!(DROPPED.load(Ordering::SeqCst), ROUNDS);
}

#[test]
fn a_dropped_or_forgotten_handle_lets_the_collective_go_on() {
    each(&world(3), |session| {
        let group = session.world().unwrap();
        for round in 0..200usize {
            let count = if round % 10 == 0 { 20_000 } else { 10 };
            let data = values(session.rank() as usize, count);
            let pending = group.allreduce(data, &Op::sum()).start().unwrap();
            match (round + session.rank() as usize) % 3 {
                0 => drop(pending),
                1 if round % 10 != 0 => std::mem::forget(pending),
                _ => drop(pending.wait().unwrap()),
            }
        }
        group.barrier().wait().unwrap();
    });
}

struct Count(AtomicUsize);
impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Nobody else has made the group: its announcement is received by no one. So too when a member has gone before.
#[test]
fn a_collective_under_way_ends_when_its_group_is_revoked() {
    let result = revoked_under_way(world(2));
    assert!(matches!(result, Some(Err(Error::ContextRevoked))), "{result:?}");
    let mut sessions = world(3);
    sessions.pop().unwrap().close().unwrap();
    let result = revoked_under_way(sessions);
    assert!(matches!(result, Some(Err(Error::PeerDied { rank: 2, .. }))), "{result:?}");
}

/// What becomes of a broadcast of rank 0.
fn revoked_under_way(sessions: Vec<Session>) -> Option<Result<(), Error>> {
    let group = sessions[0].world().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let member = group.clone();
    std::thread::spawn(move || {
        let result = member.bcast(0, &mut vec![0_u8; 1 << 20]).wait().map(drop);
        let _ = tell.send(result);
    });
    std::thread::sleep(Duration::from_millis(50));
    group.revoke();
    let mut result = None;
    let start = Instant::now();
    // The other member has other things to do.
    while result.is_none() && start.elapsed() < Duration::from_secs(60) {
        assert!(sessions[1].iprobe(0, 7).unwrap().is_none());
        result = told.recv_timeout(Duration::from_millis(1)).ok();
    }
    result
}

#[test]
fn a_collective_can_be_awaited_and_goes_on_by_itself() {
    let sessions = world(2);
    each(&sessions, |session| {
        let group = session.world().unwrap();
        for round in 0..20u64 {
            if session.rank() == 1 && round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            let data = vec![round; 50_000];
            let mut pending = std::pin::pin!(group.allreduce(data, &Op::sum()).start().unwrap());
            let count = Arc::new(Count(AtomicUsize::new(0)));
            let waker = Waker::from(count.clone());
            let mut context = Context::from_waker(&waker);
            let result = loop {
                // Polled only when it was woken: no thread here looks for events.
                let woken = count.0.load(Ordering::SeqCst);
                if let Poll::Ready(result) = pending.as_mut().poll(&mut context) {
                    break result.unwrap();
                }
                while count.0.load(Ordering::SeqCst) == woken {
                    std::thread::yield_now();
                }
            };
            assert!(result.iter().all(|&sum| sum == 2 * round));
        }
    });
}

#[test]
fn what_does_not_fit_is_an_error_before_anything_is_sent() {
    let sessions = world(2);
    each(&sessions, |session| {
        let group = session.world().unwrap();
        let mut short = [0u32; 3];
        let result = group.allgather(&[1u32, 2], &mut short).wait();
        assert!(
            matches!(result, Err(Error::BadBuffer { expected: 16, found: 12, .. })),
            "{result:?}"
        );
        let result = group.bcast(2, &mut short).wait();
        assert!(matches!(result, Err(Error::BadRank { rank: 2, size: 2 })), "{result:?}");
        let result = group.allgatherv(vec![1u8], vec![0], &[1]).start();
        assert!(matches!(result, Err(Error::BadBuffer { expected: 2, found: 1, .. })));
        assert!(matches!(session.group(&[0, 0, 1]), Err(Error::BadGroup(_))));
        assert!(matches!(session.group(&[0, 2]), Err(Error::BadRank { rank: 2, .. })));
        assert!(matches!(session.group(&[1 - session.rank()]), Err(Error::BadGroup(_))));
        // The group is as good as before.
        group.allreduce(&mut short, &Op::max()).wait().unwrap();
    });
}

#[test]
fn members_that_do_not_agree_are_told() {
    let sessions = world(3);
    each(&sessions, |session| {
        let group = session.world().unwrap();
        let mut data = vec![1u64; if session.rank() == 1 { 5 } else { 4 }];
        let first = group.allreduce(&mut data, &Op::sum()).wait();
        let second = group.barrier().wait();
        assert!(first.is_err() && second.is_err(), "{first:?} {second:?}");
        let fits = |error: &Error| {
            matches!(error, Error::Mismatch { .. } | Error::Revoked { gone: false, .. })
        };
        assert!(fits(&first.unwrap_err()));
        // The other call did not fail by itself.
        assert!(matches!(second, Err(Error::Revoked { gone: false, .. })), "{second:?}");
        // Another group of the same members is not concerned.
        session.world().unwrap().barrier().wait().unwrap();
    });
}

/// One member's length is 0: it takes part all the same, where all members have one length.
#[test]
fn members_that_have_nothing_are_told_too() {
    let sessions = world(3);
    each(&sessions, |session| {
        for nothing in 0..3 {
            let len = if session.rank() == nothing { 0 } else { 64 };
            let failed = |what: &str, result: Result<(), Error>| {
                let error = result.err().map(|error| error.to_string());
                let fits = error.is_some();
                (what.to_owned(), fits)
            };
            let (mut one, from, mut all) = (vec![0u8; len], vec![0u8; 3 * len], vec![0u8; 3 * len]);
            let sum = Op::<u8>::sum();
            let group = || session.world().unwrap();
            let mut told = vec![];
            let mut tell = |what, group: &newmad::coll::Group, result: Result<(), Error>| {
                // A member may have done its part before it is told: then the next one tells it.
                let result = result.and_then(|()| group.barrier().wait());
                told.push(failed(what, result));
            };
            let g = group();
            tell("bcast", &g, g.bcast(0, &mut one).wait().map(drop));
            let g = group();
            tell("reduce", &g, g.reduce(0, &mut one, &sum).wait().map(drop));
            let g = group();
            tell("allreduce", &g, g.allreduce(&mut one, &sum).wait().map(drop));
            let g = group();
            tell("gather", &g, g.gather(0, &one, &mut all).wait().map(drop));
            let g = group();
            tell("scatter", &g, g.scatter(0, &from, &mut one).wait().map(drop));
            let g = group();
            tell("allgather", &g, g.allgather(&one, &mut all).wait().map(drop));
            let g = group();
            tell("alltoall", &g, g.alltoall(&from, &mut all).wait().map(drop));
            let g = group();
            tell("reduce_scatter", &g, g.reduce_scatter(&from, &mut one, &sum).wait().map(drop));
            let g = group();
            tell("scan", &g, g.scan(&mut one, &sum).wait().map(drop));
            assert!(told.iter().all(|told| told.1), "{nothing} has nothing: {told:?}");
        }
    });
}

#[test]
fn a_panicking_operator_comes_out_where_it_panicked() {
    let sessions = world(2);
    let panics = AtomicUsize::new(0);
    each(&sessions, |session| {
        let group = session.world().unwrap();
        let bad = Op::<u64>::new(|_, _| panic!("on purpose"));
        let good = Op::<u64>::sum();
        let op = if session.rank() == 0 { &bad } else { &good };
        let mut data = [1];
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            group.allreduce(&mut data, op).wait().and_then(|_| group.barrier().wait())
        }));
        match result {
            Err(_) => panics.fetch_add(1, Ordering::SeqCst),
            Ok(result) => {
                assert!(
                    matches!(result, Err(Error::Revoked { by: Some(0), gone: false })),
                    "{result:?}"
                );
                0
            }
        };
    });
    assert_eq!(panics.load(Ordering::SeqCst), 1);
}
