//! A session that is about to open: its settings and rails, before it knows how the others can be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use marcel::plumbing::KernelMutex;
use pioman::Manager;

use super::driver::{Driver, names};
use super::settings::Settings;
use super::threshold::{
    AWAY, CUSTOM_THRESHOLD, SHM_THRESHOLD, TCP_THRESHOLD, VERBS_THRESHOLD, reads_from, threshold,
};
use super::{Ending, Inner, Process, Session, sample};
use crate::authentication::KEY;
use crate::bootstrap::Shared;
use crate::connect::mail::Mail;
use crate::connect::{Card, ConnectionManager, Rail, Start, Timeouts};
use crate::driver::Network;
use crate::engine::Engine;
use crate::engine::call_gate::CallGate;
use crate::error::{Error, os};
use crate::gate::config::{Config, credit};
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::matching::pool::first_bytes;
use crate::net::segment::Geometry;
use crate::net::verbs::connect::active_ports;
use crate::net::virtual_rails::{Home, VirtualRails};
use crate::net::{AnyDriver, Driver as _, local};
use crate::nodes::Nodes;
use crate::proto::core::Core;
use crate::proto::next::Tuning;
use crate::sampling::{Sampling, Source};
use crate::wire::MAX_RAILS;

/// See the module.
pub(super) struct Prepared {
    settings: Settings,
    manager: Arc<Manager>,
    sampling: Sampling,
    process: u32,
    size: u32,
    threshold: usize,
    reads_from: usize,
    names: String,
    ends: Vec<Rail>,
    drivers: Vec<AnyDriver>,
    virtual_rails: Option<Arc<VirtualRails>>,
    calls: Option<Arc<CallGate>>,
}

impl Prepared {
    /// Process `process` of `size` over those rails, which listen already. A session of one process has none.
    ///
    /// # Errors
    /// The rails make no sense, or the kernel refuses something.
    pub(super) fn new(
        settings: Settings,
        manager: Arc<Manager>,
        rails: Vec<Driver>,
        networks: Vec<Box<dyn Network>>,
        (process, size): (u32, u32),
    ) -> Result<Prepared, Error> {
        let (count, nodes) = virtual_rails(&rails, networks.len(), &settings);
        check(&rails, (networks.len(), count), size, &settings)?;
        let are_adapters = rails.iter().map(|&rail| rail == Driver::Verbs);
        let window = settings.virtual_rails_window;
        let virtual_rails =
            (count > 1).then(|| Arc::new(VirtualRails::new(nodes, count, are_adapters, window)));
        let sampling = settings.sampling.load()?;
        let (name, usual) = match (rails.first(), networks.first()) {
            (Some(Driver::Shm | Driver::Local), _) | (None, None) => ("shm", SHM_THRESHOLD),
            (Some(Driver::Tcp), _) => ("tcp", TCP_THRESHOLD),
            (Some(Driver::Verbs), _) => ("verbs", VERBS_THRESHOLD),
            (None, Some(network)) => (network.name(), CUSTOM_THRESHOLD),
        };
        let (threshold, _) = threshold(&settings, &sampling, name, usual);
        let (reads_from, _) = reads_from(&settings, &sampling);
        // What the processes compare: a verbs rail with several virtual ones says how many.
        let names = match count {
            1 => names(&rails),
            count => names(&rails).replace("verbs", &format!("verbs*{count}")),
        };
        let (ends, drivers) = (Vec::new(), Vec::new());
        let mut prepared = Prepared {
            settings,
            manager,
            sampling,
            process,
            size,
            threshold,
            reads_from,
            names,
            ends,
            drivers,
            virtual_rails,
            calls: None,
        };
        if size > 1 {
            prepared.listen(&rails, networks)?;
        }
        Ok(prepared)
    }

