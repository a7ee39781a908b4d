//! Real processes that talk to each other over each driver.

mod common;

use std::time::{Duration, Instant};

use common::{byte, launch, message};
use newmad::{ANY, Error, Session};

const LIMIT: Duration = Duration::from_secs(120);
const DRIVERS: [&str; 2] = ["shm", "tcp"];

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "ping_pong" => ping_pong,
        "any_source" => any_source,
        "truncation" => truncation,
        "threads" => threads,
        "flood" => flood,
        "stress" => |session: &Session| stress(session, 20_000),
        "long stress" => |session: &Session| stress(session, 1_000_000),
        "barrier" => barrier,
        "overlap" => overlap,
        "idle" => idle,
        "wrong_use" => wrong_use,
        "forgotten" => forgotten,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

/// Every driver, and shared memory without cross-memory attach.
fn everywhere(scenario: &str, size: usize, env: &[(&str, &str)]) {
    everywhere_within(LIMIT, scenario, size, env);
}

fn everywhere_within(limit: Duration, scenario: &str, size: usize, env: &[(&str, &str)]) {
    let drivers = common::drivers(&DRIVERS);
    for &driver in &drivers {
        let env: Vec<_> =
            [("NMAD_DRIVER", driver)].into_iter().chain(env.iter().copied()).collect();
        launch(scenario, size, &env).succeed(limit);
    }
    if drivers != DRIVERS {
        return;
    }
    let env: Vec<_> = [("NMAD_CMA", "0")].into_iter().chain(env.iter().copied()).collect();
    launch(scenario, size, &env).succeed(limit);
}

/// Sizes around everything that changes the protocol: cache line, slot, thresholds, pieces.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 7, 23, 24, 25, 63, 64, 65, 1000];
    for edge in [8200, 8208, 8216, 16384, 32768, 65536, 262_144, 1 << 20] {
        sizes.extend([edge - 1, edge, edge + 1]);
    }
    sizes.push(5_000_000);
    sizes
}

fn ping_pong(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    let mut buffer = vec![0; 5_000_000];
    for (number, size) in sizes().into_iter().enumerate() {
        let number = number as u64;
        let data = message(number, size);
        for round in 0..3 {
            if session.rank() == 0 {
                session.send(peer, number, &data)?;
            }
            buffer[..size].fill(0);
            let status = session.recv(peer, number, &mut buffer)?;
            assert_eq!((status.source, status.tag, status.len), (peer, number, size));
            assert!(buffer[..size] == data, "size {size}, round {round}");
            if session.rank() == 1 {
                session.send(peer, number, &data)?;
            }
        }
    }
    Ok(())
}

#[test]
fn ping_pong_of_all_sizes() {
    everywhere("ping_pong", 2, &[]);
}

#[test]
fn ping_pong_in_every_mode() {
    for mode in ["no-thread", "mono"] {
        everywhere("ping_pong", 2, &[("MARCEL_MODE", mode)]);
    }
    everywhere("ping_pong", 2, &[("PIOM_ENABLE_PROGRESSION", "0")]);
    everywhere("ping_pong", 2, &[("PIOM_BUSY_WAIT_USEC", "0")]);
}

#[test]
fn ping_pong_with_tiny_rings_and_odd_thresholds() {
    let tiny = [("NMAD_SHM_SLOTS", "2"), ("NMAD_SHM_SLOT_SIZE", "128")];
    launch("ping_pong", 2, &tiny).succeed(LIMIT);
    everywhere("ping_pong", 2, &[("NMAD_RDV_THRESHOLD", "0")]);
    everywhere("ping_pong", 2, &[("NMAD_RDV_THRESHOLD", "1048576")]);
}

#[test]
fn submissions_are_left_to_idle_cores() {
    for offload in ["always", "never"] {
        let env = [("NMAD_OFFLOAD", offload)];
        everywhere("ping_pong", 2, &env);
        everywhere("stress", 2, &env);
    }
    // Idle cores look for events all the time.
    everywhere("stress", 2, &[("NMAD_OFFLOAD", "always"), ("PIOM_POLICY", "always-poll")]);
}

