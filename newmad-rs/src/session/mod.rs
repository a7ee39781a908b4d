//! Sessions: the processes that talk to each other, and the calls by which they do.

mod control;
pub(crate) mod departures;
mod driver;
mod extensions;
mod introduction;
mod open;
mod prepare;
mod process_manager;
mod sample;
pub(crate) mod settings;
pub(crate) mod threshold;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use marcel::plumbing::{KernelMutex, budget};
use pioman::{Completion, Hint, Manager, Point, SourceHandle};

pub use control::Control;
pub use driver::Driver;
pub use introduction::Introduction;
pub use open::Builder;
pub use process_manager::{ProcessManager, Spawned};

use self::departures::Departures;
use self::extensions::Extensions;

use crate::Status;
use crate::bootstrap::{Bootstrap as _, Shared};
use crate::connect::ConnectionManager;
use crate::connect::mail::Mail;
use crate::engine::call_gate::{self, CallGate, OpenGate};
use crate::engine::{Engine, Locking};
use crate::error::{Cause, Error};
use crate::request::tag::{BARRIER, RESERVED, Tag};
use crate::request::{ANY_SOURCE, Request};
use crate::strategy::Strategy;
use crate::strategy::selection::{Selection, assert_caller, check_caller, is_asked};

/// The sender that a receive takes messages of: a rank, or [`ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This rank.
    Rank(u32),
    /// The first rank that sends.
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

/// What a session's clones and requests share: one rank of a process.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) manager: Arc<Manager>,
    process: Arc<Process>,
    rank: u32,
    size: u32,
    /// The rank's place in its process.
    mine: u16,
    closed: AtomicBool,
    /// Numbers remote calls and packed messages.
    numbers: AtomicU64,
    pub(crate) extensions: Extensions,
}

/// What the ranks of a process share beside the engine.
struct Process {
    /// Ranks that have not closed.
    open: AtomicUsize,
    source: KernelMutex<Option<SourceHandle>>,
    ending: KernelMutex<Ending>,
    driver: String,
    mail: Arc<Mail>,
    /// Names of the rails, in their order.
    rails: Vec<&'static str>,
    boot: Shared,
    extensions: Extensions,
    departures: Departures,
}

/// What ends after the engine.
enum Ending {
    Nothing,
    /// A process without others.
    Alone(Shared),
    Connected(ConnectionManager),
}

/// A link with another process that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// Its rank; the first of them, if the other process holds several.
    pub peer: u32,
    /// Which of the session's rails, counted from zero.
    pub rail: usize,
    /// The rail's driver: `shm`, `tcp` or `local`.
    pub driver: &'static str,
}

/// A rank's place among those that talk to each other. Usually a process is one rank; it may hold several
/// ([`run_ranks`](crate::run_ranks)), each with a session of its own. Clones are the same session; it closes when the last of
/// them, and of its requests, is dropped, or by [`Session::close`].
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

