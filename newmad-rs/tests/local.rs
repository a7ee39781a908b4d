//! Several ranks in one process, and the shapes of requests.

use std::sync::Arc;
use std::time::Duration;

use newmad::{ANY, Cause, Error, Session};
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
                    let status = session
                        .scope(|scope| {
                            let receive = scope.irecv(ANY, len as u64, &mut buffer)?;
                            scope.isend(next, len as u64, &data)?;
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
    // The error of a request that nobody waited for is not lost.
    last.send(0, 2, b"too long").unwrap();
    let result = first.scope(|scope| scope.irecv(1, 2, &mut buffer).map(drop));
    assert!(matches!(result, Err(Error::Truncated { message: 8, capacity: 4, .. })), "{result:?}");
    // A panic comes out, and the receive that nothing matched does not hold it.
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        first.scope::<()>(|scope| {
            scope.irecv(1, 3, &mut buffer)?;
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
            let mut request = first.irecv(1, round, vec![0; 8]).unwrap();
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
    assert_eq!(send.wait().unwrap().len(), 3_000_000);
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
