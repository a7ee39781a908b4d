use super::*;
use crate::error::Cause;
use crate::wire::{Kind, LONG};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
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

/// The large track ends alone, in the middle of a piece that is received, or sent: the gate has ended, after what the small track
/// has said.
#[test]
fn an_end_in_the_middle_of_a_piece_is_seen() {
    for sends in [false, true] {
        let (peer, mut far, mut far_large) = gate();
        let mut tcp = Tcp::new(Box::new([None, Some(peer)])).unwrap();
        let (mut raw, mut room) = ([0; LONG], [0; 64]);
        let piece = Header { payload: 1000, ..Header::new(Kind::Data) };
        piece.encode(&mut raw);
        far_large.write_all(&raw).unwrap();
        far_large.write_all(&[1; 64]).unwrap();
        let bye = Header::new(Kind::Bye);
        bye.encode(&mut raw);
        far.write_all(&raw[..bye.kind.header_len()]).unwrap();
        tcp.begin();
        assert!(matches!(tcp.peek_large(1), Peek::Packet(..)));
        // SAFETY: a local of that length.
        let read = unsafe { tcp.read_large(1, room.as_mut_ptr(), room.len()) };
        assert_eq!(read, room.len());
        drop(far_large);
        tcp.begin();
        if sends {
            let data = vec![0; 1 << 20];
            // SAFETY: as above.
            let span = unsafe { Span::new(data.as_ptr(), data.len()) };
            assert_eq!(tcp.post_large(1, &piece, span), 0);
        } else {
            // SAFETY: as above.
            let read = unsafe { tcp.read_large(1, room.as_mut_ptr(), room.len()) };
            assert_eq!(read, 0);
        }
        assert!(matches!(tcp.peek_small(1), Peek::Packet(..)), "sends: {sends}");
        tcp.release(1);
        assert!(matches!(tcp.peek_small(1), Peek::Gone(_)), "sends: {sends}");
    }
}

/// The name of a connection's congestion control.
fn congestion(socket: &OwnedFd) -> String {
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    // SAFETY: a local of the size that is passed.
    let done = unsafe {
        let value = name.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, value, &mut len)
    };
    assert_eq!(done, 0);
    String::from_utf8(name.into_iter().take_while(|&byte| byte != 0).collect()).unwrap()
}

#[test]
fn inside_a_machine_nothing_is_paced() {
    for (to, inside) in [("127.0.0.1", true), ("127.0.0.2", false), ("::1", true)] {
        let listener = match TcpListener::bind((to, 0)) {
            Err(_) if to == "::1" => continue, // a machine without IPv6
            listener => listener.unwrap(),
        };
        let address = listener.local_addr().unwrap();
        let sockets: Vec<OwnedFd> =
            (0..2).map(|_| TcpStream::connect(address).unwrap().into()).collect();
        let usual = congestion(&sockets[0]);
        let peer = connect::link(1, sockets).unwrap();
        for socket in [&peer.small.socket, &peer.large.socket] {
            let expected = if inside { "reno" } else { &usual };
            assert_eq!(congestion(socket.as_ref().unwrap()), expected, "to {to}");
        }
    }
}