fn any_source(session: &Session) -> Result<(), Error> {
    const EACH: u64 = 300;
    let (rank, size) = (session.rank(), session.size());
    if rank > 0 {
        for number in 0..EACH {
            let len = (number as usize * 977) % 40_000;
            session.send(0, 5, &message(u64::from(rank) << 32 | number, len))?;
        }
        return Ok(());
    }
    let mut next = vec![0; size as usize];
    let mut buffer = vec![0; 40_000];
    for _ in 0..EACH * u64::from(size - 1) {
        let status = session.recv(ANY, 5, &mut buffer)?;
        let number = &mut next[status.source as usize];
        assert_eq!(
            status.len,
            (*number as usize * 977) % 40_000,
            "order of rank {}",
            status.source
        );
        let first = byte(u64::from(status.source) << 32 | *number, 0);
        assert!(status.len == 0 || buffer[0] == first);
        *number += 1;
    }
    Ok(())
}

#[test]
fn any_source_keeps_each_ranks_order() {
    everywhere("any_source", 4, &[]);
}

fn truncation(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    for (index, len) in [100usize, 10_000, 100_000, 3_000_000].into_iter().enumerate() {
        let tag = index as u64;
        if session.rank() == 0 {
            session.send(peer, tag, &message(1, len))?;
            session.send(peer, tag, &message(2, 50))?;
            continue;
        }
        let mut short = vec![0; len / 3];
        match session.recv(peer, tag, &mut short) {
            Err(Error::Truncated { from, tag: told, message: whole, capacity }) => {
                assert_eq!((from, told, whole, capacity), (peer, tag, len, len / 3));
            }
            other => panic!("{other:?}"),
        }
        assert!(short == message(1, len)[..len / 3]);
        let mut next = [0; 64];
        let status = session.recv(peer, tag, &mut next)?;
        assert_eq!(&next[..status.len], message(2, 50));
    }
    if session.rank() == 0 {
        return session.send(peer, 99, b"7 bytes");
    }
    let nothing = session.recv(peer, 99, &mut []);
    assert!(
        matches!(nothing, Err(Error::Truncated { message: 7, capacity: 0, .. })),
        "{nothing:?}"
    );
    Ok(())
}

#[test]
fn truncation_tells_both_lengths_and_spares_the_next_message() {
    everywhere("truncation", 2, &[]);
}

fn threads(session: &Session) -> Result<(), Error> {
    // Green threads and kernel threads of both ranks, each pair on its own tag, sizes on both sides of the
    // thresholds; and every fourth message to oneself.
    const THREADS: u64 = 6;
    let talk = |session: Session, thread: u64| -> Result<(), Error> {
        let peer = 1 - session.rank();
        let mut buffer = vec![0; 70_000];
        for number in 0..100u64 {
            let len = ((number * 7919 + thread * 131) % 70_000) as usize;
            let data = message(thread << 32 | number, len);
            if number % 4 == 3 {
                let own = session.isend(session.rank(), thread, data.clone())?;
                let status = session.recv(session.rank(), thread, &mut buffer)?;
                assert!(buffer[..status.len] == data);
                own.wait()?;
            }
            let send = session.isend(peer, thread, data.clone())?;
            let status = session.recv(peer, thread, &mut buffer)?;
            assert!(buffer[..status.len] == data, "thread {thread}, message {number}");
            send.wait()?;
        }
        Ok(())
    };
    let green: Vec<_> = (0..THREADS)
        .map(|thread| {
            let session = session.clone();
            marcel::spawn(move || talk(session, thread))
        })
        .collect();
    let kernel: Vec<_> = (0..THREADS)
        .map(|thread| {
            let session = session.clone();
            std::thread::spawn(move || talk(session, 100 + thread))
        })
        .collect();
    for thread in green {
        thread.join().unwrap()?;
    }
    for thread in kernel {
        thread.join().unwrap()?;
    }
    Ok(())
}

#[test]
fn green_and_kernel_threads_at_once() {
    everywhere("threads", 2, &[]);
}

