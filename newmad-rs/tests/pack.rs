//! Packed messages: pieces of every kind and size, in the order in which they were packed, or an error that names one.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{launch, message};
use newmad::{ANY, Cause, Error, Session};
use pioman::Manager;
use proptest::prelude::*;

const LIMIT: Duration = Duration::from_secs(120);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "shapes" => shapes,
        "threads" => threads,
        "dies" => dies,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

fn everywhere(scenario: &str, size: usize) {
    for driver in
        common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp"), ("NMAD_CMA", "0")])
    {
        launch(scenario, size, &[driver]).succeed(LIMIT);
    }
}

fn world(size: u32) -> Vec<Session> {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    Session::local_world(size, &manager).unwrap()
}

/// The pieces of a message: express or not, and length.
type Shape = Vec<(bool, usize)>;

fn send(session: &Session, to: u32, tag: u64, number: u64, shape: &Shape) -> Result<(), Error> {
    let pieces: Vec<_> = shape.iter().map(|&(_, len)| message(number, len)).collect();
    let mut packed = session.pack(to, tag)?;
    packed.express(number.to_le_bytes());
    for ((express, _), bytes) in shape.iter().zip(&pieces) {
        if *express {
            packed.express(bytes)
        } else {
            packed.deferred(&bytes[..])
        };
    }
    packed.end()
}

/// Receives a message and checks every piece; its number.
fn receive(
    session: &Session,
    from: impl Into<newmad::Origin>,
    tag: u64,
    shape: impl Fn(u64) -> Shape,
) -> Result<u64, Error> {
    let mut packed = session.unpack(from, tag)?;
    let mut number = [0; 8];
    packed.express(&mut number)?;
    let number = u64::from_le_bytes(number);
    let shape = shape(number);
    let mut pieces: Vec<_> = shape.iter().map(|&(_, len)| vec![0; len]).collect();
    for ((express, _), bytes) in shape.iter().zip(&mut pieces) {
        if *express {
            packed.express(bytes)?;
            assert!(*bytes == message(number, bytes.len()), "express, at once");
        } else {
            packed.deferred(bytes)?;
        }
    }
    let status = packed.end()?;
    assert_eq!(status.len, 8 + shape.iter().map(|(_, len)| len).sum::<usize>());
    for bytes in &pieces {
        assert!(*bytes == message(number, bytes.len()), "{} bytes", bytes.len());
    }
    Ok(number)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_was_packed_is_unpacked(
        shape in proptest::collection::vec(
            (any::<bool>(), prop_oneof![0usize..50, 2040usize..2060, 0usize..9000, 0usize..60_000]), 0..20,
        ),
    ) {
        let sessions = world(2);
        std::thread::scope(|threads| {
            threads.spawn(|| send(&sessions[0], 1, 3, 77, &shape).unwrap());
            assert_eq!(receive(&sessions[1], 0, 3, |_| shape.clone()).unwrap(), 77);
        });
    }
}

fn shapes(session: &Session) -> Result<(), Error> {
    let all: [Shape; 8] = [
        vec![],
        vec![(true, 0), (false, 0), (false, 1)],
        vec![(false, 100_000)],
        vec![(true, 10), (false, 3_000_000), (true, 10), (false, 100), (false, 40_000)],
        // Far more than fits a head, and then an express piece that the rest is needed for.
        vec![(true, 20_000), (true, 100), (false, 2048), (false, 2049)],
        vec![(true, 2_000_000)],
        (0..2000).map(|n| (n % 3 == 0, n % 20)).collect(),
        (0..300).map(|n| (false, 2000 + n)).collect(),
    ];
    let peer = 1 - session.rank();
    for _ in 0..3 {
        for (number, shape) in all.iter().enumerate() {
            if session.rank() == 0 {
                send(session, peer, 1, number as u64, shape)?;
                receive(session, peer, 1, |_| shape.clone())?;
            } else {
                receive(session, peer, 1, |_| shape.clone())?;
                send(session, peer, 1, number as u64, shape)?;
            }
        }
    }
    Ok(())
}

#[test]
fn pieces_of_every_size_and_number() {
    everywhere("shapes", 2);
}

/// The pieces of message `number` in [`threads`].
fn shape_of(number: u64) -> Shape {
    let n = number as usize;
    vec![
        (n.is_multiple_of(2), n * 7 % 300),
        (false, 1000 + n * 997 % 50_000),
        (true, 3),
        (false, 5000),
    ]
}

