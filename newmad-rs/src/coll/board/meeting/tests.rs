//! Meetings of kernel threads, without sessions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::coll::operator::{Op, Operator};
use crate::coll::task::{Blocks, Task};

/// Composition of affine maps: associative, not commutative.
fn compose(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0].wrapping_mul(b[0]), a[1].wrapping_mul(b[0]).wrapping_add(b[1])]
}

fn operator() -> Operator {
    Op::ordered(compose).bytes
}

/// What a rank has at `index`, as bytes.
fn value(rank: usize, index: usize) -> u8 {
    (rank * 37 + index * 11 + 5) as u8
}

fn values(rank: usize, len: usize) -> Vec<u8> {
    (0..len).map(|index| value(rank, index)).collect()
}

/// What a member brings: contribution, result (which is the contribution, too, in place).
struct Own {
    task: Task,
    operator: Option<Operator>,
    input: Vec<u8>,
    output: Vec<u8>,
    in_place: bool,
}

/// Each member on a thread of its own, so many rounds; `own` says what a member brings, `check` looks at its result.
fn each(
    size: usize,
    rounds: usize,
    own: impl Fn(usize, usize) -> Own + Sync,
    check: impl Fn(usize, usize, Result<&[u8], Ended>) + Sync,
) {
    let members: Vec<u32> = (10..10 + size as u32).collect();
    let meeting = Meeting::new(&members);
    std::thread::scope(|threads| {
        for me in 0..size {
            let (meeting, own, check) = (&meeting, &own, &check);
            threads.spawn(move || {
                for round in 0..rounds {
                    let Own { task, operator, input, mut output, in_place } = own(me, round);
                    let into = output.as_mut_ptr();
                    let from = if in_place { into.cast_const() } else { input.as_ptr() };
                    let operator = operator.as_ref();
                    // Two places, and some members nowhere.
                    let place = me % 3;
                    let deposit = Deposit::new(&task, operator, (from, into), in_place, place);
                    let wait = |end: &Completion| end.latch().wait("a test");
                    // SAFETY: the buffers are here, and as long as the task says.
                    let met = unsafe { meeting.meet(me, &deposit, &wait) };
                    check(me, round, met.map(|()| &output[..]));
                }
            });
        }
    });
}

fn good(result: Result<&[u8], Ended>) -> &[u8] {
    result.unwrap_or_else(|_| panic!("the round has failed"))
}

/// Lengths below and above what one member does alone; the members are few.
const LENGTHS: [usize; 4] = [0, 48, 5008, 160_000];

/// Elements of 16 bytes of these ranks, combined in order.
fn combined(ranks: Range, at: usize, len: usize) -> Vec<u8> {
    let operator = operator();
    let mut all = ranks.map(|rank| values(rank, at + len)[at..].to_vec());
    let Some(mut sum) = all.next() else { return Vec::new() };
    for mut next in all {
        operator.apply(&sum, &mut next);
        sum = next;
    }
    sum
}

type Range = std::ops::Range<usize>;

/// In place, the contribution of so many bytes is in a result of so many.
fn buffers(contribution: Vec<u8>, result: usize, in_place: bool) -> (Vec<u8>, Vec<u8>) {
    match in_place {
        false => (contribution, vec![0xee; result]),
        true => {
            let mut output = contribution;
            let len = output.len().max(result);
            output.resize(len, 0xee);
            (Vec::new(), output)
        }
    }
}

#[test]
fn reductions_and_scans_keep_the_order_of_ranks_in_place_and_not() {
    for (len, in_place) in LENGTHS.into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let size = 3;
        let task = |round: usize| match round % 4 {
            0 => Task::Allreduce { len },
            1 => Task::Scan { len, inclusive: true },
            2 => Task::Scan { len, inclusive: false },
            _ => Task::Reduce { root: (round % size) as u32, len },
        };
        let is_in_place = |me: usize, round: usize| match task(round) {
            Task::Reduce { root, .. } => in_place && me == root as usize,
            _ => in_place,
        };
        let own = |me: usize, round: usize| {
            let in_place = is_in_place(me, round);
            let (input, output) = buffers(values(me, len), len, in_place);
            Own { task: task(round), operator: Some(operator()), input, output, in_place }
        };
        let untouched = |me: usize, round: usize| match is_in_place(me, round) {
            true => values(me, len),
            false => vec![0xee; len],
        };
        each(size, 24, own, |me, round, result| {
            let expected = match task(round) {
                Task::Allreduce { .. } => combined(0..size, 0, len),
                Task::Scan { inclusive: true, .. } => combined(0..me + 1, 0, len),
                Task::Scan { .. } if me > 0 => combined(0..me, 0, len),
                Task::Reduce { root, .. } if me == root as usize => combined(0..size, 0, len),
                _ => untouched(me, round),
            };
            assert!(good(result) == expected, "{:?}", task(round));
        });
    }
}

