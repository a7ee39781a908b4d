//! Memory that is lent to a peer, at the end of a session (`gate`).

use super::*;
use crate::request::Op;

/// A goodbye and an announcement cross: the sender takes its buffer back when it hears the one, so the receiver must
/// not copy from there when it hears the other.
#[test]
fn after_its_goodbye_a_rank_reads_nothing_from_a_peers_memory() {
    for held in [false, true] {
        let (mut cores, _) = pair();
        let (data, mut buffer) = (vec![1; 1000], vec![0; 1000]);
        // SAFETY: the buffers outlive the requests, which end below.
        let receive = unsafe { Request::recv(0, 0, &raw mut buffer[..], true) };
        let receive = (!held).then(|| ask(&mut cores[1], receive));
        // It says goodbye at once, for it has nothing to send.
        let close = ask(&mut cores[1], Request::close());
        // SAFETY: as above.
        let send = ask(&mut cores[0], unsafe { Request::send(1, 0, &raw const data[..], true) });
        cores[0].progress();
        // SAFETY: freed below.
        assert!(unsafe { send.as_ref() }.is_finished(), "the peer has left");
        cores[1].progress();
        let receive = receive.unwrap_or_else(|| {
            // SAFETY: as above.
            ask(&mut cores[1], unsafe { Request::recv(0, 0, &raw mut buffer[..], true) })
        });
        settle(&mut cores);
        assert_eq!(
            cores[1].gates.rails[0].driver.copies, 0,
            "a copy from memory that was given back"
        );
        let over = ask(&mut cores[0], Request::close());
        settle(&mut cores);
        for request in [receive, close, send, over] {
            // SAFETY: boxed by `ask`, finished.
            let request = unsafe { Box::from_raw(request.as_ptr()) };
            assert!(request.is_finished());
            match request.op {
                Op::Recv => assert!(matches!(request.result(), Err(crate::Error::Closed))),
                Op::Send => {
                    assert!(matches!(request.result(), Err(crate::Error::PeerDied { .. })));
                }
                _ => assert!(request.result().is_ok()),
            }
        }
    }
}
