//! Random operations, compared with a model that is obviously right.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use marcel::sync::channel::{self, TryRecvError, TrySendError};
use marcel::sync::{RwLock, Semaphore};
use marcel::{Mode, Runtime, select};
use proptest::prelude::*;

use super::{Joiner, spawn};

#[derive(Clone, Debug)]
enum Step {
    Send,
    SendWithin,
    Recv,
    RecvWithin,
    SelectEither,
    DropSender,
    CloneSender,
    DropReceiver,
    CloneReceiver,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Send),
        3 => Just(Step::SendWithin),
        8 => Just(Step::Recv),
        3 => Just(Step::RecvWithin),
        5 => Just(Step::SelectEither),
        1 => Just(Step::DropSender),
        1 => Just(Step::CloneSender),
        1 => Just(Step::DropReceiver),
        1 => Just(Step::CloneReceiver),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// One thread, so that nothing waits: a channel is a queue with a bound and a number of ends.
    #[test]
    fn a_channel_is_a_queue(
        capacity in prop_oneof![Just(None), (0usize..5).prop_map(Some), Just(Some(100))],
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let (tx, rx) = capacity.map_or_else(channel::unbounded, channel::bounded);
        let (mut senders, mut receivers) = (vec![tx], vec![rx]);
        let mut model = VecDeque::new();
        let mut next = 0;
        for step in steps {
            let room = capacity.is_none_or(|capacity| model.len() < capacity);
            let (no_senders, no_receivers) = (senders.is_empty(), receivers.is_empty());
            match step {
                Step::Send | Step::SendWithin => {
                    let Some(tx) = senders.last() else { continue };
                    next += 1;
                    let sent = match step {
                        Step::Send => tx.try_send(next),
                        _ => tx.send_timeout(next, Duration::ZERO).map_err(|error| match error {
                            channel::SendTimeoutError::Timeout(n) => TrySendError::Full(n),
                            channel::SendTimeoutError::Disconnected(n) => {
                                TrySendError::Disconnected(n)
                            }
                        }),
                    };
                    let expected = match (no_receivers, room) {
                        (true, _) => Err(TrySendError::Disconnected(next)),
                        (false, true) => {
                            model.push_back(next);
                            Ok(())
                        }
                        (false, false) => Err(TrySendError::Full(next)),
                    };
                    prop_assert_eq!(sent, expected);
                }
                Step::Recv | Step::RecvWithin => {
                    let Some(rx) = receivers.last() else { continue };
                    let got = match step {
                        Step::Recv => rx.try_recv(),
                        _ => rx.recv_timeout(Duration::ZERO).map_err(|error| match error {
                            channel::RecvTimeoutError::Timeout => TryRecvError::Empty,
                            channel::RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                        }),
                    };
                    let nothing = match no_senders {
                        true => TryRecvError::Disconnected,
                        false => TryRecvError::Empty,
                    };
                    prop_assert_eq!(got, model.pop_front().ok_or(nothing));
                }
                Step::SelectEither => {
                    let (Some(tx), Some(rx)) = (senders.last(), receivers.last()) else { continue };
                    next += 1;
                    let empty = model.is_empty();
                    let done = select! {
                        send(tx, next) -> sent => {
                            prop_assert!(room && sent.is_ok());
                            model.push_back(next);
                            true
                        }
                        recv(rx) -> got => {
                            prop_assert!(!empty);
                            prop_assert_eq!(got.ok(), model.pop_front());
                            true
                        }
                        default => false,
                    };
                    prop_assert_eq!(done, room || !empty);
                }
                Step::DropSender => drop(senders.pop()),
                Step::CloneSender => senders.extend(senders.last().cloned()),
                Step::DropReceiver => {
                    receivers.pop();
                    if receivers.is_empty() {
                        model.clear();
                    }
                }
                Step::CloneReceiver => receivers.extend(receivers.last().cloned()),
            }
            if let Some(rx) = receivers.last() {
                prop_assert_eq!(rx.len(), model.len());
            }
        }
    }

    /// One thread: a semaphore is a number.
    #[test]
    fn a_semaphore_is_a_number(
        initial in 0usize..10,
        steps in prop::collection::vec((any::<bool>(), 0usize..5), 1..200),
    ) {
        let (semaphore, mut model) = (Semaphore::new(initial), initial);
        let mut permits = Vec::new();
        for (take, n) in steps {
            if take {
                let permit = semaphore.try_acquire_many(n);
                prop_assert_eq!(permit.is_some(), n <= model);
                model -= if permit.is_some() { n } else { 0 };
                permits.extend(permit);
            } else if n == 0 {
                model += permits.pop().map_or(0, |permit| permit.count());
            } else {
                semaphore.release_many(n);
                model += n;
            }
            prop_assert_eq!(semaphore.available(), model);
        }
    }

    /// One thread: a reader-writer lock is a number of readers, or a writer.
    #[test]
    fn a_lock_is_a_number_of_readers_or_a_writer(steps in prop::collection::vec(0u8..5, 1..200)) {
        let lock = RwLock::new(());
        let (mut readers, mut writer) = (Vec::new(), None);
        for step in steps {
            match step {
                0 | 1 => {
                    let guard = lock.try_read();
                    prop_assert_eq!(guard.is_some(), writer.is_none());
                    readers.extend(guard);
                }
                2 => drop(readers.pop()),
                3 => {
                    let guard = lock.try_write();
                    prop_assert_eq!(guard.is_some(), readers.is_empty() && writer.is_none());
                    writer = guard.or(writer);
                }
                _ => writer = None,
            }
        }
    }
}

