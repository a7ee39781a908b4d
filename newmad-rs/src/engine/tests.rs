//! The engine between its users: arming, waking and submitting, with two ranks of one process.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use marcel::{Mode, Runtime};
use pioman::{Manager, Source};
use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};

use crate::engine::Engine;
use crate::gate::ranks::Ranks;
use crate::net::{AnyDriver, Driver, Rings};
use crate::proto::core::Core;
use crate::raw::{Memory, RawRequest};
use crate::request::Request;
use crate::{ANY, Cause, Error, Session, Status};

/// Two ranks, and the manager of both.
pub(super) fn pair() -> (Session, Session, Arc<Manager>) {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let mut world = Session::local_world(2, &manager).unwrap();
    let (b, a) = (world.pop().unwrap(), world.pop().unwrap());
    (a, b, manager)
}

/// Either waits for the other.
pub(super) fn close(a: Session, b: Session) {
    std::thread::scope(|scope| {
        scope.spawn(|| a.close().unwrap());
        b.close().unwrap();
    });
}

/// Until the request is over, which another thread sees to.
pub(super) fn ends_without_a_call(request: &Request) {
    let begun = Instant::now();
    while !request.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(20), "no thread sees to it");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Until the bell asks for control packets alone, and none has come: to arm again needs no look. An attended receive is
/// outstanding.
fn settle_quietly(engine: &Engine, core: &mut Core<AnyDriver>) {
    engine.disarm();
    let quiet = (0..1000).any(|_| core.settle(1) && !core.arm());
    assert!(quiet, "something is to be looked for");
}

