//! `select` over several sends and receives.

use std::time::{Duration, Instant};

use marcel::select;
use marcel::sync::channel::{self, RecvError, SendError};

use super::{alone, crowd, everywhere, spawn};

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(100);

#[test]
fn what_can_be_done_is_done() {
    everywhere(|| {
        let (_tx, never) = channel::bounded::<()>(0);
        let (tx, rx) = channel::bounded(1);
        let sent = select! {
            recv(never) -> _nothing => unreachable!(),
            send(tx, 5) -> sent => sent,
        };
        assert_eq!((sent, rx.len()), (Ok(()), 1));
        let got = select! {
            recv(rx) -> got => got,
            recv(never) -> _nothing => unreachable!(),
            send(tx, 6) -> _sent => unreachable!(),
        };
        assert_eq!(got, Ok(5));
    });
}

#[test]
fn without_anything_to_do_the_default_runs_at_once_or_after_its_time() {
    everywhere(|| {
        let (tx, rx) = channel::bounded::<u8>(0);
        assert_eq!(select! { recv(rx) -> _n => 1, default => 2 }, 2);
        assert_eq!(select! { send(tx, 1) -> _s => 1, default => 2, }, 2);
        assert_eq!(select! { default => 3 }, 3);
        let start = Instant::now();
        let chosen = select! {
            recv(rx) -> _n => { 1 }
            send(tx, 1) -> _s => { 2 }
            default(SHORT) => { 3 }
        };
        assert!(chosen == 3 && start.elapsed() >= SHORT);
        let (mut recv, mut send) = (rx.receiving(), tx.sending(9));
        assert_eq!(channel::try_select(&mut [&mut recv, &mut send]), None);
        let deadline = Instant::now() + SHORT;
        assert_eq!(channel::select_until(&mut [&mut recv, &mut send], deadline), None);
        assert_eq!((recv.result(), send.result(), send.into_message()), (None, None, Some(9)));
    });
}

#[test]
fn a_select_waits_for_the_first() {
    everywhere(|| {
        let ((tx0, rx0), (tx1, rx1)) = (channel::bounded::<u8>(0), channel::bounded(0));
        let other = spawn(false, move || {
            marcel::sleep(SHORT);
            tx1.send(1).unwrap();
            tx0
        });
        let got = select! {
            recv(rx0) -> got => got,
            recv(rx1) -> got => got,
            default(LONG) => Err(RecvError),
        };
        assert_eq!(got, Ok(1));
        drop(other.join());
    });
}

#[test]
fn an_end_that_has_gone_is_an_outcome() {
    everywhere(|| {
        let ((tx, rx), (keep, never)) = (channel::bounded::<u8>(0), channel::bounded::<u8>(0));
        let theirs = tx.clone();
        let other = spawn(false, move || {
            marcel::sleep(SHORT);
            drop((tx, theirs));
        });
        let got = select! { recv(rx) -> got => got, recv(never) -> got => got };
        assert_eq!(got, Err(RecvError));
        other.join();
        let other = spawn(false, move || {
            marcel::sleep(SHORT);
            drop(never);
        });
        let (idle, _rx) = channel::bounded(0);
        let sent = select! { send(keep, 1) -> sent => sent, send(idle, 2) -> sent => sent };
        assert_eq!(sent, Err(SendError(1)));
        other.join();
    });
}

#[test]
fn a_select_does_not_meet_itself() {
    everywhere(|| {
        let (tx, rx) = channel::bounded(0);
        let met = select! {
            send(tx, 1) -> _sent => true,
            recv(rx) -> _got => true,
            default(SHORT) => false,
        };
        assert!(!met);
        assert_eq!(rx.try_recv().ok(), None);
    });
}

