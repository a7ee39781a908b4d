//! The kinds of sends and receives, between the ranks of one process and between real ones.

mod common;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use common::{launch, message};
use newmad::{ANY, Cause, Error, Message, Session, Strided, Tag, Waited};
use pioman::Manager;

const LIMIT: Duration = Duration::from_secs(120);

fn world(size: u32) -> Vec<Session> {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    Session::local_world(size, &manager).unwrap()
}

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "synchronous" => synchronous,
        "probes" => probes,
        "persistent" => persistent,
        "several" => several,
        "scattered" => scattered,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

/// Every driver, and shared memory without cross-memory attach.
fn everywhere(scenario: &str, size: usize) {
    everywhere_with(scenario, size, &[]);
}

/// The same, with more in the environment.
fn everywhere_with(scenario: &str, size: usize, more: &[(&str, &str)]) {
    for env in
        common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp"), ("NMAD_CMA", "0")])
    {
        launch(scenario, size, &[&[env], more].concat()).succeed(LIMIT);
    }
}

const SIZES: [usize; 7] = [0, 1, 100, 9_000, 16_385, 40_000, 1_000_000];

/// A synchronous send is not over before its message is received: what its receiver does before comes first.
fn synchronous(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    for (number, size) in SIZES.into_iter().enumerate() {
        let data = message(number as u64, size);
        if session.rank() == 0 {
            let pending =
                session.isend_with(peer, 1, data.clone(), newmad::SendOptions::new().sync())?;
            // The peer receives only after this.
            for _ in 0..1000 {
                assert!(!pending.test(), "over before it was received");
            }
            session.send(peer, 2, b"now")?;
            pending.wait()?;
            session.send_with(peer, 1, &data, newmad::SendOptions::new().sync())?;
            session.scope(|scope| {
                scope.isend_with(peer, 1, &data, newmad::SendOptions::new().sync())?.wait()
            })?;
        } else {
            session.recv(peer, 2, &mut [0; 3])?;
            let mut buffer = vec![0; size];
            for _ in 0..3 {
                assert_eq!(session.recv(ANY, 1, &mut buffer)?.len, size);
                assert!(buffer == data);
            }
        }
    }
    Ok(())
}

#[test]
fn a_synchronous_send_ends_when_it_is_received() {
    everywhere("synchronous", 2);
}

#[test]
fn a_synchronous_send_that_nobody_receives_ends_with_its_receiver() {
    let mut sessions = world(2);
    let (last, first) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let pending = first.isend_with(1, 1, Vec::new(), newmad::SendOptions::new().sync()).unwrap();
    drop(last);
    let gone = pending.wait();
    assert!(matches!(gone, Err(Error::PeerDied { rank: 1, cause: Cause::Left })), "{gone:?}");
}

/// Rank 1 learns of each message by a probe, and takes them by halves of the tag, in the order in which they were sent:
/// they have different tags, so that is promised only where the session keeps all order.
fn probes(session: &Session) -> Result<(), Error> {
    const EACH: u64 = 200;
    let peer = 1 - session.rank();
    let size = |number: u64| SIZES[number as usize % SIZES.len()];
    if session.rank() == 0 {
        let mut sends = Vec::new();
        for number in 0..EACH {
            sends.push(session.isend(
                peer,
                (number % 3) << 32 | number,
                message(number, size(number)),
            )?);
        }
        for send in sends {
            send.wait()?;
        }
        return session.send_with(peer, 1 << 40, &[], newmad::SendOptions::new().sync());
    }
    let upper = |value: u64| Tag { value: value << 32, mask: 0xffff_ffff << 32 };
    for number in (0..EACH).step_by(3) {
        let seen = session.probe(peer, upper(0))?;
        assert_eq!((seen.source, seen.tag, seen.len), (peer, number, size(number)));
        let mut buffer = vec![0; seen.len];
        assert_eq!(session.recv(ANY, upper(0), &mut buffer)?, seen);
        assert!(buffer == message(number, seen.len));
    }
    // Two threads share the second third: each message is received once, by the thread that matched it.
    let share = |_| -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        loop {
            // In this order: when the last message is there, all of them are.
            let last = session.iprobe(peer, 1 << 40)?.is_some();
            let Some(message) = session.improbe(ANY, upper(1))? else {
                if last {
                    return Ok(numbers);
                }
                std::thread::yield_now();
                continue;
            };
            let seen = message.status();
            let mut buffer = vec![0; seen.len];
            assert_eq!(message.recv(&mut buffer)?, seen);
            let number = seen.tag & 0xffff_ffff;
            assert!(buffer == common::message(number, seen.len));
            numbers.push(number);
        }
    };
    // Those of the last third are received in the meantime, for the sender waits for them.
    let all = std::thread::scope(|threads| {
        let halves = [0, 1].map(|half| threads.spawn(move || share(half)));
        for number in (2..EACH).step_by(3) {
            let message = session.mprobe(ANY, upper(2))?;
            let seen = message.status();
            assert_eq!((seen.tag & 0xffff_ffff, seen.len), (number, size(number)));
            let (buffer, status) = message.irecv(vec![0; seen.len]).wait()?;
            assert_eq!(status, seen);
            assert!(buffer == common::message(number, seen.len));
        }
        let mut all: Vec<u64> = Vec::new();
        for half in halves {
            all.extend(half.join().unwrap()?);
        }
        Ok::<_, Error>(all)
    })?;
    let mut all = all;
    all.sort_unstable();
    assert!(all.into_iter().eq((1..EACH).step_by(3)));
    session.recv(ANY, 1 << 40, &mut []).map(drop)
}