/// Answers three questions, each with 20,000 bytes for which the asker has to wait, and calls `then`.
fn answers_late(b: &Session, then: impl Fn()) {
    for _ in 0..3 {
        b.recv(0, 2, &mut [0]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        b.send(0, 1, &[1; 20_000]).unwrap();
        then();
    }
}

#[test]
fn calls_that_wait_say_nothing_of_how_long_the_program_stays_away() {
    let (a, b, _) = pair();
    std::thread::scope(|scope| {
        scope.spawn(|| answers_late(&b, || ()));
        for _ in 0..3 {
            a.send(1, 2, &[1]).unwrap();
            a.recv(1, 1, &mut [0; 20_000]).unwrap();
        }
    });
    assert!(!a.inner().engine.signals.absence.is_expected_to_be_short());
    close(a, b);
}

/// Where memory for what comes unexpected is lacking, a thread is told that is blocked, whichever request it is blocked on.
#[test]
fn a_thread_that_waits_for_several_requests_gives_the_engine_memory() {
    for any in [false, true] {
        let (a, b, _) = pair();
        let (ended, end) = mpsc::channel();
        let receiver = a.clone();
        std::thread::spawn(move || {
            let (wild, exact) =
                (receiver.irecv(ANY, 4, vec![0; 8]), receiver.irecv(1, 2, vec![0; 8]));
            let (mut wild, mut exact) = (wild.unwrap(), exact.unwrap());
            if any {
                // The engine goes on to take it for one that a thread is blocked on.
                let mut other = receiver.irecv(1, 3, vec![0; 8]).unwrap();
                crate::wait_any(&mut [&mut exact, &mut other]).unwrap();
                receiver.recv(ANY, 4, &mut [0; 8]).unwrap();
                other.cancel();
                wild.cancel();
            } else {
                crate::wait_all(&mut [&mut wild, &mut exact]);
            }
            for _ in 0..60 {
                receiver.recv(1, 1, &mut [0; 2000]).unwrap();
            }
            ended.send(()).unwrap();
        });
        std::thread::sleep(Duration::from_millis(50)); // it is in its wait
        if any {
            b.send(0, 2, &[0; 8]).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        let sent: Vec<_> = (0..60).map(|_| b.isend(0, 1, vec![1; 2000]).unwrap()).collect();
        if !any {
            b.send(0, 2, &[0; 8]).unwrap();
        }
        for _ in 0..2 {
            b.send(0, 4, &[0; 8]).unwrap();
        }
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(()), "it is not told");
        sent.into_iter().for_each(|send| drop(send.wait().unwrap()));
        close(a, b);
    }
}

/// Another message is posted before, and waited for after a computation.
#[test]
fn a_call_that_waits_between_a_post_and_its_wait_is_not_away_and_is_no_wait_for_it() {
    let (a, b, _) = pair();
    let absence = &a.inner().engine.signals.absence;
    let mut stays_away = true;
    std::thread::scope(|scope| {
        scope.spawn(|| answers_late(&b, || b.send(0, 3, &[3; 20_000]).unwrap()));
        for _ in 0..3 {
            let posted = a.irecv(1, 3, vec![0; 20_000]).unwrap();
            a.send(1, 2, &[1]).unwrap();
            a.recv(1, 1, &mut [0; 20_000]).unwrap();
            stays_away &= absence.is_away();
            std::thread::sleep(Duration::from_millis(2));
            posted.wait().unwrap();
        }
    });
    assert!(stays_away, "the program had not waited for what it had posted");
    assert!(!absence.is_expected_to_be_short());
    close(a, b);
}

/// A ring costs both sides more than the copy of this message, for which no thread waits.
#[test]
fn an_announcement_rings_nobody_who_computes_until_its_sender_waits() {
    let (a, b, manager) = pair();
    let (engine, doorbells) = (&a.inner().engine, &b.inner().engine.doorbells);
    b.send(0, 2, &[1]).unwrap();
    a.recv(1, 2, &mut [0]).unwrap();
    doorbells.bells().iter().for_each(|bell| bell.took(Duration::from_micros(40)));
    let mut buffer = vec![0; 20_000];
    // SAFETY: the buffer outlives the request, which is over when this function ends, as is asserted.
    let mut receive = unsafe { Request::recv(1, 1, &raw mut buffer[..], true) }.attended();
    // SAFETY: it stays where it is until it is over.
    unsafe { engine.submit_then_compute(NonNull::from(&mut receive), &manager) };
    let before = doorbells.rung();
    let sent = b.isend(0, 1, vec![1; 20_000]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // (The manager, which both share, may have looked meanwhile.)
    assert_eq!(doorbells.rung(), before, "it computes");
    std::thread::scope(|scope| {
        scope.spawn(|| sent.wait().unwrap());
        ends_without_a_call(&receive);
    });
    assert_eq!(buffer, [1; 20_000]);
    close(a, b);
}

/// Its looks before it sleeps are few, and the thread that watches wants control packets alone: neither pays.
#[test]
fn a_thread_that_waits_for_a_rank_of_its_process_rings_for_what_it_owes_to_others() {
    for meets in [false, true] {
        let manager = |_| Manager::builder().mode(Mode::Smp).build().unwrap();
        let ranks = Ranks::new(&[2, 1]).unwrap();
        let sessions: Vec<_> = Session::local_processes(&ranks, manager).unwrap().concat();
        let [a, beside, b] = &sessions[..] else { unreachable!("three ranks") };
        let meet = |session: &Session| {
            let group = session.group(&[0, 1]).unwrap();
            (0..10).for_each(|_| group.barrier().wait().unwrap());
            group
        };
        let groups = std::thread::scope(|scope| {
            let other = scope.spawn(|| meet(beside));
            [meet(a), other.join().unwrap()]
        });
        let (engine, manager) = (&b.inner().engine, b.manager());
        a.send(2, 2, &[1]).unwrap();
        b.recv(0, 2, &mut [0]).unwrap();
        let bells = a.inner().engine.doorbells.bells();
        bells.iter().for_each(|bell| bell.took(Duration::from_micros(40)));
        let mut buffer = vec![0; 20_000];
        // SAFETY: the buffer outlives the request, which is over when this block is, as is asserted.
        let mut receive = unsafe { Request::recv(0, 1, &raw mut buffer[..], true) }.attended();
        // SAFETY: it stays where it is until it is over.
        unsafe { engine.submit_then_compute(NonNull::from(&mut receive), manager) };
        let sent = a.isend(2, 1, vec![1; 20_000]).unwrap();
        let mut is_rung = false;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(1)); // the few looks of its wait begin anew
                match meets {
                    true => groups[0].barrier().wait().unwrap(),
                    false => drop(a.recv(1, 5, &mut [0]).unwrap()),
                }
            });
            is_rung = (0..3000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                receive.is_finished()
            });
            match meets {
                true => groups[1].barrier().wait().unwrap(),
                false => beside.send(0, 5, &[1]).unwrap(),
            }
        });
        sent.wait().unwrap();
        ends_without_a_call(&receive);
        drop(groups);
        std::thread::scope(|scope| {
            sessions.into_iter().for_each(|rank| drop(scope.spawn(move || rank.close().unwrap())));
        });
        assert!(is_rung, "meets: {meets}");
    }
}

