//! The control network between real processes: its messages, its use for connections, and the deaths of those on the way.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::launch;
use newmad::{Error, Session};

/// For one job; one takes a second where nothing else runs.
const LIMIT: Duration = Duration::from_secs(60);
/// The ranks that are killed in the midst of messages.
const VICTIMS: [u32; 2] = [2, 5];
/// Messages of each survivor to each other one.
const MESSAGES: u32 = 400;

/// Runs in the processes that the tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let result = newmad::run(|session| match scenario.as_str() {
        "each to each" => each_to_each(session),
        "deaths" => deaths(session),
        "computing" => computing(session),
        "links" => links(session),
        "close at once" => close_at_once(session),
        other => panic!("no scenario {other}"),
    });
    result.unwrap().unwrap();
}

fn others(session: &Session) -> impl Iterator<Item = u32> + use<> {
    let me = session.rank();
    (0..session.size()).filter(move |&rank| rank != me)
}

fn each_to_each(session: &Session) -> Result<(), Error> {
    let control = session.control();
    let me = session.rank();
    for number in 0..20u32 {
        for to in others(session) {
            control.send(to, &[me, to, number].map(u32::to_le_bytes).concat())?;
        }
    }
    let mut next = vec![0u32; session.size() as usize];
    for _ in 0..20 * (session.size() - 1) {
        let (from, bytes) = control.recv()?;
        let number = &mut next[from as usize];
        assert_eq!(bytes, [from, me, *number].map(u32::to_le_bytes).concat());
        *number += 1;
    }
    // Or closed: all others may have left.
    assert!(!matches!(control.try_recv(), Ok(Some(_))), "a message came twice");
    assert!(session.connections().is_empty(), "control messages need no links");
    assert!(matches!(control.send(session.size(), &[]), Err(Error::BadRank { .. })));
    Ok(())
}

