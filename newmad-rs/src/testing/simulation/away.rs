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
