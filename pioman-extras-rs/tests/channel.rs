//! Channels and mailboxes: order, drops, who waits, what is given up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{Manager, Runtime};
use pioman_extras::channel::{Consumer, Position, Producer, Urgency, channel, mailbox};
use proptest::prelude::*;

fn runtime(mode: Mode) -> Runtime {
    Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap()
}

fn manager() -> Arc<Manager> {
    Manager::builder().mode(Mode::NoThread).build().unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(10)
}

/// Counts how often values like it are dropped.
struct Counted(u32, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn full_and_empty_are_told() {
    let (producer, mut consumer) = channel(3); // four slots
    assert_eq!(consumer.try_recv(), Err(TryRecvError::Empty));
    let mut position = producer.acquire_send();
    (0..4).for_each(|n| position.try_send(n).unwrap());
    assert_eq!(position.try_send(4), Err(TrySendError::Full(4)));
    assert_eq!(position.send_until(&manager(), 4, soon()), Err(TrySendError::Full(4)));
    assert_eq!(consumer.try_recv(), Ok(0));
    position.try_send(4).unwrap();
    drop(position);
    drop(producer);
    assert!(consumer.is_closed() && consumer.has_messages());
    let rest: Vec<_> = std::iter::from_fn(|| consumer.try_recv().ok()).collect();
    assert_eq!(rest, [1, 2, 3, 4]);
    assert_eq!(consumer.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(consumer.recv(&manager()), Err(RecvError));
}

#[test]
fn a_message_is_read_and_changed_in_place() {
    let (producer, mut consumer) = channel(2);
    producer.acquire_send().try_send(vec![1]).unwrap();
    let mut message = consumer.try_read().unwrap();
    message.push(2);
    std::mem::forget(message); // it is read again
    assert_eq!(consumer.try_read().unwrap().take(), [1, 2]);
    assert!(!consumer.has_messages());
}

#[test]
fn a_time_out_leaves_the_channel_as_it_was() {
    let manager = manager();
    let (producer, mut consumer) = channel(1);
    assert_eq!(consumer.recv_until(&manager, soon()), Err(RecvTimeoutError::Timeout));
    producer.send(&manager, 1).unwrap();
    assert_eq!(consumer.recv_until(&manager, soon()), Ok(1));
    drop(producer);
    assert_eq!(consumer.recv_until(&manager, soon()), Err(RecvTimeoutError::Disconnected));
}

/// Holes at the front, in a row, and more than a lap ahead.
#[test]
fn what_is_given_up_is_stepped_over() {
    let (producer, mut consumer) = channel(2);
    let positions: Vec<_> = (0..7).map(|_| producer.acquire_send()).collect();
    for (index, mut position) in positions.into_iter().enumerate() {
        if index == 2 {
            position.try_send(index).unwrap_err(); // its slot is not free yet
        } else if index == 1 {
            position.try_send(index).unwrap();
        }
    }
    assert!(consumer.has_messages());
    assert_eq!(consumer.try_recv(), Ok(1));
    assert!(!consumer.has_messages());
    producer.acquire_send().try_send(7).unwrap_err(); // the consumer has not come by yet: another hole
    assert_eq!(consumer.try_recv(), Err(TryRecvError::Empty));
    producer.acquire_send().try_send(8).unwrap();
    assert_eq!(consumer.try_recv(), Ok(8));
}

#[test]
fn a_forgotten_position_holds_up_but_all_is_dropped() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (producer, mut consumer) = channel(4);
    std::mem::forget(producer.acquire_send());
    producer.acquire_send().try_send(Counted(1, drops.clone())).unwrap();
    assert!(!consumer.has_messages());
    drop(producer);
    assert!(matches!(consumer.try_recv(), Err(TryRecvError::Disconnected)));
    drop(consumer);
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_consumer_that_goes_drops_what_is_left_and_tells_the_producers() {
    let drops = Arc::new(AtomicUsize::new(0));
    let manager = manager();
    let (producer, consumer) = channel(2);
    (0..2).for_each(|n| producer.send(&manager, Counted(n, drops.clone())).ok().unwrap());
    std::thread::scope(|s| {
        let waiting = s.spawn(|| producer.send(&manager, Counted(2, drops.clone())));
        std::thread::sleep(Duration::from_millis(5));
        drop(consumer);
        let SendError(value) = waiting.join().unwrap().err().unwrap();
        assert_eq!((value.0, drops.load(SeqCst)), (2, 2));
    });
    let refused = producer.acquire_send().try_send(Counted(3, drops.clone()));
    assert!(matches!(refused, Err(TrySendError::Disconnected(_))));
    drop(refused);
    assert!(producer.is_closed());
    assert_eq!(drops.load(SeqCst), 4);
}

#[test]
fn a_destructor_that_panics_frees_its_slot() {
    struct Bad(bool);
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(!self.0, "as it is meant to");
        }
    }
    let (producer, mut consumer) = channel(1);
    producer.acquire_send().try_send(Bad(true)).ok().unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(consumer.try_read());
    }));
    assert!(caught.is_err() && !consumer.has_messages());
    producer.acquire_send().try_send(Bad(false)).ok().unwrap();
    assert!(!consumer.try_recv().ok().unwrap().0);
}

