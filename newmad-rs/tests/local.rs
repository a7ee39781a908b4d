//! Several ranks in one process, and the shapes of requests.

use std::sync::Arc;
use std::time::Duration;

use newmad::{ANY, Cause, Error, Origin, Session};
use pioman::Manager;

fn world(size: u32) -> Vec<Session> {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    Session::local_world(size, &manager).unwrap()
}

#[test]
fn ranks_of_one_process_talk() {
    let sessions = world(4);
    std::thread::scope(|threads| {
        for session in &sessions {
            threads.spawn(move || {
                let (rank, size) = (session.rank(), session.size());
                for len in [0, 1, 5_000, 20_000, 1_000_000] {
                    let (next, data) = ((rank + 1) % size, vec![rank as u8; len]);
                    let mut buffer = vec![0xff; len];
                    let (buffer, status) = session
                        .scope(|scope| {
                            let receive = scope.irecv(ANY, len as u64, &mut buffer)?;
                            let _ = scope.isend(next, len as u64, &data)?;
                            receive.wait()
                        })
                        .unwrap();
                    assert_eq!((status.len, status.source), (len, (rank + size - 1) % size));
                    assert!(buffer.iter().all(|&byte| byte == status.source as u8));
                    session.barrier().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_rank_that_is_dropped_has_left() {
    let mut sessions = world(2);
    let (last, first) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    last.send(0, 1, b"bye").unwrap();
    drop(last);
    let mut buffer = [0; 8];
    assert_eq!(first.recv(1, 1, &mut buffer).unwrap().len, 3);
    let gone = first.recv(1, 1, &mut buffer);
    assert!(matches!(gone, Err(Error::PeerDied { rank: 1, cause: Cause::Left })), "{gone:?}");
    first.close().unwrap();
    first.close().unwrap();
    assert!(matches!(first.send(0, 1, b"x"), Err(Error::Closed)));
}

/// One thread ends both, one after the other: the first one cannot wait for what the second may send.
#[test]
fn a_rank_is_dropped_while_a_function_waits_for_a_message() {
    for from in [Origin::Rank(0), ANY] {
        let mut sessions = world(2);
        let last = sessions.pop().unwrap();
        last.send(0, 1, b"hello").unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let receive = last.irecv(from, 2, vec![0; 8]).unwrap();
        receive.on_done(move |result| tell.send(result.map(drop)).unwrap());
        let (over, is_over) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(last);
            drop(sessions);
            over.send(()).unwrap();
        });
        is_over.recv_timeout(Duration::from_secs(30)).expect("the first one waits for the second");
        assert!(matches!(told.recv().unwrap(), Err(Error::Closed)));
    }
}

#[test]
fn a_scope_waits_on_return_on_error_and_on_panic() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    let mut buffer = [0; 4];
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            last.send(0, 1, b"late").unwrap();
        });
        first.scope(|scope| scope.irecv(1, 1, &mut buffer).map(drop)).unwrap();
    });
    assert_eq!(&buffer, b"late");
    // The error of a request that was never waited for is not lost.
    last.send(0, 2, b"too long").unwrap();
    let result = first.scope(|scope| scope.irecv(1, 2, &mut buffer).map(drop));
    assert!(matches!(result, Err(Error::Truncated { message: 8, capacity: 4, .. })), "{result:?}");
    // A panic comes out, and the receive that nothing matched does not hold it.
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        first.scope::<()>(|scope| {
            let _ = scope.irecv(1, 3, &mut buffer)?;
            panic!("on purpose")
        })
    }));
    assert!(panic.is_err());
    last.send(0, 3, b"next").unwrap();
    assert_eq!(first.recv(1, 3, &mut buffer).unwrap().len, 4);
}

#[test]
fn cancelled_or_matched_and_never_both() {
    // Receives are dropped while their messages arrive: each message is either taken by its receive or still
    // there afterwards.
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    for round in 0..500u64 {
        let mut taken = false;
        std::thread::scope(|threads| {
            threads.spawn(|| last.send(0, round, &round.to_le_bytes()).unwrap());
            let request = first.irecv(1, round, vec![0; 8]).unwrap();
            for _ in 0..round % 50 {
                taken |= request.test();
            }
            taken |= request.test();
            if taken {
                assert_eq!(request.wait().unwrap().0, round.to_le_bytes());
            } else {
                drop(request);
            }
        });
        // A dropped receive may have been matched at the last moment; a marker tells.
        last.send(0, round, b"mark").unwrap();
        let mut buffer = [0; 8];
        let status = first.recv(1, round, &mut buffer).unwrap();
        if status.len == 8 {
            assert!(!taken);
            assert_eq!(buffer, round.to_le_bytes());
            assert_eq!(first.recv(1, round, &mut buffer).unwrap().len, 4);
        }
    }
}