#[test]
fn probes_find_messages_and_each_is_received_once() {
    everywhere_with("probes", 2, &[("NMAD_REORDER", "0")]);
}

#[test]
fn a_held_message_is_for_its_holder_and_goes_back_when_dropped() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    for size in SIZES {
        let data = message(1, size);
        let mut sends: Vec<_> =
            (0..3).map(|number| last.isend(0, number, data.clone()).unwrap()).collect();
        // The first is held; the second is what a receive of any gets; dropped, the first is the first again.
        let held = first.mprobe(1, Tag::ANY).unwrap();
        assert_eq!(held.status().tag, 0);
        let mut buffer = vec![0; size];
        assert_eq!(first.recv(ANY, Tag::ANY, &mut buffer).unwrap().tag, 1);
        assert!(first.iprobe(1, 0).unwrap().is_none());
        drop(held);
        assert_eq!(first.probe(1, Tag::ANY).unwrap().tag, 0);
        // Held and dropped while a receive is posted for it: that one gets it.
        let held = first.mprobe(ANY, 0).unwrap();
        let receive = first.irecv(1, 0, vec![0; size]).unwrap();
        assert!(!receive.test());
        drop(held);
        assert_eq!(receive.wait().unwrap().0, data);
        // By another thread.
        let held = first.mprobe(1, Tag::ANY).unwrap();
        std::thread::scope(|threads| {
            let status = threads.spawn(|| held.recv(&mut buffer)).join().unwrap().unwrap();
            assert_eq!((status.tag, status.len), (2, size));
        });
        assert!(buffer == data);
        for send in sends.drain(..) {
            send.wait().unwrap();
        }
        assert!(first.iprobe(ANY, Tag::ANY).unwrap().is_none());
    }
    // Too short a buffer: as for every receive.
    last.send(0, 9, b"too long").unwrap();
    let short = first.mprobe(1, 9).unwrap().recv(&mut [0; 3]);
    assert!(
        matches!(short, Err(Error::Truncated { message: 8, capacity: 3, tag: 9, .. })),
        "{short:?}"
    );
}

#[test]
fn probes_wait_for_what_comes_and_end_with_their_peer() {
    let mut sessions = world(2);
    let (last, first) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    std::thread::scope(|threads| {
        let waiting: Vec<_> =
            (0..2).map(|_| threads.spawn(|| first.probe(1, Tag { value: 4, mask: 4 }))).collect();
        let taking = threads.spawn(|| first.mprobe(ANY, 4).map(|held: Message| held.status()));
        std::thread::sleep(Duration::from_millis(20));
        last.send(0, 3, b"not this").unwrap();
        while !taking.is_finished() {
            last.send(0, 4, b"this").unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(taking.join().unwrap().unwrap().len, 4);
        last.send(0, 5, b"and this").unwrap();
        for probe in waiting {
            assert_eq!(probe.join().unwrap().unwrap().source, 1);
        }
    });
    // A long message is announced, held, and its sender goes: it cannot be received any more.
    let announced = last.isend(0, 6, vec![1; 1_000_000]).unwrap();
    let held = first.mprobe(1, 6).unwrap();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| first.probe(1, 7));
        std::thread::sleep(Duration::from_millis(20));
        last.close().unwrap();
        drop(announced);
        drop(last);
        let gone = waiting.join().unwrap();
        assert!(matches!(gone, Err(Error::PeerDied { rank: 1, cause: Cause::Left })), "{gone:?}");
    });
    let gone = held.recv(&mut vec![0; 1_000_000]);
    assert!(matches!(gone, Err(Error::PeerDied { rank: 1, .. })), "{gone:?}");
    let gone = first.iprobe(1, 7);
    assert!(matches!(gone, Err(Error::PeerDied { rank: 1, .. })), "{gone:?}");
    assert!(matches!(first.probe(2, 7), Err(Error::BadRank { rank: 2, size: 2 })));
    assert!(matches!(first.probe(1, 1 << 63), Err(Error::BadTag { .. })));
    // A message outlives the close, and is nothing then.
    first.send(0, 8, b"to oneself").unwrap();
    let (held, forgotten) = (first.mprobe(0, 8).unwrap(), first.improbe(0, 8).unwrap());
    assert!(forgotten.is_none());
    first.close().unwrap();
    assert!(matches!(held.recv(&mut [0; 16]), Err(Error::Closed)));
    assert!(matches!(first.iprobe(0, 8), Err(Error::Closed)));
}