    fn listen(&mut self, rails: &[Driver], networks: Vec<Box<dyn Network>>) -> Result<(), Error> {
        let (settings, size) = (&self.settings, self.size);
        let mut addresses = settings.tcp_addresses.iter().cycle();
        let homes: Vec<Home> = match &self.virtual_rails {
            Some(rails) => (0..rails.count()).map(|route| rails.home(route)).collect(),
            None => vec![Home::ANYWHERE],
        };
        let adapters = rails.iter().filter(|&&rail| rail == Driver::Verbs).count();
        let ports = match &settings.verbs_devices[..] {
            [] if adapters > 0 => active_ports(adapters)?,
            named => named.to_vec(),
        };
        let mut ports = ports.iter().cycle();
        for rail in rails {
            let made = match (rail, addresses.clone().next()) {
                (Driver::Tcp, Some(&address)) => {
                    addresses.next();
                    vec![Rail::tcp(size, address)?]
                }
                (Driver::Verbs, Some(&address)) => {
                    let port = ports.next().map_or("", String::as_str);
                    let slots = (settings.verbs_slots, settings.verbs_channels);
                    let reads = self.reads_from != usize::MAX;
                    let rail =
                        |home: &Home| Rail::verbs(size, port, slots, reads, address, home.clone());
                    homes.iter().map(rail).collect::<Result<_, Error>>()?
                }
                _ => {
                    let (slots, slot_size) = (settings.shm_slots, settings.shm_slot_size);
                    let geometry = Geometry { ranks: size as usize, slots, slot_size };
                    vec![Rail::shm(self.process, geometry, settings.cma)?]
                }
            };
            for (end, driver) in made {
                self.ends.push(end);
                self.drivers.push(driver);
            }
        }
        for network in networks {
            let between = if self.names.is_empty() { "" } else { "+" };
            self.names = std::mem::take(&mut self.names) + between + network.name();
            let (end, driver) =
                Rail::custom(size, network, settings.tcp_addresses.first().copied())?;
            self.ends.push(end);
            self.drivers.push(driver);
        }
        Ok(())
    }

    /// How the others reach this process, with this key or a fresh one.
    pub(super) fn card(&self, ranks: &Ranks, key: Option<[u8; KEY]>) -> Result<Card, Error> {
        let addresses = self.ends.iter().map(|rail| rail.listener.address.clone()).collect();
        let (names, control) = (self.names.clone(), self.settings.control.text());
        Card::new(names, self.threshold, ranks.all(), control, addresses, key)
    }

    /// The gate of the program's code of its only rank, if that has one already.
    pub(super) fn called_through(self, calls: Option<Arc<CallGate>>) -> Prepared {
        Prepared { calls, ..self }
    }

    pub(super) fn place(&self) -> (u32, u32) {
        (self.process, self.size)
    }

