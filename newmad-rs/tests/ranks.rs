//! Several ranks in one process: alone, and (`processes`) with other processes that hold several.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use newmad::{ANY, Cause, Error, Origin, SendOptions, Session, Tag};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

#[path = "common/collectives.rs"]
mod collectives;
#[path = "common/mod.rs"]
mod common;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(120);
/// In how long ranks of other processes hear of a rank's end: in one of three launches, since the machine may be busy. (The
/// cause of an error shows that no time-out ended the wait.)
const SOON: std::time::Duration = std::time::Duration::from_secs(2);

/// Kills this process once all others are in their waits, most likely, and says when.
fn die() -> ! {
    marcel::sleep(std::time::Duration::from_millis(200));
    println!("\nDIED {}", common::micros());
    // SAFETY: takes no pointers.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("SIGKILL cannot be blocked")
}

/// Launches that say how long it took are soon enough once; all else they look at each time.
fn once_soon(launch: impl Fn() -> std::time::Duration) {
    let mut took = [std::time::Duration::MAX; 3];
    for each in &mut took {
        *each = launch();
        if *each < SOON {
            return;
        }
    }
    panic!("{took:?}");
}

/// How long the last of the ranks of the first process took to notice the death of the second.
fn noticed(ended: &[common::Ended], ranks: usize) -> std::time::Duration {
    let died = common::told(&ended[1].text, "DIED").next();
    let (died, _) = died.unwrap_or_else(|| panic!("not killed: {ended:#?}"));
    let noticed: Vec<u64> = common::told(&ended[0].text, "NOTICED").map(|told| told.0).collect();
    assert_eq!(noticed.len(), ranks, "{ended:#?}");
    let last = noticed.into_iter().max().unwrap_or_else(|| panic!("no ranks: {ended:#?}"));
    std::time::Duration::from_micros(last.saturating_sub(died))
}

