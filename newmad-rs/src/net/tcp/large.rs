//! The large track of a gate: pieces with a header, sent from the user's memory and read straight into the receive
//! buffer.

use std::os::fd::OwnedFd;

use super::socket::{Got, Sent, receive, send_parts};
use crate::error::Cause;
use crate::memory::span::Span;
use crate::net::packet::Peek;
use crate::wire::{Header, Kind, LONG};

/// Most payload bytes of one piece.
pub(crate) const PIECE: usize = 1 << 20;

/// The piece that is being sent.
struct Outgoing {
    header: [u8; LONG],
    header_sent: usize,
    left: usize,
}

/// See the module.
pub(super) struct Large {
    pub(super) socket: Option<OwnedFd>,
    /// The socket is worth reading.
    pub(super) ready: bool,
    outgoing: Option<Outgoing>,
    head: [u8; LONG],
    head_got: usize,
    /// It has ended, whatever the small track says.
    pub(super) gone: Option<Cause>,
}

impl Large {
    pub(super) fn new(socket: OwnedFd) -> Large {
        Large {
            socket: Some(socket),
            ready: true,
            outgoing: None,
            head: [0; LONG],
            head_got: 0,
            gone: None,
        }
    }

    /// Whether a part of a piece has not left yet.
    pub(super) fn backlog(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Bytes of the message that are missing of that piece.
    pub(super) fn mid_piece(&self) -> usize {
        self.outgoing.as_ref().map_or(0, |outgoing| outgoing.left)
    }

    pub(super) fn post(&mut self, header: &Header, data: Span) -> usize {
        let Some(socket) = &self.socket else { return 0 };
        let mut total = 0;
        while total < data.len() {
            let offset = header.len + total as u64;
            let outgoing = self.outgoing.get_or_insert_with(|| {
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
            let sent = match unsafe { send_parts(socket, &mut parts) } {
                Sent::Some(sent) => sent,
                Sent::Nothing => break,
                Sent::Broken => {
                    self.gone.get_or_insert(Cause::Broken(libc::EPIPE));
                    break;
                }
            };
            let of_head = sent.min(head.len());
            let of_data = sent - of_head;
            outgoing.header_sent += of_head;
            outgoing.left -= of_data;
            total += of_data;
            let short = of_data < piece.len();
            if outgoing.left == 0 {
                self.outgoing = None;
            }
            if short {
                break;
            }
        }
        total
    }

    pub(super) fn peek(&mut self) -> Peek {
        if let Some(cause) = self.gone {
            return Peek::Gone(cause);
        }
        while self.head_got < LONG {
            let Some(socket) = &self.socket else { return Peek::Empty };
            if !self.ready {
                return Peek::Empty;
            }
            let rest = &mut self.head[self.head_got..];
            // SAFETY: the slice is writable for its length.
            match unsafe { receive(socket, rest.as_mut_ptr(), rest.len()) } {
                Got::Some(got) => self.head_got += got,
                Got::Nothing => {
                    self.ready = false;
                    return Peek::Empty;
                }
                Got::End(cause) => {
                    self.gone = Some(cause);
                    return Peek::Gone(cause);
                }
            }
        }
        self.head_got = 0;
        match Header::decode(&self.head) {
            Ok(header) if header.kind == Kind::Data => Peek::Packet(header, Span::EMPTY),
            _ => Peek::Gone(Cause::Malformed),
        }
    }

    /// # Safety
    /// `len` bytes at `to` are writable and exclusive.
    pub(super) unsafe fn read(&mut self, to: *mut u8, len: usize) -> usize {
        let Some(socket) = &self.socket else { return 0 };
        if !self.ready {
            return 0;
        }
        // SAFETY: the caller's promise.
        match unsafe { receive(socket, to, len) } {
            Got::Some(got) => got,
            Got::Nothing => {
                self.ready = false;
                0
            }
            Got::End(cause) => {
                self.gone = Some(cause);
                0
            }
        }
    }
}