#[test]
fn an_element_may_be_longer_than_what_is_combined_at_once() {
    let len = 30_000;
    let concatenates = |left: &[u8], into: &mut [u8]| {
        assert!(left.len().is_multiple_of(10_000));
        for (left, into) in left.iter().zip(into) {
            *into = left.wrapping_mul(3).wrapping_add(*into);
        }
    };
    let own = |me: usize, _| {
        let operator = Some(Operator::new(10_000, false, concatenates));
        let (input, output) = buffers(values(me, len), len, false);
        Own { task: Task::Allreduce { len }, operator, input, output, in_place: false }
    };
    each(3, 4, own, |_, _, result| {
        let result = good(result);
        for index in [0, 9_999, 10_000, len - 1] {
            let two = value(0, index).wrapping_mul(3).wrapping_add(value(1, index));
            assert_eq!(result[index], two.wrapping_mul(3).wrapping_add(value(2, index)));
        }
    });
}

/// How many bytes go from one rank to another.
fn amount_between(from: usize, to: usize, len: usize) -> usize {
    (from * 5 + to * 3 + 1) % 4 * (len / 48) * 16
}

#[test]
fn blocks_go_from_buffer_to_buffer() {
    for (len, in_place) in LENGTHS.into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let size = 4;
        let lengths: Vec<usize> = (0..size).map(|rank| amount_between(rank, 0, len)).collect();
        let lengths = &lengths;
        let blocks = || Blocks::of_lengths(lengths.iter().copied());
        let total: usize = lengths.iter().sum();
        let start = |rank: usize| lengths[..rank].iter().sum::<usize>();
        let root = 2;
        let all: Vec<u8> = (0..size).flat_map(|rank| values(rank, lengths[rank])).collect();
        let all = &all;
        // Gather and allgather in place have the own contribution at its place.
        let at_its_place = |me: usize| {
            let mut output = vec![0xee; total];
            output[start(me)..start(me) + lengths[me]].copy_from_slice(&values(me, lengths[me]));
            output
        };
        // An exchange in place has equal blocks both ways.
        let even = len / 16 * 16;
        let sends =
            |me: usize| Blocks::of_lengths((0..size).map(move |to| amount_between(me, to, len)));
        let recvs = |me: usize| {
            Blocks::of_lengths((0..size).map(move |from| amount_between(from, me, len)))
        };
        let own = |me: usize, round: usize| {
            let is_root = me == root;
            let at_root = |blocks| if is_root { Some(blocks) } else { None };
            let (task, input, output, in_place) = match round % 6 {
                0 => {
                    let data = if is_root { values(root, len) } else { vec![0xee; len] };
                    (Task::Bcast { root: root as u32, len }, Vec::new(), data, true)
                }
                1 => {
                    let task = Task::Gather {
                        root: root as u32,
                        own: lengths[me],
                        blocks: at_root(blocks()),
                    };
                    match (is_root, in_place) {
                        (true, true) => (task, Vec::new(), at_its_place(me), true),
                        (true, false) => (task, values(me, lengths[me]), vec![0xee; total], false),
                        _ => (task, values(me, lengths[me]), Vec::new(), false),
                    }
                }
                2 => {
                    let task = Task::Scatter {
                        root: root as u32,
                        own: lengths[me],
                        blocks: at_root(blocks()),
                    };
                    match (is_root, in_place) {
                        (true, true) => (task, Vec::new(), all.clone(), true),
                        (true, false) => (task, all.clone(), vec![0xee; lengths[me]], false),
                        _ => (task, Vec::new(), vec![0xee; lengths[me]], false),
                    }
                }
                3 => {
                    let task = Task::Allgather { blocks: blocks() };
                    match in_place {
                        true => (task, Vec::new(), at_its_place(me), true),
                        false => (task, values(me, lengths[me]), vec![0xee; total], false),
                    }
                }
                4 if in_place => {
                    let each = Blocks::Even(even);
                    let task = Task::Alltoall { send: each.clone(), recv: each };
                    (task, Vec::new(), values(me, even * size), true)
                }
                4 => {
                    let (send, recv) = (sends(me), recvs(me));
                    let (input, result) = (values(me, send.total(4)), recv.total(4));
                    (Task::Alltoall { send, recv }, input, vec![0xee; result], false)
                }
                _ => {
                    let (input, output) = buffers(values(me, total), lengths[me], in_place);
                    (Task::ReduceScatter { blocks: blocks() }, input, output, in_place)
                }
            };
            Own { task, operator: (round % 6 == 5).then(operator), input, output, in_place }
        };
        each(size, 24, own, |me, round, result| {
            let result = good(result);
            let is_root = me == root;
            match round % 6 {
                0 => assert!(result == values(root, len), "bcast"),
                1 => assert!(!is_root || result == all, "gather"),
                2 if is_root && in_place => assert!(result == all, "scatter in place"),
                2 => assert!(result == values_at(all, start(me), lengths[me]), "scatter"),
                3 => assert!(result == all, "allgather"),
                4 => {
                    let from = |from: usize| match in_place {
                        true => values(from, even * size)[me * even..][..even].to_vec(),
                        false => {
                            let (at, len) = sends(from).get(me as u32);
                            values(from, at + len)[at..].to_vec()
                        }
                    };
                    let expected: Vec<u8> = (0..size).flat_map(from).collect();
                    assert!(result == expected, "alltoall {len} {in_place}");
                }
                _ => {
                    let expected = combined(0..size, start(me), lengths[me]);
                    assert!(result[..lengths[me]] == expected, "reduce_scatter {len} {in_place}");
                }
            }
        });
    }
}

