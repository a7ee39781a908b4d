//! Groups of ranks of one process, each on a kernel thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pioman::Manager;

use crate::coll::board::{SOME, Stage};
use crate::coll::operator::{as_bytes, as_bytes_mut};
use crate::coll::{Group, Op};
use crate::error::Error;
use crate::net::segment::{PLACES, ROOM};
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

/// A thread that has carried a collective on may hold what the handles share for a moment longer than they are there.
#[test]
fn a_place_is_left_with_the_last_handle() {
    each(&world(3), |session| {
        let mut groups: Vec<Group> = (0..PLACES).map(|_| shared(session)).collect();
        let meanwhile = session.world().unwrap();
        let held = groups.pop().map(|group| group.context.clone());
        meanwhile.barrier().wait().unwrap();
        groups.push(shared(session));
        drop(held);
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
            // The longest are longer than what goes in pieces.
            let count = [5, 5000, 200_000][round % 3];
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

#[test]
fn what_is_only_copied_is_read_where_it_lies_until_the_kernel_refuses_a_copy() {
    if let Err(why) = crate::net::shm::cma::cma_works() {
        return eprintln!("SKIPPED: {why}");
    }
    each(&world(3), |session| {
        let group = shared(session);
        let me = u64::from(group.rank());
        for round in 0..6 {
            let mut turn = group.context.shared.enter().unwrap();
            let Stage::On(board) = turn.stage() else { panic!("it has a board") };
            assert_eq!(board.lends, round <= 3, "in round {round}");
            if round == 3 && me == 1 {
                board.members[2].process = Some(i32::MAX);
            }
            drop(turn);
            let count = ROOM / 8 * (1 + round);
            let value = |rank: u64| round as u64 * 3 + rank;
            let all: Vec<u64> = (0..3).flat_map(|rank| vec![value(rank); count]).collect();
            let mut into = vec![0; 3 * count];
            group.allgather(&vec![value(me); count], &mut into).wait().unwrap();
            assert_eq!(into, all);
            group.alltoall(&vec![value(me); 3 * count], &mut into).wait().unwrap();
            assert_eq!(into, all);
            let from = if me == 2 { all.clone() } else { vec![] };
            let mut own = vec![0; count];
            group.scatter(2, &from, &mut own).wait().unwrap();
            assert_eq!(own, vec![value(me); count]);
        }
    });
}

/// Of lengths that do not divide by three, in place and not, by an operator whose order counts.
#[test]
fn long_reductions_combine_what_lies_elsewhere_in_order_until_the_kernel_refuses_a_copy() {
    let value = |rank: usize, at: usize| [(rank * 31 + at * 7 + 1) as u64, (rank + at) as u64];
    each(&world(3), |session| {
        let group = shared(session);
        let me = group.rank() as usize;
        for round in 0..6 {
            if round == 3
                && me == 1
                && let Stage::On(board) = group.context.shared.enter().unwrap().stage()
            {
                board.members[2].process = Some(i32::MAX);
            }
            let count = 16 * 1024 + 20_000 * round + round;
            let mut data: Vec<_> = (0..count).map(|at| value(me, at)).collect();
            let given = data.clone();
            let expected: Vec<_> = (0..count)
                .map(|at| (0..3).map(|rank| value(rank, at)).reduce(compose).unwrap())
                .collect();
            group.allreduce(&mut data, &Op::ordered(compose)).wait().unwrap();
            assert_eq!(data, expected, "in place, round {round}");
            let mut result = vec![[0; 2]; count];
            let task = crate::coll::Task::Allreduce { len: size_of_val(&*given) };
            let bytes = (as_bytes(&given), as_bytes_mut(&mut result));
            let op = Op::ordered(compose);
            // SAFETY: both are here until it is over.
            unsafe { group.bytes(&task, Some(&op.bytes), bytes.0, bytes.1, false) }.wait().unwrap();
            assert_eq!(result, expected, "round {round}");
        }
    });
}

/// A runtime of one virtual processor, and a group of two that has been set up; `None`: the kernel copies nothing.
fn one_processor_and_a_thread() -> Option<(marcel::Runtime, Vec<Session>, [Group; 2])> {
    if let Err(why) = crate::net::shm::cma::cma_works() {
        eprintln!("SKIPPED: {why}");
        return None;
    }
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    let runtime = marcel::Runtime::builder().mode(marcel::Mode::Mono).hooks(manager.clone());
    let sessions = Session::local_world(2, &manager).unwrap();
    let groups = std::thread::scope(|threads| {
        let [first, second] = &sessions[..] else { unreachable!("two ranks") };
        let second = threads.spawn(|| shared(second));
        [shared(first), second.join().unwrap()]
    });
    Some((runtime.build().unwrap(), sessions, groups))
}

/// The reader shares its virtual processor with a thread that revokes the other's group when that has read everything, and
/// lets it write to its memory.
#[test]
fn memory_that_a_member_takes_back_is_in_no_result() {
    let Some((runtime, _sessions, [reader, other])) = one_processor_and_a_thread() else { return };
    let [lent, has_read] = {
        let mut turn = reader.context.shared.enter().unwrap();
        let Stage::On(board) = turn.stage() else { panic!("it has a board") };
        let shown = |rank: usize, after: u64| {
            let (place, number) = (&board.members[rank].place, board.members[rank].base);
            let (place, number) = (place.clone(), number + board.number + after);
            move || place.words().is_shown(number)
        };
        [shown(0, 1), shown(1, 2)]
    };
    let count = 4 << 20;
    let (over, is_over) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let revoked = other.clone();
        let member = threads.spawn(move || {
            let mut own = vec![1u8; count];
            let result = other.allgather(&own, &mut vec![0; 2 * count]).wait().map(drop);
            own.fill(2);
            over.send(result).unwrap();
            // It is still there when the reader reads it.
            own
        });
        runtime.run(|| {
            marcel::scope(|scope| {
                scope.spawn(move || {
                    while !lent() {
                        marcel::yield_now();
                    }
                    // The reader is at its beginning, or between two pieces, and goes on when this thread ends.
                    while !has_read() {
                        std::thread::yield_now();
                    }
                    revoked.revoke();
                    assert!(is_over.recv().unwrap().is_err());
                });
                // The other begins to look.
                marcel::yield_now();
                let mut all = vec![0u8; 2 * count];
                let result = reader.allgather(&vec![0u8; count], &mut all).wait().map(drop);
                let revoked = matches!(result, Err(Error::ContextRevoked));
                assert!(revoked, "{result:?}: it has read {:?}", all.last());
            });
        });
        member.join().unwrap();
    });
}

/// A member is unwound between two pieces of what it reads, where another thread had its virtual processor.
#[test]
fn a_member_that_is_unwound_as_it_reads_has_given_up() {
    let Some((runtime, _sessions, [reader, other])) = one_processor_and_a_thread() else { return };
    let [lent, waits] = [0, 1].map(|rank: usize| {
        let mut turn = reader.context.shared.enter().unwrap();
        let Stage::On(board) = turn.stage() else { panic!("it has a board") };
        let (place, number) = (board.members[rank].place.clone(), board.members[rank].base);
        let number = number + board.number + 1;
        move || place.words().is_shown(number)
    });
    let count = 4 << 20;
    std::thread::scope(|threads| {
        let member = threads.spawn(move || {
            other.allgather(&vec![1u8; count], &mut vec![0; 2 * count]).wait().map(drop)
        });
        while !waits() {
            std::thread::yield_now();
        }
        runtime.run(|| {
            let thread = marcel::spawn(move || {
                let mut all = vec![0u8; 2 * count];
                reader.allgather(&vec![0u8; count], &mut all).wait().map(drop)
            });
            while !lent() {
                marcel::yield_now();
            }
            drop(thread);
        });
        drop(runtime);
        // The reader may have come to its end before the runtime stops: on a busy machine this thread is late.
        let result = member.join().unwrap();
        assert!(matches!(result, Ok(()) | Err(Error::Revoked { .. })), "{result:?}");
    });
}

#[test]
fn other_lengths_of_what_lies_elsewhere_are_found_out() {
    all_learn_of(|group| {
        let count = ROOM / 8 + 1 + usize::from(group.rank() == 1);
        group.allgather(&vec![1u64; count], &mut vec![0; 3 * count]).wait().map(drop)
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

/// Composition of affine maps: associative, not commutative.
fn compose(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0].wrapping_mul(b[0]), a[1].wrapping_mul(b[0]).wrapping_add(b[1])]
}

#[test]
fn what_has_no_room_on_a_sheet_goes_in_pieces() {
    let value = |rank: usize, at: usize| [(rank * 31 + at * 7 + 1) as u64, (rank + at) as u64];
    let values =
        |rank: usize, count: usize| (0..count).map(|at| value(rank, at)).collect::<Vec<_>>();
    let sheet = ROOM / 16;
    each(&world(3), |session| {
        let group = shared(session);
        let (me, size) = (group.rank() as usize, 3);
        let order = Op::ordered(compose);
        let composed = |ranks: std::ops::Range<usize>, at: usize| {
            ranks.map(|rank| value(rank, at)).reduce(compose).unwrap()
        };
        let counts =
            [1, sheet / 3, sheet - 1, sheet, sheet + 1, 2 * sheet, 5 * sheet + 3, 20 * sheet];
        for (crowded, count) in
            [false, true].into_iter().flat_map(|crowded| counts.map(|c| (crowded, c)))
        {
            if let Stage::On(board) = group.context.shared.enter().unwrap().stage() {
                board.crowded = crowded;
            }
            let whole = 0..size;
            let mut data = if me == 1 { values(1, count) } else { vec![[0; 2]; count] };
            group.bcast(1, &mut data).wait().unwrap();
            assert_eq!(data, values(1, count), "bcast {count}");

            let mut data = values(me, count);
            group.allreduce(&mut data, &order).wait().unwrap();
            let expected: Vec<_> = (0..count).map(|at| composed(whole.clone(), at)).collect();
            assert_eq!(data, expected, "allreduce {count}");

            let mut data = values(me, count);
            group.reduce(2, &mut data, &order).wait().unwrap();
            assert!(data == if me == 2 { expected } else { values(me, count) }, "reduce {count}");

            let mut data = values(me, count);
            group.scan(&mut data, &order).wait().unwrap();
            let expected: Vec<_> = (0..count).map(|at| composed(0..me + 1, at)).collect();
            assert_eq!(data, expected, "scan {count}");

            let all: Vec<_> = whole.clone().flat_map(|rank| values(rank, count)).collect();
            let mut into = vec![[0; 2]; size * count];
            group.allgather(&values(me, count), &mut into).wait().unwrap();
            assert_eq!(into, all, "allgather {count}");

            let counts = [count, 0, count / 2 + 1];
            let uneven: Vec<_> =
                whole.clone().flat_map(|rank| values(rank, counts[rank])).collect();
            let mut into = vec![[0; 2]; uneven.len()];
            group.allgatherv(&values(me, counts[me]), &mut into, &counts).wait().unwrap();
            assert_eq!(into, uneven, "allgatherv {count}");

            let mut into = vec![[0; 2]; if me == 0 { size * count } else { 0 }];
            group.gather(0, &values(me, count), &mut into).wait().unwrap();
            assert!(me != 0 || into == all, "gather {count}");

            let from = if me == 0 { all.clone() } else { vec![] };
            let mut own = vec![[0; 2]; count];
            group.scatter(0, &from, &mut own).wait().unwrap();
            assert_eq!(own, values(me, count), "scatter {count}");

            let mut into = vec![[0; 2]; size * count];
            group.alltoall(&values(me, size * count), &mut into).wait().unwrap();
            let mine = me * count..(me + 1) * count;
            let expected: Vec<_> =
                whole.flat_map(|rank| values(rank, size * count)[mine.clone()].to_vec()).collect();
            assert_eq!(into, expected, "alltoall {count}");

            let mut own = vec![[0; 2]; count];
            group.reduce_scatter(&values(me, size * count), &mut own, &order).wait().unwrap();
            let expected: Vec<_> = mine.map(|at| composed(0..size, at)).collect();
            assert_eq!(own, expected, "reduce_scatter {count}");
        }
    });
}

/// Of elements that do not divide a sheet, in place at some members and not at others.
#[test]
fn reductions_in_pieces_cut_no_element() {
    let value = |rank: usize, at: usize| [(rank * 31 + at) as u64, rank as u64 + 1, at as u64];
    let add = |a: [u64; 3], b: [u64; 3]| [a[0].wrapping_mul(b[1]) + b[0], a[1] * b[1], a[2] + b[2]];
    let sheet = ROOM / 24;
    each(&world(3), |session| {
        let group = shared(session);
        let me = group.rank() as usize;
        let op = Op::ordered(add);
        for (crowded, count) in [(false, 4 * sheet + 5), (true, 4 * sheet + 5), (true, sheet + 1)] {
            if let Stage::On(board) = group.context.shared.enter().unwrap().stage() {
                board.crowded = crowded;
            }
            let given: Vec<_> = (0..count).map(|at| value(me, at)).collect();
            let all = |at: usize| (0..3).map(|rank| value(rank, at)).reduce(add).unwrap();
            let expected: Vec<_> = (0..count).map(all).collect();
            let mut result = if me == 1 { given.clone() } else { vec![[0; 3]; count] };
            let task = crate::coll::Task::Allreduce { len: size_of_val(&*given) };
            let bytes = (as_bytes(&given), as_bytes_mut(&mut result));
            // SAFETY: both are here until it is over.
            unsafe { group.bytes(&task, Some(&op.bytes), bytes.0, bytes.1, me == 1) }
                .wait()
                .unwrap();
            assert!(result == expected, "crowded: {crowded}, {count} elements");
        }
    });
}