/// Green threads that wait when their runtime ends are unwound, and leave nothing behind.
#[test]
fn who_is_unwound_while_waiting_leaves_the_desk() {
    let (producer, mut consumer) = channel::<u32>(1);
    let (other, receiver) = channel::<u32>(1);
    producer.acquire_send().try_send(1).unwrap();
    let runtime = runtime(Mode::Smp);
    let manager = runtime.manager().clone();
    let waiting = producer.clone();
    runtime.run(move || {
        let sends = manager.clone();
        marcel::spawn(move || waiting.send(&sends, 2));
        marcel::spawn(move || {
            let mut receiver = receiver;
            receiver.recv(&manager).map(|_| ())
        });
        marcel::sleep(Duration::from_millis(5));
    });
    drop(runtime);
    assert_eq!(consumer.try_recv(), Ok(1));
    // What the other would have sent is a hole now, or was sent in the end.
    let mut position = producer.acquire_send();
    let mut rest = Vec::new();
    while position.try_send(3).is_err() {
        rest.extend(consumer.try_recv().ok());
    }
    rest.extend(std::iter::from_fn(|| consumer.try_recv().ok()));
    assert_eq!(rest.last(), Some(&3));
    assert!(other.is_closed());
}

/// What the model below knows of a position.
enum Model {
    Held,
    Sent(usize, u32),
    Hole,
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(usize),
    Try(usize),
    Drop(usize),
    Receive,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3usize).prop_map(Step::Acquire),
        4 => (0..3usize).prop_map(Step::Try),
        1 => (0..3usize).prop_map(Step::Drop),
        3 => Just(Step::Receive),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Against a queue of positions: order, room and holes are what they should be at every step.
    #[test]
    fn behaves_like_a_queue_of_positions(size in 0u32..4, steps in steps()) {
        let slots = 1usize << size;
        let (first, mut consumer) = channel(slots);
        let producers = [first.clone(), first.clone(), first];
        type Held<'a> = Option<(Position<'a, (usize, u32)>, usize)>;
        let mut held: [Held<'_>; 3] = [None, None, None];
        // All positions that are not received yet, from number `front` on.
        let (mut queue, mut front) = (VecDeque::new(), 0);
        let mut sent = 0;
        for step in steps {
            match step {
                Step::Acquire(who) => {
                    if held[who].is_none() {
                        held[who] = Some((producers[who].acquire_send(), front + queue.len()));
                        queue.push_back(Model::Held);
                    }
                }
                Step::Try(who) => {
                    if let Some((position, number)) = &mut held[who] {
                        let fits = *number < front + slots;
                        prop_assert_eq!(position.try_send((who, sent)).is_ok(), fits);
                        if fits {
                            queue[*number - front] = Model::Sent(who, sent);
                            sent += 1;
                            held[who] = None;
                        }
                    }
                }
                Step::Drop(who) => {
                    if let Some((position, number)) = held[who].take() {
                        drop(position);
                        queue[number - front] = Model::Hole;
                    }
                }
                Step::Receive => {
                    let next = queue.iter().find(|place| !matches!(place, Model::Hole));
                    prop_assert_eq!(consumer.has_messages(), matches!(next, Some(Model::Sent(..))));
                    let got = consumer.try_recv().ok();
                    while let Some(Model::Hole) = queue.front() {
                        queue.pop_front();
                        front += 1;
                    }
                    if let Some(&Model::Sent(who, value)) = queue.front() {
                        prop_assert_eq!(got, Some((who, value)));
                        queue.pop_front();
                        front += 1;
                    } else {
                        prop_assert_eq!(got, None);
                    }
                }
            }
        }
    }
}

/// Runs `kernel` kernel threads and `green` green threads.
fn crowd(runtime: &Runtime, kernel: usize, green: usize, body: impl Fn(usize) + Sync) {
    let body = &body;
    std::thread::scope(|s| {
        (0..kernel).for_each(|i| drop(s.spawn(move || body(i))));
        runtime.run(|| {
            marcel::scope(|s| {
                (kernel..kernel + green).for_each(|i| drop(s.spawn(move || body(i))));
            })
        });
    });
}

/// One that takes `(who, number)` and sees that each producer's come in order.
fn receive_all(manager: &Manager, mut consumer: Consumer<(usize, u32)>, producers: usize) -> u32 {
    let mut next = vec![0; producers];
    while let Ok((who, number)) = consumer.recv(manager) {
        assert!(number >= next[who], "{who} sent {number} before {}", next[who]);
        next[who] = number + 1;
    }
    next.iter().sum()
}