#[test]
fn a_receive_of_every_tag_takes_none_of_the_librarys() {
    let sessions = world(2);
    std::thread::scope(|threads| {
        for session in &sessions {
            threads.spawn(move || {
                let any = session.irecv(ANY, Tag::ANY, vec![0; 8]).unwrap();
                for _ in 0..20 {
                    session.barrier().unwrap();
                }
                session.send(1 - session.rank(), 3, b"mine").unwrap();
                assert_eq!(any.wait().unwrap().1.tag, 3);
                assert!(matches!(session.irecv(0, 1 << 63, Vec::new()), Err(Error::BadTag { .. })));
            });
        }
    });
}

#[test]
fn a_receive_is_cancelled_or_matched_and_never_both() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    let (mut cancelled, mut matched) = (0, 0);
    for round in 0..1000u64 {
        let sent = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                sent.wait();
                last.send(0, round, &round.to_le_bytes()).unwrap();
            });
            let receive = first.irecv(1, round, vec![0; 8]).unwrap();
            sent.wait();
            for _ in 0..round % 100 {
                first.manager().poll(pioman::Point::Library);
            }
            if receive.cancel() {
                assert_eq!(receive.into_buffer().unwrap(), [0; 8]);
                cancelled += 1;
                let mut buffer = [0; 8];
                first.recv(1, round, &mut buffer).unwrap();
                assert_eq!(buffer, round.to_le_bytes());
            } else {
                matched += 1;
                assert_eq!(receive.wait().unwrap().0, round.to_le_bytes());
            }
        });
        assert!(first.iprobe(1, Tag::ANY).unwrap().is_none());
    }
    assert_eq!(cancelled + matched, 1000);
    // A long one that is under way goes on.
    let long = vec![7; 3_000_000];
    let receive = first.irecv(1, 1, vec![0; 3_000_000]).unwrap();
    let send = last.isend(0, 1, long.clone()).unwrap();
    while first.manager().poll(pioman::Point::Library) {}
    if receive.cancel() {
        assert!(first.recv(1, 1, &mut vec![0; 3_000_000]).is_ok());
    } else {
        assert!(receive.wait().unwrap().0 == long);
    }
    send.wait().unwrap();
    // In a scope; and what has ended is not cancelled.
    let mut buffer = [0; 8];
    first
        .scope(|scope| {
            let receive = scope.irecv(1, 2, &mut buffer)?;
            assert!(receive.cancel() && !receive.cancel());
            let send = scope.isend(1, 2, &[])?;
            assert!(!send.cancel());
            Ok(())
        })
        .unwrap();
}