/// As when the watcher has taken the core of a thread that is in the engine.
#[test]
fn a_message_wakes_the_watcher_once_while_a_thread_is_in_the_engine() {
    let limit = Instant::now() + Duration::from_secs(60);
    let (a, b, manager) = pair();
    let sleeps = || manager.counters().sleeps[1];
    let (ended, end) = mpsc::channel();
    // A callback is to be called: a thread has to watch.
    let receive = a.irecv(1, 1, vec![0; 1]).unwrap();
    receive.on_done(move |result| ended.send(result.unwrap().0).unwrap());
    let (inside, is_inside) = mpsc::channel();
    let (leave, leaves) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let engine = &a.inner().engine;
        scope.spawn(move || {
            engine.with(|_| {
                inside.send(()).unwrap();
                leaves.recv().unwrap();
            });
        });
        is_inside.recv().unwrap();
        let before = sleeps();
        b.send(0, 1, &[7]).unwrap();
        while sleeps() == before {
            assert!(Instant::now() < limit, "no thread is woken");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        let slept = sleeps() - before;
        leave.send(()).unwrap();
        assert!(slept <= 2, "one message has ended {slept} sleeps");
    });
    let left = limit.saturating_duration_since(Instant::now());
    assert_eq!(end.recv_timeout(left).unwrap(), [7]);
    close(a, b);
}

/// A message that waits for its peer is no progress: a thread that arms for it may sleep.
#[test]
fn what_only_waits_for_its_peer_is_no_progress() {
    let (a, b, _manager) = pair();
    let long = 1 << 20;
    let send = b.isend(0, 1, vec![7; long]).unwrap();
    let missed = a.irecv(1, 2, vec![0; long]).unwrap();
    for session in [&a, &b] {
        session.inner().engine.with(|core| {
            assert!((0..10).any(|_| !core.progress()), "it never ends");
            assert!((0..10).all(|_| !core.progress()), "nothing has come");
            core.arm();
            assert!(!core.progress());
        });
    }
    assert!(missed.cancel());
    assert_eq!(a.irecv(1, 1, vec![0; long]).unwrap().wait().unwrap().0, vec![7; long]);
    send.wait().unwrap();
    assert_eq!(
        [&a, &b].map(|of| of.inner().engine.signals.self_wakes.load(Ordering::Relaxed)),
        [0, 0]
    );
    close(a, b);
}

/// A thread that was about to sleep finds the message by itself. The ring that came for it must not wake a later
/// sleeper.
#[test]
fn a_ring_for_a_thread_that_did_not_sleep_is_taken_away() {
    let (a, b, _manager) = pair();
    let engine = &a.inner().engine;
    let readable = || {
        let fd = engine.fd().unwrap();
        let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, as is said.
        unsafe { libc::poll(&raw mut asked, 1, 0) > 0 }
    };
    let bell = &engine.doorbells.bells()[0];
    for kept_armed in [false, true] {
        engine.with(|core| {
            bell.arm(Rings::ALL);
            b.send(0, 1, &[7]).unwrap();
            assert!(readable(), "it was to ring");
            if kept_armed {
                while core.progress() {}
                assert!(!bell.was_rung());
            }
            engine.disarm();
        });
        engine.acknowledge();
        assert!(!bell.is_under_way(), "the ring is still under way");
        assert!(!readable(), "the ring wakes the next sleeper in vain");
        assert_eq!(a.recv(1, 1, &mut [0; 1]).unwrap().len, 1);
    }
    // Not rung: there is nothing to wait for.
    engine.with(|_| bell.arm(Rings::ALL));
    engine.disarm();
    assert!(!bell.is_under_way());
    // The peer has taken the word, and not written the counter yet.
    engine.with(|_| bell.arm(Rings::ALL));
    assert_eq!(bell.taken_by_a_peer(), Rings::ALL.bits());
    engine.disarm();
    assert!(bell.is_under_way());
    close(a, b);
}

