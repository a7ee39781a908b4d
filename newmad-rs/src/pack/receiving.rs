//! Taking a packed message apart.

use super::wire::{self, Found, HEAD, Head, Kind, Record};
use crate::Status;
use crate::api::detached;
use crate::api::scope::Scope;
use crate::error::Error;
use crate::session::{Origin, Session};

/// What is left of a message. Dropped, it takes the rest without room for it, so that the sender is free of it;
/// receives that are forgotten instead leave the sender with its long pieces until the session ends.
struct Message {
    session: Session,
    source: u32,
    tag: u64,
    head: Head,
    stream: Vec<u8>,
    /// Where the next piece begins.
    at: usize,
    /// Its number.
    piece: usize,
    /// Bytes of all pieces so far.
    len: usize,
}

/// A packed message that is being taken apart; see [`Session::unpack`]. Dropped before its end, it throws the rest
/// away.
#[must_use = "dropped, it throws the message away"]
pub struct Unpack<'a> {
    message: Message,
    deferred: Vec<&'a mut [u8]>,
}

impl Message {
    fn wrong(&self, why: impl Into<String>) -> Error {
        let Message { source, tag, piece, .. } = *self;
        Error::Unpacking { from: source, tag, piece, why: why.into() }
    }

    /// Receives what did not fit the head.
    fn complete(&mut self) -> Result<(), Error> {
        let mut rest = vec![0; self.head.rest];
        let tag = wire::rest_tag(self.head.id);
        let result = self.session.recv_unchecked(Origin::Rank(self.source), tag, &mut rest);
        let whole = matches!(&result, Ok(status) if status.len == rest.len());
        self.head.rest = 0;
        match result {
            Ok(_) | Err(Error::Truncated { .. }) if !whole => {
                Err(self.wrong("its bytes have not the length that was announced"))
            }
            result => {
                self.stream.extend_from_slice(&rest);
                result.map(drop)
            }
        }
    }

    /// The next piece, which is to be express or not, and of that length if one is given.
    fn next(&mut self, express: bool, len: Option<usize>) -> Result<Record, Error> {
        let record = loop {
            match wire::find(&self.stream, self.at) {
                Found::Piece(record) => break record,
                Found::Cut if self.head.rest > 0 => self.complete()?,
                Found::Cut if self.at == self.stream.len() => {
                    return Err(self.wrong("the message has no further piece"));
                }
                _ => return Err(self.wrong("it was not packed by this library")),
            }
        };
        let is = |express| if express { "express" } else { "deferred" };
        let packed = record.kind == Kind::Express;
        if packed != express {
            return Err(self.wrong(format!("it was packed as {} one", is(packed))));
        }
        if let Some(len) = len.filter(|&len| len != record.len) {
            return Err(self.wrong(format!(
                "it has {} bytes, and the memory to unpack it into {len}",
                record.len
            )));
        }
        self.at = record.bytes.end;
        self.piece += 1;
        self.len = self.len.saturating_add(record.len);
        Ok(record)
    }

    /// Nothing is left to be unpacked.
    fn finish(&mut self, apart: usize) -> Result<Status, Error> {
        if self.at < self.stream.len() || self.head.rest > 0 {
            return Err(self.wrong("it has not been unpacked, nor have those after it"));
        }
        if self.head.apart as usize != apart {
            return Err(self.wrong("the message was not packed by this library"));
        }
        self.head.apart = 0;
        Ok(Status { source: self.source, tag: self.tag, len: self.len })
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let session = self.session.inner();
        if self.head.rest > 0 {
            detached::discard(session, self.source, wire::rest_tag(self.head.id), ());
        }
        for _ in 0..self.head.apart {
            detached::discard(session, self.source, wire::piece_tag(self.head.id), ());
        }
    }
}

