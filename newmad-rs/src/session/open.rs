//! Opening a session: which rails, which peers, and the connection manager that makes links with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use marcel::plumbing::KernelMutex;
use pioman::Manager;

use super::settings::Settings;
use super::threshold::{SHM_THRESHOLD, TCP_THRESHOLD, threshold};
use super::{Ending, Inner, Process, Session, sample};
use crate::bootstrap::{self, Alone};
use crate::connect::mail::Mail;
use crate::connect::{ConnectionManager, Rail, Start, Timeouts};
use crate::driver::Network;
use crate::engine::Engine;
use crate::error::{Error, os};
use crate::gate::config::Config;
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::net::segment::Geometry;
use crate::net::{AnyDriver, Driver as _, local};
use crate::proto::core::Core;
use crate::proto::next::Tuning;
use crate::sampling::Source;
use crate::strategy::Strategy;
use crate::sys;
use crate::wire::MAX_RAILS;

/// What carries the messages between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

impl std::fmt::Display for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Driver::Shm => "shm",
            Driver::Tcp => "tcp",
            Driver::Local => "local",
        })
    }
}

/// Rails as they are written in `NMAD_DRIVER`.
fn names(rails: &[Driver]) -> String {
    rails.iter().map(Driver::to_string).collect::<Vec<_>>().join("+")
}

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
}