/// A control packet came before the receiver armed, behind a short message for which the receiver does not arm.
#[test]
fn a_sender_that_waits_behind_a_short_message_is_answered_while_its_receiver_computes() {
    let (a, b, _manager) = pair();
    for _ in 0..10 {
        a.inner().engine.disarm(); // forget earlier rings for everything
        b.send(0, 1, &[1]).unwrap();
        let (answered, answer) = mpsc::channel();
        let sent = b.isend_with(0, 2, vec![2], crate::SendOptions::new().sync()).unwrap();
        sent.on_done(move |result| answered.send(result.is_ok()).unwrap());
        let (mut receive, mut word) = (RawRequest::idle(), [0]);
        // SAFETY: it is over before the memory goes: it is waited for, or dropped.
        let into = unsafe { Memory::Whole(word.as_mut_ptr(), 1).trusted() };
        receive.start_recv(&a, 1, 2, into).unwrap();
        assert!(
            answer.recv_timeout(Duration::from_secs(60)).expect("the receiver does not answer")
        );
        assert_eq!(receive.wait_idle().unwrap().len, 1);
        assert_eq!(word, [2]);
        assert_eq!(a.recv(1, 1, &mut [0; 1]).unwrap().len, 1);
    }
    close(a, b);
}

/// A thread that arms begins the requests that others have submitted, even if it need not look.
#[test]
fn what_was_left_is_begun_by_a_thread_that_arms() {
    let (a, b, _manager) = pair();
    let engine = &a.inner().engine;
    let (mut before, mut word) = (RawRequest::idle(), [0]);
    // SAFETY: no memory.
    let into = unsafe { Memory::Whole(word.as_mut_ptr(), 0).trusted() };
    before.start_recv(&a, 1, 2, into).unwrap();
    // SAFETY: the memory outlives the request, which is over at the end, as is asserted.
    let mut left = unsafe { Request::recv(1, 1, &raw mut word[..], true) }.attended();
    engine.with(|core| {
        settle_quietly(engine, core);
        // SAFETY: it stays where it is until it is over.
        unsafe { engine.signals.submissions.push(NonNull::from(&mut left)) };
        core.settle(1);
        assert!(engine.signals.submissions.is_empty());
    });
    b.send(0, 1, &[7]).unwrap();
    // SAFETY: its owner is here.
    unsafe { engine.wait(NonNull::from(&mut left), a.manager()) };
    assert_eq!(word, [7]);
    assert!(before.cancel());
    close(a, b);
}

/// Whoever finds that a peer is dead holds the engine for some time after the first request has failed. A message that is
/// sent meanwhile, and that nobody waits for, fails as it would afterwards.
#[test]
fn a_message_that_nobody_waits_for_fails_if_its_peer_is_dead() {
    let (a, b, _manager) = pair();
    let lost = a.irecv(1, 1, vec![0; 1]).unwrap();
    let found = std::thread::scope(|scope| {
        let finder = scope.spawn(|| {
            a.inner().engine.with(|core| {
                core.fail_peer(1, Cause::Vanished);
                std::thread::sleep(Duration::from_millis(50));
            });
        });
        while lost.result().is_none() {
            std::hint::spin_loop();
        }
        let found = a.send_and_leave(1, 2, Vec::new());
        finder.join().unwrap();
        found
    });
    assert!(matches!(found, Err(Error::PeerDied { .. })), "{found:?}");
    close(a, b);
}

/// What a thread has others watch is watched after it has sent something else, whoever holds the engine meanwhile.
#[test]
fn a_long_send_leaves_the_bell_armed() {
    let (a, b, _manager) = pair();
    let bell = &a.inner().engine.doorbells.bells()[0];
    let long = 1 << 20;
    let limit = Instant::now() + Duration::from_secs(20);
    let is_armed = || {
        while !bell.is_armed() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        bell.is_armed()
    };
    for held in [false, true] {
        a.inner().engine.signals.absence.comes_at_once();
        let received = a.irecv(1, 1, vec![0; long]).unwrap();
        assert!(is_armed());
        let (holds, is_held) = mpsc::channel();
        let sent = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                a.inner().engine.with(|_| {
                    holds.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(if held { 50 } else { 0 }));
                });
            });
            is_held.recv().unwrap();
            if !held {
                holder.join().unwrap();
            }
            a.isend(1, 2, vec![1; long]).unwrap()
        });
        let armed_again = is_armed();
        b.send(0, 1, &vec![1; long]).unwrap();
        assert_eq!(b.recv(0, 2, &mut vec![0; long]).unwrap().len, long);
        received.wait().unwrap();
        sent.wait().unwrap();
        assert!(armed_again, "held: {held}");
    }
    close(a, b);
}

