//! Models of the slots' protocol and of waits. Loom's cells panic on an access to a value that is not ordered; loom
//! reports a deadlock if a waiter is not woken.

use loom::thread;

use super::{Message, Producer, channel};
use crate::shim::Arc;
use pioman::Completion;

fn sleep(done: &Completion) {
    done.latch().wait("a model");
}

fn send(producer: &Producer<u32>, value: u32) {
    producer.acquire_send().send_with(value, sleep).expect("the consumer is there");
}

/// Two producers with two places each, one of which is a hole, while the consumer looks. There is room for all: waits
/// for room are checked below.
#[test]
fn two_producers_and_a_hole_in_order() {
    fn put(producer: &Producer<u32>, value: u32) {
        producer.acquire_send().try_send(value).expect("there is room");
    }
    loom::model(|| {
        let (producer, mut consumer) = channel::<u32>(4);
        let producer = Arc::new(producer);
        let other = producer.clone();
        let first = thread::spawn({
            let producer = producer.clone();
            move || (10..12).for_each(|value| put(&producer, value))
        });
        let second = thread::spawn(move || {
            drop(other.acquire_send());
            put(&other, 20);
        });
        let mut got = Vec::new();
        got.extend(consumer.try_read().map(Message::take));
        got.extend(consumer.try_read().map(Message::take));
        first.join().unwrap();
        second.join().unwrap();
        while let Some(message) = consumer.try_read() {
            got.push(message.take());
        }
        let of = |ten: u32| got.iter().copied().filter(|v| v / 10 == ten).collect::<Vec<_>>();
        assert_eq!((of(1), of(2)), (vec![10, 11], vec![20]));
    });
}

/// One slot: each message but the first waits for the one before.
#[test]
fn a_producer_that_waits_for_its_slot_is_woken() {
    loom::model(|| {
        let (producer, mut consumer) = channel::<u32>(1);
        let sender = thread::spawn(move || (0..3).for_each(|value| send(&producer, value)));
        for value in 0..3 {
            assert_eq!(*consumer.read_with(sleep).unwrap(), value);
        }
        assert!(consumer.read_with(sleep).is_err());
        sender.join().unwrap();
    });
}

/// What was sent when the consumer goes is dropped once, by it or with the channel. A waiting sender is told.
#[test]
fn the_consumer_goes_while_somebody_sends() {
    loom::model(|| {
        let (producer, consumer) = channel(1);
        let value = loom::sync::Arc::new(());
        let sender = {
            let value = value.clone();
            thread::spawn(move || {
                let mut sent = 0;
                while producer.acquire_send().send_with(value.clone(), sleep).is_ok() {
                    sent += 1;
                }
                assert!(sent <= 2 && producer.is_closed());
            })
        };
        drop(consumer);
        sender.join().unwrap();
        assert_eq!(loom::sync::Arc::strong_count(&value), 1);
    });
}

/// A hole that is given up while the consumer waits for that very position, ahead of the slot's lap.
#[test]
fn a_place_that_is_given_up_holds_nobody_up() {
    loom::model(|| {
        let (producer, mut consumer) = channel::<u32>(1);
        send(&producer, 1);
        let other = producer.clone();
        let gone = other.acquire_send();
        let sender = thread::spawn(move || send(&producer, 2));
        let reader = thread::spawn(move || {
            assert_eq!(consumer.read_with(sleep).unwrap().take(), 1);
            assert_eq!(consumer.read_with(sleep).unwrap().take(), 2);
        });
        drop(gone);
        sender.join().unwrap();
        reader.join().unwrap();
    });
}
