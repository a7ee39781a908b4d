//! TCP: two sockets per gate, one for each track.
//!
//! *Small track*: packets back to back. A packet leaves with one `sendmsg` from the user's memory; the part that
//! the socket does not take is kept in the gate's own buffer and nothing else is accepted until that has
//! left. Arrivals are read into the gate's buffer and treated there. *Large track*: pieces with a header, read
//! straight into the receive buffer.
//!
//! Readiness: the sockets are in one edge-triggered epoll descriptor, which is what sleepers watch. With a
//! single peer a round is one attempt to read and the descriptor is only emptied before a sleep; with several
//! it is asked which sockets are worth reading. A short read means that a socket is empty, unless its end was announced
//! with what was read.
//!
//! An arrival on a watched socket costs the kernel a walk through the epoll descriptors above it. So a single
//! peer's small socket is taken out while it is only ever polled, and put back by whoever arms.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::{Driver, MAX_PARTS, Peek, Post, Refused};
use crate::error::{Cause, Error};
use crate::proto::{Header, Kind, LONG, SHORT};
use crate::request::span::Span;
use crate::sys::{self, errno};

pub(crate) mod connect;
#[cfg(test)]
mod tests;

/// Most payload bytes of one packet on the small track.
const MTU: usize = 64 * 1024;
const RX: usize = 256 * 1024;
const TX: usize = MTU + LONG;
/// Up to this length a message is copied behind its header.
const SHORT_MESSAGE: usize = 256;
/// Most payload bytes of one piece on the large track.
const PIECE: usize = 1 << 20;
/// A single peer's socket that has been polled so often, without anybody arming, is not watched any more.
const STEADY: u32 = 4096;
/// One edge may stand for data and the end behind it.
const ENDS: libc::c_int = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
const EDGES: libc::c_int = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// The piece that is being sent on the large track.
struct Outgoing {
    header: [u8; LONG],
    header_sent: usize,
    left: usize,
}

/// One gate.
pub(crate) struct Peer {
    small: Option<OwnedFd>,
    large: Option<OwnedFd>,
    rx: Box<[u8]>,
    rx_start: usize,
    rx_end: usize,
    shown: usize,
    tx: Box<[u8]>,
    tx_start: usize,
    tx_end: usize,
    small_ready: bool,
    /// The peer sends nothing more: to be read to the end, since no other edge will come.
    small_ends: bool,
    large_ready: bool,
    outgoing: Option<Outgoing>,
    head: [u8; LONG],
    head_got: usize,
    gone: Option<Cause>,
    large_gone: Option<Cause>,
}

impl Peer {
    fn new(small: OwnedFd, large: OwnedFd) -> Peer {
        Peer {
            small: Some(small),
            large: Some(large),
            rx: vec![0; RX].into_boxed_slice(),
            rx_start: 0,
            rx_end: 0,
            shown: 0,
            tx: vec![0; TX].into_boxed_slice(),
            tx_start: 0,
            tx_end: 0,
            small_ready: true,
            small_ends: false,
            large_ready: true,
            outgoing: None,
            head: [0; LONG],
            head_got: 0,
            gone: None,
            large_gone: None,
        }
    }

    fn backlog(&self) -> bool {
        self.tx_start < self.tx_end
    }

    /// Sends what was kept. True: nothing is kept any more.
    fn flush(&mut self) -> bool {
        while self.backlog() {
            let Some(socket) = &self.small else { return false };
            let kept = &self.tx[self.tx_start..self.tx_end];
            match send(socket, kept) {
                Sent::Some(sent) => self.tx_start += sent,
                Sent::Nothing => return false,
                // Reading tells why, after what the peer sent before.
                Sent::Broken => {
                    self.small_ready = true;
                    return false;
                }
            }
        }
        self.tx_start = 0;
        self.tx_end = 0;
        true
    }

    /// Reads what the small socket has. False: nothing came.
    #[inline]
    fn fill(&mut self) -> bool {
        let Some(socket) = &self.small else { return false };
        if !self.small_ready || self.gone.is_some() {
            return false;
        }
        if self.rx_start == self.rx_end {
            self.rx_start = 0;
            self.rx_end = 0;
        } else if self.rx.len() - self.rx_end < TX {
            self.rx.copy_within(self.rx_start..self.rx_end, 0);
            self.rx_end -= self.rx_start;
            self.rx_start = 0;
        }
        let room = &mut self.rx[self.rx_end..];
        if room.is_empty() {
            return false;
        }
        // SAFETY: the slice is writable for its length.
        match unsafe { receive(socket, room.as_mut_ptr(), room.len()) } {
            Got::Some(got) => {
                self.small_ready = got == room.len() || self.small_ends;
                self.rx_end += got;
                true
            }
            Got::Nothing => {
                self.small_ready = false;
                false
            }
            Got::End(cause) => {
                self.gone = Some(cause);
                false
            }
        }
    }

