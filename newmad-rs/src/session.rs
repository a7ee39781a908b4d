//! Sessions: the processes that talk to each other, and the calls by which they do.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pioman::{Manager, SourceHandle};

use crate::bootstrap::{self, Alone, Bootstrap};
use crate::core::{Core, Signals};
use crate::driver::any::Any;
use crate::driver::{Driver as _, local, shm, tcp};
use crate::engine::Engine;
use crate::error::{Error, os};
use crate::handle::{RecvRequest, SendRequest};
use crate::knobs::Settings;
use crate::request::{ANY_SOURCE, Request};
use crate::{Status, sys};

/// First of the tags that belong to the library.
const RESERVED: u64 = 1 << 63;
/// Tag of the barrier's messages; the round is added.
const BARRIER: u64 = RESERVED | 1 << 32;
/// Rendezvous threshold unless `NMAD_RDV_THRESHOLD` says otherwise.
const SHM_THRESHOLD: usize = 16 * 1024;
const TCP_THRESHOLD: usize = 32 * 1024;

/// From whom to receive: a rank, or [`ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This rank.
    Rank(u32),
    /// Whoever sends first.
    Any,
}

/// Receives from any rank, this one included.
pub const ANY: Origin = Origin::Any;

impl From<u32> for Origin {
    fn from(rank: u32) -> Origin {
        Origin::Rank(rank)
    }
}

impl Origin {
    pub(crate) fn rank(self) -> Option<u32> {
        match self {
            Origin::Rank(rank) => Some(rank),
            Origin::Any => None,
        }
    }

    pub(crate) fn code(self) -> u32 {
        self.rank().unwrap_or(ANY_SOURCE)
    }
}

/// What carries the messages between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Shared memory of one machine.
    Shm,
    /// TCP.
    Tcp,
    /// Nothing: a session of one process.
    Local,
}

impl std::str::FromStr for Driver {
    type Err = Error;
    fn from_str(name: &str) -> Result<Driver, Error> {
        match name {
            "shm" => Ok(Driver::Shm),
            "tcp" => Ok(Driver::Tcp),
            "local" => Ok(Driver::Local),
            other => Err(Error::UnknownDriver { name: other.to_owned() }),
        }
    }
}

/// Configures a [`Session`]; what is not set comes from the knobs.
#[derive(Debug, Default)]
pub struct Builder {
    manager: Option<Arc<Manager>>,
    driver: Option<Driver>,
}

impl Builder {
    /// The I/O manager that looks for events. Without one, a manager of its own without a runtime is made.
    pub fn manager(mut self, manager: Arc<Manager>) -> Builder {
        self.manager = Some(manager);
        self
    }

    /// The driver (`NMAD_DRIVER`).
    pub fn driver(mut self, driver: Driver) -> Builder {
        self.driver = Some(driver);
        self
    }

    /// Opens the session: finds the other processes by the environment (PMI-1), and connects with them. Without
    /// a process manager in the environment it is a session of one.
    ///
    /// # Context
    /// Green threads and kernel threads; once per process if there is a process manager.
    /// # Blocking
    /// The kernel thread, until all processes are there, `NMAD_CONNECT_TIMEOUT_MS` at the most.
    /// # Errors
    /// A knob is wrong, a process does not come, the kernel refuses something.
    pub fn open(self) -> Result<Session, Error> {
        let settings = Settings::read()?;
        let asked = match (self.driver, &settings.driver) {
            (Some(driver), _) => Some(driver),
            (None, Some(name)) => Some(name.parse()?),
            (None, None) => None,
        };
        let manager = self.manager.map_or_else(|| Manager::builder().build(), Ok)?;
        let mut boot = bootstrap::from_environment(sys::deadline(settings.connect_timeout))?;
        let (rank, size) = (boot.rank(), boot.size());
        let tcp = asked == Some(Driver::Tcp);
        let threshold =
            settings.rdv_threshold.unwrap_or(if tcp { TCP_THRESHOLD } else { SHM_THRESHOLD });
        let driver = if size == 1 {
            one(&settings)?
        } else {
            match asked.unwrap_or(Driver::Shm) {
                Driver::Shm => Any::Shm(shm::connect::open(&mut *boot, &settings, threshold)?),
                Driver::Tcp => {
                    Any::Tcp(Box::new(tcp::connect::open(&mut *boot, &settings, threshold)?))
                }
                Driver::Local => {
                    return Err(Error::Bootstrap(format!(
                        "the local driver is for a session of one process, and this one has {size}: \
                         take NMAD_DRIVER=shm or tcp"
                    )));
                }
            }
        };
        Session::start(rank, size, driver, threshold, &settings, manager, boot)
    }
}

