//! A copy that has begun becomes a stream once both sides wait (`proto/rendezvous`).

use super::*;

/// The virtual peer comes to wait when one piece was copied.
#[test]
fn a_copy_that_is_not_far_becomes_a_stream() {
    for (waits, streams) in [(true, true), (false, false)] {
        let (mut cores, _) = pair();
        let data: Vec<u8> = (0..1000).map(|index| content(0, 1, index)).collect();
        let how = How { waits, spread: 0 };
        let receive = Asked::recv_with(&mut cores[1], (0, 0), 1000, how, |request| request);
        let send = Asked::send(&mut cores[0], (1, 0), &data[..]);
        settle(&mut cores);
        assert_eq!(send.result().unwrap().len, 1000);
        assert_eq!(receive.message(), data);
        let copies = cores[1].gates.rails[0].driver.copies;
        assert_eq!(copies == 1, streams, "{copies} pieces were copied");
    }
}

/// Where more than a quarter was copied, that is not thrown away.
#[test]
fn a_copy_that_is_far_goes_on() {
    let (mut cores, _) = pair();
    let how = How { waits: true, spread: 0 };
    let receive = Asked::recv_with(&mut cores[1], (0, 0), 128, how, |request| request);
    let send = Asked::send(&mut cores[0], (1, 0), [7; 128]);
    settle(&mut cores);
    assert!(send.result().is_ok());
    assert_eq!(receive.message(), [7; 128]);
    assert!(cores[1].gates.rails[0].driver.copies > 1);
}
