//! Receives without a request ([`crate::proto::inline`]): which message one gets, and when it gets none.

use super::*;
use crate::proto::inline::Found;
use crate::request::tag::EXACT;

/// Sends `data` from rank 0 to rank 1: a short message is over when it is on the wire.
fn send(cores: &mut [Core<Virtual>], tag: u64, data: &[u8]) {
    assert!(Asked::send(&mut cores[0], (1, tag), data).is_finished());
}

/// Looks for a message at rank 1; what it found.
fn look(cores: &mut [Core<Virtual>], tag: u64, room: usize) -> (Found, Vec<u8>) {
    let mut buffer = vec![0; room];
    let found = cores[1].recv_inline(0, 0, (tag, EXACT), &mut buffer);
    if let Found::Message(len) = found {
        buffer.truncate(len);
    }
    (found, buffer)
}

/// Has rank 1 receive, and calls `between` before that is over; the message and its tag.
fn posted(
    cores: &mut [Core<Virtual>],
    (from, tag, mask): (u32, u64, u64),
    between: impl FnOnce(&mut [Core<Virtual>]),
) -> (Vec<u8>, u64) {
    let how = How { waits: true, spread: 0 };
    let receive =
        Asked::recv_with(&mut cores[1], (from, tag), 50, how, |request| request.masked(mask));
    between(cores);
    settle(cores);
    (receive.message(), receive.result().unwrap().tag)
}

#[test]
fn what_is_there_is_received_once() {
    let (mut cores, _) = pair();
    assert_eq!(look(&mut cores, 0, 50).0, Found::Nothing);
    send(&mut cores, 0, b"one");
    send(&mut cores, 0, b"");
    assert_eq!(look(&mut cores, 0, 3), (Found::Message(3), b"one".to_vec()));
    assert_eq!(look(&mut cores, 0, 0).0, Found::Message(0));
    assert_eq!(look(&mut cores, 0, 50).0, Found::Nothing);
    assert_eq!(cores[1].pending.count(), 0);
}

#[test]
fn a_posted_receive_comes_first() {
    let (mut cores, _) = pair();
    let first = posted(&mut cores, (0, 0, EXACT), |cores| {
        send(cores, 0, b"first");
        send(cores, 0, b"second");
        assert_eq!(look(cores, 0, 50), (Found::Message(6), b"second".to_vec()));
    });
    assert_eq!(first, (b"first".to_vec(), 0));
}

#[test]
fn a_receive_of_several_is_not_passed_by() {
    for (from, tag, mask) in [(ANY_SOURCE, 0, EXACT), (0, 0, !1), (ANY_SOURCE, 0, 0)] {
        let (mut cores, _) = pair();
        let got = posted(&mut cores, (from, tag, mask), |cores| {
            send(cores, 0, b"any");
            assert_eq!(look(cores, 0, 50).0, Found::Other);
        });
        assert_eq!(got, (b"any".to_vec(), 0));
    }
}

#[test]
fn a_message_that_came_before_is_not_passed_by() {
    let (mut cores, _) = pair();
    send(&mut cores, 0, b"before");
    // No receive waits for it: it is unexpected.
    assert!(cores[1].progress());
    send(&mut cores, 0, b"after");
    assert_eq!(look(&mut cores, 0, 50).0, Found::Other);
    assert_eq!(posted(&mut cores, (0, 0, EXACT), |_| ()).0, b"before");
    assert_eq!(posted(&mut cores, (0, 0, EXACT), |_| ()).0, b"after");
}

#[test]
fn messages_with_other_tags_before_it_are_kept() {
    let (mut cores, _) = pair();
    send(&mut cores, 7, b"other");
    send(&mut cores, 0, b"ours");
    assert_eq!(look(&mut cores, 0, 50), (Found::Message(4), b"ours".to_vec()));
    assert_eq!(posted(&mut cores, (0, 0, 0), |_| ()), (b"other".to_vec(), 7));
}

#[test]
fn a_message_that_does_not_fit_stays_for_a_receive_that_says_so() {
    let (mut cores, _) = pair();
    send(&mut cores, 0, b"too long");
    assert_eq!(look(&mut cores, 0, 3).0, Found::Other);
    let how = How { waits: true, spread: 0 };
    let receive = Asked::recv_with(&mut cores[1], (0, 0), 3, how, |request| request);
    settle(&mut cores);
    let result = receive.result();
    assert!(matches!(result, Err(crate::Error::Truncated { message: 8, capacity: 3, .. })));
    assert_eq!(receive.bytes(), b"too");
}

/// What was before is known already; what is ahead ends the gate, over a link that loses nothing.
#[test]
fn a_message_with_another_number_is_not_received() {
    for (seq, found) in [(1, Found::Other), (u32::MAX, Found::Nothing)] {
        let (mut cores, world) = pair();
        let header = Header { seq, len: 3, ..Header::new(Kind::Eager) };
        world.way((0, 0, 1), |way| way.say(header, b"odd"));
        assert_eq!(look(&mut cores, 0, 50).0, found);
        assert_eq!(cores[1].gates[0].rx_seq, 0);
        cores[1].progress();
        assert_eq!(cores[1].gates[0].is_open(), seq != 1);
    }
}

#[test]
fn luck_runs_out_and_comes_back() {
    let (mut cores, _) = pair();
    assert_eq!(cores[1].gates[0].hits, 0);
    send(&mut cores, 0, b"one");
    assert_eq!(look(&mut cores, 0, 50).0, Found::Message(3));
    assert_eq!(cores[1].gates[0].hits, 1);
    (0..10).for_each(|_| cores[1].gates[0].miss());
    assert_eq!(cores[1].gates[0].hits, 0);
    send(&mut cores, 0, b"two");
    assert_eq!(look(&mut cores, 0, 50).0, Found::Message(3));
    assert_eq!(cores[1].gates[0].hits, 1);
}

/// Neither side ever looks for events otherwise.
#[test]
fn credit_comes_back_with_what_is_received_straight() {
    let (mut cores, _) = pair();
    cores.iter_mut().for_each(|core| core.gates.config.credit = 1024);
    for _ in 0..500 {
        send(&mut cores, 0, b"word");
        assert_eq!(look(&mut cores, 0, 4).0, Found::Message(4));
    }
}