    /// The packet at the start of what was read: `None`, not all of it is here.
    #[inline]
    fn parse(&mut self) -> Option<Peek> {
        let have = &self.rx[self.rx_start..self.rx_end];
        if have.len() < SHORT {
            return None;
        }
        let Ok(size) = Header::len_from_first_byte(have[0]) else {
            return Some(Peek::Gone(Cause::Malformed));
        };
        if have.len() < size {
            return None;
        }
        let Ok(header) = Header::decode(have) else { return Some(Peek::Gone(Cause::Malformed)) };
        let payload = header.payload as usize;
        if payload > MTU {
            return Some(Peek::Gone(Cause::Malformed));
        }
        let payload = have.get(size..size + payload)?;
        self.shown = size + payload.len();
        // SAFETY: inside the buffer, which does not change until the packet is released.
        Some(Peek::Packet(header, unsafe { Span::new(payload.as_ptr(), payload.len()) }))
    }

    fn close(&mut self) {
        self.small = None;
        self.large = None;
    }
}

enum Sent {
    Some(usize),
    Nothing,
    Broken,
}

enum Got {
    Some(usize),
    Nothing,
    End(Cause),
}

#[inline]
fn send(socket: &OwnedFd, data: &[u8]) -> Sent {
    // SAFETY: the slice is readable for its length.
    sent(|| unsafe {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), flags)
    })
}

/// Copies the bytes of `parts` from `from` on to `to`, as many as it holds.
fn gather(parts: &[Span], mut from: usize, mut to: &mut [u8]) {
    for part in parts {
        let piece = part.part(from, to.len());
        from = from.saturating_sub(part.len());
        let (here, rest) = to.split_at_mut(piece.len());
        // SAFETY: the slice has the piece's length, and is not user memory.
        unsafe { piece.copy_to(here.as_mut_ptr()) };
        to = rest;
    }
}

/// Tries until the call is not interrupted.
#[inline]
fn sent(call: impl Fn() -> isize) -> Sent {
    loop {
        let sent = call();
        if sent >= 0 {
            return Sent::Some(sent as usize);
        }
        match errno() {
            libc::EINTR => {}
            libc::EAGAIN | libc::ENOBUFS => return Sent::Nothing,
            _ => return Sent::Broken,
        }
    }
}

/// # Safety
/// Every part is readable for its length.
#[inline]
unsafe fn send_parts(socket: &OwnedFd, parts: &mut [libc::iovec]) -> Sent {
    // SAFETY: plain data for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    // SAFETY: the caller's promise; the array lives through the call.
    sent(|| unsafe {
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    })
}

/// # Safety
/// `len` bytes at `to` are writable and exclusive.
#[inline]
unsafe fn receive(socket: &OwnedFd, to: *mut u8, len: usize) -> Got {
    loop {
        // SAFETY: the caller's promise.
        let got = unsafe { libc::recv(socket.as_raw_fd(), to.cast(), len, libc::MSG_DONTWAIT) };
        if got > 0 {
            return Got::Some(got as usize);
        }
        if got == 0 {
            return Got::End(Cause::Vanished);
        }
        match errno() {
            libc::EINTR => {}
            libc::EAGAIN => return Got::Nothing,
            libc::ECONNRESET | libc::EPIPE => return Got::End(Cause::Vanished),
            errno => return Got::End(Cause::Broken(errno)),
        }
    }
}

/// See the module.
pub(crate) struct Tcp {
    epoll: OwnedFd,
    /// An event counter in the epoll descriptor, for waking oneself; edge-triggered, so never emptied.
    wake: OwnedFd,
    peers: Box<[Option<Peer>]>,
    alone: bool,
    /// Rounds since somebody armed; up to [`STEADY`], at which the small sockets are not watched.
    unarmed: u32,
}