impl Session {
    #[inline]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Session {
        Session { inner }
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.inner.size
    }

    /// The ranks that this process holds, this one among them.
    pub fn process_ranks(&self) -> std::ops::Range<u32> {
        self.inner.engine.ranks().beside(self.inner.rank)
    }

    /// Says that the calling thread is this rank's, and that the rank stays on its virtual processor: the I/O manager's figures
    /// (`PIOM_STATS`) then tell which rank's waits have found whose messages. [`crate::run_ranks`] says it of its threads.
    ///
    /// # Context
    /// A green thread, where the process holds several ranks; else it does nothing.
    pub fn adopt_thread(&self) {
        self.inner.engine.adopt_thread(self.inner.mine);
    }

    /// The number of the process that holds a rank, and all ranks that it holds: they live and die together.
    ///
    /// # Errors
    /// [`Error::BadRank`].
    pub fn process_of(&self, rank: u32) -> Result<(u32, std::ops::Range<u32>), Error> {
        if rank >= self.inner.size {
            return Err(Error::BadRank { rank, size: self.inner.size });
        }
        let ranks = self.inner.engine.ranks();
        let process = ranks.home(rank);
        Ok((process, ranks.of(process)))
    }

    /// Names of the rails in use, as `NMAD_DRIVER` has them.
    pub fn driver(&self) -> &str {
        &self.inner.process.driver
    }

    /// The links that are open now. A link is made when it is first wanted: by a send to that peer, or a receive that
    /// names it, here or there.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once.
    /// # Blocking
    /// No.
    pub fn connections(&self) -> Vec<Connection> {
        self.inner.engine.with(|core| {
            let mut all = Vec::new();
            for gate in core.gates.iter() {
                for rail in crate::gate::rails(gate.open) {
                    let driver = self.inner.process.rails.get(rail).copied().unwrap_or_default();
                    all.push(Connection { peer: gate.ranks().start, rail, driver });
                }
            }
            all
        })
    }

    /// The process manager, for what a process may ask it while the session is open.
    pub fn process_manager(&self) -> ProcessManager {
        ProcessManager::new(self.inner.process.boot.clone())
    }

    /// The I/O manager that looks for its events.
    pub fn manager(&self) -> &Arc<Manager> {
        &self.inner.manager
    }

    #[inline]
    pub(crate) fn check(&self, rank: Option<u32>, tag: u64) -> Result<(), Error> {
        check_caller()?;
        match rank {
            Some(rank) if rank >= self.inner.size => {
                Err(Error::BadRank { rank, size: self.inner.size })
            }
            _ if tag >= RESERVED => Err(Error::BadTag { tag }),
            _ => Ok(()),
        }
    }

    /// The engine's names for what a receive takes.
    #[inline]
    pub(crate) fn check_source(&self, from: Origin, tag: Tag) -> Result<(u32, (u64, u64)), Error> {
        self.check(from.rank(), 0)?;
        Ok((from.code(), tag.checked()?))
    }

    #[inline]
    pub(crate) fn send_unchecked(&self, to: u32, tag: u64, data: &[u8]) -> Result<(), Error> {
        if self.inner.send_now(to, tag, data) {
            budget::spend();
            return Ok(());
        }
        // SAFETY: `data` is borrowed until `complete` returns, when the request is over.
        let mut request = unsafe { Request::send(to, tag, data, true) };
        self.complete(&mut request).map(drop)
    }

    #[inline]
    pub(crate) fn recv_unchecked(
        &self,
        from: Origin,
        tag: u64,
        buffer: &mut [u8],
    ) -> Result<Status, Error> {
        // SAFETY: `buffer` is borrowed exclusively until `complete` returns, when the request is over.
        let mut request = unsafe { Request::recv(from.code(), tag, buffer, true) };
        self.complete(&mut request)
    }

    /// Submits a request that lives on this stack, and waits for it.
    ///
    /// # Errors
    /// The caller is a strategy, which may not wait: nothing is submitted. Else the request's.
    #[inline]
    pub(crate) fn complete(&self, request: &mut Request) -> Result<Status, Error> {
        check_caller()?;
        request.mine.set(self.inner.mine);
        let _paused = self.inner.engine.pausing(request);
        let pointer = NonNull::from(request);
        // SAFETY: the request stays on this stack until `wait` is over, by return or by unwinding, and then it
        // is finished.
        unsafe {
            self.inner.engine.submit_then_wait(pointer, &self.inner.manager);
            self.inner.engine.wait(pointer, &self.inner.manager);
            self.inner.engine.watch_held_back(&self.inner.manager);
            pointer.as_ref().result()
        }
    }

    /// Submits a receive and a send that live on this stack, in this order, and waits for both.
    ///
    /// # Errors
    /// The caller is a strategy, which may not wait: nothing is submitted. The requests say how they have ended.
    pub(crate) fn complete_both(
        &self,
        receive: &mut Request,
        send: &mut Request,
    ) -> Result<(), Error> {
        check_caller()?;
        receive.mine.set(self.inner.mine);
        send.mine.set(self.inner.mine);
        let _paused = self.inner.engine.pausing(if send.is_short() { &*receive } else { &*send });
        let both = [NonNull::from(receive), NonNull::from(send)];
        // SAFETY: the requests stay on this stack until both are over, by return or by unwinding.
        unsafe { self.inner.engine.submit_and_wait_for_all(both, &self.inner.manager) };
        self.inner.engine.watch_held_back(&self.inner.manager);
        Ok(())
    }

    /// Changes the strategy that decides what leaves next for rank `peer`, and the other ranks of its process: at once,
    /// for what waits too.
    ///
    /// # Context
    /// Green threads and kernel threads, at any time.
    /// # Blocking
    /// For as long as the engine is held by another thread.
    /// # Errors
    /// [`Error::BadRank`].
    pub fn set_strategy(&self, peer: u32, strategy: Arc<dyn Strategy>) -> Result<(), Error> {
        self.check(Some(peer), 0)?;
        // Asked what it is before the engine is taken, and the other dropped after: both run the program's code.
        let chosen = Selection::new(strategy);
        drop(self.inner.engine.with(|core| {
            let process = core.gates.ranks.home(peer);
            core.gates.set_strategy(process, chosen)
        }));
        Ok(())
    }

    /// Changes how the engine is locked (`NMAD_LOCK`): at once, while others use it.
    ///
    /// With [`Locking::None`] the next kernel thread that comes has the engine for itself, also if it was taken
    /// from one before.
    ///
    /// ```
    /// use newmad::{Locking, Session};
    /// let session = Session::builder().open()?;
    /// session.set_locking(Locking::None)?;
    /// assert_eq!(session.locking(), Locking::None);
    /// # session.close()?;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Context
    /// Green threads and kernel threads, at any time.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Locking::None`] where the kernel refuses `membarrier(2)`: nothing is changed then.
    pub fn set_locking(&self, locking: Locking) -> Result<(), Error> {
        self.inner.engine.set_locking(locking)
    }

    /// How the engine is locked.
    pub fn locking(&self) -> Locking {
        self.inner.engine.locking()
    }

    /// How often, with [`Locking::None`], the engine was taken from the kernel thread that had it for itself. Each time
    /// cost some microseconds: if this grows all the time, several kernel threads use the session.
    pub fn lock_revocations(&self) -> u64 {
        self.inner.engine.lock_revocations()
    }

    /// Waits until every rank has come to its barrier. One thread of each rank calls it at a time.
    ///
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::PeerDied`], [`Error::Closed`].
    pub fn barrier(&self) -> Result<(), Error> {
        check_caller()?;
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
    /// that no peer takes an orderly end for a death. Requests that are still outstanding in other threads end
    /// with [`Error::Closed`]. Closing twice does nothing.
    ///
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// The process manager is gone.
    pub fn close(&self) -> Result<(), Error> {
        check_caller()?;
        self.inner.close()
    }
}

impl Inner {
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// What the layers above keep for all ranks of the process.
    pub(crate) fn process_extensions(&self) -> &Extensions {
        &self.process.extensions
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The rank's place in its process.
    #[inline]
    pub(crate) fn mine(&self) -> u16 {
        self.mine
    }

    /// The gate of the program's code of this rank.
    #[inline]
    pub(crate) fn calls(&self) -> &Arc<CallGate> {
        self.engine.calls(self.mine)
    }

    /// Messages over the control network.
    pub(crate) fn mail(&self) -> &Mail {
        &self.process.mail
    }

    /// As [`Engine::send_now`], of this rank.
    #[inline]
    pub(crate) fn send_now(&self, to: u32, tag: u64, data: &[u8]) -> bool {
        let sent = self.engine.send_now(self.mine, to, tag, data);
        if sent {
            self.engine.watch_held_back(&self.manager);
        }
        sent
    }

    /// The rank has failed, and with it the process: see [`crate::run_ranks`].
    pub(crate) fn fall(&self, cause: Cause) {
        self.engine.with(|core| core.fall(self.mine, cause));
        self.departures().depart(self.rank, cause);
    }

    /// Which ranks of the process are gone.
    pub(crate) fn departures(&self) -> &Departures {
        &self.process.departures
    }

    /// A number that no earlier call has given.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Polls for a caller that does not wait: what the engine lacks it gets. Whether there were some.
    #[inline]
    pub(crate) fn look(&self) -> bool {
        let glance = self.manager.glance();
        let any = self.manager.poll(Point::Library);
        let resumed = self.calls().look();
        let found = self.engine.feed_if_starved() || any || resumed;
        self.manager.glanced(glance, found);
        found
    }

    /// A call of the program waits, until the result is dropped: meanwhile any thread may run the program's operators.
    ///
    /// # Panics
    /// The caller is a strategy: what it waits for would never come.
    #[inline]
    pub(crate) fn waits(&self) -> Option<OpenGate<'_>> {
        assert_caller();
        self.calls().open(&self.manager)
    }

    /// A call of the program waits for this, until `deadline` if there is one: false after that. Rings that are owed are paid
    /// before it sleeps.
    ///
    /// # Panics
    /// As [`Inner::waits`].
    pub(crate) fn wait_until(&self, end: &Completion, deadline: Option<Instant>) -> bool {
        let _open = self.waits();
        let before_sleep = || self.engine.before_sleep();
        self.manager.wait_prepared(end, Hint::Short, deadline, &before_sleep)
    }

    fn close(&self) -> Result<(), Error> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.departures().depart(self.rank, Cause::Left);
        let mut request = Request::close().of_rank(self.mine);
        let pointer = NonNull::from(&mut request);
        // SAFETY: as in `Session::complete`.
        unsafe {
            self.engine.submit(pointer);
            self.engine.wait(pointer, &self.manager);
        }
        self.mail().close(self.mine);
        // All ranks of the process have closed: the last one goes on.
        if self.process.open.fetch_sub(1, Ordering::SeqCst) > 1 {
            return Ok(());
        }
        self.engine.clear_calls();
        let source = self.process.source.lock().take();
        drop(source);
        match &mut *self.process.ending.lock() {
            Ending::Nothing => Ok(()),
            Ending::Alone(boot) => boot.finish(),
            Ending::Connected(connections) => connections.finish(),
        }
    }

    /// The same session, by another owner; what is left behind has nothing to close.
    fn move_out(&mut self) -> Inner {
        Inner {
            engine: self.engine.clone(),
            manager: self.manager.clone(),
            process: self.process.clone(),
            rank: self.rank,
            size: self.size,
            mine: self.mine,
            closed: AtomicBool::new(self.closed.swap(true, Ordering::SeqCst)),
            numbers: std::mem::take(&mut self.numbers),
            extensions: std::mem::take(&mut self.extensions),
        }
    }

    fn ends_with(&self, ending: Ending) {
        *self.process.ending.lock() = ending;
    }
}

/// Whether the calling thread is inside a callback or a strategy.
pub(crate) fn must_not_wait() -> bool {
    pioman::plumbing::must_not_wait() || is_asked()
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::SeqCst) && must_not_wait() {
            // The last owner is a callback's, a strategy's, or a forgotten collective's. Without a thread to be had the
            // session ends with the process.
            let last = ManuallyDrop::new(self.move_out());
            let close = move || {
                call_gate::stand_aside();
                drop(ManuallyDrop::into_inner(last));
            };
            let _ = std::thread::Builder::new().name("newmad close".into()).spawn(close);
            return;
        }
        // No caller is left to learn of an error.
        let _ = self.close();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { rank, size, process, .. } = &*self.inner;
        let driver = &process.driver;
        write!(f, "Session(rank {rank} of {size} over {driver})")
    }
}