/// What one thread of a random crowd does on its channel, again and again.
#[derive(Clone, Copy, Debug)]
enum Role {
    Send,
    SendOrGiveUp,
    Receive,
    ReceiveOrGiveUp,
    Either,
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        Just(Role::Send),
        Just(Role::SendOrGiveUp),
        Just(Role::Receive),
        Just(Role::ReceiveOrGiveUp),
        Just(Role::Either),
    ]
}

/// What a thread has sent successfully and received, in this order.
type Account = (Vec<(usize, usize)>, Vec<(usize, usize)>);

fn play(
    id: usize,
    role: Role,
    rounds: usize,
    tx: channel::Sender<(usize, usize)>,
    rx: channel::Receiver<(usize, usize)>,
) -> Account {
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    // Who only sends is no receiver, and the other way round: the end of the others ends the waiting.
    let tx = Some(tx).filter(|_| !matches!(role, Role::Receive | Role::ReceiveOrGiveUp));
    let rx = Some(rx).filter(|_| !matches!(role, Role::Send | Role::SendOrGiveUp));
    for round in 0..rounds {
        let message = (id, round);
        let time = Duration::from_micros((round % 5 * 30) as u64);
        match (role, &tx, &rx) {
            (Role::Send, Some(tx), _) => match tx.send(message) {
                Ok(()) => sent.push(message),
                Err(_) => break,
            },
            (Role::SendOrGiveUp, Some(tx), _) => {
                sent.extend(tx.send_timeout(message, time).is_ok().then_some(message));
            }
            (Role::Receive, _, Some(rx)) => match rx.recv() {
                Ok(message) => got.push(message),
                Err(_) => break,
            },
            (Role::ReceiveOrGiveUp, _, Some(rx)) => got.extend(rx.recv_timeout(time)),
            (_, Some(tx), Some(rx)) => select! {
                send(tx, message) -> ok => sent.extend(ok.is_ok().then_some(message)),
                recv(rx) -> message => got.extend(message),
                default(time) => {}
            },
            _ => unreachable!("who has which ends is decided above"),
        }
        if round % 7 == id % 7 {
            marcel::yield_now();
        }
    }
    (sent, got)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// A random crowd, green and kernel threads, with time-outs and selects: what was sent is received by one or left
    /// in the channel, what failed is not; each receiver sees each sender's messages in their order.
    #[test]
    fn a_crowd_loses_and_makes_no_message(
        capacity in prop_oneof![Just(None), (0usize..4).prop_map(Some)],
        crowd in prop::collection::vec((role(), any::<bool>(), 1usize..120), 2..9),
        vps in 1usize..5,
    ) {
        let mode = if vps == 1 { Mode::Mono } else { Mode::Smp };
        let runtime = Runtime::builder().mode(mode).vps(vps).build().unwrap();
        let crowd = Arc::new(crowd);
        let (accounts, left) = runtime.run(|| {
            let (tx, rx) = capacity.map_or_else(channel::unbounded, channel::bounded);
            let threads: Vec<_> = crowd
                .iter()
                .enumerate()
                .map(|(id, &(role, kernel, rounds))| {
                    let (tx, rx) = (tx.clone(), rx.clone());
                    spawn(kernel, move || play(id, role, rounds, tx, rx))
                })
                .collect();
            drop(tx);
            // Takes what is left when all senders have gone, and so lets those who still send come to an end.
            let left: Vec<_> = rx.iter().collect();
            (threads.into_iter().map(Joiner::join).collect::<Vec<Account>>(), left)
        });
        let sent: BTreeSet<_> = accounts.iter().flat_map(|(sent, _)| sent).copied().collect();
        let mut got = BTreeSet::new();
        for received in accounts.iter().map(|(_, got)| got).chain([&left]) {
            for id in 0..crowd.len() {
                let order = received.iter().filter(|(from, _)| *from == id);
                prop_assert!(order.is_sorted());
            }
            for message in received {
                prop_assert!(got.insert(*message), "{message:?} twice");
            }
        }
        prop_assert_eq!(sent, got);
    }
}