impl Tcp {
    fn new(peers: Box<[Option<Peer>]>) -> Result<Tcp, Error> {
        let epoll = sys::epoll()?;
        for (rank, peer) in peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            for (track, socket) in [&peer.small, &peer.large].into_iter().enumerate() {
                if let Some(socket) = socket {
                    sys::watch(&epoll, socket.as_raw_fd(), EDGES, (rank * 2 + track) as u64)?;
                }
            }
        }
        let alone = peers.iter().flatten().count() <= 1;
        let wake = sys::eventfd()?;
        sys::watch(&epoll, wake.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, u64::MAX)?;
        Ok(Tcp { epoll, wake, peers, alone, unarmed: 0 })
    }

    #[inline]
    fn peer(&mut self, rank: u32) -> Option<&mut Peer> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }

    /// Counts a round in which nobody armed.
    #[inline]
    fn polled_again(&mut self) {
        if self.unarmed < STEADY {
            self.unarmed += 1;
            if self.unarmed == STEADY {
                self.watch_small(false);
            }
        }
    }

    #[cold]
    fn watch_small(&mut self, yes: bool) {
        for (rank, peer) in self.peers.iter().enumerate() {
            let Some(socket) = peer.as_ref().and_then(|peer| peer.small.as_ref()) else { continue };
            if !yes {
                sys::unwatch(&self.epoll, socket.as_raw_fd());
            } else if !sys::rewatch(&self.epoll, socket.as_raw_fd(), EDGES, (rank * 2) as u64) {
                // Nobody may sleep on it then: every sleep ends at once.
                sys::ring(self.wake.as_raw_fd());
            }
        }
    }

    fn look_around(&mut self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        for event in sys::ready(&self.epoll, &mut events) {
            if let Some(Some(peer)) = self.peers.get_mut(event.u64 as usize / 2) {
                match event.u64 % 2 {
                    0 => {
                        peer.small_ready = true;
                        peer.small_ends |= event.events & ENDS as u32 != 0;
                    }
                    _ => peer.large_ready = true,
                }
            }
        }
    }
}

