//! Groups of ranks that share a process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::coll::board::{SOME, Stage};
use crate::coll::{Blocks, Group, Op, Task};
use crate::error::{Cause, Error};
use crate::run_ranks;
use crate::session::Session;

fn meets(group: &Group) -> bool {
    matches!(group.context.shared.enter().unwrap().stage(), Stage::Met)
}

/// A group that meets.
fn met(group: Group) -> Group {
    (0..=SOME).for_each(|_| group.barrier().wait().unwrap());
    assert!(meets(&group));
    group
}

fn world(session: &Session) -> Group {
    met(session.world().unwrap())
}

#[test]
fn groups_of_one_process_meet_after_some_collectives() {
    run_ranks(5, |session| {
        let group = session.world().unwrap();
        for round in 0..50 {
            let mut sum = [u64::from(session.rank()) + round];
            group.allreduce(&mut sum, &Op::sum()).wait().unwrap();
            assert_eq!(sum, [10 + 5 * round]);
            assert_eq!(meets(&group), round >= u64::from(SOME));
        }
        let pending = group.allreduce(vec![1u64], &Op::sum()).start().unwrap();
        group.barrier().wait().unwrap();
        assert_eq!(pending.wait().unwrap(), [5]);
    })
    .unwrap();
}

#[test]
fn an_algorithm_that_the_program_chooses_goes_by_messages() {
    run_ranks(3, |session| {
        let group = world(session);
        group.set_algorithm("allreduce", "ring").unwrap();
        for round in 0..20u64 {
            let mut sum = [round; 10];
            group.allreduce(&mut sum, &Op::sum()).wait().unwrap();
            assert_eq!(sum, [3 * round; 10]);
            group.barrier().wait().unwrap();
        }
    })
    .unwrap();
}

/// Groups of all sorts come and go, with the same ids again, and members leave them at different times.
#[test]
fn a_group_does_not_meet_at_the_place_of_one_before() {
    run_ranks(4, |session| {
        let all = [0, 1, 2, 3];
        let parent = world(session);
        for round in 0..40u64 {
            let again = met(session.group_with_id(&all, 7).unwrap());
            let mut data = [if again.rank() == 1 { round } else { 0 }];
            again.bcast(1, &mut data).wait().unwrap();
            assert_eq!(data, [round]);
            drop(again);
            let colour = session.rank() % 2;
            let half = met(parent.split(Some(colour), 9 - session.rank()).unwrap().unwrap());
            let mut sum = [u64::from(session.rank()) + round];
            half.allreduce(&mut sum, &Op::sum()).wait().unwrap();
            assert_eq!(sum, [2 + 2 * u64::from(colour) + 2 * round]);
        }
    })
    .unwrap();
}

/// A thread that has carried a collective on may hold what the group's handles share for a moment longer than they are there.
#[test]
fn an_id_is_free_when_the_last_handle_is_gone() {
    run_ranks(1, |session| {
        let group = session.group_with_id(&[0], 7).unwrap();
        let (second, held) = (group.clone(), group.context.clone());
        drop(group);
        assert!(session.group_with_id(&[0], 7).is_err(), "there is one more handle");
        drop(second);
        let again = session.group_with_id(&[0], 7).unwrap();
        drop(held);
        assert!(session.group_with_id(&[0], 7).is_err(), "the new group has it");
        again.barrier().wait().unwrap();
    })
    .unwrap();
}

#[test]
fn threads_of_a_rank_use_a_group_each() {
    let manager = pioman::Manager::builder().build().unwrap();
    let sessions = Session::builder().manager(manager).open_ranks(3).unwrap();
    std::thread::scope(|threads| {
        for session in &sessions {
            threads.spawn(move || {
                let groups = [1, 2].map(|key| session.group_with_key(&[0, 1, 2], key).unwrap());
                std::thread::scope(|threads| {
                    for (group, factor) in groups.into_iter().zip(1..) {
                        threads.spawn(move || {
                            let group = met(group);
                            for round in 0..200 {
                                let mut sum = [factor * (round + u64::from(group.rank()))];
                                group.allreduce(&mut sum, &Op::sum()).wait().unwrap();
                                assert_eq!(sum, [factor * (3 * round + 3)]);
                            }
                        });
                    }
                });
                session.close().unwrap();
            });
        }
    });
}

