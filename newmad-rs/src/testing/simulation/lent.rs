//! Memory that is lent to a peer, at the end of a session (`gate`).

use super::*;

/// A goodbye and an announcement cross: the sender takes its buffer back when it hears the one, so the receiver must
/// not copy from there when it hears the other.
#[test]
fn after_its_goodbye_a_rank_reads_nothing_from_a_peers_memory() {
    for held in [false, true] {
        let (mut cores, _) = pair();
        let how = How { waits: true, spread: 0 };
        let receives =
            |core: &mut Core<Virtual>| Asked::recv_with(core, (0, 0), 1000, how, |request| request);
        let receive = (!held).then(|| receives(&mut cores[1]));
        // It says goodbye at once, for it has nothing to send.
        let close = Asked::plain(&mut cores[1], Request::close());
        let send = Asked::send_with(&mut cores[0], (1, 0), [1; 1000], how, |request| request);
        cores[0].progress();
        assert!(send.is_finished(), "the peer has left");
        cores[1].progress();
        let receive = receive.unwrap_or_else(|| receives(&mut cores[1]));
        settle(&mut cores);
        assert_eq!(
            cores[1].gates.rails[0].driver.copies, 0,
            "a copy from memory that was given back"
        );
        let over = Asked::plain(&mut cores[0], Request::close());
        settle(&mut cores);
        assert!(matches!(receive.result(), Err(crate::Error::Closed)));
        assert!(matches!(send.result(), Err(crate::Error::PeerDied { .. })));
        assert!(close.result().is_ok() && over.result().is_ok());
    }
}
