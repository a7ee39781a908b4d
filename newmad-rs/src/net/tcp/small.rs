//! The small track of a gate: packets back to back.
//!
//! A packet leaves with one call from the user's memory; the part that the socket does not take is kept in the gate's
//! own buffer, and nothing else is accepted until that has left. Arrivals are read into the gate's buffer and
//! treated there.

use std::os::fd::OwnedFd;

use super::socket::{Got, Sent, gather, receive, send, send_parts};
use crate::error::Cause;
use crate::memory::span::Span;
use crate::net::packet::{GATHER_MAX_CHECKED, Peek};
use crate::wire::{Header, LONG, SHORT};

/// Most payload bytes of one packet, which with its header fits into one segment of a connection inside a machine (65,483 bytes).
/// One of 64 KiB takes a second one of some bytes: half a round trip of 39 µs instead of 20.
pub(super) const MTU: usize = 65_280;
const RX: usize = 256 * 1024;
const TX: usize = MTU + LONG;
/// Up to this length a message is copied behind its header.
const SHORT_MESSAGE: usize = 256;

/// See the module.
pub(super) struct Small {
    pub(super) socket: Option<OwnedFd>,
    rx: Box<[u8]>,
    rx_start: usize,
    rx_end: usize,
    shown: usize,
    tx: Box<[u8]>,
    tx_start: usize,
    tx_end: usize,
    /// The socket is worth reading.
    pub(super) ready: bool,
    /// The peer sends nothing more: to be read to the end, since no other edge will come.
    pub(super) ends: bool,
    gone: Option<Cause>,
}

impl Small {
    pub(super) fn new(socket: OwnedFd) -> Small {
        Small {
            socket: Some(socket),
            rx: vec![0; RX].into_boxed_slice(),
            rx_start: 0,
            rx_end: 0,
            shown: 0,
            tx: vec![0; TX].into_boxed_slice(),
            tx_start: 0,
            tx_end: 0,
            ready: true,
            ends: false,
            gone: None,
        }
    }

    /// Whether a part of a packet has not left yet.
    #[inline]
    pub(super) fn backlog(&self) -> bool {
        self.tx_start < self.tx_end
    }

    /// Sends what was kept. True: nothing is kept any more.
    pub(super) fn flush(&mut self) -> bool {
        while self.backlog() {
            let Some(socket) = &self.socket else { return false };
            let kept = &self.tx[self.tx_start..self.tx_end];
            match send(socket, kept) {
                Sent::Some(sent) => self.tx_start += sent,
                Sent::Nothing => return false,
                // Reading tells why, after what the peer sent before.
                Sent::Broken => {
                    self.ready = true;
                    return false;
                }
            }
        }
        self.tx_start = 0;
        self.tx_end = 0;
        true
    }

    #[inline]
    pub(super) fn post(&mut self, header: &Header, parts: &[Span]) -> bool {
        if self.backlog() && !self.flush() {
            return false;
        }
        let Some(socket) = &self.socket else { return false };
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let size = header.kind.header_len();
        let parts = &parts[..parts.len().min(GATHER_MAX_CHECKED)];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let outcome = if len <= SHORT_MESSAGE {
            // One small copy is cheaper than a list of parts.
            let mut packet = [0; LONG + SHORT_MESSAGE];
            packet[..size].copy_from_slice(&raw[..size]);
            gather(parts, 0, &mut packet[size..size + len]);
            send(socket, &packet[..size + len])
        } else {
            const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            let mut list = [NOTHING; 1 + GATHER_MAX_CHECKED];
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
            Sent::Nothing => return false,
            Sent::Broken => {
                self.ready = true;
                return false;
            }
        };
        if sent < size + len {
            let head = &raw[sent.min(size)..size];
            let gone = sent.saturating_sub(size);
            let end = head.len() + len - gone;
            self.tx[..head.len()].copy_from_slice(head);
            gather(parts, gone, &mut self.tx[head.len()..end]);
            self.tx_start = 0;
            self.tx_end = end;
        }
        true
    }

    #[inline]
    pub(super) fn peek(&mut self) -> Peek {
        loop {
            if let Some(peek) = self.parse() {
                return peek;
            }
            if !self.fill() {
                return match self.gone {
                    Some(cause) => Peek::Gone(cause),
                    None => Peek::Empty,
                };
            }
        }
    }

    #[inline]
    pub(super) fn release(&mut self) {
        self.rx_start += core::mem::take(&mut self.shown);
    }

    /// Reads what the socket has. False: nothing came.
    #[inline]
    fn fill(&mut self) -> bool {
        let Some(socket) = &self.socket else { return false };
        if !self.ready || self.gone.is_some() {
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
                self.ready = got == room.len() || self.ends;
                self.rx_end += got;
                true
            }
            Got::Nothing => {
                self.ready = false;
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
}