fn persistent(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    for (number, size) in SIZES.into_iter().enumerate() {
        let tag = number as u64;
        let mut send = session.send_init(peer, tag, vec![0; size], newmad::SendOptions::new())?;
        let mut sure =
            session.send_init(peer, tag, vec![9; size], newmad::SendOptions::new().sync())?;
        let mut receive = session.recv_init(
            ANY,
            Tag { value: tag, mask: 0xff },
            vec![0; size],
            newmad::RecvOptions::new(),
        )?;
        assert!(matches!(receive.wait_idle(), Err(Error::NotStarted)));
        assert!(receive.test());
        for round in 0..20u64 {
            receive.start(session)?;
            assert!(matches!(receive.start(session), Err(Error::Active)));
            assert!(matches!(receive.buffer(), Err(Error::Active)));
            send.buffer()?.copy_from_slice(&message(round, size));
            send.start(session)?;
            assert_eq!(receive.wait_idle()?.len, size);
            assert!(*receive.buffer()? == message(round, size));
            send.wait_idle()?;
            // The next in the same places.
            sure.start(session)?;
            receive.start(session)?;
            while !receive.test() {
                std::thread::yield_now();
            }
            receive.wait_idle()?;
            sure.wait_idle()?;
            assert!(receive.buffer()?.iter().all(|&byte| byte == 9));
        }
        // Dropped and forgotten while it is active.
        receive.start(session)?;
        if number % 2 == 0 {
            drop(receive)
        } else {
            std::mem::forget(receive)
        }
        assert_eq!(send.into_buffer().unwrap().len(), size);
        session.barrier()?;
    }
    let (mut out, mut inward) = (vec![0; 50_000], vec![0; 50_000]);
    session.scope(|scope| {
        let mut send = scope.send_init(peer, 100, &mut out, newmad::SendOptions::new())?;
        let mut receive = scope.recv_init(peer, 100, &mut inward, newmad::RecvOptions::new())?;
        for round in 0..20 {
            receive.start(session)?;
            assert!(matches!(receive.start(session), Err(Error::Active)));
            send.buffer()?.fill(round);
            send.start(session)?;
            assert_eq!(receive.wait_idle()?.len, 50_000);
            assert!(receive.buffer()?.iter().all(|&byte| byte == round));
            send.wait_idle()?;
        }
        // The scope waits for requests without a handle, too.
        receive.start(session)?;
        send.start(session)
    })?;
    assert!(inward == out);
    Ok(())
}

#[test]
fn persistent_requests_are_started_again_and_again() {
    everywhere("persistent", 2);
}

/// Waits for any, some, and all of receives whose messages come in an order that they do not know.
fn several(session: &Session) -> Result<(), Error> {
    const EACH: usize = 40;
    let peer = 1 - session.rank();
    for round in 0..10usize {
        let mut sends = Vec::new();
        let mut receives = Vec::new();
        for tag in 0..EACH {
            receives.push(session.irecv(peer, tag as u64, vec![0; 20_000])?);
        }
        for index in 0..EACH {
            let tag = (index * 7 + round) % EACH;
            sends.push(session.isend(peer, tag as u64, message(tag as u64, tag * 500))?);
        }
        let mut left: Vec<u64> = (0..EACH as u64).collect();
        while !receives.is_empty() {
            let over = match receives.len() % 3 {
                0 => newmad::wait_some(&mut receives),
                1 => newmad::wait_any(&mut receives).into_iter().collect(),
                _ => newmad::test_some(&mut receives),
            };
            for index in over.into_iter().rev() {
                let (buffer, status) = receives.remove(index).wait()?;
                let tag = left.remove(index);
                assert_eq!((status.tag, status.len), (tag, tag as usize * 500));
                assert!(buffer[..status.len] == message(tag, status.len));
            }
        }
        newmad::wait_all(&mut sends);
        for send in sends {
            assert!(send.test());
            send.wait()?;
        }
        session.barrier()?;
    }
    Ok(())
}

#[test]
fn any_some_and_all_of_several_requests_are_waited_for() {
    everywhere("several", 2);
}

#[test]
fn requests_of_several_kinds_are_waited_for_together() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    let mut never = first.irecv(1, 1, vec![0; 8]).unwrap();
    let mut send = first.isend_with(1, 2, "sent", newmad::SendOptions::new().sync()).unwrap();
    let mut persistent = first.recv_init(1, 3, vec![0; 8], newmad::RecvOptions::new()).unwrap();
    persistent.start(first).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            last.recv(0, 2, &mut [0; 8]).unwrap();
            last.send(0, 3, b"came").unwrap();
        });
        let mut requests: [&mut dyn Waited; 3] = [&mut never, &mut send, &mut persistent];
        assert_eq!(newmad::wait_any(&mut requests), Some(1));
        assert_eq!(newmad::wait_any(&mut requests[2..]), Some(0));
    });
    assert_eq!(newmad::wait_any::<newmad::Request>(&mut []), None);
    assert_eq!(persistent.wait().unwrap().1.len, 4);
    assert!(never.cancel());
    // What ends with the session ends the wait.
    let mut receives: Vec<_> =
        (0..20).map(|tag| first.irecv(1, tag, vec![0; 8]).unwrap()).collect();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            first.close().unwrap();
        });
        assert!(newmad::wait_any(&mut receives).is_some());
        newmad::wait_all(&mut receives);
    });
    for receive in receives {
        assert!(matches!(receive.wait(), Err(Error::Closed)));
    }
}