fn threads(session: &Session) -> Result<(), Error> {
    const THREADS: u64 = 8;
    const EACH: u64 = 25;
    // All with one tag: each thread that unpacks gets one message whole.
    if session.rank() > 0 {
        let senders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let session = session.clone();
                marcel::spawn(move || {
                    for n in 0..EACH {
                        let number = thread * EACH + n;
                        send(&session, 0, 9, number, &shape_of(number)).unwrap();
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|thread| thread.join().unwrap());
    } else {
        let others = u64::from(session.size() - 1);
        let receivers: Vec<_> = (0..THREADS)
            .map(|_| {
                let session = session.clone();
                let receive = move |_| receive(&session, ANY, 9, shape_of).unwrap();
                marcel::spawn(move || (0..EACH * others).map(receive).collect::<Vec<_>>())
            })
            .collect();
        let mut numbers: Vec<_> =
            receivers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        numbers.sort_unstable();
        let expected: Vec<_> = (0..THREADS * EACH).flat_map(|n| vec![n; others as usize]).collect();
        assert_eq!(numbers, expected);
    }
    session.barrier()
}

#[test]
fn messages_of_several_threads_never_mix() {
    everywhere("threads", 3);
}

#[test]
fn a_piece_that_differs_is_named_and_the_rest_is_thrown_away() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    let pack = || {
        let mut packed = first.pack(1, 2).unwrap();
        packed.express(b"four").deferred(vec![1; 100_000]).express([2; 9000]).deferred(vec![3; 10]);
        packed.deferred(vec![4; 50_000]);
        packed.iend().unwrap()
    };
    let wrong = |result: Result<(), Error>, number: usize, says: &str| match result {
        Err(error @ Error::Unpacking { from: 0, tag: 2, piece, .. }) => {
            assert_eq!(piece, number, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        other => panic!("{other:?}"),
    };
    let mut sent = Vec::new();
    let (mut four, mut long, mut nine) = ([0; 4], vec![0; 100_000], vec![0; 9000]);
    sent.push(pack());
    wrong(last.unpack(0, 2).unwrap().express(&mut [0; 5]).map(drop), 0, "4 bytes");
    sent.push(pack());
    wrong(last.unpack(0, 2).unwrap().deferred(&mut [0; 4]).map(drop), 0, "express");
    sent.push(pack());
    let mut packed = last.unpack(0, 2).unwrap();
    packed.express(&mut four).unwrap();
    wrong(packed.express(&mut [0; 4]).map(drop), 1, "deferred");
    drop(packed);
    sent.push(pack());
    let mut packed = last.unpack(0, 2).unwrap();
    packed.express(&mut four).unwrap().deferred(&mut long).unwrap();
    assert_eq!(packed.express_vec().unwrap(), [2; 9000]);
    wrong(packed.end().map(drop), 3, "has not been unpacked");
    sent.push(pack());
    let (mut ten, mut fifty, mut more) = ([0; 10], vec![0; 50_000], [0; 1]);
    let mut packed = last.unpack(0, 2).unwrap();
    packed.express(&mut four).unwrap().deferred(&mut long).unwrap();
    packed.express(&mut nine).unwrap().deferred(&mut ten).unwrap();
    packed.deferred(&mut fifty).unwrap();
    wrong(packed.deferred(&mut more).map(drop), 5, "no further piece");
    drop(packed);
    // One that is dropped at once, and a whole one.
    sent.push(pack());
    drop(last.unpack(0, 2).unwrap());
    sent.push(pack());
    let mut packed = last.unpack(ANY, 2).unwrap();
    packed.express(&mut four).unwrap().deferred(&mut long).unwrap();
    packed.express(&mut nine).unwrap().deferred(&mut ten).unwrap();
    packed.deferred(&mut fifty).unwrap();
    assert_eq!((packed.source(), packed.end().unwrap().len), (0, 159_014));
    assert_eq!((&four, ten, fifty.len()), (b"four", [3; 10], 50_000));
    assert!(fifty.iter().all(|&byte| byte == 4) && long.iter().all(|&byte| byte == 1));
    // The sender is free of all of them.
    for request in sent {
        request.wait().unwrap();
    }
}

#[test]
fn builders_that_are_dropped_or_forgotten_send_nothing() {
    let sessions = world(2);
    let (first, last) = (&sessions[0], &sessions[1]);
    {
        let borrowed = vec![1u8; 100_000];
        let mut packed = first.pack(1, 1).unwrap();
        packed.express(b"x").deferred(&borrowed[..]);
        drop(packed);
        let mut packed = first.pack(1, 1).unwrap();
        packed.deferred(&borrowed[..]);
        std::mem::forget(packed);
    }
    let mut packed = first.pack(1, 1).unwrap();
    packed.express(b"only");
    packed.end().unwrap();
    assert_eq!(last.unpack(0, 1).unwrap().express_vec().unwrap(), b"only");
    assert!(matches!(first.pack(1, 1 << 54), Err(Error::Packing(_))));
    assert!(matches!(first.pack(2, 1), Err(Error::BadRank { .. })));
    let mut much = first.pack(1, 1).unwrap();
    much.express(vec![0; 65 << 20]);
    assert!(matches!(much.end(), Err(Error::Packing(_))));
}

fn dies(session: &Session) -> Result<(), Error> {
    if session.rank() == 1 {
        let mut packed = session.pack(0, 1)?;
        packed.express(b"there").deferred(vec![1; 30_000_000]);
        let request = packed.iend()?;
        session.recv(0, 2, &mut [])?;
        std::mem::forget(request);
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    let (mut there, mut long) = ([0; 5], vec![0; 30_000_000]);
    let mut packed = session.unpack(1, 1)?;
    packed.express(&mut there)?;
    assert_eq!(&there, b"there");
    session.send(1, 2, b"")?;
    packed.deferred(&mut long)?;
    let gone = |result: Result<(), Error>| match result {
        Err(Error::PeerDied { rank: 1, cause: Cause::Vanished }) => {}
        other => panic!("{other:?}"),
    };
    match packed.end() {
        Ok(_) => assert!(long.iter().all(|&byte| byte == 1)),
        failed => gone(failed.map(drop)),
    }
    gone(session.unpack(1, 1).map(drop));
    Ok(())
}

#[test]
fn a_sender_that_dies_ends_the_unpacking() {
    for driver in
        common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp"), ("NMAD_CMA", "0")])
    {
        let ended = launch("dies", 2, &[driver]).end(LIMIT);
        assert_eq!((ended[0].code, ended[1].code), (Some(0), None), "{ended:#?}");
    }
}