impl Builder {
    /// The I/O manager that looks for events. Without one, a manager of its own without a runtime is made.
    pub fn manager(mut self, manager: Arc<Manager>) -> Builder {
        self.manager = Some(manager);
        self
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
        let mut settings = Settings::read()?;
        settings.strategy = self.strategy.or(settings.strategy);
        settings.reorder &= !self.ordered;
        let asked = match (&self.rails[..], &settings.driver) {
            ([], Some(text)) => text.split('+').map(str::parse).collect::<Result<_, _>>()?,
            ([], None) => Vec::new(),
            (rails, _) => rails.to_vec(),
        };
        let manager = self.manager.map_or_else(|| Manager::builder().build(), Ok)?;
        let deadline = sys::deadline(settings.connect_timeout);
        let mut boot = bootstrap::from_environment(settings.bootstrap.as_deref(), deadline)?;
        let (rank, size) = (boot.rank(), boot.size());
        let networks = self.networks;
        let rails = match asked.is_empty() && networks.is_empty() {
            true => vec![Driver::Shm],
            false => asked,
        };
        check(&rails, networks.len(), size, &settings)?;
        let sampling = settings.sampling.load()?;
        let (name, usual) = match (rails.first(), networks.first()) {
            (Some(Driver::Shm | Driver::Local), _) | (None, None) => ("shm", SHM_THRESHOLD),
            (Some(Driver::Tcp), _) => ("tcp", TCP_THRESHOLD),
            (None, Some(network)) => (network.name(), TCP_THRESHOLD),
        };
        let (threshold, _) = threshold(&settings, &sampling, name, usual);
        let ranks = match count {
            None => Ranks::one_each(size),
            Some(count) => Ranks::new(&bootstrap::counts(&mut *boot, count, deadline)?)?,
        };
        let place = Place { process: rank, ranks, threshold };
        if size == 1 {
            let mut world = local::world(1, settings.shm_slots, settings.shm_slot_size, true)?;
            let driver = world.pop().map(AnyDriver::Shm).into_iter().collect();
            let (sessions, _) = Session::start(place, driver, &settings, manager, |_| ())?;
            sessions[0].inner.ends_with(Ending::Alone(boot));
            return Ok(sessions);
        }
        let mut addresses = settings.tcp_addresses.iter().cycle();
        let (mut ends, mut drivers) = (Vec::new(), Vec::new());
        for rail in &rails {
            let (end, driver) = match (rail, addresses.clone().next()) {
                (Driver::Tcp, Some(&address)) => {
                    addresses.next();
                    Rail::tcp(size, address)?
                }
                _ => {
                    let (slots, slot_size) = (settings.shm_slots, settings.shm_slot_size);
                    let geometry = Geometry { ranks: size as usize, slots, slot_size };
                    Rail::shm(rank, geometry, settings.cma)?
                }
            };
            ends.push(end);
            drivers.push(driver);
        }
        let mut names = names(&rails);
        for network in networks {
            let between = if names.is_empty() { "" } else { "+" };
            names = names + between + network.name();
            let (end, driver) =
                Rail::custom(size, network, settings.tcp_addresses.first().copied())?;
            ends.push(end);
            drivers.push(driver);
        }
        let expects = |core: &mut Core<AnyDriver>| {
            core.parted = false;
            core.gates.learn(|rail| sampling.pace(rail));
        };
        let (sessions, engine) = Session::start(place, drivers, &settings, manager, expects)?;
        let timeouts = Timeouts { connect: settings.connect_timeout, repair: settings.repair };
        let mail = sessions[0].inner.process.mail.clone();
        let start = Start { timeouts, names, threshold, control: settings.control, mail };
        match ConnectionManager::start(boot, ends, start, &engine) {
            Ok(connections) => {
                sessions[0].inner.ends_with(Ending::Connected(connections));
                if settings.sampling == Source::Now {
                    sample::sample(&sessions[0], settings.rdv_threshold.is_some())?;
                }
                Ok(sessions)
            }
            Err(error) => {
                // No peer has met this process: there is nothing to wait for.
                engine.with(Core::part);
                Err(error)
            }
        }
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

/// Whether these rails make sense for that many processes, and with the other knobs.
fn check(rails: &[Driver], networks: usize, size: u32, settings: &Settings) -> Result<(), Error> {
    let wrong = |why: String| Err(Error::Bootstrap(format!("NMAD_DRIVER={}: {why}", names(rails))));
    let count = |driver| rails.iter().filter(|&&rail| rail == driver).count();
    if size > 1 && count(Driver::Local) > 0 {
        return wrong(format!(
            "the local driver is for a session of one process, and this one has {size}: take shm or tcp"
        ));
    }
    if count(Driver::Shm) > 1 {
        return wrong("shared memory can be one rail only".into());
    }
    if rails.len() + networks > MAX_RAILS {
        return wrong(format!("a session has at most {MAX_RAILS} rails"));
    }
    let addresses = settings.tcp_addresses.len();
    if addresses > 1 && addresses != count(Driver::Tcp) {
        return wrong(format!(
            "{} tcp rail(s), and NMAD_TCP_ADDRESS has {addresses} addresses: give one for each, or one for all",
            count(Driver::Tcp)
        ));
    }
    Ok(())
}

/// The number of this process, who holds which ranks, and from which size on it announces messages.
struct Place {
    process: u32,
    ranks: Arc<Ranks>,
    threshold: usize,
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
        let settings = Settings::read()?;
        let threshold = settings.rdv_threshold.unwrap_or(SHM_THRESHOLD);
        let drivers = local::world(size, settings.shm_slots, settings.shm_slot_size, settings.cma)?;
        drivers
            .into_iter()
            .enumerate()
            .map(|(rank, driver)| {
                let process = rank as u32;
                let place = Place { process, ranks: Ranks::one_each(size), threshold };
                let connect = |core: &mut Core<AnyDriver>| {
                    for peer in (0..size).filter(|&peer| peer != process) {
                        core.attach(0, peer, |_| ());
                    }
                };
                let drivers = vec![AnyDriver::Shm(driver)];
                let (mut sessions, _) =
                    Session::start(place, drivers, &settings, manager.clone(), connect)?;
                sessions[0].inner.ends_with(Ending::Alone(Box::new(Alone::default())));
                sessions.pop().ok_or(Error::Closed)
            })
            .collect()
    }

    fn start(
        place: Place,
        drivers: Vec<AnyDriver>,
        settings: &Settings,
        manager: Arc<Manager>,
        prepare: impl FnOnce(&mut Core<AnyDriver>),
    ) -> Result<(Vec<Session>, Arc<Engine>), Error> {
        let Place { process, ranks, threshold } = place;
        let size = ranks.processes();
        let names: Vec<&'static str> = drivers.iter().map(AnyDriver::name).collect();
        let signals = Signals::new(size, drivers.len())?;
        let config = Config {
            checksum: settings.checksum,
            // All peers' together fit.
            credit: settings.credit.min((settings.unexpected_max / size as usize) as u64),
            repairs: true,
            repair_ms: settings.repair.as_millis() as u64,
            ..Config::new(threshold, settings.unexpected_max)
        };
        let mut core = Core::new(process, ranks.clone(), drivers, config, signals.clone());
        let (reorder, chunks) = (settings.reorder, settings.chunks);
        let strategy = settings.strategy.clone();
        core.tune(Tuning { reorder, chunks, strategy }, &manager);
        prepare(&mut core);
        let engine = Arc::new(Engine::new(core)?);
        engine.set_locking(settings.lock)?;
        let source = manager
            .add_source(engine.clone())
            .map_err(|_| os("registering with the I/O manager"))?;
        engine.is_source(source.id());
        let own = ranks.of(process);
        let mail = Mail::new(process, ranks.clone(), signals);
        let process = Arc::new(Process {
            open: AtomicUsize::new(own.len()),
            source: KernelMutex::new(Some(source)),
            ending: KernelMutex::new(Ending::Nothing),
            driver: names.join("+"),
            mail,
            rails: names,
            extensions: Default::default(),
            departures: Default::default(),
        });
        let session = |(mine, rank): (usize, u32)| {
            let inner = Inner {
                engine: engine.clone(),
                manager: manager.clone(),
                process: process.clone(),
                rank,
                size: ranks.all(),
                mine: mine as u16,
                closed: AtomicBool::new(false),
                numbers: AtomicU64::new(0),
                extensions: Default::default(),
            };
            Session { inner: Arc::new(inner) }
        };
        Ok((own.enumerate().map(session).collect(), engine))
    }
}