/// Every layout on one side with every one on the other.
fn scattered(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    let sizes = [0, 1, 24, 1000, 8_208, 16_000, 30_000, 70_000, 1_000_000];
    for (number, size) in sizes.into_iter().enumerate() {
        let data = message(number as u64, size);
        for block in [1, 7, 100, 5_000, 300_000] {
            // The last block is whole: the message is a little longer.
            let count = size.div_ceil(block);
            if count > 20_000 {
                continue;
            }
            let layout = Strided { block, stride: block + 3, count };
            let longer = message(number as u64, count * block);
            let spread = |data: &[u8]| {
                let mut memory = vec![0xee; count * (block + 3)];
                for (at, block_of) in data.chunks(block).enumerate() {
                    memory[at * (block + 3)..][..block_of.len()].copy_from_slice(block_of);
                }
                memory
            };
            let strided = spread(&longer);
            let slices: Vec<IoSlice<'_>> = data.chunks(block).map(IoSlice::new).collect();
            for side in 0..2 {
                if side == session.rank() {
                    session.send(peer, 0, &data)?;
                    session.send(peer, 0, &longer)?;
                    session.send_with(peer, 1, &slices[..], newmad::SendOptions::new())?;
                    session.send_with(peer, 2, &strided, layout)?;
                    session.scope(|scope| {
                        let _ =
                            scope.isend_with(peer, 3, &slices[..], newmad::SendOptions::new())?;
                        let _ = scope.isend_with(peer, 4, &strided, layout)?;
                        // And back to oneself.
                        let _ = scope.isend_with(session.rank(), 5, &strided, layout)?;
                        let mut own = vec![0; longer.len()];
                        session.recv(session.rank(), 5, &mut own)?;
                        assert!(own == longer);
                        Ok(())
                    })?;
                    continue;
                }
                let mut memory = vec![0; size];
                let mut pieces: Vec<_> = memory.chunks_mut(9_000).map(IoSliceMut::new).collect();
                assert_eq!(
                    session.recv_with(peer, 0, &mut pieces[..], newmad::RecvOptions::new())?.len,
                    size
                );
                assert!(memory == data);
                let mut memory = vec![0xee; strided.len()];
                session.recv_with(ANY, 0, &mut memory, layout)?;
                assert!(memory == strided);
                let mut flat = vec![0; longer.len()];
                session.recv(peer, 1, &mut flat[..size])?;
                assert!(flat[..size] == data);
                session.recv(peer, 2, &mut flat)?;
                assert!(flat == longer);
                memory.fill(0xee);
                let mut other = vec![0; longer.len()];
                let (front, back) = other.split_at_mut(longer.len() / 3);
                let mut pieces = [IoSliceMut::new(front), IoSliceMut::new(back)];
                session.scope(|scope| {
                    let _ =
                        scope.irecv_with(peer, 4, &mut pieces[..], newmad::RecvOptions::new())?;
                    let _ = scope.irecv_with(peer, 3, &mut memory, layout)?;
                    Ok(())
                })?;
                assert!(other == longer);
                let mut expected = vec![0xee; strided.len()];
                for (at, piece) in data.chunks(block).enumerate() {
                    expected[at * (block + 3)..][..piece.len()].copy_from_slice(piece);
                }
                assert!(memory == expected, "size {size}, block {block}");
            }
        }
    }
    Ok(())
}

#[test]
fn scattered_data_travels_to_any_layout() {
    everywhere("scattered", 2);
    launch("scattered", 2, &[("NMAD_DRIVER", "tcp"), ("NMAD_STRATEGY", "default")]).succeed(LIMIT);
}

#[test]
fn scattered_receives_may_be_too_short_and_layouts_wrong() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    let column = Strided { block: 2, stride: 4, count: 3 };
    for len in [8, 50_000] {
        let mut memory = [9; 12];
        let send = last.isend(0, 1, message(1, len)).unwrap();
        let short = first.recv_with(1, 1, &mut memory, column);
        assert!(matches!(short, Err(Error::Truncated { capacity: 6, .. })), "{short:?}");
        let begin = message(1, 6);
        let expected =
            [begin[0], begin[1], 9, 9, begin[2], begin[3], 9, 9, begin[4], begin[5], 9, 9];
        assert_eq!(memory, expected);
        send.wait().unwrap();
    }
    let refused = first.send_with(1, 1, &[0; 9], column);
    assert!(matches!(refused, Err(Error::BadLayout { memory: 9, .. })), "{refused:?}");
    let overlap = Strided { block: 3, stride: 2, count: 2 };
    assert!(first.recv_with(1, 1, &mut [0; 90], overlap).is_err());
    // Nothing at all is a message too.
    first.send_with(1, 2, &[], newmad::SendOptions::new()).unwrap();
    assert_eq!(last.recv_with(0, 2, &mut [], newmad::RecvOptions::new()).unwrap().len, 0);
}
