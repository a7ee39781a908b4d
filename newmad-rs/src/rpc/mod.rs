//! Remote calls: services that other processes of the session call by name or number; replies are futures.
//!
//! ```
//! newmad::run(|session| {
//!     let rpc = session.rpc()?;
//!     rpc.service("shout").bytes(|_, text| Ok::<_, String>(text.to_ascii_uppercase()))?;
//!     session.barrier()?; // everybody offers it now
//!     let next = (session.rank() + 1) % session.size();
//!     let reply = rpc.call_bytes(next, "shout", b"hello")?;
//!     assert_eq!(reply.wait()?, b"HELLO");
//!     session.barrier()?;
//!     Ok::<(), newmad::CallError>(())
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `typed` (on by default) arguments and results are any types that serde knows: [`Client::call`],
//! [`Rpc::serve`].
//!
//! # Who runs what
//! A call runs on a green thread of its own, on the reactive virtual processors of the target, so it is served while every
//! core computes; without a runtime it is a kernel thread. Handlers may block, wait, and call services themselves,
//! their callers' too. Services that answer at once may run [`inline`](ServiceBuilder::inline), where the call is found.
//! A call carries a [`Priority`]: an urgent one passes those that wait, a background one waits until the virtual
//! processor has nothing else. A target that is awake is sent no wake-up, whatever the priority: that is the drivers'
//! affair (`net/segment/bell.rs`).
//!
//! # Bounds
//! `NMAD_RPC_THREADS` calls of one kind run at once, and their long arguments take at most `NMAD_RPC_MEMORY` bytes;
//! beyond that calls wait (see `lanes` for why nothing waits in a circle). Longer arguments, and longer results at the
//! caller, are refused.
//!
//! # Ends
//! A peer that dies ends every call to it with [`crate::Error::PeerDied`]; the end of the session, every call with
//! [`crate::Error::Closed`]. A process that has never registered a service does not answer: calls to it wait until it does,
//! or leaves.
//!
//! Rejected: a thread that receives all answers and hands them out (each call has a tag of its own, so matching does it);
//! a thread for each reply that nobody wants (callbacks take it); suspending a call that waits for memory (the thread is
//! that already).

mod error;
mod lanes;
mod outgoing;
mod registry;
mod serving;
#[cfg(feature = "typed")]
mod typed;
pub(crate) mod wire;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use marcel::sync::Semaphore;

pub use error::CallError;
pub use outgoing::Reply;
#[cfg(feature = "typed")]
pub use typed::Answer;
pub use wire::Service;

use crate::api::detached;
use crate::error::Error;
use crate::knobs::{RPC_MEMORY, RPC_THREADS};
use crate::session::Session;
use lanes::{Bounds, LANES, LEVELS, lane_of};
use registry::{Entry, Registry};
use wire::{Call, Content, lane_tag};

/// How urgent a call is, at its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Its thread runs when its virtual processor finds nothing else.
    Background,
    /// Its thread takes its turn.
    #[default]
    Normal,
    /// Runs before the others, one after the other, where it is found: the handler should not wait. Counts for calls
    /// that are not made by a handler; those are normal ones.
    Urgent,
}

/// What a session keeps of its calls.
#[derive(Default)]
pub(crate) struct Slot {
    current: Mutex<Weak<Handle>>,
    ids: AtomicU64,
}

/// What the handles, the lanes and the calls under way share.
struct Shared {
    session: Session,
    registry: Registry,
    bounds: Arc<Bounds>,
    stopping: AtomicBool,
    /// Lanes whose thread has ended.
    ended: Semaphore,
}

/// What all [`Rpc`]s of a session share.
struct Handle {
    client: Client,
    /// How many lanes have been started, once some have.
    started: Mutex<Option<usize>>,
}

/// Makes calls. Clones are the same; it keeps the session open.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    depth: u32,
}

/// The services of this process, and calls to those of others. Clones are the same. When the last is dropped the services
/// end: calls that are running are completed, later ones are not answered.
///
/// A handler that captures an `Rpc` would keep itself alive: it uses [`Context::client`] instead.
#[derive(Clone)]
pub struct Rpc {
    handle: Arc<Handle>,
}

/// What a handler knows of its call.
pub struct Context {
    client: Client,
    source: u32,
    priority: Priority,
}

impl Session {
    /// Remote calls over this session.
    ///
    /// # Errors
    /// A knob is wrong.
    pub fn rpc(&self) -> Result<Rpc, Error> {
        let mut current = self
            .inner()
            .extensions
            .get::<Slot>()
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = current.upgrade() {
            return Ok(Rpc { handle });
        }
        let places = RPC_THREADS.int()?.unwrap_or(1) as usize;
        let memory = RPC_MEMORY.int()?.unwrap_or(0) as usize;
        let shared = Arc::new(Shared {
            session: self.clone(),
            registry: Registry::default(),
            bounds: Bounds::new(places, memory),
            stopping: AtomicBool::new(false),
            ended: Semaphore::new(0),
        });
        let client = Client { shared, depth: 0 };
        let handle = Arc::new(Handle { client, started: Mutex::new(None) });
        *current = Arc::downgrade(&handle);
        Ok(Rpc { handle })
    }
}

