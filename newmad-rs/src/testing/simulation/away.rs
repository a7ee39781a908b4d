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
    cores[0].signals.absence.comes_at_once();
    assert!(!is_announced(&mut cores, false));
    cores[0].away = 100;
    assert!(!is_announced(&mut cores, false));
}

/// Nothing that its receiver keeps for others holds up what comes behind it, whatever the lengths, and whatever came before.
#[test]
fn messages_that_leave_at_once_fit_the_memory_of_a_receiver_that_wants_a_later_one() {
    let short = (16 << 10, 1 << 20, [65, 1025, 8193]);
    let long = (256 << 10, 8 << 20, [1025, 65_537, 200_000]);
    let longer = (1 << 20, 8 << 20, [100, 65_537, 524_289]);
    for (threshold, unexpected, lengths) in [short, long, longer] {
        let memory = unexpected - crate::matching::pool::first_bytes(threshold);
        // The only sender may fill all of the memory.
        let of_each = crate::gate::config::credit(u64::MAX, memory, 1);
        let world = World::new(1, Nature { copies: true, room: 4, mtu: 65_000, ..USUAL });
        let mut cores: Vec<_> = (0..2)
            .map(|rank| {
                let config = Config { credit: of_each, ..Config::new(threshold, unexpected) };
                world.core_with(rank, 2, config)
            })
            .collect();
        let id = world.connect(0);
        cores.iter_mut().for_each(|core| attach(core, 0, id));
        for len in lengths.into_iter().chain(lengths.into_iter().rev()) {
            overtake_a_flood(&mut cores, len, of_each as usize / (len + 64) + 20);
        }
    }
}

/// A receiver takes the last one of many messages, and then the others. What goes beyond the credit is announced.
fn overtake_a_flood(cores: &mut [Core<Virtual>], len: usize, messages: usize) {
    let how = How { waits: true, spread: 0 };
    let flood: Vec<_> = (0..messages)
        .map(|_| Asked::send_with(&mut cores[0], (1, 1), vec![1; len], how, |request| request))
        .collect();
    let behind = Asked::send(&mut cores[0], (1, 2), b"behind it".to_vec());
    let wanted = Asked::recv(&mut cores[1], (0, 2), 9);
    settle(cores);
    assert!(wanted.is_finished() && behind.is_finished(), "{len} B");
    for _ in flood {
        let received = Asked::recv(&mut cores[1], (0, 1), len);
        settle(cores);
        assert!(received.is_finished());
    }
}

/// Owners compute: the connection manager gives memory, looks, and looks again until there is enough.
#[test]
fn who_gives_memory_looks_again_when_it_is_lacking_again() {
    let world = World::new(1, Nature { copies: true, room: 64, mtu: 16_000, ..USUAL });
    let config = Config::new(16 << 10, 64 << 20);
    let mut cores: Vec<_> = (0..2).map(|rank| world.core_with(rank, 2, config)).collect();
    let id = world.connect(0);
    cores.iter_mut().for_each(|core| attach(core, 0, id));
    let sent: Vec<_> =
        (0..40).map(|_| Asked::send(&mut cores[0], (1, 1), vec![1; 10_000])).collect();
    let signals = cores[1].signals.clone();
    let is = |word: &std::sync::atomic::AtomicBool| word.load(std::sync::atomic::Ordering::Relaxed);
    cores[1].progress();
    assert!(is(&signals.starved) && signals.pace().is_some());
    for now in 0..10 {
        cores[1].grow();
        cores[1].tick(now);
        assert!(signals.pace().is_some() || !is(&signals.starved), "look {now}");
    }
    assert!(!is(&signals.starved));
    for _ in sent {
        assert!(Asked::recv(&mut cores[1], (0, 1), 10_000).is_finished());
    }
    settle(&mut cores);
}
