//! Opening a session: which rails, which peers, and the connection manager that makes links with them.

use std::sync::Arc;

use pioman::Manager;

use super::driver::Driver;
use super::introduction::Introduction;
use super::prepare::{Place, Prepared, start};
use super::settings::Settings;
use super::threshold::SHM_THRESHOLD;
use super::{Ending, Session};
use crate::authentication::KEY;
use crate::bootstrap::{self, Alone, Shared};
use crate::driver::Network;
use crate::engine::call_gate::CallGate;
use crate::error::Error;
use crate::gate::ranks::Ranks;
use crate::net::{AnyDriver, local};
use crate::proto::core::Core;
use crate::strategy::Strategy;
use crate::sys;

/// Configures a [`Session`]; what is not set comes from the knobs.
///
/// ```
/// use newmad::{Driver, Session};
/// // Alone, since no process manager has started this program; with others it would have two rails.
/// let session = Session::builder().rails(&[Driver::Shm, Driver::Tcp]).open()?;
/// assert_eq!((session.size(), session.connections().len()), (1, 0));
/// session.close()?;
/// # Ok::<(), newmad::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until it is opened"]
pub struct Builder {
    manager: Option<Arc<Manager>>,
    rails: Vec<Driver>,
    networks: Vec<Box<dyn Network>>,
    strategy: Option<Arc<dyn Strategy>>,
    ordered: bool,
    calls: Option<Arc<CallGate>>,
}

impl Builder {
    /// The I/O manager that looks for events. Without one, a manager of its own without a runtime is made.
    pub fn manager(mut self, manager: Arc<Manager>) -> Builder {
        self.manager = Some(manager);
        self
    }

    /// Opens it beside a session that the same rank has: with its I/O manager, and what is called in the rank's calls only
    /// ([`Operator::in_calls`](crate::coll::Operator::in_calls)) is called in those of either session. (With a gate of its own an operator waited
    /// for ever for a call of its session while the rank waited in the other one.) For sessions of one rank a process.
    pub fn beside(mut self, session: &Session) -> Builder {
        self.calls = Some(session.inner().calls().clone());
        self.manager(session.manager().clone())
    }

    /// The only rail (`NMAD_DRIVER`).
    pub fn driver(self, driver: Driver) -> Builder {
        self.rails(&[driver])
    }

    /// The rails, the one of lowest latency first (`NMAD_DRIVER=shm+tcp`, for example). The same in all processes.
    /// Shared memory is one rail at the most; `NMAD_TCP_ADDRESS` says where each of the tcp rails listens.
    pub fn rails(mut self, rails: &[Driver]) -> Builder {
        self.rails = rails.to_vec();
        self
    }

    /// Adds a rail over a network of the program's own, behind those of [`Builder::rails`]; the only one if there are
    /// none. All processes add the same networks in the same order. A session of one process uses none.
    pub fn network(mut self, network: impl Network + 'static) -> Builder {
        self.networks.push(Box::new(network));
        self
    }

    /// What decides which waiting messages leave next (`NMAD_STRATEGY`). Processes of one session may differ in it.
    pub fn strategy(mut self, strategy: Arc<dyn Strategy>) -> Builder {
        self.strategy = Some(strategy);
        self
    }

    /// No message to a peer overtakes another, whatever their tags are and `NMAD_REORDER` says: for programs that
    /// receive with masks and count on the order.
    pub fn ordered(mut self) -> Builder {
        self.ordered = true;
        self
    }