/// Sends `out` to the other rank and receives as much from there.
fn exchange(session: &Session, out: &[u8]) -> [Result<Status, Error>; 2] {
    let (peer, mut into) = (1 - session.rank(), vec![0; out.len()]);
    // SAFETY: both outlive the call.
    let [from, to] = unsafe {
        [
            Memory::Whole(out.as_ptr().cast_mut(), out.len()).trusted(),
            Memory::Whole(into.as_mut_ptr(), into.len()).trusted(),
        ]
    };
    let ended = session.exchange((peer.into(), 1.into(), to), (peer, 1, from)).unwrap();
    if ended[0].is_ok() {
        assert!(into.iter().all(|&byte| u32::from(byte) == peer), "{} B", out.len());
    }
    ended
}

#[test]
fn both_sides_of_an_exchange_have_each_others_message() {
    let (a, b, _) = pair();
    let lengths = [0, 1, 1000, 20_000, 100_000, 1 << 20];
    let exchanges = |session: &Session| {
        let mark = session.rank() as u8;
        let all = lengths.iter().cycle().take(60);
        all.flat_map(|&len| exchange(session, &vec![mark; len])).collect::<Result<Vec<_>, _>>()
    };
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| exchanges(&b));
        [exchanges(&a), other.join().unwrap()]
    });
    for ended in both {
        assert_eq!(ended.unwrap().len(), 120);
    }
    close(a, b);
}

#[test]
fn both_messages_of_an_exchange_fail_with_the_peer() {
    let (a, b, _manager) = pair();
    let ended = std::thread::scope(|scope| {
        let other = scope.spawn(|| exchange(&a, &vec![1; 1 << 20]));
        std::thread::sleep(Duration::from_millis(20));
        a.inner().engine.with(|core| core.fail_peer(1, Cause::Vanished));
        other.join().unwrap()
    });
    for result in ended {
        assert!(matches!(result, Err(Error::PeerDied { .. })), "{result:?}");
    }
    close(a, b);
}

/// Its runtime stops. Both requests are over before the thread leaves their memory.
#[test]
fn an_exchange_that_is_unwound_has_sent_and_receives_nothing() {
    let (a, b, manager) = pair();
    let runtime = Runtime::builder().vps(1).hooks(manager).build().unwrap();
    let (session, (tell, told)) = (a.clone(), mpsc::channel());
    let waits = move || {
        tell.send(()).unwrap();
        let _ended = exchange(&session, &[0; 100]);
        unreachable!("nothing is sent to it");
    };
    runtime.run(move || marcel::Builder::new().spawn_detached(waits)).unwrap();
    told.recv().unwrap();
    let sent = b.recv(0, 1, &mut [1; 100]).unwrap();
    drop(runtime);
    assert_eq!(sent.len, 100);
    // The receive was taken back: this is for another one.
    b.send(0, 1, &[1]).unwrap();
    assert_eq!(a.recv(1, 1, &mut [0; 100]).unwrap().len, 1);
    close(a, b);
}

/// Another thread has collected an event, and delegated its look: the thread that arms must treat the event.
#[test]
fn a_thread_that_arms_looks_at_what_another_has_collected() {
    let (a, b, _manager) = pair();
    let (engine, mut word) = (&a.inner().engine, [0]);
    // SAFETY: the memory outlives the request, which is taken back, as is asserted. (Submitted without a call: no thread
    // watches, which would collect the event.)
    let mut receive = unsafe { Request::recv(1, 1, &raw mut word[..], true) }.attended();
    engine.with(|core| {
        // SAFETY: it stays where it is until it is over.
        unsafe { engine.signals.submissions.push(NonNull::from(&mut receive)) };
        settle_quietly(engine, core);
        core.wake_oneself();
        engine.acknowledge();
        assert!(core.arm(), "the event would stay where it is");
    });
    // SAFETY: its owner is here.
    assert!(unsafe { engine.cancel(NonNull::from(&mut receive)) });
    close(a, b);
}

