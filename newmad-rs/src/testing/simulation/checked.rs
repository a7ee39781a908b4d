//! Packets that have checksums.

use super::*;

/// The checksum needs a place among a packet's parts, too.
#[test]
fn a_message_of_many_pieces_arrives_with_a_checksum() {
    let world = World::new(1, Nature { breaks: true, ..USUAL });
    let mut cores = World { checksum: true, ..world }.pair();
    for len in 1..=40 {
        let (data, how) = (vec![len; len as usize], How { waits: false, spread: 1 });
        let send = Asked::send_with(&mut cores[0], (1, 0), &data[..], how, |request| request);
        let receive = Asked::recv(&mut cores[1], (0, 0), data.len());
        settle(&mut cores);
        assert_eq!(receive.message(), data);
        assert!(send.result().is_ok());
        assert_eq!(cores[1].gates[0].open, 1, "the link was given up");
    }
}
