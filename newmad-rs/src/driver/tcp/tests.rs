use super::*;
use crate::error::Cause;
use crate::proto::{Kind, LONG};
use std::io::Write;
use std::os::unix::net::UnixStream;

/// A gate over local stream sockets, which have the same edges, and the other ends of its tracks.
fn gate() -> (Peer, UnixStream, UnixStream) {
    let pair = || UnixStream::pair().unwrap();
    let ((small, far_small), (large, far_large)) = (pair(), pair());
    for socket in [&small, &large] {
        socket.set_nonblocking(true).unwrap();
    }
    (Peer::new(small.into(), large.into()), far_small, far_large)
}

/// What a peer has said and its end come as one edge, when it dies right after: the read of what it has said is short,
/// and no other edge follows. (The end was not seen, and the others waited for ever.)
#[test]
fn an_end_that_comes_with_the_last_packet_is_seen() {
    let ((first, mut far, far_large), (second, _far, _far_large)) = (gate(), gate());
    let mut tcp = Tcp::new(Box::new([None, Some(first), Some(second)])).unwrap();
    // What the first edges said, that the sockets can be written.
    tcp.begin();
    assert!(matches!(tcp.peek_small(1), Peek::Empty));
    let mut raw = [0; LONG];
    let header = Header::new(Kind::Bye);
    header.encode(&mut raw);
    far.write_all(&raw[..header.kind.header_len()]).unwrap();
    drop((far, far_large));
    tcp.begin();
    assert!(matches!(tcp.peek_small(1), Peek::Packet(..)));
    tcp.release(1);
    assert!(matches!(tcp.peek_small(1), Peek::Gone(Cause::Vanished)));
    assert!(matches!(tcp.peek_small(2), Peek::Empty));
}