#[test]
fn a_long_send_to_oneself() {
    let sessions = world(1);
    let session = &sessions[0];
    let send = session.isend(0, 1, vec![3; 3_000_000]).unwrap();
    let (buffer, status) = session.irecv(0, 1, vec![0; 3_000_000]).unwrap().wait().unwrap();
    assert_eq!((status.len, status.source), (3_000_000, 0));
    assert!(buffer.iter().all(|&byte| byte == 3));
    assert_eq!(send.wait().unwrap().0.len(), 3_000_000);
}

#[test]
fn more_unexpected_messages_than_cells_to_oneself() {
    let sessions = world(1);
    let session = &sessions[0];
    let sends: Vec<_> = (0..5_000u64)
        .map(|number| session.isend(0, number % 7, number.to_le_bytes()).unwrap())
        .collect();
    for number in 0..5_000u64 {
        let mut buffer = [0; 8];
        session.recv(0, number % 7, &mut buffer).unwrap();
        assert_eq!(u64::from_le_bytes(buffer), number);
    }
    for send in sends {
        send.wait().unwrap();
    }
}

/// Both ways in which ranks of one process move large messages: by plain copies, and through rings. The second in a
/// process of its own, for knobs are read from the environment.
fn both_ways(test: &str, run: impl Fn()) {
    run();
    if std::env::var_os("NMAD_CMA").is_none() {
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("NMAD_CMA", "0")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

#[test]
fn what_is_received_is_whole_or_an_error_when_its_sender_closes() {
    both_ways("what_is_received_is_whole_or_an_error_when_its_sender_closes", || {
        for round in 0..30 {
            a_sender_closes(round);
        }
    });
}

/// Large messages that are asked for, or being moved, while their sender ends: its buffers are freed then.
fn a_sender_closes(round: u64) {
    let mut sessions = world(2);
    let (last, first) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let ends = std::thread::spawn(move || {
        for tag in 0..8 {
            let data = vec![tag as u8 + 1; 600_000];
            last.isend(0, tag, data).unwrap().on_done(drop);
        }
        std::thread::sleep(Duration::from_micros(80 * round));
        last.close().unwrap();
        // What was freed is written to.
        (0..8).map(|_| std::hint::black_box(vec![0xeeu8; 600_000])).collect::<Vec<_>>()
    });
    for tag in 0..8 {
        let mut buffer = vec![0; 600_000];
        match first.recv(1, tag, &mut buffer) {
            Ok(status) => {
                let whole = status.len == 600_000 && buffer == [tag as u8 + 1; 600_000];
                assert!(whole, "message {tag} of round {round}");
            }
            Err(Error::PeerDied { rank: 1, cause: Cause::Left }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    ends.join().unwrap();
}

#[test]
fn nothing_is_written_into_what_a_closed_receiver_has_back() {
    both_ways("nothing_is_written_into_what_a_closed_receiver_has_back", || {
        for round in 0..30 {
            a_receiver_closes(round);
        }
    });
}

/// The receiver does not wait, and the sender does: so the sender copies, into buffers that are freed when the receiver
/// ends.
fn a_receiver_closes(round: u64) {
    let mut sessions = world(2);
    let (last, first) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let ends = std::thread::spawn(move || {
        for tag in 0..8 {
            last.irecv(0, tag, vec![0; 600_000]).unwrap().on_done(move |result| {
                if let Ok((buffer, status)) = result {
                    assert!(status.len == 600_000 && buffer == [7; 600_000]);
                }
            });
        }
        std::thread::sleep(Duration::from_micros(80 * round));
        last.close().unwrap();
        let canaries: Vec<_> =
            (0..8).map(|_| std::hint::black_box(vec![0xeeu8; 600_000])).collect();
        std::thread::sleep(Duration::from_millis(1));
        assert!(canaries.iter().all(|canary| canary == &[0xee; 600_000]), "round {round}");
    });
    let data = vec![7; 600_000];
    for tag in 0..8 {
        match first.send(1, tag, &data) {
            Ok(()) | Err(Error::PeerDied { rank: 1, cause: Cause::Left }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    ends.join().unwrap();
}

#[test]
fn one_thread_ends_several_ranks_in_any_order_with_messages_on_their_way() {
    both_ways("one_thread_ends_several_ranks_in_any_order_with_messages_on_their_way", || {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut sessions: Vec<_> = world(3).into_iter().map(Some).collect();
            for (rank, session) in sessions.iter().flatten().enumerate() {
                for peer in (0..3).filter(|&peer| peer as usize != rank) {
                    for (tag, len) in [(1, 100_000), (2, 1_000_000), (3, 10)] {
                        session.isend(peer, tag, vec![1; len]).unwrap().on_done(drop);
                    }
                    // Some are received, some are not, and some are waited for in vain.
                    session.irecv(peer, 2, vec![0; 1_000_000]).unwrap().on_done(drop);
                    session.irecv(peer, 4, vec![0; 10]).unwrap().on_done(drop);
                }
            }
            for rank in order {
                let session = sessions[rank].take().unwrap();
                session.close().unwrap();
            }
        }
    });
}