#[test]
fn each_member_learns_that_lengths_differ() {
    run_ranks(3, |session| {
        let group = world(session);
        let mut data = vec![1u64; 1 + usize::from(group.rank() == 1)];
        let error = group.allreduce(&mut data, &Op::sum()).wait().unwrap_err();
        match session.rank() {
            0 => assert!(matches!(error, Error::Mismatch { from: 1, expected: 8, found: 16 })),
            1 => assert!(matches!(error, Error::Mismatch { from: 0, expected: 16, found: 8 })),
            _ => assert!(matches!(error, Error::Revoked { by: Some(1), gone: false })),
        }
        assert!(matches!(group.barrier().wait(), Err(Error::Revoked { .. })));
        // They go on with another group.
        world(session);
    })
    .unwrap();
}

#[test]
fn an_operator_that_panics_ends_the_group_at_all_members() {
    for len in [1, 20_000] {
        let panics = AtomicUsize::new(0);
        run_ranks(3, |session| {
            let group = world(session);
            let op = Op::new(|_: u64, _: u64| panic!("on purpose"));
            let ended = catch_unwind(AssertUnwindSafe(|| {
                group.allreduce(&mut vec![1; len], &op).wait().map(drop)
            }));
            match ended {
                Err(_) => drop(panics.fetch_add(1, Ordering::Relaxed)),
                Ok(result) => assert!(matches!(result, Err(Error::Revoked { .. }))),
            }
            assert!(matches!(group.barrier().wait(), Err(Error::Revoked { .. })));
        })
        .unwrap();
        assert!(panics.into_inner() > 0);
    }
}

#[test]
fn members_learn_that_a_rank_has_left_or_has_panicked() {
    for cause in [Cause::Left, Cause::Panicked] {
        let arrived = AtomicUsize::new(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            run_ranks(4, |session| {
                let group = world(session);
                if session.rank() == 2 {
                    // The others are about to wait, or wait.
                    while arrived.load(Ordering::Acquire) < 3 {
                        marcel::yield_now();
                    }
                    assert_ne!(cause, Cause::Panicked, "on purpose");
                    return;
                }
                arrived.fetch_add(1, Ordering::AcqRel);
                let error = group.barrier().wait().unwrap_err();
                match error {
                    Error::PeerDied { rank: 2, cause: found } => assert_eq!(found, cause),
                    // Another member has learned of it first.
                    Error::Revoked { gone: true, .. } => {}
                    other => panic!("{other}"),
                }
                assert!(group.barrier().wait().is_err());
            })
        }));
        assert_eq!(ended.is_err(), cause == Cause::Panicked);
    }
}

/// A member starts a collective that the others wait for at the meeting, and revokes the group: all hear of it.
#[test]
fn a_failure_of_another_collective_reaches_the_meeting() {
    run_ranks(3, |session| {
        let group = world(session);
        // All start this one, and it fails at a member that receives something too long.
        let len = 1 + usize::from(group.rank() == 0);
        let pending = group.bcast(0, vec![1u64; len]).start().unwrap();
        let met = (0..100_000).try_for_each(|_| group.barrier().wait().map(drop));
        let failed = pending.wait();
        assert!(met.is_err() && (failed.is_err() || group.rank() == 0));
    })
    .unwrap();
}

/// What bindings to C do: results in place, blocks in any order.
#[test]
fn raw_memory_in_place_is_the_members_own_again_after_each_round() {
    run_ranks(4, |session| {
        let group = world(session);
        let (me, size) = (group.rank() as usize, 4);
        for len in [8, 24_000] {
            let each = Blocks::Even(len);
            let task = Task::Alltoall { send: each.clone(), recv: each };
            for round in 0..10 {
                let value = |from: usize, to: usize| (from * 16 + to * 4 + round) as u8;
                let mut data: Vec<u8> = (0..size).flat_map(|to| vec![value(me, to); len]).collect();
                let result: *mut [u8] = &mut data[..];
                // SAFETY: the buffer is here until the wait returns.
                unsafe { group.bytes(&task, None, &[], result, true) }.wait().unwrap();
                for from in 0..size {
                    assert!(data[from * len..][..len].iter().all(|&byte| byte == value(from, me)));
                }
            }
        }
    })
    .unwrap();
}
