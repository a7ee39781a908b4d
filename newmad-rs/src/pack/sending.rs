//! Packing: collects the pieces, and sends them at the end.

use std::borrow::Cow;

use super::wire::{self, Kind, SHORT, STREAM};
use crate::api::detached;
use crate::api::request::Request;
use crate::api::scope::Scope;
use crate::error::Error;
use crate::session::Session;

/// A message that is being packed; see [`Session::pack`]. Dropped without an end, it is not sent.
#[must_use = "a packed message is sent by its end"]
pub struct Pack<'a> {
    session: Session,
    to: u32,
    tag: u64,
    stream: Vec<u8>,
    apart: Vec<Cow<'a, [u8]>>,
}

impl<'a> Pack<'a> {
    pub(super) fn new(session: &Session, to: u32, tag: u64) -> Pack<'a> {
        Pack { session: session.clone(), to, tag, stream: Vec::new(), apart: Vec::new() }
    }

    /// Adds a piece that the receiver has as soon as it has unpacked it. It is copied.
    pub fn express(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        wire::add(&mut self.stream, Kind::Express, bytes.len(), bytes);
        self
    }

    /// Adds a piece that the receiver has at the end. It is borrowed until then, or owned, and copied only if it is
    /// short.
    pub fn deferred(&mut self, bytes: impl Into<Cow<'a, [u8]>>) -> &mut Self {
        let bytes = bytes.into();
        if bytes.len() <= SHORT {
            wire::add(&mut self.stream, Kind::Short, bytes.len(), &bytes);
        } else {
            wire::add(&mut self.stream, Kind::Apart, bytes.len(), &[]);
            self.apart.push(bytes);
        }
        self
    }

    /// Starts to send everything but what comes apart; the id, and the sends.
    fn start(&mut self) -> Result<(u64, Vec<Request>), Error> {
        if self.stream.len() > STREAM {
            return Err(Error::Packing(format!(
                "{} bytes of express and short pieces: at most {STREAM} in one message; what is long may \
                 be deferred",
                self.stream.len()
            )));
        }
        let apart = u32::try_from(self.apart.len())
            .map_err(|_| Error::Packing("more than 2^32 long pieces in one message".into()))?;
        let id = self.session.inner().next_number() % wire::TAGS;
        let (head, rest) = wire::head(id, apart, std::mem::take(&mut self.stream));
        let mut sends = vec![self.send(wire::head_tag(self.tag), head)];
        if !rest.is_empty() {
            sends.push(self.send(wire::rest_tag(id), rest));
        }
        Ok((id, sends))
    }

    fn send(&self, tag: u64, data: Vec<u8>) -> Request {
        detached::isend(self.session.inner(), self.to, tag, data)
    }

    /// Sends the message and waits until every piece has left (short ones) or has been received (long ones).
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::Packing`]: too much that is not deferred; [`Error::PeerDied`], [`Error::Closed`].
    pub fn end(mut self) -> Result<(), Error> {
        let (id, along) = self.start()?;
        let apart = std::mem::take(&mut self.apart);
        self.session.scope(|scope| {
            for piece in &apart {
                drop(scope.isend_reserved(&self.session, self.to, wire::piece_tag(id), piece));
            }
            PackRequest { requests: along }.wait()
        })
    }

    /// As [`Pack::end`], without waiting: the scope waits for what is borrowed, and the request is for the rest.
    ///
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::Packing`]; others when it is waited for.
    pub fn end_in<'scope>(
        mut self,
        scope: &'scope Scope<'scope, 'a>,
    ) -> Result<PackRequest, Error> {
        let (id, mut requests) = self.start()?;
        for piece in std::mem::take(&mut self.apart) {
            match piece {
                Cow::Borrowed(piece) => {
                    drop(scope.isend_reserved(&self.session, self.to, wire::piece_tag(id), piece));
                }
                Cow::Owned(piece) => requests.push(self.send(wire::piece_tag(id), piece)),
            }
        }
        Ok(PackRequest { requests })
    }
}

impl Pack<'static> {
    /// As [`Pack::end`], without waiting, when nothing is borrowed. (What is borrowed for ever is copied.)
    ///
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::Packing`]; others when it is waited for.
    pub fn iend(mut self) -> Result<PackRequest, Error> {
        let (id, mut requests) = self.start()?;
        for piece in std::mem::take(&mut self.apart) {
            requests.push(self.send(wire::piece_tag(id), piece.into_owned()));
        }
        Ok(PackRequest { requests })
    }
}

/// A packed message that is being sent. Dropping it waits for its end.
#[must_use = "dropping it waits for its end"]
pub struct PackRequest {
    requests: Vec<Request>,
}

impl PackRequest {
    /// Waits until it has been sent.
    ///
    /// # Context, Blocking, Errors
    /// As [`Pack::end`].
    pub fn wait(self) -> Result<(), Error> {
        let mut result = Ok(());
        for request in self.requests {
            result = result.and(request.wait().map(drop));
        }
        result
    }

    /// Whether it has been sent. Looks for events if it has not.
    pub fn test(&mut self) -> bool {
        self.requests.iter().all(Request::test)
    }
}

impl std::fmt::Debug for Pack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Pack { to, tag, stream, apart, .. } = self;
        write!(
            f,
            "Pack(to rank {to}, tag {tag}: {} bytes, {} long pieces)",
            stream.len(),
            apart.len()
        )
    }
}

impl std::fmt::Debug for PackRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PackRequest")
    }
}