fn values_at(all: &[u8], at: usize, len: usize) -> &[u8] {
    &all[at..at + len]
}

/// What member 1 brings is another thing: it and another one get the mismatch, the third learns of it.
fn misfits(odd: Task, usual: Task, expected: usize, found: usize) {
    let own = |me: usize, _| {
        let task = if me == 1 { odd.clone() } else { usual.clone() };
        let (input, output) = (vec![0; 4096], vec![0; 4096]);
        Own { task, operator: Some(operator()), input, output, in_place: false }
    };
    each(3, 1, own, |me, _, result| {
        let Err(Ended::Failed(failure)) = result else { panic!("it has not failed") };
        let other = match me {
            0 => Failure::Mismatch { from: 11, expected, found },
            1 => Failure::Mismatch { from: 10, expected: found, found: expected },
            _ => Failure::Revoked { by: 11, gone: false },
        };
        assert_eq!(failure, other);
    });
}

#[test]
fn members_that_do_different_things_all_learn_of_it() {
    misfits(Task::Allreduce { len: 32 }, Task::Allreduce { len: 16 }, 16, 32);
    misfits(Task::Barrier, Task::Allreduce { len: 16 }, 16, 0);
    let gather = |own| Task::Gather { root: 0, own, blocks: Some(Blocks::Even(16)) };
    misfits(gather(32), gather(16), 16, 32);
    let allgather = |len| Task::Allgather { blocks: Blocks::Even(len) };
    misfits(allgather(32), allgather(16), 16, 32);
    let all = |len| Task::Alltoall { send: Blocks::Even(len), recv: Blocks::Even(len) };
    misfits(all(32), all(16), 16, 32);
    let parts = |len| Task::ReduceScatter { blocks: Blocks::Even(len) };
    misfits(parts(32), parts(16), 16, 32);
}