#[test]
fn no_arm_that_can_be_done_is_left_out_for_ever() {
    everywhere(|| {
        let channels = [(); 3].map(|()| channel::unbounded());
        for (tx, _) in &channels {
            (0..1000).for_each(|n| tx.send(n).unwrap());
        }
        let [(_a, rx0), (_b, rx1), (_c, rx2)] = channels;
        let mut chosen = [0; 3];
        for _ in 0..300 {
            select! {
                recv(rx0) -> got => chosen[0] += usize::from(got.is_ok()),
                recv(rx1) -> got => chosen[1] += usize::from(got.is_ok()),
                recv(rx2) -> got => chosen[2] += usize::from(got.is_ok()),
            }
        }
        assert!(
            chosen.iter().sum::<usize>() == 300 && chosen.iter().all(|n| *n > 30),
            "{chosen:?}"
        );
    });
}

#[test]
fn code_of_an_arm_may_leave_the_loop_around_it_and_use_the_ends() {
    alone(|| {
        let (tx, rx) = channel::unbounded();
        (0..10).for_each(|n| tx.send(n).unwrap());
        let mut tx = Some(tx);
        let mut sum = 0;
        let last = loop {
            select! {
                recv(rx) -> got => match got {
                    Ok(n) if n % 2 == 1 => continue,
                    Ok(n) => sum += n,
                    Err(RecvError) => break "gone",
                },
                default => drop(tx.take()),
            }
        };
        assert_eq!((last, sum), ("gone", 20));
        let (tx, rx) = channel::bounded(1);
        select! { send(tx, 1) -> sent => { sent.unwrap(); drop(tx) } }
        assert_eq!(rx.into_iter().next(), Some(1));
    });
}

#[test]
#[should_panic(expected = "a select of nothing")]
fn a_select_of_nothing_says_so() {
    channel::select(&mut []);
}

#[test]
fn a_send_that_is_done_is_no_arm_any_more() {
    let (tx, rx) = channel::unbounded();
    let mut send = tx.sending(1);
    assert_eq!(channel::try_select(&mut [&mut send]), Some(0));
    assert_eq!(channel::try_select(&mut [&mut send]), None);
    assert_eq!((send.result(), send.result(), rx.len()), (Some(Ok(())), None, 1));
}

#[test]
fn the_order_of_the_arms_is_the_callers() {
    let channels = [(); 8].map(|()| channel::unbounded());
    for ready in 0..8 {
        channels[ready].0.send(ready).unwrap();
        let mut arms: Vec<_> = channels.iter().map(|(_, rx)| rx.receiving()).collect();
        let mut references: Vec<&mut dyn channel::Arm> =
            arms.iter_mut().map(|arm| arm as &mut dyn channel::Arm).collect();
        assert_eq!(channel::select(&mut references), ready);
        assert_eq!(arms[ready].result(), Some(Ok(ready)));
    }
}

/// Threads that select sends and receives on the same channels: what was sent is received, once.
#[test]
fn selects_among_themselves_lose_and_make_nothing() {
    const ROUNDS: usize = 300;
    everywhere(|| {
        for capacity in [0, 1] {
            let (a, b) = (channel::bounded(capacity), channel::bounded(capacity));
            let (left_a, left_b) = (a.1.clone(), b.1.clone());
            let tally = crowd(6, move |i| {
                let (mut sent, mut got) = (0usize, 0usize);
                for round in 0..ROUNDS {
                    let message = i * ROUNDS + round + 1;
                    select! {
                        send(a.0, message) -> ok => { ok.unwrap(); sent += message }
                        send(b.0, message) -> ok => { ok.unwrap(); sent += message }
                        recv(a.1) -> message => got += message.unwrap(),
                        recv(b.1) -> message => got += message.unwrap(),
                        default(Duration::from_millis(1)) => {}
                    }
                }
                (sent, got)
            });
            let left: usize = left_a.try_iter().chain(left_b.try_iter()).sum();
            let (sent, got): (Vec<_>, Vec<_>) = tally.into_iter().unzip();
            assert_eq!(sent.iter().sum::<usize>(), got.iter().sum::<usize>() + left);
        }
    });
}