/// Survivors number their messages to each other, while two die at some moment.
fn deaths(session: &Session) -> Result<(), Error> {
    let control = session.control();
    let me = session.rank();
    if VICTIMS.contains(&me) {
        let delay = Duration::from_micros(u64::from(std::process::id()) * 7919 % 30_000);
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            // SAFETY: no memory is involved.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
    }
    let survivors: Vec<u32> = others(session).filter(|rank| !VICTIMS.contains(rank)).collect();
    let mut next: BTreeMap<u32, u32> = survivors.iter().map(|&rank| (rank, 0)).collect();
    let receive = |next: &mut BTreeMap<u32, u32>, (from, bytes): (u32, Vec<u8>)| {
        if let Some(number) = next.get_mut(&from) {
            assert_eq!(bytes, number.to_le_bytes(), "from {from}");
            *number += 1;
        }
    };
    for number in 0..MESSAGES {
        for to in others(session) {
            match control.send(to, &number.to_le_bytes()) {
                Err(Error::PeerDied { rank, .. }) if VICTIMS.contains(&rank) => {}
                sent => sent?,
            }
        }
        while let Some(message) = control.try_recv()? {
            receive(&mut next, message);
        }
        if number.is_multiple_of(8) {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    while next.values().any(|&count| count < MESSAGES) {
        let message = control.recv()?;
        receive(&mut next, message);
    }
    // Of what was sent again nothing comes twice.
    for rank in &survivors {
        session.send(*rank, 1, &[])?;
    }
    for rank in &survivors {
        session.recv(*rank, 1, &mut [])?;
    }
    // Closed: all others have left already.
    while let Ok(Some((from, _))) = control.try_recv() {
        assert!(VICTIMS.contains(&from), "a message of rank {from} came twice");
    }
    if VICTIMS.contains(&me) {
        // Until it is killed.
        let _ = session.recv(me, 99, &mut []);
    }
    println!("\nSURVIVED");
    Ok(())
}

/// Rank 1 computes until a message says that it is enough; the message goes through rank 2, which computes, too.
fn computing(session: &Session) -> Result<(), Error> {
    static ENOUGH: AtomicBool = AtomicBool::new(false);
    let compute = || {
        while !ENOUGH.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let control = session.control();
    if session.rank() == 3 {
        // Backwards on the ring of four that is 3 → 2 → 1 or 3 → 0 → 1.
        control.send(1, b"enough")?;
        control.send(0, b"enough")?;
        control.send(2, b"enough")?;
        return Ok(());
    }
    let threads = marcel::topology::vp_count();
    let computing: Vec<_> = (0..threads).map(|_| marcel::spawn(compute)).collect();
    let (from, bytes) = control.recv()?;
    assert_eq!((from, &bytes[..]), (3, &b"enough"[..]));
    ENOUGH.store(true, Ordering::Relaxed);
    for thread in computing {
        thread.join().unwrap();
    }
    Ok(())
}

/// Links between all, whose ends ask each other how they are reached.
fn links(session: &Session) -> Result<(), Error> {
    for round in 0..3u8 {
        let sends: Vec<_> = others(session)
            .map(|to| session.isend(to, 1, vec![round; 100_000]))
            .collect::<Result<_, _>>()?;
        for from in others(session) {
            let mut bytes = vec![0; 100_000];
            session.recv(from, 1, &mut bytes)?;
            assert!(bytes.iter().all(|&byte| byte == round));
        }
        for send in sends {
            send.wait()?;
        }
    }
    Ok(())
}

/// What was sent before the end comes before the end.
fn close_at_once(session: &Session) -> Result<(), Error> {
    let control = session.control();
    if session.rank() == 0 {
        for number in 0..300u32 {
            control.send(session.size() / 2, &number.to_le_bytes())?;
        }
        return Ok(());
    }
    if session.rank() == session.size() / 2 {
        for number in 0..300u32 {
            assert_eq!(control.recv()?, (0, number.to_le_bytes().to_vec()));
        }
        return Ok(());
    }
    if session.rank() == 1 {
        // Nothing comes, and the end of the others ends the wait.
        assert!(matches!(control.recv(), Err(Error::Closed)));
    }
    Ok(())
}

const RAILS: [(&str, &str); 2] = [("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp")];

#[test]
fn every_rank_reaches_every_rank_without_links() {
    for (rails, dimensions) in RAILS.into_iter().zip(["2", "1"]) {
        let env = [rails, ("NMAD_CONTROL_DIMENSIONS", dimensions)];
        launch("each to each", 9, &env).succeed(LIMIT);
    }
}

#[test]
fn deaths_of_hops_lose_nothing_and_repeat_nothing() {
    for rails in RAILS {
        for dimensions in ["1", "2"] {
            let env = [rails, ("NMAD_CONTROL_DIMENSIONS", dimensions)];
            let ended = launch("deaths", 9, &env).end(LIMIT);
            for (rank, end) in ended.iter().enumerate() {
                let killed = VICTIMS.contains(&(rank as u32));
                let well = end.code == Some(0) && end.text.contains("SURVIVED");
                assert!(killed || well, "rank {rank}: {ended:#?}");
            }
        }
    }
}

#[test]
fn messages_reach_ranks_that_compute_through_ranks_that_compute() {
    launch("computing", 4, &[("MARCEL_NVP", "1")]).succeed(LIMIT);
}

#[test]
fn peers_say_over_the_network_how_they_are_reached() {
    for rails in [RAILS[0], RAILS[1], ("NMAD_DRIVER", "shm+tcp")] {
        launch("links", 6, &[rails, ("NMAD_CARDS", "network")]).succeed(LIMIT);
    }
}

#[test]
fn what_was_sent_before_the_end_comes() {
    launch("close at once", 8, &[]).succeed(LIMIT);
}

#[test]
fn processes_that_differ_in_the_network_are_told() {
    let env = |rank: usize| match rank {
        0 => vec![("NMAD_CONTROL_DIMENSIONS", "3")],
        _ => vec![("NMAD_CONTROL_DIMENSIONS", "2")],
    };
    let rewrite = std::sync::Arc::new(|_: usize, value: &str| value.to_owned());
    let ended = common::start("links", 2, 2, &env, rewrite).end(LIMIT);
    for end in &ended {
        let told = end.text.contains("NMAD_CONTROL_DIMENSIONS/NMAD_CARDS=");
        assert!(end.code != Some(0) && told, "{ended:#?}");
    }
}