    /// Opens the session of a process that is one rank: finds the other processes by the environment, publishes how this one can be reached, and
    /// takes its place in the control ring. Links with others are made when they are first wanted. Without a process
    /// manager in the environment it is a session of one.
    ///
    /// # Context
    /// Green threads and kernel threads; once per process if there is a process manager.
    /// # Blocking
    /// The kernel thread, until all processes are there, `NMAD_CONNECT_TIMEOUT_MS` at the most.
    /// # Errors
    /// A knob is wrong or not the same in all processes, a process does not come, the kernel refuses something.
    pub fn open(self) -> Result<Session, Error> {
        if let Some(ranks) = crate::knobs::RANKS.text().ok().filter(|ranks| !ranks.is_empty()) {
            return Err(Error::Bootstrap(format!(
                "NMAD_RANKS asks for {ranks} ranks in each process, which only MPI programs over madmpi have; a program over \
                 newmad itself calls `newmad::run_ranks`"
            )));
        }
        let mut sessions = self.open_with(None)?;
        sessions.pop().ok_or(Error::Closed)
    }

    /// As [`Builder::open`], for a process that holds `count` ranks: a session for each of them, in their order. They
    /// share the engine, the connections and the I/O manager. Every process of the job opens so, each for as many ranks
    /// as it likes; process 0 holds the first ranks, and so on. Each session is closed (or dropped) by a thread of its
    /// own, since the end waits for all ranks.
    ///
    /// ```
    /// let manager = pioman::Manager::builder().build()?;
    /// let sessions = newmad::Session::builder().manager(manager).open_ranks(3)?;
    /// std::thread::scope(|scope| {
    ///     for session in &sessions {
    ///         scope.spawn(move || {
    ///             let next = (session.rank() + 1) % session.size();
    ///             let sent = session.isend(next, 7, vec![session.rank() as u8])?;
    ///             session.recv(newmad::ANY, 7, &mut [0])?;
    ///             sent.wait()?;
    ///             session.close()
    ///         });
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Context, Blocking, Errors
    /// As [`Builder::open`]; [`Error::Bootstrap`] if `count` is 0, or more than 65536.
    pub fn open_ranks(self, count: u32) -> Result<Vec<Session>, Error> {
        // Before others wait for this process.
        Ranks::new(&[count])?;
        self.open_with(Some(count))
    }

    /// `count`: several ranks a process, so many in this one; `None`: one.
    fn open_with(self, count: Option<u32>) -> Result<Vec<Session>, Error> {
        let settings = self.settings()?;
        let asked = self.asked(&settings)?;
        let manager = self.io_manager()?;
        let deadline = sys::deadline(settings.connect_timeout);
        let mut boot = bootstrap::from_environment(settings.bootstrap.as_deref(), deadline)?;
        let (rank, size) = (boot.rank(), boot.size());
        let prepared = Prepared::new(settings, manager, asked, self.networks, (rank, size))?
            .called_through(self.calls);
        let ranks = match count {
            None => Ranks::one_each(size),
            Some(count) => Ranks::new(&bootstrap::counts(&mut *boot, count, deadline)?)?,
        };
        let card = prepared.card(&ranks, None)?;
        prepared.open(Shared::new(boot), ranks, card)
    }