    /// Opens it, a session for each rank of this process.
    ///
    /// # Errors
    /// Another process does not come, or the kernel refuses something.
    pub(super) fn open(
        self,
        boot: Shared,
        ranks: Arc<Ranks>,
        card: Card,
    ) -> Result<Vec<Session>, Error> {
        let Prepared {
            settings,
            manager,
            sampling,
            process,
            size,
            threshold,
            reads_from,
            ends,
            drivers,
            virtual_rails,
            calls,
            ..
        } = self;
        let place = Place { process, ranks, threshold, calls };
        if size == 1 {
            let mut world = local::world(1, settings.shm_slots, settings.shm_slot_size, true)?;
            let driver = world.pop().map(AnyDriver::Shm).into_iter().collect();
            let (sessions, _) = start(place, driver, &settings, (manager, boot.clone()), |_| ())?;
            sessions[0].inner.ends_with(Ending::Alone(boot));
            return Ok(sessions);
        }
        let expects = |core: &mut Core<AnyDriver>| {
            core.parted = false;
            core.gates.learn(|rail| sampling.pace(rail));
            core.gates.reads_from = reads_from;
            if let Some(rails) = virtual_rails {
                core.gates.are_virtual(rails);
            }
        };
        let (sessions, engine) =
            start(place, drivers, &settings, (manager, boot.clone()), expects)?;
        let timeouts = Timeouts { connect: settings.connect_timeout, repair: settings.repair };
        let mail = sessions[0].inner.process.mail.clone();
        let start = Start { timeouts, card, control: settings.control, mail };
        match ConnectionManager::start(Box::new(boot), ends, start, &engine) {
            Ok(connections) => {
                sessions[0].inner.ends_with(Ending::Connected(connections));
                if settings.sampling == Source::Now {
                    sample::sample(&sessions[0], &settings)?;
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

/// How many virtual rails each adapter has, and the nodes whose they are. Where there is to be one for each node, at most as many
/// as a session may have.
fn virtual_rails(rails: &[Driver], networks: usize, settings: &Settings) -> (usize, Nodes) {
    let adapters = rails.iter().filter(|&&rail| rail == Driver::Verbs).count();
    if adapters == 0 || settings.virtual_rails == Some(1) {
        return (1, Nodes::default());
    }
    let nodes = Nodes::current();
    let most = MAX_RAILS.saturating_sub(rails.len() - adapters + networks) / adapters;
    (settings.virtual_rails.unwrap_or_else(|| nodes.count().min(most).max(1)), nodes)
}

/// Whether these rails make sense for that many processes, and with the other knobs. `virtual_rails`: those of each adapter.
fn check(
    rails: &[Driver],
    (networks, virtual_rails): (usize, usize),
    size: u32,
    settings: &Settings,
) -> Result<(), Error> {
    let wrong = |why: String| Err(Error::Bootstrap(format!("NMAD_DRIVER={}: {why}", names(rails))));
    let count = |driver| rails.iter().filter(|&&rail| rail == driver).count();
    if size > 1 && count(Driver::Local) > 0 {
        return wrong(format!(
            "the local driver is for a session of one process, and this one has {size}: take shm, tcp or verbs"
        ));
    }
    if count(Driver::Shm) > 1 {
        return wrong("shared memory can be one rail only".into());
    }
    if rails.len() + networks > MAX_RAILS {
        return wrong(format!("a session has at most {MAX_RAILS} rails"));
    }
    let more = (virtual_rails - 1) * count(Driver::Verbs);
    if rails.len() + networks + more > MAX_RAILS {
        return wrong(format!(
            "a session has at most {MAX_RAILS} rails, and the {virtual_rails} virtual rails of each adapter count: lower \
             NMAD_VERBS_VIRTUAL_RAILS"
        ));
    }
    let addresses = settings.tcp_addresses.len();
    if addresses > 1 && count(Driver::Tcp) > 0 && addresses != count(Driver::Tcp) {
        return wrong(format!(
            "{} tcp rail(s), and NMAD_TCP_ADDRESS has {addresses} addresses: give one for each, or one for all",
            count(Driver::Tcp)
        ));
    }
    let devices = settings.verbs_devices.len();
    if devices > 1 && devices != count(Driver::Verbs) {
        return wrong(format!(
            "{} verbs rail(s), and NMAD_VERBS_DEVICE has {devices} ports: give one for each, or one for all",
            count(Driver::Verbs)
        ));
    }
    Ok(())
}

/// The number of this process, who holds which ranks, and from which size on it announces messages.
pub(super) struct Place {
    pub(super) process: u32,
    pub(super) ranks: Arc<Ranks>,
    pub(super) threshold: usize,
    /// The gate of the program's code of its only rank, if that has one already.
    pub(super) calls: Option<Arc<CallGate>>,
}

/// Starts the engine, with a session for each rank of this process.
pub(super) fn start(
    place: Place,
    drivers: Vec<AnyDriver>,
    settings: &Settings,
    (manager, boot): (Arc<Manager>, Shared),
    prepare: impl FnOnce(&mut Core<AnyDriver>),
) -> Result<(Vec<Session>, Arc<Engine>), Error> {
    let Place { process, ranks, threshold, calls } = place;
    let size = ranks.processes();
    let names: Vec<&'static str> = drivers.iter().map(AnyDriver::name).collect();
    let signals = Signals::new(size, drivers.len())?;
    let memory = settings.unexpected_max.saturating_sub(first_bytes(threshold));
    let config = Config {
        checksum: settings.checksum,
        credit: credit(settings.credit, memory, size),
        repairs: true,
        repair_ms: settings.repair.as_millis() as u64,
        away: if settings.rdv_threshold.is_some() { usize::MAX } else { AWAY },
        ..Config::new(threshold, settings.unexpected_max)
    };
    let mut core = Core::new(process, ranks.clone(), drivers, config, signals.clone());
    let (reorder, chunks) = (settings.reorder, settings.chunks);
    let strategy = settings.strategy.clone();
    core.tune(Tuning { reorder, chunks, strategy }, &manager);
    prepare(&mut core);
    let engine = Arc::new(Engine::new(core, calls)?);
    engine.set_locking(settings.lock)?;
    let source =
        manager.add_source(engine.clone()).map_err(|_| os("registering with the I/O manager"))?;
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
        boot,
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