impl Deref for Rpc {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.handle.client
    }
}

impl Rpc {
    /// Describes a service; it is registered by giving its handler.
    pub fn service<'a>(&'a self, service: impl Into<Service<'a>>) -> ServiceBuilder<'a> {
        ServiceBuilder {
            rpc: self,
            service: service.into(),
            inline: false,
            compute: false,
            stack_size: 0,
        }
    }

    /// Takes a service away. Calls of it that are running are completed. False: there was none.
    pub fn remove<'a>(&self, service: impl Into<Service<'a>>) -> bool {
        self.shared.registry.remove(&service.into())
    }

    fn register(&self, service: &Service<'_>, entry: Entry) -> Result<(), CallError> {
        self.shared.registry.add(service, entry)?;
        let mut started = self.handle.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.is_none() {
            let (lanes, result) = serving::start_lanes(&self.shared);
            *started = Some(lanes);
            result.map_err(|source| Error::Io { doing: "starting threads for calls", source })?;
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let shared = &self.client.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(started) = started else { return };
        let inner = shared.session.inner();
        for lane in 0..LANES {
            shared.bounds.rouse(lane);
            detached::send(inner, shared.session.rank(), lane_tag(lane), wire::stop(), ());
        }
        // A handler that drops the last one would wait for the thread that it is on.
        if serving::depth() == 0 {
            shared.ended.acquire_many(started);
        }
        // The handlers may hold what keeps the session open.
        shared.registry.clear();
    }
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

    fn next_id(&self) -> u64 {
        wire::id(
            self.shared
                .session
                .inner()
                .extensions
                .get::<Slot>()
                .ids
                .fetch_add(1, Ordering::Relaxed),
        )
    }

    fn prepare(
        &self,
        priority: Priority,
        peer: u32,
        service: &Service<'_>,
    ) -> Result<u64, CallError> {
        self.shared.session.check(Some(peer), 0)?;
        registry::check(service)?;
        let depth = self.depth.max(serving::depth());
        if depth >= LEVELS {
            return Err(CallError::TooDeep { limit: LEVELS });
        }
        Ok(lane_tag(lane_of(priority, depth)))
    }

    fn send(
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
    fn new(shared: &Arc<Shared>, source: u32, priority: Priority, depth: u32) -> Context {
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

/// How a service is run; see [`Rpc::service`].
#[must_use = "a service is registered by giving its handler"]
pub struct ServiceBuilder<'a> {
    rpc: &'a Rpc,
    service: Service<'a>,
    inline: bool,
    compute: bool,
    stack_size: usize,
}

impl ServiceBuilder<'_> {
    /// Runs on the thread that finds the call, before it looks for the next: for what answers in a microsecond and
    /// waits for nothing. Calls with arguments of more than some kilobytes get a thread all the same.
    pub fn inline(mut self) -> Self {
        self.inline = true;
        self
    }

    /// Runs on a compute thread: for what computes long. Otherwise it would be in the way of other communication.
    pub fn compute(mut self) -> Self {
        self.compute = true;
        self
    }

    /// Size of the stack of its threads, in bytes; the usual one unless told otherwise.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Registers the service: arguments to result. An error is what the caller is told of it.
    ///
    /// # Context
    /// Green threads and kernel threads. The first service's caller decides on what threads calls run: green ones, if it
    /// is one.
    /// # Errors
    /// The name is none, or taken; there is no memory for the threads that receive.
    pub fn bytes<E: std::fmt::Display>(
        self,
        handler: impl Fn(&Context, Vec<u8>) -> Result<Vec<u8>, E> + Send + Sync + 'static,
    ) -> Result<(), CallError> {
        self.register(Box::new(move |context, arguments| {
            handler(context, arguments).map_err(|error| (wire::Status::Failed, error.to_string()))
        }))
    }

    fn register(self, handler: registry::Handler) -> Result<(), CallError> {
        let ServiceBuilder { rpc, service, inline, compute, stack_size } = self;
        rpc.register(&service, Entry { handler, inline, compute, stack_size })
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({:?})", self.shared.session)
    }
}

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rpc({:?})", self.shared.session)
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context(call of rank {}, {:?})", self.source, self.priority)
    }
}

impl std::fmt::Debug for ServiceBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServiceBuilder({})", self.service)
    }
}