/// The owner of a receive asks for its end: no thread is woken for a short message.
#[test]
fn no_thread_is_woken_for_a_short_message_whose_receiver_computes() {
    let (a, b, _manager) = pair();
    let rung = || b.inner().engine.doorbells.rung();
    let receive = a.irecv(1, 1, vec![0; 1000]).unwrap();
    let before = rung();
    for tag in [1, 2] {
        b.send(0, tag, &[3; 1000]).unwrap();
    }
    assert_eq!(rung(), before, "for short messages");
    assert!(receive.test());
    assert_eq!(receive.wait().unwrap().0, [3; 1000]);
    // A sender that waits for its receiver is served while that computes.
    let receive = a.irecv(1, 3, vec![0; 1000]).unwrap();
    b.send_with(0, 3, &[4; 1000], crate::SendOptions::new().sync()).unwrap();
    assert!(rung() > before, "for an announcement");
    assert_eq!(receive.wait().unwrap().0, [4; 1000]);
    close(a, b);
}

/// The holder may be a thread that the kernel has taken from its core, for milliseconds.
#[test]
fn who_waits_for_the_engine_does_not_burn_a_core() {
    const HELD: Duration = Duration::from_millis(300);
    let (a, b, _manager) = pair();
    let (inside, is_inside) = mpsc::channel();
    let used = std::thread::scope(|scope| {
        let engine = &a.inner().engine;
        scope.spawn(move || {
            engine.with(|_| {
                inside.send(()).unwrap();
                std::thread::sleep(HELD);
            });
        });
        is_inside.recv().unwrap();
        let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let before = cpu();
        engine.with(|_| ());
        cpu() - before
    });
    assert!(used < HELD / 4, "{used:?}");
    close(a, b);
}

/// A session with a link over TCP, of whose small packets the kernel takes a few thousand bytes, and the link's other end.
fn over_a_narrow_link() -> (Session, [std::net::TcpStream; 2]) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    // Inherited by what is accepted, before the connection has a window.
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let connect = || {
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
        near.set_nonblocking(true).unwrap();
        (near.into(), listener.accept().unwrap().0)
    };
    let ((small, far_small), (large, far_large)) = (connect(), connect());
    let link = crate::net::tcp::connect::link(1, vec![small, large]).unwrap();
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    (Session::over_tcp(link, &manager).unwrap(), [far_small, far_large])
}

/// Sends a message of which the kernel takes a part, and reads it at the other end while no thread is in the session. (Its
/// tail stayed until a tick of the connection manager's.)
fn the_tail_leaves_without_a_call(send: impl FnOnce(&Session, Vec<u8>)) {
    const LEN: usize = 60_000;
    let (session, [mut far, _far_large]) = over_a_narrow_link();
    let session = std::mem::ManuallyDrop::new(session); // a test that fails does not wait for its peer
    let engine = &session.inner().engine;
    send(&session, vec![7; LEN]);
    assert!(!engine.with(|core| core.gates.rails[0].driver.is_flushed(1)), "it has left at once");
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = vec![0; LEN];
    std::io::Read::read_exact(&mut far, &mut bytes).expect("the tail does not leave");
    assert!(bytes.iter().filter(|&&byte| byte == 7).count() > LEN - 100);
    engine.with(|core| core.fail_peer(1, Cause::Vanished));
    drop(std::mem::ManuallyDrop::into_inner(session));
}

#[test]
fn the_tail_of_a_message_that_was_sent_at_once_leaves_without_a_call() {
    the_tail_leaves_without_a_call(|session, data| session.send(1, 1, &data).unwrap());
}

#[test]
fn the_tail_of_a_message_whose_request_is_over_leaves_without_a_call() {
    the_tail_leaves_without_a_call(|session, data| {
        session.isend(1, 1, data).unwrap().wait().unwrap();
    });
}

#[test]
fn the_tail_of_a_message_whose_end_calls_a_function_leaves_without_a_call() {
    the_tail_leaves_without_a_call(|session, data| {
        session.isend(1, 1, data).unwrap().on_done(|result| drop(result.unwrap()));
    });
}