fn flood(session: &Session) -> Result<(), Error> {
    // Far more unexpected bytes than the pool starts with; then both sides flood each other.
    const MESSAGES: u64 = 3_000;
    let peer = 1 - session.rank();
    let len = |number: u64| (number * 37 % 12_000) as usize;
    for round in 0..2 {
        let both = round == 1;
        if both || session.rank() == 0 {
            for number in 0..MESSAGES {
                session.send(peer, 1, &message(number, len(number)))?;
            }
            session.send(peer, 2, b"over")?;
        }
        if both || session.rank() == 1 {
            let mut buffer = vec![0; 12_000];
            session.recv(peer, 2, &mut buffer)?;
            for number in 0..MESSAGES {
                let status = session.recv(peer, 1, &mut buffer)?;
                assert_eq!(status.len, len(number));
                assert!(buffer[..status.len] == message(number, status.len));
            }
        }
        session.barrier()?;
    }
    Ok(())
}

#[test]
fn floods_of_unexpected_messages_are_kept() {
    everywhere("flood", 2, &[]);
}

fn barrier(session: &Session) -> Result<(), Error> {
    // No rank may be a round ahead: rank 0 collects every rank's round between two barriers.
    for round in 0..50u64 {
        if session.rank() == 0 {
            for _ in 1..session.size() {
                let mut number = [0; 8];
                session.recv(ANY, 3, &mut number)?;
                assert_eq!(u64::from_le_bytes(number), round);
            }
        } else {
            session.send(0, 3, &round.to_le_bytes())?;
        }
        session.barrier()?;
    }
    Ok(())
}

#[test]
fn barriers_hold_everybody() {
    everywhere("barrier", 5, &[]);
}

