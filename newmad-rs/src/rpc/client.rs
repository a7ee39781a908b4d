//! Making calls, from the program and from handlers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use marcel::sync::Semaphore;

use super::depth;
use super::error::CallError;
use super::lanes::Priority;
use super::lanes::{Bounds, LEVELS, lane_of};
use super::outgoing::Reply;
use super::registry::{self, Registry};
use super::wire::{self, Call, Content, Service, Status, lane_tag};
use crate::api::detached;
use crate::session::Session;

/// What a handler is: arguments to result, or how the call ends instead and what is said of it.
pub(super) type Handler =
    Box<dyn Fn(&Context, Vec<u8>) -> Result<Vec<u8>, (Status, String)> + Send + Sync>;

/// What the handles, the lanes and the calls under way share.
pub(super) struct Shared {
    pub(super) session: Session,
    pub(super) registry: Registry<Handler>,
    pub(super) bounds: Arc<Bounds>,
    pub(super) stopping: AtomicBool,
    /// Lanes whose thread has ended.
    pub(super) ended: Semaphore,
}

/// Makes calls. Clones are the same; it keeps the session open.
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) depth: u32,
}

/// What a handler knows of its call.
pub struct Context {
    client: Client,
    source: u32,
    priority: Priority,
}

impl Client {
    /// Calls a service of rank `peer`; its result is what the handler makes of `arguments`.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once; handlers too.
    /// # Blocking
    /// No.
    /// # Errors
    /// There is no such rank; the name is none; too many levels of calls. Others when the reply is waited for.
    pub fn call_bytes<'a>(
        &self,
        peer: u32,
        service: impl Into<Service<'a>>,
        arguments: impl Into<Vec<u8>>,
    ) -> Result<Reply, CallError> {
        self.call_bytes_at(Priority::Normal, peer, service, arguments)
    }

    /// As [`Client::call_bytes`], of another priority.
    ///
    /// # Context, Blocking, Errors
    /// As [`Client::call_bytes`].
    pub fn call_bytes_at<'a>(
        &self,
        priority: Priority,
        peer: u32,
        service: impl Into<Service<'a>>,
        arguments: impl Into<Vec<u8>>,
    ) -> Result<Reply, CallError> {
        let service = service.into();
        let tag = self.prepare(priority, peer, &service)?;
        let Shared { session, bounds, .. } = &*self.shared;
        let id = self.next_id();
        let reply = Reply::expect(session, peer, id, &service, bounds.limit as u64);
        self.send(peer, tag, id, service, false, arguments.into());
        Ok(reply)
    }

    /// Calls a service of rank `peer` of which nothing comes back: neither a result nor an error of the handler's.
    ///
    /// # Context, Blocking
    /// As [`Client::call_bytes`].
    /// # Errors
    /// There is no such rank; the name is none; too many levels of calls.
    pub fn cast_bytes<'a>(
        &self,
        priority: Priority,
        peer: u32,
        service: impl Into<Service<'a>>,
        arguments: impl Into<Vec<u8>>,
    ) -> Result<(), CallError> {
        let service = service.into();
        let tag = self.prepare(priority, peer, &service)?;
        let id = self.next_id();
        self.send(peer, tag, id, service, true, arguments.into());
        Ok(())
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.shared.session
    }

    pub(super) fn next_id(&self) -> u64 {
        wire::id(self.shared.session.inner().next_number())
    }

    pub(super) fn prepare(
        &self,
        priority: Priority,
        peer: u32,
        service: &Service<'_>,
    ) -> Result<u64, CallError> {
        self.shared.session.check(Some(peer), 0)?;
        registry::check(service)?;
        let depth = self.depth.max(depth::get());
        if depth >= LEVELS {
            return Err(CallError::TooDeep { limit: LEVELS });
        }
        Ok(lane_tag(lane_of(priority, depth)))
    }

    pub(super) fn send(
        &self,
        peer: u32,
        tag: u64,
        id: u64,
        service: Service<'_>,
        one_way: bool,
        arguments: Vec<u8>,
    ) {
        let inner = self.shared.session.inner();
        let along = wire::travels_along(&service, arguments.len());
        let content =
            if along { Content::Here(&arguments) } else { Content::Apart(arguments.len() as u64) };
        let packet = Call { id, service, one_way, arguments: content }.encode();
        detached::send(inner, peer, tag, packet, ());
        if !along {
            detached::send(inner, peer, wire::arguments_tag(id), arguments, ());
        }
    }
}

impl Context {
    pub(super) fn new(
        shared: &Arc<Shared>,
        source: u32,
        priority: Priority,
        depth: u32,
    ) -> Context {
        Context { client: Client { shared: shared.clone(), depth }, source, priority }
    }

    /// Rank of the caller.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// Priority of the call.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Makes calls. Threads that the handler starts and waits for use it (or a clone) too: their calls count as the
    /// handler's, which is what keeps handlers from waiting for each other in a circle.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({:?})", self.shared.session)
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context(call of rank {}, {:?})", self.source, self.priority)
    }
}
