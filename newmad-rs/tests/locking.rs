//! The engine's lock, chosen while the session is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use newmad::{Locking, Session};
use pioman::Manager;

fn pair() -> (Arc<Manager>, Session, Session) {
    let manager = Manager::builder().build().unwrap();
    let mut world = Session::local_world(2, &manager).unwrap();
    let second = world.pop().unwrap();
    (manager, world.pop().unwrap(), second)
}

/// Whether the kernel has what `none` needs; where it has not, the session says so and goes on as it was.
fn unlocked(session: &Session) -> bool {
    match session.set_locking(Locking::None) {
        Ok(()) => true,
        Err(error) => {
            assert!(error.to_string().contains("membarrier"), "{error}");
            assert_ne!(session.locking(), Locking::None);
            false
        }
    }
}

#[test]
fn several_threads_use_a_session_while_its_lock_changes() {
    const THREADS: u64 = 3;
    const ROUNDS: usize = 400;
    let (_manager, a, b) = pair();
    if !unlocked(&a) {
        return;
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (a, b, over) = (&a, &b, &over);
        let players: Vec<_> = (0..THREADS)
            .flat_map(|tag| {
                // Short ones, and some that are announced.
                let length = |round: usize| if round.is_multiple_of(50) { 100_000 } else { round };
                let ping = scope.spawn(move || {
                    let mut back = vec![0; 100_000];
                    for round in 0..ROUNDS {
                        let data = vec![round as u8; length(round)];
                        a.send(1, tag, &data).unwrap();
                        let status = a.recv(1, tag, &mut back).unwrap();
                        assert_eq!(&back[..status.len], data);
                    }
                });
                let pong = scope.spawn(move || {
                    let mut data = vec![0; 100_000];
                    for _ in 0..ROUNDS {
                        let status = b.recv(0, tag, &mut data).unwrap();
                        b.send(0, tag, &data[..status.len]).unwrap();
                    }
                });
                [ping, pong]
            })
            .collect();
        scope.spawn(move || {
            for choice in [Locking::Coarse, Locking::None, Locking::Fine].into_iter().cycle() {
                if over.load(Relaxed) {
                    break;
                }
                for session in [a, b] {
                    session.set_locking(choice).unwrap();
                    assert_eq!(session.locking(), choice);
                }
                std::thread::yield_now();
            }
        });
        let played: Vec<_> = players.into_iter().map(|player| player.join()).collect();
        over.store(true, Relaxed);
        played.into_iter().for_each(|player| player.unwrap());
    });
    // Several kernel threads came.
    assert!(a.lock_revocations() > 0);
    a.set_locking(Locking::Coarse).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| a.close().unwrap());
        b.close().unwrap();
    });
}

#[test]
fn another_kernel_thread_takes_the_engine_away() {
    let session = Session::builder().open().unwrap();
    session.set_locking(Locking::Coarse).unwrap();
    let before = session.lock_revocations();
    if !unlocked(&session) {
        return;
    }
    let mut buffer = [0; 8];
    for round in 0..100u64 {
        let send = session.isend(0, round, round.to_ne_bytes()).unwrap();
        session.recv(0, round, &mut buffer).unwrap();
        send.wait().unwrap();
        assert_eq!(u64::from_ne_bytes(buffer), round);
    }
    assert!(session.set_locking(Locking::None).is_ok());
    assert!(session.connections().is_empty());
    let other = session.clone();
    std::thread::spawn(move || drop(other.connections())).join().unwrap();
    assert!(session.lock_revocations() > before);
    session.close().unwrap();
}

/// Short ones go beside the engine, longer ones through it, some are announced; others keep the engine busy.
#[test]
fn messages_of_a_thread_keep_their_order_whatever_is_chosen() {
    const COUNT: usize = 3000;
    let length = |number: usize| match number % 50 {
        7 | 8 => 100_000,
        20..24 => 20_000,
        _ => 8 + number % 40,
    };
    let (_manager, a, b) = pair();
    let choices = [Locking::Fine, Locking::Coarse, Locking::Fine, Locking::None];
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (a, b, over) = (&a, &b, &over);
        let sender = scope.spawn(move || {
            let mut under_way = std::collections::VecDeque::new();
            for number in 0..COUNT {
                if number.is_multiple_of(100) {
                    // Where the kernel refuses what `None` needs it stays as it was.
                    let _ = a.set_locking(choices[number / 100 % choices.len()]);
                }
                let mut data = vec![number as u8; length(number)];
                data[..8].copy_from_slice(&number.to_ne_bytes());
                if number.is_multiple_of(3) && data.len() < 50_000 {
                    a.send(1, 1, &data).unwrap();
                } else {
                    under_way.push_back(a.isend(1, 1, data).unwrap());
                }
                if under_way.len() > 8 {
                    under_way.pop_front().unwrap().wait().unwrap();
                }
            }
            under_way.into_iter().for_each(|send| drop(send.wait().unwrap()));
        });
        let receiver = scope.spawn(move || {
            let mut buffer = vec![0; 100_000];
            for number in 0..COUNT {
                let status = b.recv(0, 1, &mut buffer).unwrap();
                let (head, rest) = buffer[..status.len].split_at(8);
                assert_eq!(usize::from_ne_bytes(head.try_into().unwrap()), number);
                assert_eq!(status.len, length(number));
                assert!(rest.iter().all(|&byte| byte == number as u8));
            }
        });
        // The same lane, the same engine.
        let others: Vec<_> = (2..4)
            .map(|tag| {
                scope.spawn(move || {
                    let mut back = [0; 8];
                    for number in 0u64.. {
                        if over.load(Relaxed) {
                            break;
                        }
                        a.send(1, tag, &number.to_ne_bytes()).unwrap();
                        b.recv(0, tag, &mut back).unwrap();
                        assert_eq!(u64::from_ne_bytes(back), number);
                    }
                })
            })
            .collect();
        let ended = [sender.join(), receiver.join()];
        over.store(true, Relaxed);
        ended
            .into_iter()
            .chain(others.into_iter().map(|other| other.join()))
            .for_each(|end| end.unwrap());
    });
    std::thread::scope(|scope| {
        scope.spawn(|| a.close().unwrap());
        b.close().unwrap();
    });
}

#[test]
fn with_fine_locks_a_session_closes_behind_its_messages() {
    let (_manager, a, b) = pair();
    for session in [&a, &b] {
        session.set_locking(Locking::Fine).unwrap();
        assert_eq!(session.locking(), Locking::Fine);
    }
    for number in 0..100u64 {
        a.send(1, number, &number.to_ne_bytes()).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            a.close().unwrap();
            assert!(matches!(a.send(1, 1, &[1]), Err(newmad::Error::Closed)));
        });
        let mut buffer = [0; 8];
        for number in 0..100u64 {
            b.recv(0, number, &mut buffer).unwrap();
            assert_eq!(u64::from_ne_bytes(buffer), number);
        }
        b.close().unwrap();
    });
}