    /// Prepares a session with processes that do not share a process manager with this one, or not for this: `rank` of
    /// `size`, each of which is one process of the session. All of them prepare with the same `secret`, give each other
    /// their [cards](Introduction::card), and then [open](Introduction::open). [`crate::port`] is a way to do that.
    ///
    /// ```
    /// # fn give_to_all(card: &str) -> Vec<String> { vec![card.to_owned()] }
    /// let introduction = newmad::Session::builder().introduce(0, 1, [7; 32])?;
    /// let cards = give_to_all(introduction.card());
    /// let session = introduction.open(cards)?;
    /// # session.close()?;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn introduce(self, rank: u32, size: u32, secret: [u8; KEY]) -> Result<Introduction, Error> {
        if rank >= size {
            return Err(Error::Bootstrap(format!("process {rank} is none of {size}")));
        }
        let mut settings = self.settings()?;
        // All cards are there, and their keys follow from the secret.
        settings.control.cards_by_network = false;
        let asked = self.asked(&settings)?;
        let manager = self.io_manager()?;
        let prepared = Prepared::new(settings, manager, asked, self.networks, (rank, size))?
            .called_through(self.calls);
        Introduction::new(prepared, secret)
    }

    fn settings(&self) -> Result<Settings, Error> {
        let mut settings = Settings::read()?;
        settings.strategy = self.strategy.clone().or(settings.strategy);
        settings.reorder &= !self.ordered;
        Ok(settings)
    }

    /// The rails that the program or the user asks for.
    fn asked(&self, settings: &Settings) -> Result<Vec<Driver>, Error> {
        match (&self.rails[..], &settings.driver) {
            ([], Some(text)) => text.split('+').map(str::parse).collect(),
            ([], None) if self.networks.is_empty() => Ok(vec![Driver::Shm]),
            (rails, _) => Ok(rails.to_vec()),
        }
    }

    fn io_manager(&self) -> Result<Arc<Manager>, Error> {
        Ok(self.manager.clone().map_or_else(|| Manager::builder().build(), Ok)?)
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.networks.iter().map(|network| network.name()).collect();
        f.debug_struct("Builder")
            .field("rails", &self.rails)
            .field("networks", &names)
            .field("strategy", &self.strategy)
            .field("ordered", &self.ordered)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A builder, which opens a session.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `size` sessions of one process that talk to each other as processes do, each over an engine of its own: for tests.
    /// (Ranks that share a process: [`Builder::open_ranks`].) Each is to be used by threads of its own.
    ///
    /// # Errors
    /// A knob is wrong, the kernel refuses memory or descriptors.
    pub fn local_world(size: u32, manager: &Arc<Manager>) -> Result<Vec<Session>, Error> {
        let processes = Session::local_processes(&Ranks::one_each(size), |_| manager.clone())?;
        Ok(processes.into_iter().flatten().collect())
    }

    /// As [`Session::local_world`], of processes that hold these ranks, and have these managers.
    pub(crate) fn local_processes(
        ranks: &Arc<Ranks>,
        manager: impl Fn(u32) -> Arc<Manager>,
    ) -> Result<Vec<Vec<Session>>, Error> {
        let settings = Settings::read()?;
        let (threshold, size) =
            (settings.rdv_threshold.unwrap_or(SHM_THRESHOLD), ranks.processes());
        let drivers = local::world(size, settings.shm_slots, settings.shm_slot_size, settings.cma)?;
        (0..)
            .zip(drivers)
            .map(|(process, driver)| {
                let place = Place { process, ranks: ranks.clone(), threshold, calls: None };
                let connect = |core: &mut Core<AnyDriver>| {
                    for peer in (0..size).filter(|&peer| peer != process) {
                        core.attach(0, peer, |_| ());
                    }
                };
                let drivers = vec![AnyDriver::Shm(driver)];
                let boot = Shared::new(Box::new(Alone::default()));
                let shared = (manager(process), boot.clone());
                let (sessions, _) = start(place, drivers, &settings, shared, connect)?;
                sessions[0].inner.ends_with(Ending::Alone(boot));
                Ok(sessions)
            })
            .collect()
    }

    /// Process 0 of two, with a link over TCP whose other end is a test's. No connection manager ticks.
    #[cfg(test)]
    pub(crate) fn over_tcp(
        link: crate::net::tcp::Peer,
        manager: &Arc<Manager>,
    ) -> Result<Session, Error> {
        let settings = Settings::read()?;
        let driver = crate::net::tcp::Tcp::new((0..2).map(|_| None).collect())?;
        let place =
            Place { process: 0, ranks: Ranks::one_each(2), threshold: 64 << 10, calls: None };
        let connect = |core: &mut Core<AnyDriver>| {
            core.attach(0, 1, |driver| drop(driver.install(1, crate::net::Link::Tcp(link))));
        };
        let boot = Shared::new(Box::new(Alone::default()));
        let shared = (manager.clone(), boot.clone());
        let drivers = vec![AnyDriver::Tcp(Box::new(driver))];
        let (mut sessions, _) = start(place, drivers, &settings, shared, connect)?;
        sessions[0].inner.ends_with(Ending::Alone(boot));
        sessions.pop().ok_or(Error::Closed)
    }
}
