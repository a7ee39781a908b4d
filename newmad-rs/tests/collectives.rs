//! Collectives between real processes, and what becomes of them when one is killed.

#[path = "common/collectives.rs"]
mod collectives;
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use collectives::{all_operations, values};
use common::launch;
use newmad::coll::Op;
use newmad::{Error, Session};

const LIMIT: Duration = Duration::from_secs(60);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let result = newmad::run(|session| match scenario.as_str() {
        "everything" => everything(session),
        "in_background" => in_background(session),
        "dies" => dies(session),
        "gives_up_early" => gives_up_early(session),
        "exposed" => exposed(session),
        other => panic!("no scenario {other}"),
    });
    if let Err(error) = result.and_then(|result| result) {
        panic!("{error}");
    }
}

fn everything(session: &Session) -> Result<(), Error> {
    let world = session.world()?;
    for (seed, count) in [0, 3, 900, 40_000].into_iter().enumerate() {
        all_operations(&world, count, seed)?;
    }
    if let Some(part) = world.split(Some(session.rank() % 2), 0)? {
        all_operations(&part, 500, 1)?;
    }
    world.barrier().wait()
}

#[test]
fn every_operation_between_processes() {
    for (size, env) in [
        (1, ("NMAD_DRIVER", "shm")),
        (2, ("NMAD_DRIVER", "shm")),
        (5, ("NMAD_DRIVER", "shm")),
        (3, ("NMAD_DRIVER", "tcp")),
        (3, ("NMAD_CMA", "0")),
        (3, ("MARCEL_MODE", "no-thread")),
        (3, ("MARCEL_MODE", "mono")),
        (2, ("PIOM_ENABLE_PROGRESSION", "0")),
    ] {
        launch("everything", size, &[env]).succeed(LIMIT);
    }
}

#[test]
fn a_wrong_algorithm_is_an_error_that_names_the_knob() {
    let ended = launch("everything", 1, &[("NMAD_COLL_ALLREDUCE", "magic")]).end(LIMIT);
    assert_ne!(ended[0].code, Some(0));
    assert!(ended[0].text.contains("NMAD_COLL_ALLREDUCE"), "{ended:#?}");
    assert!(ended[0].text.contains("reduce_bcast"), "{ended:#?}");
}

struct Told(AtomicBool);
impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A collective of several rounds ends although no rank calls the library after it has started it.
fn in_background(session: &Session) -> Result<(), Error> {
    let world = session.world()?;
    for round in 0..5 {
        world.barrier().wait()?;
        let data = values(session.rank() as usize, 5_000 * round + 1);
        let mut pending = std::pin::pin!(world.allreduce(data, &Op::sum()).start()?);
        let told = Arc::new(Told(AtomicBool::new(false)));
        let waker = Waker::from(told.clone());
        if pending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            let start = Instant::now();
            while !told.0.load(Ordering::SeqCst) {
                // The kernel thread: nothing else runs here meanwhile.
                std::thread::sleep(Duration::from_millis(1));
                assert!(start.elapsed() < Duration::from_secs(20), "round {round} is not over");
            }
        }
        assert!(pending.poll(&mut Context::from_waker(&waker)).is_ready());
    }
    Ok(())
}

#[test]
fn rounds_follow_each_other_while_nobody_calls() {
    for driver in common::drivers(&["shm", "tcp"]) {
        launch("in_background", 4, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
}

fn kill_oneself() -> ! {
    // SAFETY: kills this very process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Rank 1 dies; all others have to end with an error that has to do with it.
fn one_dies(scenario: &str, size: usize) {
    for env in common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp")]) {
        let ended = launch(scenario, size, &[env]).end(LIMIT);
        for (rank, end) in ended.iter().enumerate() {
            let expected = if rank == 1 { None } else { Some(0) };
            assert!(end.code == expected, "{env:?}: rank {rank}: {end:#?}");
        }
    }
}

fn is_failure(error: &Error) -> bool {
    matches!(error, Error::PeerDied { rank: 1, .. } | Error::Revoked { .. })
}

fn dies(session: &Session) -> Result<(), Error> {
    let world = session.world()?;
    let (rank, size) = (session.rank(), session.size());
    // Operations in which not every rank needs rank 1.
    world.barrier().wait()?;
    let start = Instant::now();
    let mut failed = false;
    let pending = world.allreduce(values(rank as usize, 60_000), &Op::sum()).start()?;
    for round in 0..1_000_000 {
        if rank == 1 && round == 20 {
            kill_oneself();
        }
        let mut data = vec![u64::from(rank); 1 + round % 3 * 5_000];
        let result = match round % 3 {
            0 => world.bcast(0, &mut data).wait().map(drop),
            1 => world.reduce(2, &mut data, &Op::sum()).wait().map(drop),
            _ => world.scan(&mut data, &Op::sum()).wait().map(drop),
        };
        if let Err(error) = result {
            assert!(is_failure(&error), "{error:?}");
            failed = true;
            break;
        }
    }
    assert!(failed, "rank 1 is dead");
    // Far more than it takes, and less than a hang.
    assert!(start.elapsed() < Duration::from_secs(20), "after {:?}", start.elapsed());
    let _ = pending.wait();
    // What comes later fails at once.
    let error = world.barrier().start().map(drop).unwrap_err();
    assert!(is_failure(&error), "{error:?}");
    // The survivors make a group of their own.
    let left: Vec<u32> = (0..size).filter(|&rank| rank != 1).collect();
    let group = session.group(&left)?;
    all_operations(&group, 100, 1)
}

#[test]
fn a_killed_member_ends_the_group_and_the_others_make_a_new_one() {
    one_dies("dies", 4);
}

/// Rank 0 notices, and does not come to the next collective; rank 2 has had no part in what failed. The next one needs
/// `next` bytes of memory that rank 2 has lent to the library.
fn first_one_then_the_other(session: &Session, root: u32, next: usize) -> Result<(), Error> {
    let world = session.world()?;
    world.barrier().wait()?;
    if session.rank() == 1 {
        kill_oneself();
    }
    // To rank 0 go those of both others: rank 2 has sent its own and is done.
    let reduced = world.reduce(0, &mut [1u64], &Op::sum()).wait().map(drop);
    if session.rank() == 0 {
        assert!(is_failure(&reduced.unwrap_err()));
        // From now on it does something else. Its end would be noticed, so it stays.
        let mut buffer = [0; 1];
        session.recv(2, 1, &mut buffer)?;
        return Ok(());
    }
    let start = Instant::now();
    let mut data = vec![0u8; next];
    let mut result = reduced;
    // A root that only sends is not told at once.
    while result.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "after {:?}", start.elapsed());
        result = world.bcast(root, &mut data).wait().map(drop);
    }
    assert!(is_failure(&result.unwrap_err()));
    assert!(start.elapsed() < Duration::from_secs(20), "after {:?}", start.elapsed());
    session.send(0, 1, b"x")
}

/// Rank 2 waits for rank 0.
fn gives_up_early(session: &Session) -> Result<(), Error> {
    first_one_then_the_other(session, 0, 8)
}

#[test]
fn nobody_waits_for_a_survivor_who_has_given_up() {
    one_dies("gives_up_early", 3);
}

/// Rank 2 sends rank 0 a message that is announced first, and that no receive asks for.
fn exposed(session: &Session) -> Result<(), Error> {
    first_one_then_the_other(session, 2, 4_000_000)
}

#[test]
fn a_long_message_to_who_has_given_up_is_not_waited_for() {
    one_dies("exposed", 3);
}