#[test]
fn kernel_and_green_threads_send_while_one_receives() {
    const EACH: u32 = 600;
    for (mode, slots) in [(Mode::Mono, 1), (Mode::Smp, 4), (Mode::Smp, 64)] {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        for green_receiver in [false, true] {
            let (producer, consumer) = channel(slots);
            let ends = std::sync::Mutex::new((vec![producer; 6], Some(consumer)));
            let receiver = if green_receiver { 6 } else { 0 };
            crowd(&runtime, 3, 4, |i| {
                if i == receiver {
                    let consumer = ends.lock().unwrap().1.take().unwrap();
                    // The last of each is never a hole.
                    assert_eq!(receive_all(manager, consumer, 7), 6 * EACH);
                    return;
                }
                let producer: Producer<_> = ends.lock().unwrap().0.pop().unwrap();
                for number in 0..EACH {
                    if number % 7 == 3 {
                        drop(producer.acquire_send());
                    }
                    producer.send(manager, (i, number)).unwrap();
                }
            });
        }
    }
}

/// Everybody sends to everybody through mailboxes with little room, and receives while there is none: nobody waits for
/// somebody who waits.
#[test]
fn all_send_to_all_and_receive_between_two_tries() {
    const THREADS: usize = 5;
    const EACH: usize = 200;
    let runtime = runtime(Mode::Smp);
    let (senders, boxes): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mailbox::<(usize, usize)>(2)).unzip();
    let boxes: Vec<_> = boxes.into_iter().map(|b| std::sync::Mutex::new(Some(b))).collect();
    crowd(&runtime, 2, THREADS - 2, |me| {
        let mut mailbox = boxes[me].lock().unwrap().take().unwrap();
        let mut last = [[None; 3]; THREADS];
        let mut missing = (THREADS - 1) * EACH;
        let mut receive = || {
            let Ok((urgency, (from, number))) = mailbox.try_recv() else {
                marcel::yield_now();
                return missing;
            };
            assert!(last[from][urgency as usize].replace(number) < Some(number));
            missing -= 1;
            missing
        };
        for number in 0..EACH {
            let urgency = [Urgency::Urgent, Urgency::Normal, Urgency::Idle][number % 3];
            for to in (0..THREADS).filter(|&to| to != me) {
                let mut position = senders[to].lane(urgency).acquire_send();
                while position.try_send((me, number)).is_err() {
                    receive();
                }
            }
        }
        while receive() > 0 {}
    });
}

#[test]
fn each_value_is_dropped_once_whatever_became_of_it() {
    let drops = Arc::new(AtomicUsize::new(0));
    let manager = manager();
    let made: usize = (0..40)
        .map(|round| {
            let (producer, mut consumer) = channel(4);
            let made = AtomicUsize::new(0);
            std::thread::scope(|s| {
                for _ in 0..2 {
                    let producer = producer.clone();
                    let (made, drops, manager) = (&made, &drops, &manager);
                    s.spawn(move || {
                        for n in 0..200 {
                            made.fetch_add(1, SeqCst);
                            let value = Counted(n, drops.clone());
                            if producer.send(manager, value).is_err() {
                                break;
                            }
                        }
                    });
                }
                drop(producer);
                for n in 0..round * 7 {
                    match consumer.read(&manager) {
                        Ok(message) if n % 2 == 0 => drop(message.take()),
                        Ok(message) => drop(message),
                        Err(RecvError) => break,
                    }
                }
                drop(consumer);
            });
            made.into_inner()
        })
        .sum();
    assert_eq!(drops.load(SeqCst), made);
}

#[test]
fn urgent_messages_come_first_and_each_lane_in_order() {
    let manager = manager();
    let (sender, mut mailbox) = mailbox(8);
    assert!(!mailbox.has_messages());
    for (urgency, value) in [
        (Urgency::Idle, 5),
        (Urgency::Normal, 3),
        (Urgency::Urgent, 1),
        (Urgency::Normal, 4),
        (Urgency::Urgent, 2),
    ] {
        sender.send(&manager, urgency, value).unwrap();
    }
    let lane = sender.lane(Urgency::Urgent).clone(); // outlives the sender
    drop(sender);
    for value in 1..=5 {
        assert_eq!(mailbox.recv(&manager).unwrap().1, value);
    }
    assert_eq!(mailbox.try_recv(), Err(TryRecvError::Empty));
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            lane.send(&manager, 6).unwrap();
            drop(lane);
        });
        assert_eq!(mailbox.recv(&manager), Ok((Urgency::Urgent, 6)));
        assert_eq!(mailbox.recv(&manager), Err(RecvError));
    });
}

#[test]
fn a_mailbox_is_woken_by_each_of_its_lanes() {
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        let (to, mut here) = mailbox(1);
        let (back, mut there) = mailbox(1);
        std::thread::scope(|s| {
            s.spawn(move || {
                while let Ok((urgency, n)) = here.recv(manager) {
                    back.send(manager, urgency, n).unwrap();
                }
            });
            runtime.run(|| {
                for n in 0..300 {
                    let urgency = [Urgency::Urgent, Urgency::Normal, Urgency::Idle][n % 3];
                    to.send(manager, urgency, n).unwrap();
                    assert_eq!(there.recv(manager), Ok((urgency, n)));
                }
                drop(to);
            });
        });
    }
}