/// One process.
fn one(settings: &Settings) -> Result<Any, Error> {
    let mut world = local::world(1, settings.shm_slots, settings.shm_slot_size, true)?;
    world.pop().map(Any::Shm).ok_or_else(|| Error::Bootstrap("no driver for one rank".into()))
}

/// What a session's clones and requests share.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) manager: Arc<Manager>,
    source: Mutex<Option<SourceHandle>>,
    boot: Mutex<Box<dyn Bootstrap + Send>>,
    rank: u32,
    size: u32,
    driver: &'static str,
    closed: AtomicBool,
}

/// This process's place among those that talk to each other. Clones are the same session; it closes when the
/// last of them, and of its requests, is dropped, or by [`Session::close`].
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

impl Session {
    /// A builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `size` sessions of one process that talk to each other: for tests, and for programs that are written for
    /// several ranks but started as one. Each is to be used by threads of its own.
    ///
    /// # Errors
    /// A knob is wrong, the kernel refuses memory or descriptors.
    pub fn local_world(size: u32, manager: &Arc<Manager>) -> Result<Vec<Session>, Error> {
        let settings = Settings::read()?;
        let threshold = settings.rdv_threshold.unwrap_or(SHM_THRESHOLD);
        let drivers = local::world(size, settings.shm_slots, settings.shm_slot_size, settings.cma)?;
        drivers
            .into_iter()
            .enumerate()
            .map(|(rank, driver)| {
                let (rank, driver) = (rank as u32, Any::Shm(driver));
                Session::start(
                    rank,
                    size,
                    driver,
                    threshold,
                    &settings,
                    manager.clone(),
                    Box::new(Alone),
                )
            })
            .collect()
    }

    fn start(
        rank: u32,
        size: u32,
        driver: Any,
        threshold: usize,
        settings: &Settings,
        manager: Arc<Manager>,
        boot: Box<dyn Bootstrap + Send>,
    ) -> Result<Session, Error> {
        let name = driver.name();
        let core =
            Core::new(rank, size, driver, threshold, settings.unexpected_max, Signals::new());
        let engine = Arc::new(Engine::new(core));
        let source = manager
            .add_source(engine.clone())
            .map_err(|_| os("registering with the I/O manager"))?;
        Ok(Session {
            inner: Arc::new(Inner {
                engine,
                manager,
                source: Mutex::new(Some(source)),
                boot: Mutex::new(boot),
                rank,
                size,
                driver: name,
                closed: AtomicBool::new(false),
            }),
        })
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Rank of this process.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.inner.size
    }

    /// Name of the driver in use.
    pub fn driver(&self) -> &str {
        self.inner.driver
    }

    /// The I/O manager that looks for its events.
    pub fn manager(&self) -> &Arc<Manager> {
        &self.inner.manager
    }

    #[inline]
    pub(crate) fn check(&self, rank: Option<u32>, tag: u64) -> Result<(), Error> {
        match rank {
            Some(rank) if rank >= self.inner.size => {
                Err(Error::BadRank { rank, size: self.inner.size })
            }
            _ if tag >= RESERVED => Err(Error::BadTag { tag }),
            _ => Ok(()),
        }
    }