#[test]
fn each_rank_has_a_session_of_its_own() {
    let seen = AtomicU32::new(0);
    let ranks = newmad::run_ranks(5, |session| {
        seen.fetch_or(1 << session.rank(), Ordering::Relaxed);
        assert_eq!((session.size(), session.process_ranks()), (5, 0..5));
        session.rank()
    });
    assert_eq!(ranks.unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(seen.into_inner(), 0b11111);
}

#[test]
fn no_ranks_and_too_many_are_refused_before_the_start() {
    for count in [0, (1 << 16) + 1] {
        let error = newmad::run_ranks(count, |_| panic!("a rank runs")).unwrap_err();
        assert!(error.to_string().contains("1 to 65536"), "{error}");
    }
}

#[test]
fn a_message_of_any_length_reaches_its_rank_only() {
    let results = newmad::run_ranks(3, |session| {
        let (rank, size) = (session.rank(), session.size());
        for len in [0, 1, 100, 5000, 20_000, 300_000, 3_000_000] {
            let data: Vec<u8> = (0..len).map(|at| (at as u32 * 7 + rank) as u8).collect();
            let sends: Vec<_> = (0..size)
                .filter(|&to| to != rank)
                .map(|to| session.isend(to, 7, data.clone()).unwrap())
                .collect();
            for from in (0..size).filter(|&from| from != rank) {
                let mut buffer = vec![0; len];
                let status = session.recv(from, 7, &mut buffer)?;
                assert_eq!((status.source, status.tag, status.len), (from, 7, len));
                assert!((0..len).all(|at| buffer[at] == (at as u32 * 7 + from) as u8), "{len}");
            }
            for send in sends {
                send.wait()?;
            }
        }
        // Nothing is left for any rank.
        session.barrier()?;
        assert!(session.iprobe(ANY, Tag::ANY)?.is_none());
        Ok::<(), Error>(())
    });
    for result in results.unwrap() {
        result.unwrap();
    }
}

#[test]
fn a_rank_sends_to_itself() {
    newmad::run_ranks(2, |session| {
        let sent = session.isend(session.rank(), 1, vec![session.rank() as u8]).unwrap();
        let mut buffer = [9];
        let status = session.recv(ANY, 1, &mut buffer).unwrap();
        assert_eq!((status.source, buffer[0]), (session.rank(), session.rank() as u8));
        sent.wait().unwrap();
    })
    .unwrap();
}

/// The fifth collective sets the group's meeting up, and its first member may be done before the others have found that.
/// (They were told that it had given up.)
#[test]
fn the_first_member_drops_its_group_after_its_last_collective() {
    newmad::run_ranks(2, |session| {
        let group = session.world().unwrap();
        group.set_algorithm("bcast", "binomial").unwrap();
        for _ in 0..4 {
            group.barrier().wait().unwrap();
        }
        if session.rank() == 1 {
            marcel::sleep(std::time::Duration::from_millis(20));
        }
        let mut data = [session.rank() + 5];
        group.bcast(0, &mut data).wait().unwrap();
        assert_eq!(data, [5]);
    })
    .unwrap();
}

#[test]
fn the_wait_of_one_rank_carries_on_the_messages_of_all() {
    // Rank 0 computes and never calls; the message from 1 to 0 is delivered into its buffer by the sender.
    newmad::run_ranks(2, |session| {
        if session.rank() == 0 {
            let receive = session.irecv(1, 3, vec![0; 4]).unwrap();
            session.send(1, 2, &[]).unwrap();
            while !receive.is_over() {
                marcel::yield_now();
            }
            assert_eq!(receive.wait().unwrap().0.len(), 4);
        } else {
            session.recv(0, 2, &mut []).unwrap();
            session.send(0, 3, &[1, 2, 3, 4]).unwrap();
        }
    })
    .unwrap();
}

#[test]
fn truncation_probes_and_synchronous_sends_work_between_ranks() {
    newmad::run_ranks(2, |session| {
        if session.rank() == 0 {
            session.send(1, 1, &[1; 100]).unwrap();
            session.send_with(1, 2, vec![2; 10], SendOptions::new().sync()).unwrap();
            session.send(1, 3, &[3; 3]).unwrap();
        } else {
            let error = session.recv(0, 1, &mut [0; 10]).unwrap_err();
            assert!(matches!(error, Error::Truncated { from: 0, message: 100, capacity: 10, .. }));
            session.recv(0, 2, &mut [0; 10]).unwrap();
            let found = session.mprobe(ANY, Tag::ANY).unwrap();
            assert_eq!((found.status().source, found.status().tag), (0, 3));
            found.recv(&mut [0; 3]).unwrap();
        }
    })
    .unwrap();
}

#[test]
fn a_message_goes_into_the_buffer_of_a_receive_that_is_there_unless_that_is_cancelled_first() {
    newmad::run_ranks(2, |session| {
        for round in 0..400u32 {
            let len = [10, 3000, 16_000, 200_000][round as usize % 4];
            let data = vec![round as u8; len];
            if session.rank() == 0 {
                session.recv(1, 1, &mut []).unwrap();
                session.send(1, 2, &data).unwrap();
                continue;
            }
            let receive = session.irecv(0, 2, vec![0; len]).unwrap();
            session.send(0, 1, &[]).unwrap();
            if round % 3 == 0 && receive.cancel() {
                let mut again = vec![0; len];
                session.recv(0, 2, &mut again).unwrap();
                assert!(again == data, "after a cancel, {len}");
            } else {
                assert!(receive.wait().unwrap().0 == data, "{len}");
            }
        }
    })
    .unwrap();
}

#[test]
fn ranks_that_wait_for_each_other_take_turns() {
    for ranks in [2, 7] {
        newmad::run_ranks(ranks, |session| {
            let (rank, size) = (session.rank(), session.size());
            let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
            let mut token = [0; 8];
            for round in 0..2000u64 {
                if rank == 0 {
                    session.send(right, 1, &round.to_ne_bytes()).unwrap();
                }
                session.recv(left, 1, &mut token).unwrap();
                assert_eq!(u64::from_ne_bytes(token), round);
                if rank != 0 {
                    session.send(right, 1, &token).unwrap();
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn a_rank_that_returns_early_holds_up_no_other() {
    newmad::run_ranks(4, |session| {
        if session.rank() < 2 {
            let peer = 1 - session.rank();
            for _ in 0..100 {
                let sent = session.isend(peer, 1, vec![0; 8]).unwrap();
                session.recv(peer, 1, &mut [0; 8]).unwrap();
                sent.wait().unwrap();
            }
        }
    })
    .unwrap();
}

#[test]
fn the_first_panic_comes_out() {
    let panic = std::panic::catch_unwind(|| {
        newmad::run_ranks(4, |session| {
            if session.rank() == 2 {
                panic!("rank 2 has had enough");
            }
            session.recv(2, 1, &mut []).unwrap();
        })
    });
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"rank 2 has had enough"));
}

/// Rank 0 panics while the others wait for it, or for each other: returns what became of each of the others. `ready`: how many
/// are about to wait.
fn panics(session: &Session, ready: &AtomicU32) -> Option<Result<(), Error>> {
    session.barrier().unwrap();
    let rank = session.rank();
    ready.fetch_add(1, Ordering::Relaxed);
    let wait = || match rank {
        1 => session.recv(0, 1, &mut []).map(drop),
        2 => session.recv(ANY, 1, &mut []).map(drop),
        3 => session.send_with(0, 2, vec![0; 100_000], SendOptions::new().sync()),
        4 => session.recv(5, 1, &mut []).map(drop),
        5 => session.mprobe(4, 1).map(drop),
        _ => session.world()?.barrier().wait(),
    };
    match rank {
        0 => {
            while ready.load(Ordering::Relaxed) < session.size() {
                marcel::yield_now();
            }
            marcel::sleep(std::time::Duration::from_millis(20));
            panic!("rank 0 has had enough")
        }
        _ => Some(wait().and_then(|()| session.send(0, 1, &[]))),
    }
}

#[test]
fn the_panic_of_one_rank_is_an_error_for_all_others_of_its_process() {
    let (errors, ready) = (std::sync::Mutex::new(Vec::new()), AtomicU32::new(0));
    let panic = std::panic::catch_unwind(|| {
        newmad::run_ranks(8, |session| {
            let error = panics(session, &ready).unwrap().unwrap_err();
            // Nothing works any more.
            let later = session.recv(ANY, 7, &mut []).unwrap_err();
            assert!(matches!(later, Error::PeerDied { rank: 0, cause: Cause::Panicked }));
            session.isend(1, 7, vec![0; 10]).unwrap().wait().unwrap_err();
            errors.lock().unwrap().push(error);
        })
    });
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"rank 0 has had enough"));
    let errors = errors.into_inner().unwrap();
    assert_eq!(errors.len(), 7);
    for error in errors {
        assert!(
            matches!(
                error,
                Error::PeerDied { rank: 0, cause: Cause::Panicked } | Error::Revoked { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_rank_that_has_returned_is_gone_for_the_others_once_its_messages_have_arrived() {
    let results = newmad::run_ranks(3, |session| {
        if session.rank() == 0 {
            for number in 0..2000u32 {
                // Still queued, some of them, when this rank closes.
                std::mem::forget(session.isend(1, 1, vec![number as u8; 4000]).unwrap());
            }
            return Ok(());
        }
        if session.rank() == 1 {
            let mut buffer = [0; 4000];
            for number in 0..2000u32 {
                session.recv(0, 1, &mut buffer)?;
                assert_eq!(buffer, [number as u8; 4000]);
            }
        }
        session.recv(0, 1, &mut []).map(drop)
    });
    let gone = |result: &Result<(), Error>| {
        matches!(result, Err(Error::PeerDied { rank: 0, cause: Cause::Left }))
    };
    let results = results.unwrap();
    assert!(gone(&results[1]) && gone(&results[2]), "{results:?}");
}

#[test]
fn groups_have_ranks_of_one_process_as_members() {
    newmad::run_ranks(6, |session| {
        let world = session.world().unwrap();
        for seed in 0..8 {
            collectives::all_operations(&world, 100, seed).unwrap();
        }
    })
    .unwrap();
}

#[test]
fn remote_calls_and_packs_go_between_ranks() {
    newmad::run_ranks(3, |session| {
        let (rank, size) = (session.rank(), session.size());
        let rpc = session.rpc().unwrap();
        rpc.service("rank").bytes(move |_, _| Ok::<_, String>(vec![rank as u8])).unwrap();
        session.barrier().unwrap();
        for peer in (0..size).filter(|&peer| peer != rank) {
            assert_eq!(rpc.call_bytes(peer, "rank", b"").unwrap().wait().unwrap(), [peer as u8]);
        }
        session.barrier().unwrap();
    })
    .unwrap();
}

#[derive(Clone, Debug)]
struct Sent {
    from: u32,
    to: u32,
    tag: u64,
    len: usize,
    sync: bool,
}

fn messages(ranks: u32) -> impl Strategy<Value = Vec<Sent>> {
    let len = prop_oneof![4 => 0usize..200, 2 => 1000usize..20_000, 1 => 20_000usize..400_000];
    let one = (0..ranks, 0..ranks, 0u64..3, len, prop::bool::weighted(0.1));
    let one = one.prop_map(|(from, to, tag, len, sync)| Sent { from, to, tag, len, sync });
    prop::collection::vec(one, 1..60)
}

/// Sends those of this rank in their order, and receives those for it: by sender and tag in order, nothing else, and
/// nothing is lost. `wild`: from any source; what comes of one sender with one tag is in order all the same.
fn exchange(session: &Session, all: &[Sent], wild: bool) -> Result<(), Error> {
    let rank = session.rank();
    let content = |number: usize, len: usize| -> Vec<u8> {
        (0..len).map(|at| (number * 31 + at * 7 + at / 256) as u8).collect()
    };
    let mut sends = Vec::new();
    for (number, sent) in all.iter().enumerate().filter(|(_, sent)| sent.from == rank) {
        let mut options = SendOptions::new();
        if sent.sync {
            options = options.sync();
        }
        let data = content(number, sent.len);
        sends.push(session.isend_with(sent.to, sent.tag, data, options)?);
    }
    let mut expected: Vec<(usize, &Sent)> =
        all.iter().enumerate().filter(|(_, sent)| sent.to == rank).collect();
    while let Some(&(_, next)) = expected.first() {
        let mut buffer = vec![0; 400_000];
        let from = if wild { ANY } else { next.from.into() };
        let tag = if wild { Tag::ANY } else { next.tag.into() };
        let status = session.recv(from, tag, &mut buffer)?;
        let at = expected
            .iter()
            .position(|(_, sent)| sent.from == status.source && sent.tag == status.tag)
            .expect("a message that was not sent to this rank");
        let (number, sent) = expected.remove(at);
        assert_eq!(buffer[..status.len], content(number, sent.len));
    }
    for send in sends {
        send.wait()?;
    }
    session.barrier()?;
    assert!(session.iprobe(ANY, Tag::ANY)?.is_none(), "more came than was sent");
    // No rank begins the next exchange before all have looked.
    session.barrier()
}

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let own = std::env::var("PMI_RANK").unwrap().parse::<u32>().unwrap() % 3 + 1;
    let run = match scenario.as_str() {
        "exchange" => |session: &Session| {
            let mut runner = proptest::test_runner::TestRunner::deterministic();
            for wild in [false, true].into_iter().cycle().take(12) {
                let all = messages(session.size()).new_tree(&mut runner).unwrap().current();
                exchange(session, &all, wild)?;
            }
            Ok(())
        },
        "collectives" => |session: &Session| {
            let world = session.world()?;
            for seed in 0..6 {
                collectives::all_operations(&world, 50, seed)?;
            }
            // Some of each process.
            let odd: Vec<u32> = (1..session.size()).step_by(2).collect();
            if session.rank() % 2 == 1 {
                let group = session.group(&odd)?;
                for seed in 0..6 {
                    collectives::all_operations(&group, 20, seed)?;
                }
            }
            session.barrier()
        },
        "pairs" => |session: &Session| pairs(session),
        "death" => |session: &Session| death(session),
        "leave" => |session: &Session| leave(session, false),
        "leave late" => |session: &Session| leave(session, true),
        "leave one by one" => |session: &Session| leave_one_by_one(session),
        "function" | "functions" => |session: &Session| functions(session),
        "teams" => |session: &Session| death_in_a_team(session),
        "calls" => |session: &Session| calls_after_a_death(session),
        "survivors" => |session: &Session| group_after_a_death(session),
        "first" => |session: &Session| first_to_go(session),
        "gather" => |session: &Session| left_before_a_gather(session),
        "panic" => |session: &Session| {
            // The second process's first rank.
            session.barrier()?;
            if session.rank() == 2 {
                marcel::sleep(std::time::Duration::from_millis(20));
                panic!("rank 2 has had enough");
            }
            let Err(Error::PeerDied { rank, cause }) = session.recv(2, 1, &mut []) else {
                panic!("a message of a rank that panicked")
            };
            assert_eq!(rank, 2);
            let local = session.process_ranks().contains(&2);
            assert_eq!(cause, if local { Cause::Panicked } else { Cause::Left });
            println!("rank {} got the error", session.rank());
            Ok(())
        },
        other => panic!("unknown scenario {other}"),
    };
    let ranks = match scenario.as_str() {
        "death" => 8,
        "teams" => 4,
        "calls" | "survivors" | "pairs" | "panic" | "leave" | "leave late" | "leave one by one"
        | "first" | "gather" | "functions" => 2,
        "function" => 1,
        _ => own,
    };
    let results = newmad::run_ranks(ranks, run);
    for result in results.unwrap_or_else(|error| panic!("{error}")) {
        result.unwrap_or_else(|error| panic!("{error}"));
    }
    if scenario.starts_with("function") {
        heard(&ENDS);
    }
}

/// What functions of the ranks of this process were told: the tag, and the message's length.
static ENDS: Mutex<Vec<(u32, Option<usize>)>> = Mutex::new(Vec::new());

/// The first rank returns before others send what its functions wait for. Each end waits for something that the other one never
/// sends, too.
fn functions(session: &Session) -> Result<(), Error> {
    let (rank, last) = (session.rank(), session.size() - 1);
    let on_done = |from: Origin, tag: u32| -> Result<(), Error> {
        let receive = session.irecv(from, u64::from(tag), vec![0; 300_000])?;
        receive.on_done(move |result| {
            let len = result.ok().map(|(data, status)| {
                assert!(data[..status.len].iter().all(|&byte| byte == tag as u8));
                status.len
            });
            ENDS.lock().unwrap().push((tag, len));
        });
        Ok(())
    };
    if rank == 0 {
        on_done(Origin::Rank(last), 1)?;
        on_done(Origin::Rank(last), 2)?;
        on_done(ANY, 3)?;
        on_done(Origin::Rank(last), 4)?;
        on_done(Origin::Rank(0), 5)?;
    } else {
        on_done(Origin::Rank(0), 6)?;
    }
    session.barrier()?;
    if rank == last {
        marcel::sleep(std::time::Duration::from_millis(50));
        for (tag, len) in [(1u32, 8), (2, 300_000), (3, 5000)] {
            session.send(0, tag.into(), &vec![tag as u8; len])?;
        }
        // Nobody receives it, or will.
        let refused = session.send_with(0, 9, vec![0; 100_000], SendOptions::new().sync());
        assert!(
            matches!(refused, Err(Error::PeerDied { rank: 0, cause: Cause::Left })),
            "{refused:?}"
        );
    }
    Ok(())
}

/// The functions are called when the session is closed, perhaps a moment later.
fn heard(ends: &Mutex<Vec<(u32, Option<usize>)>>) {
    let begun = std::time::Instant::now();
    let all = |ends: &[(u32, Option<usize>)]| match ends.iter().any(|&(tag, _)| tag < 6) {
        true => ends.iter().filter(|&&(tag, _)| tag < 6).count() == 5,
        false => !ends.is_empty(),
    };
    while !all(&ends.lock().unwrap()) && begun.elapsed() < LIMIT {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut ends = ends.lock().unwrap();
    ends.sort();
    let of_others = ends.iter().position(|&(tag, _)| tag == 6).unwrap_or(ends.len());
    let (first, others) = ends.split_at(of_others);
    let expected = [(1, Some(8)), (2, Some(300_000)), (3, Some(5000)), (4, None), (5, None)];
    assert!(first.is_empty() || first == expected, "{ends:?}");
    assert!(others.iter().all(|&(_, len)| len.is_none()), "{ends:?}");
    println!("heard of {} messages", first.len());
}

/// Groups of one rank of each process: several of them share a process's board.
fn pairs(session: &Session) -> Result<(), Error> {
    let rank = session.rank();
    for round in 0..5 {
        let group = session.group(&[rank % 2, rank % 2 + 2])?;
        for turn in 0..200u64 {
            let mut sum = [turn * 10 + u64::from(rank) + round];
            group.allreduce(&mut sum, &newmad::coll::Op::sum()).wait()?;
            assert_eq!(sum, [2 * (turn * 10 + u64::from(rank % 2) + round) + 2]);
        }
    }
    session.barrier()
}

/// Rank 0 returns, and its process goes on: all others get what it has sent, and then learn that it has left. `late`: a function
/// of it waits for a message.
fn leave(session: &Session, late: bool) -> Result<(), Error> {
    const MESSAGES: usize = 300;
    let rank = session.rank();
    session.barrier()?;
    if rank == 0 {
        for to in 1..session.size() {
            for number in 0..MESSAGES {
                // Still queued, some of them, when this rank closes; some are announced.
                let len = if number % 7 == 0 { 50_000 } else { 3000 };
                std::mem::forget(session.isend(to, 1, vec![number as u8; len])?);
            }
        }
        if late {
            session.irecv(ANY, 3, vec![0; 8])?.on_done(drop);
        }
        return Ok(());
    }
    let mut buffer = vec![0; 50_000];
    for number in 0..MESSAGES {
        let status = session.recv(0, 1, &mut buffer)?;
        assert!(buffer[..status.len].iter().all(|&byte| byte == number as u8), "{number}");
    }
    // All have everything that rank 0 has sent: what is timed is its end, and not the delivery of its messages.
    let others: Vec<u32> = (1..session.size()).collect();
    session.group(&others)?.barrier().wait()?;
    let begun = std::time::Instant::now();
    let left = |result: Result<(), Error>| {
        assert!(
            matches!(result, Err(Error::PeerDied { rank: 0, cause: Cause::Left })),
            "rank {rank}: {result:?}"
        );
    };
    if late {
        // Before anything is announced to it: it is quiet, and receives still.
        left(session.recv(0, 1, &mut buffer).map(drop));
    }
    let send = session.isend_with(0, 2, vec![0; 100_000], SendOptions::new().sync())?;
    left(session.recv(0, 1, &mut buffer).map(drop));
    left(send.wait().map(drop));
    // What is begun afterwards ends at once.
    left(session.recv(0, 1, &mut buffer).map(drop));
    left(session.mprobe(0, 1).map(drop));
    left(session.send_with(0, 2, vec![0; 100_000], SendOptions::new().sync()));
    println!("\nTOOK {} rank {rank}", begun.elapsed().as_micros());
    // Its process is still there, with the other rank.
    session.group(&others)?.barrier().wait()?;
    println!("rank {rank} got the error");
    Ok(())
}

/// The first rank returns before its peer hears from it, then its neighbour does, for whose function a message comes. Who
/// sends to the first one is told that it has left.
fn leave_one_by_one(session: &Session) -> Result<(), Error> {
    const MESSAGES: usize = 300;
    match session.rank() {
        0 => {
            for number in 0..MESSAGES {
                std::mem::forget(session.isend(2, 1, vec![number as u8; 3000])?);
            }
        }
        1 => {
            session.irecv(2, 2, vec![0; 8])?.on_done(|result| {
                assert_eq!(result.unwrap().1.len, 8);
                println!("heard of it");
            });
        }
        2 => {
            // Nobody looks meanwhile, and not all messages have room.
            std::thread::sleep(std::time::Duration::from_millis(100));
            let mut buffer = vec![0; 3000];
            for number in 0..MESSAGES {
                session.recv(0, 1, &mut buffer)?;
                assert!(buffer.iter().all(|&byte| byte == number as u8), "{number}");
            }
            let refused = session.send_with(0, 3, vec![0; 100_000], SendOptions::new().sync());
            assert!(
                matches!(refused, Err(Error::PeerDied { rank: 0, cause: Cause::Left })),
                "{refused:?}"
            );
            session.send(1, 2, &[0; 8])?;
        }
        _ => {}
    }
    Ok(())
}

/// The second of two processes dies while each rank of the first waits for one of its ranks.
fn death(session: &Session) -> Result<(), Error> {
    let rank = session.rank();
    session.barrier()?;
    if rank >= 8 {
        if rank == 8 {
            // All are past the barrier; some will have announced, and some wait for what never comes.
            for _ in 0..8 {
                session.recv(ANY, 1, &mut [])?;
            }
            die();
        }
        session.recv(ANY, 99, &mut [])?;
        return Ok(());
    }
    session.send(8, 1, &[])?;
    let (result, named) = match rank % 3 {
        0 => (session.recv(rank + 8, 2, &mut []).map(drop), Some(rank + 8)),
        1 => {
            let options = SendOptions::new().sync();
            (session.send_with(rank + 8, 3, vec![0; 100_000], options), Some(rank + 8))
        }
        _ => (session.recv(ANY, 4, &mut []).map(drop), None),
    };
    println!("\nNOTICED {} rank {rank}", common::micros());
    let Err(Error::PeerDied { rank: died, cause: Cause::Vanished }) = result else {
        panic!("{result:?}")
    };
    assert!(named.is_none_or(|named| named == died) && (8..16).contains(&died), "{died}");
    println!("rank {rank} got the error");
    Ok(())
}

/// The second of two processes of two ranks dies, and the ranks of the first hear of it.
fn second_dies(session: &Session) -> Result<(), Error> {
    session.barrier()?;
    match session.rank() {
        2 => die(),
        3 => drop(session.recv(ANY, 99, &mut [])),
        _ => {
            let died = session.recv(2, 1, &mut []);
            assert!(matches!(died, Err(Error::PeerDied { rank: 2, .. })), "{died:?}");
        }
    }
    Ok(())
}

/// The second of two processes dies, and a rank of the first goes on to serve its neighbour.
fn calls_after_a_death(session: &Session) -> Result<(), Error> {
    let (rank, rpc) = (session.rank(), session.rpc()?);
    if rank == 0 {
        rpc.serve("double", |_, number: u64| 2 * number).expect("a service");
    }
    second_dies(session)?;
    if rank == 1 {
        // Each of the lanes hears of the death by a receive of its own.
        for number in 0..20u64 {
            let call = rpc.call::<_, u64>(0, "double", &number).expect("a call");
            assert_eq!(call.wait().expect("an answer"), 2 * number);
        }
        println!("rank 1 got its answers");
    }
    // Rank 0 serves until then.
    let neighbour = 1 - rank;
    session.send(neighbour, 5, &[])?;
    session.recv(neighbour, 5, &mut []).map(drop)
}

/// The second of two processes dies, and the ranks of the first have a group of their own, of which one gives up.
fn group_after_a_death(session: &Session) -> Result<(), Error> {
    let rank = session.rank();
    second_dies(session)?;
    let group = session.group(&[0, 1])?;
    if rank == 0 {
        let result = group.barrier().wait();
        assert!(matches!(result, Err(Error::Revoked { by: Some(1), .. })), "{result:?}");
        println!("rank 0 was told");
        session.send(1, 5, &[])
    } else {
        marcel::sleep(std::time::Duration::from_millis(200));
        group.give_up(false);
        session.recv(0, 5, &mut []).map(drop)
    }
}

/// A member of the second of two processes dies, with its process, while all others wait for it in collectives.
fn death_in_a_team(session: &Session) -> Result<(), Error> {
    let (world, rank) = (session.world()?, session.rank());
    for round in 0..20 {
        world.barrier().wait()?;
        let mut sum = [u64::from(rank) + round];
        world.allreduce(&mut sum, &newmad::coll::Op::sum()).wait()?;
        assert_eq!(sum, [28 + 8 * round]);
    }
    if rank == 5 {
        die();
    }
    let result = world.barrier().wait();
    println!("\nNOTICED {} rank {rank}", common::micros());
    match result {
        Err(Error::PeerDied { cause: Cause::Vanished, .. } | Error::Revoked { gone: true, .. }) => {
        }
        other => panic!("rank {rank}: {other:?}"),
    }
    assert!(world.barrier().wait().is_err());
    println!("rank {rank} got the error");
    Ok(())
}

/// All of a process have a broadcast, and one of them returns before another process, which comes late, has it. With more
/// than two processes, a third one may get it from the late one.
fn first_to_go(session: &Session) -> Result<(), Error> {
    const LONG: usize = 1 << 20;
    const SHORT: usize = 4 << 10;
    let (world, rank) = (session.world()?, session.rank());
    for _ in 0..20 {
        world.barrier().wait()?;
    }
    let root = std::env::var("ROOT").expect("which rank").parse().expect("a rank");
    let many = session.size() > 4;
    let mut data = vec![u8::from(rank == root); if many { SHORT } else { LONG }];
    if rank / 2 == if many { 2 } else { 1 } {
        marcel::sleep(std::time::Duration::from_millis(100));
    }
    world.bcast(root, &mut data).wait()?;
    assert!(data.iter().all(|&byte| byte == 1));
    println!("rank {rank} has it");
    Ok(())
}

#[test]
fn a_member_that_has_its_broadcast_may_leave_before_other_processes_have_it() {
    for root in ["0", "1"] {
        let ended = common::launch("first", 2, &[("ROOT", root)]).succeed(LIMIT);
        let count: usize = ended.iter().map(|ended| ended.text.matches("has it").count()).sum();
        assert_eq!(count, 4, "{ended:#?}");
    }
    // The leaders of the first processes give it to others at once, and their members leave meanwhile.
    let settings = [("ROOT", "0"), ("NMAD_DRIVER", "tcp")];
    let ended = common::launch("first", 4, &settings).succeed(LIMIT);
    let count: usize = ended.iter().map(|ended| ended.text.matches("has it").count()).sum();
    assert_eq!(count, 8, "{ended:#?}");
}

/// A member has left, and the root of a gather fails for that, at which the others only send: the next collective fails for all.
fn left_before_a_gather(session: &Session) -> Result<(), Error> {
    let (world, rank) = (session.world()?, session.rank());
    for _ in 0..20 {
        world.barrier().wait()?;
    }
    if rank == 3 {
        return Ok(());
    }
    let mut all = [0; 4];
    let gathered = world.gather(2, &[rank as u8], &mut all).wait().map(drop);
    if rank == 2 {
        assert!(gathered.is_err());
        session.recv(0, 9, &mut [])?; // it stays
    } else {
        assert!(world.bcast(2, &mut [0u8; 8]).wait().is_err());
        if rank == 0 {
            session.send(2, 9, &[])?;
        }
    }
    println!("rank {rank} is done");
    Ok(())
}

#[test]
fn the_leaders_hear_of_a_group_that_is_over_for_one_of_them() {
    let ended = common::launch("gather", 2, &[]).succeed(LIMIT);
    let count: usize = ended.iter().map(|ended| ended.text.matches("is done").count()).sum();
    assert_eq!(count, 3, "{ended:#?}");
}

#[test]
fn every_member_hears_of_a_death_in_another_team() {
    once_soon(|| {
        let ended = common::launch("teams", 2, &[]).end(LIMIT);
        assert_eq!(ended[0].code, Some(0), "{ended:#?}");
        assert_eq!(ended[0].text.matches("got the error").count(), 4, "{ended:#?}");
        noticed(&ended, 4)
    });
}

#[test]
fn processes_of_several_ranks_exchange_messages() {
    for driver in ["shm", "tcp", "shm+tcp"] {
        common::launch("exchange", 3, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
    common::launch("exchange", 3, &[("NMAD_STRATEGY", "aggreg")]).succeed(LIMIT);
    common::launch("exchange", 2, &[("NMAD_LOCK", "fine"), ("NMAD_CMA", "0")]).succeed(LIMIT);
    common::launch("exchange", 2, &[("NMAD_DRIVER", "tcp"), ("NMAD_CHECKSUM", "1")]).succeed(LIMIT);
}

#[test]
fn processes_of_several_ranks_do_collectives() {
    for driver in ["shm", "tcp"] {
        common::launch("collectives", 3, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
}

#[test]
fn groups_of_ranks_that_share_processes_do_not_share_places() {
    common::launch("pairs", 2, &[]).succeed(LIMIT);
}

#[test]
fn every_rank_hears_of_a_panic_in_another_process() {
    let ended = common::launch("panic", 3, &[]).end(LIMIT);
    for (process, ranks) in [2, 1, 2].into_iter().enumerate() {
        let text = &ended[process].text;
        assert_eq!(text.matches("got the error").count(), ranks, "{ended:#?}");
        assert_eq!(ended[process].code == Some(0), process != 1, "{ended:#?}");
    }
}

#[test]
fn ranks_of_other_processes_hear_that_a_rank_has_returned() {
    for (driver, more) in
        [("shm", ("NMAD_CMA", "1")), ("shm", ("NMAD_LOCK", "fine")), ("tcp", ("NMAD_CMA", "0"))]
    {
        let late = common::launch("leave late", 3, &[("NMAD_DRIVER", driver), more]).end(LIMIT);
        let told = late.iter().map(|end| end.text.matches("got the error").count());
        assert_eq!(told.sum::<usize>(), 5, "{driver}: {late:#?}");
        once_soon(|| {
            let ended = common::launch("leave", 3, &[("NMAD_DRIVER", driver), more]).end(LIMIT);
            let mut took = Vec::new();
            for (process, ranks) in [1, 2, 2].into_iter().enumerate() {
                let text = &ended[process].text;
                assert_eq!(text.matches("got the error").count(), ranks, "{driver}: {ended:#?}");
                assert_eq!(ended[process].code, Some(0), "{driver}: {ended:#?}");
                took.extend(common::told(text, "TOOK").map(|told| told.0));
            }
            assert_eq!(took.len(), 5, "{driver}: {ended:#?}");
            std::time::Duration::from_micros(took.into_iter().max().unwrap_or_default())
        });
    }
}

#[test]
fn a_rank_that_ends_gets_what_a_function_of_it_waits_for() {
    for (scenario, processes) in [("function", 2), ("functions", 1), ("functions", 2)] {
        for (driver, cma) in [("shm", "1"), ("shm", "0"), ("tcp", "1"), ("shm+tcp", "1")] {
            let env = [("NMAD_DRIVER", driver), ("NMAD_CMA", cma)];
            let ended = common::launch(scenario, processes, &env).end(LIMIT);
            assert!(ended.iter().all(|end| end.code == Some(0)), "{env:?}: {ended:#?}");
            assert!(ended[0].text.contains("heard of 5 messages"), "{env:?}: {ended:#?}");
        }
    }
}

#[test]
fn who_sends_to_a_rank_that_has_left_is_told_while_its_process_waits() {
    for (driver, cma) in [("shm", "1"), ("shm", "0"), ("tcp", "1"), ("shm+tcp", "1")] {
        let env = [("NMAD_DRIVER", driver), ("NMAD_CMA", cma)];
        let ended = common::launch("leave one by one", 2, &env).end(LIMIT);
        assert!(ended.iter().all(|end| end.code == Some(0)), "{env:?}: {ended:#?}");
        assert!(ended[0].text.contains("heard of it"), "{env:?}: {ended:#?}");
    }
}

#[test]
fn every_rank_hears_of_the_death_of_another_process() {
    once_soon(|| {
        let ended = common::launch("death", 2, &[]).end(LIMIT);
        assert_eq!(ended[0].code, Some(0), "{ended:#?}");
        assert_eq!(ended[0].text.matches("got the error").count(), 8, "{ended:#?}");
        noticed(&ended, 8)
    });
}

#[test]
fn ranks_of_a_process_call_each_other_when_all_others_are_dead() {
    let ended = common::launch("calls", 2, &[]).end(LIMIT);
    assert_eq!(ended[0].code, Some(0), "{ended:#?}");
    assert!(ended[0].text.contains("rank 1 got its answers"), "{ended:#?}");
}

#[test]
fn ranks_of_a_process_hear_of_a_groups_end_when_all_others_are_dead() {
    let ended = common::launch("survivors", 2, &[]).end(LIMIT);
    assert_eq!(ended[0].code, Some(0), "{ended:#?}");
    assert!(ended[0].text.contains("rank 0 was told"), "{ended:#?}");
}

/// A rank takes hold of the announcement of a long message, and leaves; its sender is told, and has its buffer back.
#[test]
fn a_message_that_is_held_when_its_rank_leaves_is_not_received_any_more() {
    let held = std::sync::Mutex::new(None);
    let results = newmad::run_ranks(2, |session| {
        if session.rank() == 1 {
            *held.lock().unwrap() = Some(session.mprobe(0, 1)?);
            return Ok(());
        }
        let send = session.isend(1, 1, vec![7; 1 << 20])?;
        let left = |result: Result<(), Error>| {
            assert!(
                matches!(result, Err(Error::PeerDied { cause: Cause::Left, .. })),
                "{result:?}"
            );
        };
        left(send.wait().map(drop));
        let message = held.lock().unwrap().take().expect("the other rank has left it");
        left(message.recv(&mut vec![0; 1 << 20]).map(drop));
        Ok::<(), Error>(())
    });
    results.unwrap().into_iter().for_each(|result| result.unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_lost_and_order_is_kept_between_ranks_of_one_process(
        all in messages(5), wild: bool,
    ) {
        let results = newmad::run_ranks(5, |session| exchange(session, &all, wild)).unwrap();
        for result in results {
            result.unwrap();
        }
    }
}