impl<'a> Unpack<'a> {
    pub(super) fn receive(session: &Session, from: Origin, tag: u64) -> Result<Unpack<'a>, Error> {
        let mut stream = vec![0; HEAD];
        let foreign = |from| Error::Unpacking {
            from,
            tag,
            piece: 0,
            why: "the message was not packed by this library".into(),
        };
        let status = match session.recv_unchecked(from, wire::head_tag(tag), &mut stream) {
            Err(Error::Truncated { from, .. }) => return Err(foreign(from)),
            result => result?,
        };
        stream.truncate(status.len);
        let source = status.source;
        let head = Head::decode(&mut stream).ok_or_else(|| foreign(source))?;
        let session = session.clone();
        let message = Message { session, source, tag, head, stream, at: 0, piece: 0, len: 0 };
        Ok(Unpack { message, deferred: Vec::new() })
    }

    /// Rank of the sender.
    pub fn source(&self) -> u32 {
        self.message.source
    }

    /// Takes the next piece, an express one of as many bytes as `bytes` has: it is there when this returns.
    ///
    /// # Blocking
    /// The calling thread, when the message begins with many bytes of such pieces.
    /// # Errors
    /// [`Error::Unpacking`]: the piece is another one. The message can be taken apart no further.
    pub fn express(&mut self, bytes: &mut [u8]) -> Result<&mut Self, Error> {
        let record = self.message.next(true, Some(bytes.len()))?;
        bytes.copy_from_slice(&self.message.stream[record.bytes]);
        Ok(self)
    }

    /// As [`Unpack::express`], of any length.
    ///
    /// # Blocking, Errors
    /// As [`Unpack::express`].
    pub fn express_vec(&mut self) -> Result<Vec<u8>, Error> {
        let record = self.message.next(true, None)?;
        Ok(self.message.stream[record.bytes].to_vec())
    }

    /// Takes the next piece, a deferred one of as many bytes as `bytes` has: it is there at the end.
    ///
    /// # Blocking, Errors
    /// As [`Unpack::express`].
    pub fn deferred(&mut self, bytes: &'a mut [u8]) -> Result<&mut Self, Error> {
        let record = self.message.next(false, Some(bytes.len()))?;
        match record.kind {
            Kind::Apart => self.deferred.push(bytes),
            _ => bytes.copy_from_slice(&self.message.stream[record.bytes]),
        }
        Ok(self)
    }

    /// Waits until every piece is there. The length in the status is that of all pieces.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::Unpacking`]: pieces were not unpacked; [`Error::PeerDied`], [`Error::Closed`].
    pub fn end(mut self) -> Result<Status, Error> {
        let status = self.message.finish(self.deferred.len())?;
        let (session, tag) = (&self.message.session, wire::piece_tag(self.message.head.id));
        let deferred = std::mem::take(&mut self.deferred);
        session.scope(|scope| {
            let pieces: Vec<_> = deferred
                .into_iter()
                .map(|piece| {
                    let len = piece.len();
                    (scope.irecv_reserved(session, status.source, tag, piece), len)
                })
                .collect();
            for (piece, len) in pieces {
                if piece.wait()?.1.len != len {
                    return Err(self.message.wrong("a long piece has not the announced length"));
                }
            }
            Ok(status)
        })
    }

    /// As [`Unpack::end`], without waiting: the scope does.
    ///
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::Unpacking`]: pieces were not unpacked; others are the scope's.
    pub fn end_in<'scope>(mut self, scope: &'scope Scope<'scope, 'a>) -> Result<Status, Error> {
        let status = self.message.finish(self.deferred.len())?;
        let tag = wire::piece_tag(self.message.head.id);
        for piece in std::mem::take(&mut self.deferred) {
            drop(scope.irecv_reserved(&self.message.session, status.source, tag, piece));
        }
        Ok(status)
    }
}

impl std::fmt::Debug for Unpack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Message { source, tag, piece, .. } = &self.message;
        write!(f, "Unpack(from rank {source}, tag {tag}: at piece {piece})")
    }
}