impl Driver for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    #[inline]
    fn mtu(&self, _to: u32) -> usize {
        MTU
    }

    fn can_copy(&self, _peer: u32) -> bool {
        false
    }

    #[inline]
    fn begin(&mut self) -> bool {
        if self.alone {
            self.polled_again();
        } else {
            self.look_around();
        }
        let alone = self.alone;
        let mut any = false;
        for peer in self.peers.iter_mut().flatten() {
            if alone {
                peer.small_ready = true;
                peer.large_ready = true;
            }
            if peer.backlog() {
                any |= peer.flush();
            }
        }
        any
    }

    #[inline]
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> Post {
        let Some(peer) = self.peer(to) else { return Post::Full };
        if peer.backlog() && !peer.flush() {
            return Post::Full;
        }
        let Some(socket) = &peer.small else { return Post::Full };
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let size = header.kind.header_len();
        let parts = &parts[..parts.len().min(MAX_PARTS)];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let outcome = if len <= SHORT_MESSAGE {
            // One small copy is cheaper than a list of parts.
            let mut packet = [0; LONG + SHORT_MESSAGE];
            packet[..size].copy_from_slice(&raw[..size]);
            gather(parts, 0, &mut packet[size..size + len]);
            send(socket, &packet[..size + len])
        } else {
            const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            let mut list = [NOTHING; 1 + MAX_PARTS];
            list[0] = libc::iovec { iov_base: raw.as_mut_ptr().cast(), iov_len: size };
            for (to, part) in list[1..].iter_mut().zip(parts) {
                to.iov_base = part.as_ptr().cast_mut().cast();
                to.iov_len = part.len();
            }
            // SAFETY: a local and spans, all readable.
            unsafe { send_parts(socket, &mut list[..1 + parts.len()]) }
        };
        let sent = match outcome {
            Sent::Some(sent) => sent,
            Sent::Nothing => return Post::Full,
            Sent::Broken => {
                peer.small_ready = true;
                return Post::Full;
            }
        };
        if sent < size + len {
            let head = &raw[sent.min(size)..size];
            let gone = sent.saturating_sub(size);
            let end = head.len() + len - gone;
            peer.tx[..head.len()].copy_from_slice(head);
            gather(parts, gone, &mut peer.tx[head.len()..end]);
            peer.tx_start = 0;
            peer.tx_end = end;
        }
        Post::Posted
    }

    #[inline]
    fn peek_small(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        loop {
            if let Some(peek) = peer.parse() {
                return peek;
            }
            if !peer.fill() {
                return match peer.gone {
                    Some(cause) => Peek::Gone(cause),
                    None => Peek::Empty,
                };
            }
        }
    }

    #[inline]
    fn release(&mut self, from: u32) {
        if let Some(peer) = self.peer(from) {
            peer.rx_start += core::mem::take(&mut peer.shown);
        }
    }

    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let Some(peer) = self.peer(to) else { return 0 };
        let Some(socket) = &peer.large else { return 0 };
        let mut total = 0;
        while total < data.len() {
            let offset = header.len + total as u64;
            let outgoing = peer.outgoing.get_or_insert_with(|| {
                let left = PIECE.min(data.len() - total);
                let mut raw = [0; LONG];
                Header { len: offset, payload: left as u32, ..*header }.encode(&mut raw);
                Outgoing { header: raw, header_sent: 0, left }
            });
            let piece = data.part(total, outgoing.left);
            let head = &outgoing.header[outgoing.header_sent..];
            let mut parts = [
                libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
                libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() },
            ];
            // SAFETY: our own memory and a span, both readable.
            let Sent::Some(sent) = (unsafe { send_parts(socket, &mut parts) }) else { break };
            let of_head = sent.min(head.len());
            let of_data = sent - of_head;
            outgoing.header_sent += of_head;
            outgoing.left -= of_data;
            total += of_data;
            let short = of_data < piece.len();
            if outgoing.left == 0 {
                peer.outgoing = None;
            }
            if short {
                break;
            }
        }
        total
    }

    fn peek_large(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        if let Some(cause) = peer.large_gone {
            return Peek::Gone(cause);
        }
        while peer.head_got < LONG {
            let Some(socket) = &peer.large else { return Peek::Empty };
            if !peer.large_ready {
                return Peek::Empty;
            }
            let rest = &mut peer.head[peer.head_got..];
            // SAFETY: the slice is writable for its length.
            match unsafe { receive(socket, rest.as_mut_ptr(), rest.len()) } {
                Got::Some(got) => peer.head_got += got,
                Got::Nothing => {
                    peer.large_ready = false;
                    return Peek::Empty;
                }
                Got::End(cause) => {
                    peer.large_gone = Some(cause);
                    return Peek::Gone(cause);
                }
            }
        }
        peer.head_got = 0;
        match Header::decode(&peer.head) {
            Ok(header) if header.kind == Kind::Data => Peek::Packet(header, Span::EMPTY),
            _ => Peek::Gone(Cause::Malformed),
        }
    }

    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let Some(peer) = self.peer(from) else { return 0 };
        let Some(socket) = &peer.large else { return 0 };
        if !peer.large_ready {
            return 0;
        }
        // SAFETY: the caller's promise.
        match unsafe { receive(socket, to, len) } {
            Got::Some(got) => got,
            Got::Nothing => {
                peer.large_ready = false;
                0
            }
            Got::End(cause) => {
                peer.large_gone = Some(cause);
                0
            }
        }
    }

    unsafe fn pull(&mut self, _: u32, _: u64, _: *mut u8, _: usize) -> Result<usize, Refused> {
        Err(Refused::Unable)
    }

    unsafe fn push(&mut self, _: u32, _: u64, _: Span) -> Result<usize, Refused> {
        Err(Refused::Unable)
    }

    fn is_flushed(&self, to: u32) -> bool {
        match self.peers.get(to as usize) {
            Some(Some(peer)) => !peer.backlog() && peer.outgoing.is_none(),
            _ => true,
        }
    }

    fn waits_for_goodbye(&self) -> bool {
        true
    }

    fn bury(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer) {
            // The buffers stay until the session is dropped: nothing is freed here.
            peer.close();
        }
    }

    fn arm(&mut self) {
        if std::mem::take(&mut self.unarmed) == STEADY {
            self.watch_small(true);
        }
        // Edges seen so far are forgotten; the round that follows reads what they stood for.
        self.look_around();
        for peer in self.peers.iter_mut().flatten() {
            if self.alone {
                peer.small_ready = true;
                peer.large_ready = true;
            }
        }
    }

    fn wake_oneself(&mut self) {
        sys::ring(self.wake.as_raw_fd());
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }
}
