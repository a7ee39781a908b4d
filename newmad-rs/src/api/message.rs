//! Probes, and a handle to a message that a probe has taken hold of.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::Status;
use crate::api::options::RecvOptions;
use crate::api::request::{Owner, Request};
use crate::error::Error;
use crate::request::Request as EngineRequest;
use crate::request::tag::EXACT;
use crate::session::{Inner, Session};

/// A message that a probe has taken hold of ([`Session::mprobe`]): no other receive gets it. Any thread may receive it,
/// once.
///
/// Dropped, it goes back where it was among the messages that wait, as if it had not been probed for; a receive that
/// has been posted meanwhile gets it. It keeps its session open.
///
/// ```
/// newmad::run(|session| {
///     session.send(0, 5, b"a message of unknown length")?;
///     let message = session.mprobe(newmad::ANY, newmad::Tag::ANY)?;
///     let mut buffer = vec![0; message.status().len];
///     message.recv(&mut buffer)?;
///     assert_eq!(buffer, b"a message of unknown length");
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
#[must_use = "a message that is dropped goes back to those that wait"]
pub struct Message {
    session: Arc<Inner>,
    cell: u32,
    status: Status,
}

impl Message {
    /// The message in this cell, which a probe has taken hold of.
    pub(crate) fn held(session: Arc<Inner>, cell: u32, status: Status) -> Message {
        Message { session, cell, status }
    }

    /// Sender, tag and length.
    pub fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn give_up(self) -> (Session, u32) {
        let this = ManuallyDrop::new(self);
        // SAFETY: moved out once; nothing else needs a destructor.
        let session = unsafe { core::ptr::read(&raw const this.session) };
        (Session::of(session), this.cell)
    }

    /// Receives it into `buffer`.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread, until the message is there as a whole.
    /// # Errors
    /// [`Error::Truncated`], [`Error::PeerDied`], [`Error::Closed`].
    pub fn recv(self, buffer: &mut [u8]) -> Result<Status, Error> {
        let Status { source, tag, .. } = self.status;
        let (session, cell) = self.give_up();
        // SAFETY: `buffer` is borrowed exclusively until `complete` returns, when the request is over.
        let mut request = unsafe { EngineRequest::recv(source, tag, buffer, true) };
        request.held.set(Some(cell));
        session.complete(&mut request)
    }

    /// Starts to receive it into `buffer`, which comes back from [`Request::wait`].
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// No.
    pub fn irecv(self, buffer: Vec<u8>) -> Request {
        let Status { source, tag, .. } = self.status;
        let (session, cell) = self.give_up();
        let options = RecvOptions::new();
        let mut request = Request::recv(Owner::NEW, source, (tag, EXACT), buffer, options);
        // Without a layout it does not fail.
        let _never_fails =
            request.begin_with(session.inner(), |request| request.held.set(Some(cell)));
        request
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.session.engine.with(|core| core.put_back(self.cell));
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Message").field(&self.status).finish()
    }
}

impl Session {
    /// Waits for a message that no receive has matched, from `from` with `tag`. It stays where it is: another thread
    /// may receive it first. See [`Session::mprobe`] for one that cannot be taken away.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// The calling thread, until there is such a message.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`], [`Error::PeerDied`], [`Error::Closed`].
    pub fn probe(
        &self,
        from: impl Into<crate::Origin>,
        tag: impl Into<crate::Tag>,
    ) -> Result<Status, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        let mut request = EngineRequest::probe(from, tag, false).masked(mask);
        self.complete(&mut request)
    }

    /// As [`Session::probe`], but `None` if there is no such message now, after a look for events.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// For as long as the engine is held by another thread.
    /// # Errors
    /// As [`Session::probe`].
    pub fn iprobe(
        &self,
        from: impl Into<crate::Origin>,
        tag: impl Into<crate::Tag>,
    ) -> Result<Option<Status>, Error> {
        let found = self.look_for(from.into(), tag.into(), false)?;
        Ok(found.map(|(_, status)| status))
    }

    /// Waits for a message that no receive has matched, from `from` with `tag`, and takes hold of it.
    ///
    /// # Context, Blocking, Errors
    /// As [`Session::probe`].
    pub fn mprobe(
        &self,
        from: impl Into<crate::Origin>,
        tag: impl Into<crate::Tag>,
    ) -> Result<Message, Error> {
        let (from, (tag, mask)) = self.check_source(from.into(), tag.into())?;
        let mut request = EngineRequest::probe(from, tag, true).masked(mask);
        let probing = Probing { session: self, request: &mut request };
        let status = self.complete(probing.request)?;
        let cell = probing.request.held.take();
        drop(probing);
        // A probe that has ended well has taken hold of its message.
        let cell = cell.ok_or(Error::Closed)?;
        Ok(Message { session: self.inner().clone(), cell, status })
    }

    /// As [`Session::mprobe`], but `None` if there is no such message now, after a look for events.
    ///
    /// # Context, Blocking, Errors
    /// As [`Session::iprobe`].
    pub fn improbe(
        &self,
        from: impl Into<crate::Origin>,
        tag: impl Into<crate::Tag>,
    ) -> Result<Option<Message>, Error> {
        let found = self.look_for(from.into(), tag.into(), true)?;
        let session = self.inner().clone();
        Ok(found.map(|(cell, status)| Message { session, cell, status }))
    }

    fn look_for(
        &self,
        from: crate::Origin,
        tag: crate::Tag,
        take: bool,
    ) -> Result<Option<(u32, Status)>, Error> {
        let (from, tag) = self.check_source(from, tag)?;
        let (engine, mine) = (&self.inner().engine, self.inner().mine());
        let look = || {
            engine.with_memory(|core| {
                let found = core.look_for(mine, from, tag, take);
                if !matches!(found, Ok(None)) {
                    return found;
                }
                core.progress();
                core.look_for(mine, from, tag, take)
            })
        };
        let glance = self.inner().manager.glance();
        let mut found = look();
        if matches!(found, Ok(None)) && engine.calls(mine).look() {
            found = look();
        }
        self.inner().manager.glanced(glance, !matches!(found, Ok(None)));
        found
    }
}

/// A wait for a message that is to be taken hold of: when it unwinds, with the message there, that goes back.
struct Probing<'a> {
    session: &'a Session,
    request: &'a mut EngineRequest,
}

impl Drop for Probing<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.request.held.take() {
            self.session.inner().engine.with(|core| core.put_back(held));
        }
    }
}
