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
            assert_eq!(session.locking(), Locking::Coarse);
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
            for choice in [Locking::Coarse, Locking::None].into_iter().cycle() {
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
    let before = session.lock_revocations();
    assert_eq!((session.locking(), before), (Locking::Coarse, 0));
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
