//! Memory that is lent to a peer, at the end of a session (`gate`).

use super::*;

/// A goodbye and an announcement cross: the sender takes its buffer back when it hears the one, so the receiver must
/// not copy from there when it hears the other.
#[test]
fn after_its_goodbye_a_rank_reads_nothing_from_a_peers_memory() {
    for held in [false, true] {
        let (mut cores, _) = pair();
        let how = How { waits: true, spread: 0 };
        let receives =
            |core: &mut Core<Virtual>| Asked::recv_with(core, (0, 0), 1000, how, |request| request);
        let receive = (!held).then(|| receives(&mut cores[1]));
        // It says goodbye at once, for it has nothing to send.
        let close = Asked::plain(&mut cores[1], Request::close());
        let send = Asked::send_with(&mut cores[0], (1, 0), [1; 1000], how, |request| request);
        cores[0].progress();
        assert!(send.is_finished(), "the peer has left");
        cores[1].progress();
        let receive = receive.unwrap_or_else(|| receives(&mut cores[1]));
        settle(&mut cores);
        assert_eq!(
            cores[1].gates.rails[0].driver.copies, 0,
            "a copy from memory that was given back"
        );
        let over = Asked::plain(&mut cores[0], Request::close());
        settle(&mut cores);
        assert!(matches!(receive.result(), Err(crate::Error::Closed)));
        assert!(matches!(send.result(), Err(crate::Error::PeerDied { .. })));
        assert!(close.result().is_ok() && over.result().is_ok());
    }
}

/// Two that close wait for messages of each other that never come, and have announced others that neither takes.
#[test]
fn two_that_close_do_not_wait_for_each_other() {
    for apart in [false, true] {
        let (mut cores, _) = pair();
        let how = How { waits: true, spread: 0 };
        let mut all = Vec::new();
        for (core, peer) in cores.iter_mut().zip([1, 0]) {
            let receive = Asked::recv_with(core, (peer, 1), 8, how, |request| request);
            receive.get().detach();
            all.push((
                receive,
                Asked::send_with(core, (peer, 2), [1; 1000], how, |request| request),
            ));
        }
        let mut closes = Vec::new();
        for core in &mut cores {
            closes.push(Asked::plain(core, Request::close()));
            if apart {
                core.progress();
            }
        }
        settle(&mut cores);
        for (receive, send) in &all {
            assert!(matches!(receive.result(), Err(crate::Error::PeerDied { .. })));
            assert!(matches!(send.result(), Err(crate::Error::PeerDied { .. })));
        }
        assert!(closes.iter().all(|close| close.result().is_ok()));
    }
}

/// While a long copy goes on, what other threads submit begins, and one that waits for the engine gets it, after a piece.
#[test]
fn a_long_copy_keeps_other_threads_from_the_engine_for_no_more_than_a_piece() {
    use crate::proto::rendezvous::{LARGEST_PIECE, PIECE};
    use std::sync::atomic::Ordering;
    const LEN: usize = 16 << 20;
    let world = World::new(1, Nature { copies: true, copy: usize::MAX, ..USUAL });
    let (mut cores, how) = (world.pair(), How { waits: true, spread: 0 });
    world.network.lock().unwrap().waiters = Some(Vec::new());
    let sent = Asked::send(&mut cores[0], (1, 0), vec![1; LEN]);
    let received = Asked::recv_with(&mut cores[1], (0, 0), LEN, how, |request| request);
    let mut word = [0];
    // SAFETY: the memory and the request stay until it is over, as is asserted.
    let submitted = unsafe { Request::recv(0, 7, &raw mut word, false) };
    let other = std::ptr::NonNull::from(&submitted).addr().get();
    let signals = cores[1].signals.clone();
    cores[1].gates.rails[0].driver.meanwhile = Some(Box::new(move || {
        let other = std::ptr::NonNull::new(other as *mut Request).unwrap();
        // SAFETY: it is in no list, and stays.
        unsafe { signals.submissions.push(other) };
        signals.callers.store(1, Ordering::Relaxed);
    }));
    cores[0].progress();
    cores[1].progress();
    let moved = || received.get().moved.get();
    assert!((1..=LARGEST_PIECE).contains(&moved()), "{} bytes at once", moved());
    let before = moved();
    cores[1].progress();
    assert_eq!((moved(), cores[1].pending.count()), (before + PIECE, 2), "another one waits");
    cores[1].signals.callers.store(0, Ordering::Relaxed);
    let short = Asked::send(&mut cores[0], (1, 7), [7]);
    settle(&mut cores);
    assert!(sent.is_finished() && short.is_finished() && submitted.is_finished());
    assert_eq!((received.message(), word), (vec![1; LEN], [7]));
}

/// Rounds pass for a copy that is to begin, while another thread waits for the engine: a thread that is about to sleep is told
/// that there is more to do, and no other look has to bring the copy.
#[test]
fn a_copy_that_is_to_begin_is_not_left_by_a_thread_that_is_about_to_sleep() {
    use std::sync::atomic::Ordering;
    const LEN: usize = 1 << 20;
    let world = World::new(1, Nature { copies: true, copy: usize::MAX, ..USUAL });
    let (mut cores, how) = (world.pair(), How { waits: true, spread: 0 });
    world.network.lock().unwrap().waiters = Some(Vec::new());
    let sent = Asked::send(&mut cores[0], (1, 0), vec![1; LEN]);
    let received = Asked::recv_with(&mut cores[1], (0, 0), LEN, how, |request| request);
    cores[0].progress();
    cores[1].signals.callers.store(1, Ordering::Relaxed);
    cores[1].grace = 8;
    let has_copied = |core: &Core<Virtual>| core.copies.is_empty() && received.is_finished();
    let mut looks = 0;
    while !cores[1].settle(1) {
        looks += 1;
        assert!(looks < 100, "it never may sleep");
    }
    assert!(has_copied(&cores[1]), "it sleeps after {looks} looks");
    settle(&mut cores);
    assert!(sent.is_finished());
    assert_eq!(received.message(), vec![1; LEN]);
}
