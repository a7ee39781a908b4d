//! Channels: what `std::sync::mpsc` documents, restated, and what many receivers add to it.

use std::time::{Duration, Instant};

use marcel::sync::channel::{
    self, RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

use super::{Count, Joiner, Witness, alone, crowd, everywhere, spawn, until};

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(100);

#[test]
fn what_was_sent_before_the_last_sender_went_is_still_received() {
    everywhere(|| {
        let (tx, rx) = channel::unbounded();
        let other = tx.clone();
        tx.send(1).unwrap();
        drop(tx);
        other.send(2).unwrap();
        drop(other);
        assert_eq!((rx.recv(), rx.recv()), (Ok(1), Ok(2)));
        assert_eq!(rx.recv(), Err(RecvError));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
        assert_eq!(rx.iter().next(), None);
    });
}

#[test]
fn sends_without_a_receiver_give_the_message_back() {
    everywhere(|| {
        for (tx, rx) in [channel::unbounded(), channel::bounded(1), channel::bounded(0)] {
            drop((rx.clone(), rx));
            assert_eq!(tx.send(1), Err(SendError(1)));
            assert_eq!(tx.try_send(2), Err(TrySendError::Disconnected(2)));
            let timed = tx.send_timeout(3, LONG).unwrap_err();
            assert_eq!((timed, timed.into_inner()), (SendTimeoutError::Disconnected(3), 3));
        }
    });
}

#[test]
fn the_last_receiver_drops_what_nobody_will_receive() {
    everywhere(|| {
        let count = Count::default();
        let (tx, rx) = channel::unbounded();
        (0..100).for_each(|_| assert!(tx.send(Witness(count.clone())).is_ok()));
        let other = rx.clone();
        drop(rx);
        assert_eq!(count.get(), 0);
        drop(other);
        assert_eq!(count.get(), 100);
        assert!(tx.send(Witness(count.clone())).is_err());
        assert_eq!(count.get(), 101);
        // And a channel that goes with messages in it.
        let (tx, rx) = channel::bounded(3);
        (0..3).for_each(|_| assert!(tx.send(Witness(count.clone())).is_ok()));
        drop((tx, rx));
        assert_eq!(count.get(), 104);
    });
}

#[test]
fn a_bounded_channel_holds_so_many_and_no_more() {
    everywhere(|| {
        for capacity in [1, 2, 100] {
            let (tx, rx) = channel::bounded(capacity);
            assert!(!tx.is_full() && tx.is_empty() && tx.capacity() == Some(capacity));
            (0..capacity).for_each(|n| tx.try_send(n).unwrap());
            assert!(tx.is_full() && rx.len() == capacity);
            assert_eq!(tx.try_send(7), Err(TrySendError::Full(7)));
            assert_eq!(tx.send_timeout(7, SHORT), Err(SendTimeoutError::Timeout(7)));
            let deadline = Instant::now() + SHORT;
            assert_eq!(tx.send_until(7, deadline), Err(SendTimeoutError::Timeout(7)));
            assert_eq!(rx.try_iter().collect::<Vec<_>>(), (0..capacity).collect::<Vec<_>>());
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        }
    });
}

#[test]
fn a_send_waits_for_room() {
    everywhere(|| {
        let (tx, rx) = channel::bounded(1);
        let sent = Count::default();
        let count = sent.clone();
        let sender = spawn(false, move || {
            for n in 0..5 {
                tx.send(n).unwrap();
                count.add();
            }
        });
        until(|| sent.get() == 1);
        marcel::sleep(SHORT);
        assert_eq!(sent.get(), 1);
        assert_eq!(rx.recv(), Ok(0));
        until(|| sent.get() == 2);
        assert_eq!(rx.iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
        sender.join();
    });
}

#[test]
fn a_rendezvous_returns_when_both_have_come() {
    everywhere(|| {
        let (tx, rx) = channel::bounded(0);
        assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        let received = Count::default();
        let count = received.clone();
        let receiver = spawn(false, move || {
            marcel::sleep(SHORT);
            count.add();
            let first = rx.recv();
            (first, rx)
        });
        tx.send(1).unwrap();
        assert_eq!(received.get(), 1, "sent before anybody received");
        let (first, rx) = receiver.join();
        assert_eq!(first, Ok(1));
        // A receiver that waits makes a try succeed.
        let receiver = spawn(false, move || rx.recv());
        let limit = Instant::now() + LONG;
        while tx.try_send(2).is_err() && Instant::now() < limit {
            marcel::sleep(Duration::from_micros(100));
        }
        assert_eq!(receiver.join(), Ok(2));
    });
}

#[test]
fn a_receive_waits_for_a_message_or_for_its_time() {
    everywhere(|| {
        let (tx, rx) = channel::unbounded();
        let start = Instant::now();
        assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        assert!(start.elapsed() >= SHORT);
        assert_eq!(rx.recv_until(Instant::now()), Err(RecvTimeoutError::Timeout));
        let sender = spawn(true, move || {
            std::thread::sleep(SHORT);
            tx.send(1).unwrap();
        });
        assert_eq!(rx.recv_timeout(LONG), Ok(1));
        sender.join();
        // A message that is there is received, however short the time.
        let (tx, rx) = channel::unbounded();
        tx.send(1).unwrap();
        assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(1));
    });
}

#[test]
fn the_other_end_going_wakes_who_waits() {
    everywhere(|| {
        let (tx, rx) = channel::bounded::<u32>(0);
        let receivers: Vec<_> = (0..3)
            .map(|i| {
                let rx = rx.clone();
                spawn(i == 2, move || rx.recv())
            })
            .collect();
        marcel::sleep(SHORT);
        drop(tx);
        assert!(receivers.into_iter().map(Joiner::join).all(|got| got == Err(RecvError)));

        let (tx, rx) = channel::bounded(0);
        let senders: Vec<_> = (0..3)
            .map(|i| {
                let tx = tx.clone();
                spawn(i == 2, move || tx.send(i))
            })
            .collect();
        marcel::sleep(SHORT);
        drop(rx);
        for (i, sender) in senders.into_iter().enumerate() {
            assert_eq!(sender.join(), Err(SendError(i)));
        }
    });
}

#[test]
fn a_sender_that_panics_is_gone() {
    everywhere(|| {
        let (tx, rx) = channel::bounded(1);
        let bad = std::panic::AssertUnwindSafe(move || {
            tx.send(1).unwrap();
            panic!("as planned");
        });
        assert!(std::panic::catch_unwind(bad).is_err());
        assert_eq!(rx.into_iter().collect::<Vec<_>>(), [1]);
    });
}

#[test]
fn a_channel_without_bound_takes_everything_in_its_order() {
    everywhere(|| {
        let (tx, rx) = channel::unbounded();
        assert!(!tx.is_full() && tx.capacity().is_none());
        (0..100_000).for_each(|n| tx.send(n).unwrap());
        assert_eq!(rx.len(), 100_000);
        drop(tx);
        assert!(rx.iter().eq(0..100_000));
    });
}

#[test]
fn every_message_has_one_receiver_and_senders_keep_their_order() {
    const MESSAGES: usize = 400;
    everywhere(|| {
        for capacity in [Some(0), Some(1), Some(7), None] {
            let (tx, rx) = capacity.map_or_else(channel::unbounded, channel::bounded);
            let senders = 4;
            let got = crowd(2 * senders, move |i| {
                let mut got = Vec::new();
                if i % 2 == 0 {
                    (0..MESSAGES).for_each(|n| tx.send((i / 2, n)).unwrap());
                } else {
                    while got.len() < MESSAGES {
                        got.push(rx.recv().unwrap());
                    }
                }
                got
            });
            let mut all = Vec::new();
            for got in got {
                for sender in 0..senders {
                    let order = got.iter().filter(|(from, _)| *from == sender).map(|(_, n)| n);
                    assert!(order.is_sorted());
                }
                all.extend(got);
            }
            all.sort_unstable();
            let expected: Vec<_> =
                (0..senders).flat_map(|i| (0..MESSAGES).map(move |n| (i, n))).collect();
            assert_eq!(all, expected);
        }
    });
}

#[test]
fn ends_know_their_channel() {
    let (tx, rx) = channel::bounded::<()>(1);
    let (other, _rx) = channel::bounded::<()>(1);
    assert!(tx.same_channel(&tx.clone()) && !tx.same_channel(&other));
    assert!(rx.same_channel(&rx.clone()) && rx.capacity() == Some(1) && rx.is_empty());
}

#[test]
fn errors_say_what_went_wrong() {
    let (tx, rx) = channel::bounded(0);
    assert_eq!(tx.try_send(1).unwrap_err().to_string(), "sending on a full channel");
    let timed = tx.send_timeout(1, Duration::ZERO).unwrap_err();
    assert_eq!(timed.to_string(), "timed out waiting on send operation");
    assert_eq!(format!("{timed:?}"), "Timeout(..)");
    assert_eq!(rx.try_recv().unwrap_err().to_string(), "receiving on an empty channel");
    drop(rx);
    assert_eq!(tx.send(1).unwrap_err().to_string(), "sending on a closed channel");
}

/// A waiting thread costs no CPU: the only virtual processor sleeps.
#[test]
fn who_waits_for_a_message_uses_no_processor() {
    // The least of three: on a virtual machine the clock also counts what the host gave to others.
    let used = (0..3).map(|_| used_by_a_wait_of_300_ms()).min().unwrap();
    assert!(used < Duration::from_millis(100), "{used:?} of 300 ms");
}

fn used_by_a_wait_of_300_ms() -> Duration {
    let (tx, rx) = channel::unbounded::<()>();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(tx);
    });
    let used = alone(move || {
        let before = thread_time();
        assert!(rx.recv().is_err());
        thread_time() - before
    });
    sender.join().unwrap();
    used
}

/// What the calling kernel thread, and so the virtual processor, has used.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one writable timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
