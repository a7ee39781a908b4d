//! The services of this process: registered, taken away, and ended.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use marcel::plumbing::KernelMutex;
use marcel::plumbing::signal::spawn_blocked;
use marcel::sync::{Mutex, Semaphore};

use super::client::{Client, Context, Handler, Shared};
use super::error::CallError;
use super::lanes::{Bounds, LANES, Receiving};
use super::registry::{Entry, Registry};
use super::wire::{self, Service, lane_tag};
use super::{depth, serving};
use crate::api::detached;
use crate::error::Error;
use crate::knobs::{RPC_MEMORY, RPC_THREADS};
use crate::session::{Session, must_not_wait};

/// What a session knows of its remote calls.
struct Current {
    /// The handle that all [`Rpc`]s share, as long as there are some.
    handle: KernelMutex<Weak<Handle>>,
    /// Invariant: the lanes of one handle at a time receive; those of two would take each other's calls and stops.
    lanes: Arc<Semaphore>,
}

impl Default for Current {
    fn default() -> Current {
        Current { handle: KernelMutex::default(), lanes: Arc::new(Semaphore::new(1)) }
    }
}

/// What all [`Rpc`]s of a session share.
pub(super) struct Handle {
    client: Client,
    /// How many lanes have been started, once some have.
    started: Mutex<Option<usize>>,
}

/// The services of this process, and calls to those of others. Clones are the same. When the last is dropped the
/// services end: calls that are running are completed, later ones are not answered.
///
/// A handler that captures an `Rpc` would keep itself alive: it uses [`Context::client`] instead.
#[derive(Clone)]
pub struct Rpc {
    handle: Arc<Handle>,
}

impl Session {
    /// Remote calls over this session.
    ///
    /// # Errors
    /// A knob is wrong.
    pub fn rpc(&self) -> Result<Rpc, Error> {
        let mut current = self.inner().extensions.get::<Current>().handle.lock();
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

    fn register(&self, service: &Service<'_>, entry: Entry<Handler>) -> Result<(), CallError> {
        self.shared.registry.add(service, entry)?;
        let mut started = self.handle.started.lock();
        if started.is_none() {
            let lanes = self.shared.session.inner().extensions.get::<Current>().lanes.clone();
            // Until the lanes of an earlier handle have ended.
            lanes.acquire().forget();
            let (lanes, result) = serving::start_lanes(&self.shared, Receiving(lanes));
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
        let started = self.started.lock().take();
        let Some(started) = started else { return };
        let inner = shared.session.inner();
        for lane in 0..LANES {
            shared.bounds.rouse(lane);
            detached::send(inner, shared.session.rank(), lane_tag(lane), wire::stop(), ());
        }
        let shared = shared.clone();
        let end = move |waits: bool| {
            if waits {
                shared.ended.acquire_many(started).forget();
            }
            // The handlers may hold what keeps the session open.
            shared.registry.clear();
        };
        // A handler that drops the last one would wait for the thread that it is on, and so may a callback.
        if depth::get() > 0 {
            end(false);
        } else if must_not_wait() {
            let thread = std::thread::Builder::new().name("newmad rpc end".into());
            let _ = spawn_blocked(thread, move || end(true));
        } else {
            end(true);
        }
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
    /// Green threads and kernel threads. The first service's caller decides on what threads calls run: green ones, if
    /// it is one.
    /// # Blocking
    /// The calling thread, while the lanes of earlier [`Rpc`]s of this session, the last of which was dropped, still
    /// end.
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

    pub(super) fn register(self, handler: Handler) -> Result<(), CallError> {
        let ServiceBuilder { rpc, service, inline, compute, stack_size } = self;
        rpc.register(&service, Entry { handler, inline, compute, stack_size })
    }
}

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rpc({:?})", self.shared.session)
    }
}

impl std::fmt::Debug for ServiceBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServiceBuilder({})", self.service)
    }
}