    /// Sends `data` to rank `to` and waits until it has left (a short message) or has been received (a long
    /// one).
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`], [`Error::PeerDied`], [`Error::Closed`].
    #[inline]
    pub fn send(&self, to: u32, tag: u64, data: &[u8]) -> Result<(), Error> {
        self.check(Some(to), tag)?;
        self.send_unchecked(to, tag, data)
    }

    #[inline]
    fn send_unchecked(&self, to: u32, tag: u64, data: &[u8]) -> Result<(), Error> {
        // SAFETY: `data` is borrowed until `complete` returns, when the request is over.
        let mut request = unsafe { Request::send(to, tag, data, true) };
        self.complete(&mut request).map(drop)
    }

    /// Receives a message from `from` with `tag` into `buffer`.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// The calling thread, until the message is there.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`], [`Error::Truncated`], [`Error::PeerDied`], [`Error::Closed`].
    #[inline]
    pub fn recv(
        &self,
        from: impl Into<Origin>,
        tag: u64,
        buffer: &mut [u8],
    ) -> Result<Status, Error> {
        let from = from.into();
        self.check(from.rank(), tag)?;
        self.recv_unchecked(from, tag, buffer)
    }

    #[inline]
    fn recv_unchecked(&self, from: Origin, tag: u64, buffer: &mut [u8]) -> Result<Status, Error> {
        // SAFETY: `buffer` is borrowed exclusively until `complete` returns, when the request is over.
        let mut request = unsafe { Request::recv(from.code(), tag, buffer, true) };
        self.complete(&mut request)
    }

    /// Submits a request that lives on this stack, and waits for it.
    #[inline]
    fn complete(&self, request: &mut Request) -> Result<Status, Error> {
        let pointer = NonNull::from(request);
        // SAFETY: the request stays on this stack until `wait` is over, by return or by unwinding, and then it
        // is finished.
        unsafe {
            self.inner.engine.submit_and_look(pointer);
            self.inner.engine.wait(pointer, &self.inner.manager);
            pointer.as_ref().result()
        }
    }

    /// Starts to send; the buffer comes back from [`SendRequest::wait`].
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`]; others when it is waited for.
    pub fn isend(&self, to: u32, tag: u64, data: impl Into<Vec<u8>>) -> Result<SendRequest, Error> {
        self.check(Some(to), tag)?;
        Ok(SendRequest::start(&self.inner, to, tag, data.into()))
    }

    /// Starts to receive into `buffer`, whose length is its capacity; it comes back from
    /// [`RecvRequest::wait`].
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::BadRank`], [`Error::BadTag`]; others when it is waited for.
    pub fn irecv(
        &self,
        from: impl Into<Origin>,
        tag: u64,
        buffer: Vec<u8>,
    ) -> Result<RecvRequest, Error> {
        let from = from.into();
        self.check(from.rank(), tag)?;
        Ok(RecvRequest::start(&self.inner, from.code(), tag, buffer))
    }

    /// Waits until every rank has come to its barrier. One thread of each rank calls it at a time.
    ///
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::PeerDied`], [`Error::Closed`].
    pub fn barrier(&self) -> Result<(), Error> {
        let (rank, size) = (self.inner.rank, self.inner.size);
        let mut distance = 1;
        let mut round = 0;
        while distance < size {
            self.send_unchecked((rank + distance) % size, BARRIER + round, &[])?;
            let from = (rank + size - distance) % size;
            self.recv_unchecked(Origin::Rank(from), BARRIER + round, &mut [])?;
            distance *= 2;
            round += 1;
        }
        Ok(())
    }

    /// Ends the session: sends what is to be sent, and waits until every other rank ends it too (or is gone), so
    /// that nobody takes an orderly end for a death. Requests that are still outstanding in other threads end
    /// with [`Error::Closed`]. Closing twice does nothing.
    ///
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// The process manager is gone.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.close()
    }
}

impl Inner {
    fn close(&self) -> Result<(), Error> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let mut request = Request::close();
        let pointer = NonNull::from(&mut request);
        // SAFETY: as in `Session::complete`.
        unsafe {
            self.engine.submit(pointer);
            self.engine.wait(pointer, &self.manager);
        }
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(source);
        self.boot.lock().unwrap_or_else(PoisonError::into_inner).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.close();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { rank, size, driver, .. } = &*self.inner;
        write!(f, "Session(rank {rank} of {size} over {driver})")
    }
}
