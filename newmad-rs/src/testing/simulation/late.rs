//! A copy that has begun becomes a stream once both sides wait (`transfer/rendezvous`).

use super::*;

/// The virtual peer comes to wait when one piece was copied.
#[test]
fn a_copy_that_is_not_far_becomes_a_stream() {
    for (waits, streams) in [(true, true), (false, false)] {
        let (mut cores, _) = pair();
        let data: Vec<u8> = (0..1000).map(|index| content(0, 1, index)).collect();
        let mut buffer = vec![0; 1000];
        // SAFETY: the buffers outlive the requests, which are finished and freed here.
        unsafe {
            let receive = ask(&mut cores[1], Request::recv(0, 0, &raw mut buffer[..], waits));
            let send = ask(&mut cores[0], Request::send(1, 0, &raw const data[..], false));
            settle(&mut cores);
            for request in [receive, send] {
                assert_eq!(Box::from_raw(request.as_ptr()).result().unwrap().len, 1000);
            }
        }
        assert_eq!(buffer, data);
        let copies = cores[1].gates.rails[0].driver.copies;
        assert_eq!(copies == 1, streams, "{copies} pieces were copied");
    }
}

/// Where more than a quarter was copied, that is not thrown away.
#[test]
fn a_copy_that_is_far_goes_on() {
    let (mut cores, _) = pair();
    let (data, mut buffer) = (vec![7; 128], vec![0; 128]);
    // SAFETY: the buffers outlive the requests, which are finished and freed here.
    unsafe {
        let receive = ask(&mut cores[1], Request::recv(0, 0, &raw mut buffer[..], true));
        let send = ask(&mut cores[0], Request::send(1, 0, &raw const data[..], false));
        settle(&mut cores);
        for request in [receive, send] {
            assert!(Box::from_raw(request.as_ptr()).result().is_ok());
        }
    }
    assert_eq!(buffer, data);
    assert!(cores[1].gates.rails[0].driver.copies > 1);
}
