//! Long messages of programs that compute while these leave, and of those that wait.

use super::*;

/// Whether a message of 100 bytes is announced; it is received in any case.
fn is_announced(cores: &mut [Core<Virtual>], waits: bool) -> bool {
    let how = How { waits, spread: 0 };
    let sent = Asked::send_with(&mut cores[0], (1, 0), vec![7; 100], how, |request| request);
    let announced = sent.get().is_synchronous();
    let received = Asked::recv(&mut cores[1], (0, 0), 100);
    settle(cores);
    assert!(sent.is_finished() && received.message() == [7; 100]);
    announced
}

#[test]
fn between_the_thresholds_a_message_is_announced_unless_its_sender_waits_or_is_about_to() {
    let (mut cores, _) = pair();
    assert!(!is_announced(&mut cores, false));
    cores[0].away = 60;
    assert!(is_announced(&mut cores, false));
    assert!(!is_announced(&mut cores, true));
    let signals = cores[0].signals.clone();
    let in_a_call = signals.absence.waiting();
    assert!(!is_announced(&mut cores, false));
    drop(in_a_call);
    assert!(is_announced(&mut cores, false));
    for _ in 0..2 {
        let absence = &cores[0].signals.absence;
        absence.posts(1, true);
        absence.leaves(2);
        absence.waits(|| 3);
    }
    assert!(!is_announced(&mut cores, false));
    cores[0].away = 100;
    assert!(!is_announced(&mut cores, false));
}

/// Nothing that its receiver keeps for others holds up what comes behind it, whatever the lengths.
#[test]
fn messages_that_leave_at_once_fit_the_memory_of_a_receiver_that_wants_a_later_one() {
    const UNEXPECTED: usize = 4 << 20;
    let of_each = crate::gate::config::credit(u64::MAX, UNEXPECTED, 2);
    for len in [65, 1025, 8193, 65_537, 200_000] {
        let world = World::new(1, Nature { copies: true, room: 4, mtu: 65_000, ..USUAL });
        let mut cores: Vec<_> = (0..2)
            .map(|rank| {
                let config = Config { credit: of_each, ..Config::new(256 << 10, UNEXPECTED) };
                world.core_with(rank, 2, config)
            })
            .collect();
        let id = world.connect(0);
        cores.iter_mut().for_each(|core| attach(core, 0, id));
        let how = How { waits: true, spread: 0 };
        // What goes beyond the credit is announced.
        let messages = of_each as usize / (len + 64) + 200;
        let flood: Vec<_> = (0..messages)
            .map(|_| Asked::send_with(&mut cores[0], (1, 1), vec![1; len], how, |request| request))
            .collect();
        let behind = Asked::send(&mut cores[0], (1, 2), b"behind it".to_vec());
        let wanted = Asked::recv(&mut cores[1], (0, 2), 9);
        settle(&mut cores);
        assert!(wanted.is_finished() && behind.is_finished(), "{len} B");
        for _ in flood {
            let received = Asked::recv(&mut cores[1], (0, 1), len);
            settle(&mut cores);
            assert!(received.is_finished());
        }
    }
}