fn overlap(session: &Session) -> Result<(), Error> {
    // The receiver computes without any call, until the sender has been let go. They tell each other by a file, and
    // not by a time limit of the machine's usual speed: it may be busy with other things.
    const FOR_EVER: Duration = Duration::from_secs(20);
    let data = message(1, 1 << 20);
    for round in 0..5 {
        let mut sender = std::process::id().to_le_bytes();
        if session.rank() == 0 {
            session.send(1, 2, &sender)?;
        } else {
            session.recv(0, 2, &mut sender)?;
        }
        let name = format!("newmad-overlap-{}-{round}", u32::from_le_bytes(sender));
        let sent = std::env::temp_dir().join(name);
        session.barrier()?;
        if session.rank() == 0 {
            session.send(1, 1, &data)?;
            std::fs::write(&sent, b"").unwrap();
        } else {
            let request = session.irecv(0, 1, vec![0; 1 << 20])?;
            let start = Instant::now();
            while !sent.exists() && start.elapsed() < FOR_EVER {
                let until = Instant::now() + Duration::from_millis(5);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
            let waited = !sent.exists();
            let (buffer, _) = request.wait()?;
            assert!(buffer == data);
            assert!(!waited, "the sender waited for the receiver's computation");
            std::fs::remove_file(&sent).unwrap();
        }
    }
    Ok(())
}

#[test]
fn a_computing_receiver_does_not_hold_the_sender() {
    everywhere("overlap", 2, &[]);
    everywhere("overlap", 2, &[("MARCEL_MODE", "mono")]);
}

fn cpu_time() -> Duration {
    // SAFETY: plain data that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn idle(session: &Session) -> Result<(), Error> {
    session.barrier()?;
    // What the threads of the library still do of the opening falls into the first wait: one of three is enough.
    let mut again = [1];
    for _ in 0..3 {
        if session.rank() == 0 {
            std::thread::sleep(Duration::from_secs(2));
            session.send(1, 1, b"x")?;
            session.recv(1, 2, &mut again)?;
        } else {
            let before = cpu_time();
            session.recv(0, 1, &mut [0])?;
            let burnt = cpu_time() - before;
            println!("waiting 2 s burnt {burnt:?}");
            again = [u8::from(burnt >= Duration::from_millis(40))];
            session.send(0, 2, &again)?;
        }
        if again == [0] {
            return Ok(());
        }
    }
    panic!("each wait of 2 s burnt 40 ms or more");
}

#[test]
fn waiting_burns_no_processor() {
    everywhere("idle", 2, &[]);
}

fn wrong_use(session: &Session) -> Result<(), Error> {
    let size = session.size();
    assert!(
        matches!(session.send(size, 0, &[]), Err(Error::BadRank { rank, size: s }) if rank == size && s == size)
    );
    assert!(matches!(session.recv(u32::MAX, 0, &mut []), Err(Error::BadRank { .. })));
    assert!(matches!(session.send(0, 1 << 63, &[]), Err(Error::BadTag { .. })));
    assert!(session.irecv(ANY, u64::MAX, Vec::new()).is_err());
    assert!(session.isend(size, 0, "x").is_err());
    // A receive that nothing matched is taken back, and takes nothing with it.
    drop(session.irecv(ANY, 1, vec![0; 8])?);
    session.barrier()?;
    let peer = (session.rank() + 1) % size;
    session.send(peer, 1, b"kept")?;
    let mut buffer = [0; 8];
    assert_eq!(session.recv(ANY, 1, &mut buffer)?.len, 4);
    Ok(())
}

#[test]
fn wrong_use_is_an_error() {
    everywhere("wrong_use", 3, &[]);
}

fn forgotten(session: &Session) -> Result<(), Error> {
    // Requests whose handles are forgotten leak; messages still land somewhere harmless.
    let peer = 1 - session.rank();
    for len in [10, 100_000] {
        std::mem::forget(session.irecv(peer, 1, vec![0; len])?);
        std::mem::forget(session.isend(peer, 1, vec![7; len])?);
    }
    std::mem::forget(session.irecv(peer, 2, vec![0; 8])?);
    std::mem::forget(session.isend(peer, 3, vec![0; 1_000_000])?);
    session.barrier()
}

#[test]
fn forgotten_requests_leak_and_do_not_hang_the_end() {
    everywhere("forgotten", 2, &[]);
}

/// Mixed messages: several tags, sizes on both sides of the thresholds, posting orders that differ from the
/// sending order, any source. `total` messages.
fn stress(session: &Session, total: u64) -> Result<(), Error> {
    const WINDOW: usize = 32;
    let each = total / 2;
    let peer = 1 - session.rank();
    let mut state = 0x1234_5678_9abc_def0u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut number = 0;
    while number < each {
        let mut batch = Vec::new();
        for _ in 0..WINDOW {
            let len = match random(100) {
                0..70 => random(64),
                70..95 => random(9_000),
                95..99 => 16_000 + random(1_000) * (1 + random(20)),
                _ => random(100_000),
            } as usize;
            batch.push((random(4), len));
        }
        let order: Vec<u64> = (0..WINDOW as u64).map(|_| random(1000)).collect();
        // Receives by tag, tags in random order; inside a tag in the order of sending.
        let mut receives: Vec<usize> = (0..WINDOW).collect();
        let first_of = |tag: u64| order[tag as usize];
        receives.sort_by_key(|&index| (first_of(batch[index].0), index));
        let mut posted = Vec::new();
        let early = random(2) == 0;
        let mut post = |session: &Session| -> Result<(), Error> {
            for &index in &receives {
                let (tag, len) = batch[index];
                let from = if order[index].is_multiple_of(3) { ANY } else { peer.into() };
                posted.push((index, session.irecv(from, tag, vec![0; len])?));
            }
            Ok(())
        };
        if early {
            post(session)?;
        }
        let mut sends = Vec::new();
        for (index, &(tag, len)) in batch.iter().enumerate() {
            let id = number + index as u64;
            let mut data = vec![byte(id, len); len];
            if len >= 8 {
                data[..8].copy_from_slice(&id.to_le_bytes());
            }
            sends.push(session.isend(peer, tag, data)?);
        }
        if !early {
            post(session)?;
        }
        for (index, request) in posted {
            let (buffer, status) = request.wait()?;
            let id = number + index as u64;
            assert_eq!((status.len, status.source), (batch[index].1, peer), "message {id}");
            let from = if status.len >= 8 { 8 } else { 0 };
            assert!(buffer[from..].iter().all(|&b| b == byte(id, status.len)), "message {id}");
            assert!(from == 0 || buffer[..8] == id.to_le_bytes());
        }
        for send in sends {
            send.wait()?;
        }
        number += WINDOW as u64;
    }
    Ok(())
}

#[test]
fn stress_of_mixed_messages() {
    everywhere("stress", 2, &[]);
}

#[test]
#[ignore = "minutes: cargo test --release -p newmad --test processes -- --ignored a_million"]
fn stress_of_a_million_mixed_messages() {
    // A guest with an adapter made of software sends some thousands a second.
    everywhere_within(8 * LIMIT, "long stress", 2, &[]);
}