#[test]
fn a_panic_of_one_operator_is_the_failure_of_the_others() {
    for len in [16, 160_000] {
        let own = |me: usize, _| {
            let panics = move |_: &[u8], _: &mut [u8]| assert_ne!(me, 1, "on purpose");
            let operator = Some(Operator::new(16, true, panics));
            let (input, output) = buffers(values(me, len), len, false);
            Own { task: Task::Allreduce { len }, operator, input, output, in_place: false }
        };
        let panicked = AtomicBool::new(false);
        each(2, 1, own, |me, _, result| match result {
            Err(Ended::Panicked(_)) => {
                assert_eq!(me, 1);
                panicked.store(true, Ordering::Relaxed);
            }
            Err(Ended::Failed(failure)) => {
                assert_eq!((me, failure), (0, Failure::Revoked { by: 11, gone: false }));
            }
            // A short one is the work of the last to come.
            Ok(_) => assert_eq!(len, 16),
        });
        assert!(len == 16 || panicked.into_inner());
    }
}

#[test]
fn a_failed_meeting_wakes_those_that_wait_and_refuses_those_that_come() {
    let meeting = Meeting::new(&[4, 5, 6]);
    let task = Task::Barrier;
    let meet = |me: usize, started: &dyn Fn()| {
        let into = std::ptr::null_mut();
        let deposit = Deposit::new(&task, None, (into, into), true, 1);
        let wait = |end: &Completion| {
            started();
            end.latch().wait("a test");
        };
        // SAFETY: a barrier has no memory.
        match unsafe { meeting.meet(me, &deposit, &wait) } {
            Err(Ended::Failed(failure)) => failure,
            _ => panic!("it has not failed"),
        }
    };
    let died = Failure::Died(6, Cause::Left);
    std::thread::scope(|threads| {
        let (tell, told) = std::sync::mpsc::channel();
        let waits = threads.spawn(move || meet(0, &|| tell.send(()).unwrap()));
        told.recv().unwrap();
        meeting.departs(9, Cause::Left); // no member
        meeting.departs(6, Cause::Left);
        meeting.fail(Failure::Closed); // the first counts
        assert_eq!(waits.join().unwrap(), died);
    });
    assert_eq!(meet(1, &|| ()), died);
}

/// The wait of a member unwinds: it comes back when its memory is free, and the others learn of it.
#[test]
fn a_wait_that_unwinds_ends_the_meeting() {
    let meeting = Meeting::new(&[0, 1]);
    let task = Task::Allreduce { len: 16 };
    let meet = |me: usize, wait: Wait<'_>| {
        let (operator, mut data) = (operator(), values(me, 16));
        let into = data.as_mut_ptr();
        let deposit = Deposit::new(&task, Some(&operator), (into, into), true, 1);
        // SAFETY: the buffer is here.
        unsafe { meeting.meet(me, &deposit, wait) }
    };
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _ = meet(0, &|_| panic!("on purpose"));
    }));
    assert!(unwound.is_err());
    let late = meet(1, &|_| unreachable!("it does not wait"));
    let Err(Ended::Failed(failure)) = late else { panic!("it has not failed") };
    assert_eq!(failure, Failure::Revoked { by: 0, gone: false });
}

/// Told of a failure once it is told.
struct Heard(std::sync::Mutex<Vec<Failure>>);

impl Hears for Heard {
    fn hears(&self, failure: Failure) {
        self.0.lock().unwrap().push(failure);
    }
}

#[test]
fn it_is_told_of_failures_but_not_of_members_that_have_left_in_order() {
    let (meeting, heard) = (Meeting::new(&[4, 5]), Arc::new(Heard(Default::default())));
    let hearer: Arc<dyn Hears> = heard.clone();
    meeting.tells(Arc::downgrade(&hearer));
    meeting.departs(5, Cause::Left);
    assert_eq!(*heard.0.lock().unwrap(), [], "rounds that are over go on there");
    meeting.fail(Failure::Abandoned);
    assert_eq!(*heard.0.lock().unwrap(), [Failure::Abandoned]);
    // A hearer that comes later hears of the failure that counts.
    let (other, late) = (Meeting::new(&[4, 5]), Arc::new(Heard(Default::default())));
    other.fail(Failure::Died(4, Cause::Vanished));
    let hearer: Arc<dyn Hears> = late.clone();
    other.tells(Arc::downgrade(&hearer));
    assert_eq!(*late.0.lock().unwrap(), [Failure::Died(4, Cause::Vanished)]);
}
