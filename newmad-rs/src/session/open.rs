//! Opening a session: which driver, who the others are, and the connections with them.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use pioman::Manager;

use super::{Inner, Session};
use crate::bootstrap::{self, Alone, Bootstrap};
use crate::driver::any::Any;
use crate::driver::{Driver as _, local, shm, tcp};
use crate::engine::Engine;
use crate::engine::core::{Core, Signals};
use crate::error::{Error, os};
use crate::knobs::Settings;
use crate::strategy::{self, Strategy};
use crate::sys;

/// Rendezvous threshold unless `NMAD_RDV_THRESHOLD` says otherwise.
const SHM_THRESHOLD: usize = 16 * 1024;
const TCP_THRESHOLD: usize = 32 * 1024;

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
    strategy: Option<Arc<dyn Strategy>>,
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

    /// What decides which waiting messages leave next (`NMAD_STRATEGY`). Processes of one session may differ in it.
    pub fn strategy(mut self, strategy: Arc<dyn Strategy>) -> Builder {
        self.strategy = Some(strategy);
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
        let mut settings = Settings::read()?;
        settings.strategy = self.strategy.or(settings.strategy);
        let asked = match (self.driver, &settings.driver) {
            (Some(driver), _) => Some(driver),
            (None, Some(name)) => Some(name.parse()?),
            (None, None) => None,
        };
        let manager = self.manager.map_or_else(|| Manager::builder().build(), Ok)?;
        let mut boot = bootstrap::from_environment(
            settings.bootstrap.as_deref(),
            sys::deadline(settings.connect_timeout),
        )?;
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

impl Session {
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
                    Box::new(Alone::default()),
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
        boot: Box<dyn Bootstrap>,
    ) -> Result<Session, Error> {
        let name = driver.name();
        let signals = Signals::new(size, 1)?;
        let mut core =
            Core::new(rank, size, vec![driver], threshold, settings.unexpected_max, signals);
        for peer in (0..size).filter(|&peer| peer != rank) {
            core.attach(0, peer, |_| ());
        }
        core.reorder = settings.reorder;
        core.patient = manager.mode() == marcel::Mode::Smp && manager.points().block;
        let usual = || strategy::by_name(if name == "tcp" { "aggreg" } else { "default" });
        if let Some(strategy) = settings.strategy.clone().or_else(usual) {
            for peer in 0..size {
                core.set_strategy(peer, strategy.clone());
            }
        }
        let engine = Arc::new(Engine::new(core)?);
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
}
