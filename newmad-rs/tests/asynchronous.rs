//! Requests as futures, and with functions that are called at their end; dropped and forgotten in every state.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use newmad::{Error, Session};
use pioman::Manager;

const LIMIT: Duration = Duration::from_secs(30);

fn world(size: u32) -> Vec<Session> {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    Session::local_world(size, &manager).unwrap()
}

/// An executor of one future that sleeps in between.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Thread(std::thread::Thread);
    impl Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

#[test]
fn requests_are_awaited() {
    let sessions = world(2);
    std::thread::scope(|threads| {
        for session in &sessions {
            threads.spawn(move || {
                let peer = 1 - session.rank();
                block_on(async {
                    for len in [0, 1, 100, 10_000, 20_000, 1_000_000] {
                        let receive = session.irecv(peer, 1, vec![0; len])?;
                        let sent = session.isend(peer, 1, vec![session.rank() as u8; len])?.await?;
                        assert_eq!(sent.0.len(), len);
                        let (buffer, status) = receive.await?;
                        assert_eq!(status.len, len);
                        assert!(buffer.iter().all(|&byte| byte == peer as u8));
                    }
                    Ok::<(), Error>(())
                })
                .unwrap();
            });
        }
    });
}

#[test]
fn futures_are_dropped_and_forgotten_in_every_state() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..200u64 {
        std::thread::scope(|threads| {
            threads.spawn(|| last.send(0, round, &round.to_le_bytes()).unwrap());
            let mut receive = Box::pin(first.irecv(1, round, vec![0; 8]).unwrap());
            let mut over = false;
            for _ in 0..round % 5 {
                over = over || receive.as_mut().poll(&mut context).is_ready();
            }
            if round % 11 == 10 {
                // Leaked with its buffer: the message goes there.
                std::mem::forget(receive);
            } else {
                drop(receive);
            }
        });
        // Whatever became of it, the next message comes whole and behind it.
        last.send(0, round, b"mark").unwrap();
        let mut buffer = [0; 8];
        if first.recv(1, round, &mut buffer).unwrap().len == 8 {
            assert_eq!(first.recv(1, round, &mut buffer).unwrap().len, 4);
        }
        assert_eq!(&buffer[..4], b"mark");
    }
    // Some are open still.
    let receive = first.irecv(1, 1 << 20, vec![0; 8]).unwrap();
    let mut receive = Box::pin(receive);
    assert!(receive.as_mut().poll(&mut context).is_pending());
    std::mem::forget(receive);
    first.close().unwrap();
}

#[test]
fn a_future_of_a_session_that_closes_ends() {
    let session = world(1).pop().unwrap();
    let receive = session.irecv(0, 1, vec![0; 8]).unwrap();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| block_on(receive));
        std::thread::sleep(Duration::from_millis(20));
        session.close().unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
    });
}

#[test]
fn a_future_that_is_polled_by_one_thread_and_awaited_by_another_wakes_the_last() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let sessions = world(2);
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let mut receive = sessions[0].irecv(1, 1, vec![0; 8]).unwrap();
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    assert!(std::pin::Pin::new(&mut receive).poll(&mut context).is_pending());
    let polled = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| {
            block_on(std::future::poll_fn(|context| {
                let poll = std::pin::Pin::new(&mut receive).poll(context);
                polled.store(true, Ordering::SeqCst);
                poll
            }))
        });
        while !polled.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        sessions[1].send(0, 1, b"hello").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap().1.len, 5);
    });
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
}

#[test]
fn callbacks_are_called_once_whether_early_or_late() {
    let sessions = world(2);
    let (tell, told) = channel();
    for number in 0..200u64 {
        // Half of them find their message there.
        if number % 2 == 0 {
            sessions[1].send(0, number, &number.to_le_bytes()).unwrap();
        }
        let tell = tell.clone();
        let receive = sessions[0].irecv(1, number, vec![0; 8]).unwrap();
        receive.on_done(move |result| {
            let (buffer, status) = result.unwrap();
            assert_eq!(buffer, status.tag.to_le_bytes());
            tell.send(status.tag).unwrap();
        });
        if number % 2 == 1 {
            sessions[1].send(0, number, &number.to_le_bytes()).unwrap();
        }
    }
    let mut seen: Vec<u64> = (0..200).map(|_| told.recv_timeout(LIMIT).unwrap()).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..200));
    assert!(told.try_recv().is_err());
}

#[test]
fn a_callback_may_use_the_session_and_long_messages_have_callbacks_too() {
    let sessions = world(2);
    let (tell, told) = channel();
    let echo = sessions[1].clone();
    sessions[1].irecv(0, 1, vec![0; 1 << 20]).unwrap().on_done(move |result| {
        let (buffer, _) = result.unwrap();
        // Which has a callback again, that drops the last handle of this clone.
        echo.isend(0, 2, buffer).unwrap().on_done(move |result| {
            tell.send(result.unwrap().0.len()).unwrap();
        });
    });
    let send = sessions[0].isend(1, 1, vec![5; 1 << 20]).unwrap();
    let (buffer, _) = sessions[0].irecv(1, 2, vec![0; 1 << 20]).unwrap().wait().unwrap();
    send.wait().unwrap();
    assert!(buffer.iter().all(|&byte| byte == 5));
    assert_eq!(told.recv_timeout(LIMIT).unwrap(), 1 << 20);
}

#[test]
fn a_callback_does_not_keep_its_session_open() {
    let session = world(1).pop().unwrap();
    let (tell, told) = channel();
    session.irecv(0, 1, vec![0; 8]).unwrap().on_done(move |result| tell.send(result).unwrap());
    drop(session);
    assert!(matches!(told.recv_timeout(LIMIT).unwrap(), Err(Error::Closed)));
}

#[test]
fn a_flood_of_unexpected_messages_does_not_starve_a_future() {
    // More messages than there are cells come before the one that is awaited; no thread is blocked in the library, so a
    // future has to make room.
    let sessions = world(2);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 0..5_000u64 {
                sessions[1].send(0, 1, &number.to_le_bytes()).unwrap();
            }
            sessions[1].send(0, 2, b"last").unwrap();
        });
        let receive = sessions[0].irecv(1, 2, vec![0; 8]).unwrap();
        assert_eq!(block_on(receive).unwrap().1.len, 4);
    });
    for number in 0..5_000u64 {
        let mut buffer = [0; 8];
        sessions[0].recv(1, 1, &mut buffer).unwrap();
        assert_eq!(u64::from_le_bytes(buffer), number);
    }
}
