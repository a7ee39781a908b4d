//! Making a manager: its settings come from a builder, the rest from the environment.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use marcel::Mode;

use crate::driver::core::Driver;
use crate::driver::dedicated_threads::DedicatedThreads;
use crate::driver::watcher::SpareThreads;
use crate::error::Error;
use crate::knobs;
use crate::ltask::scheduler::Tasks;
use crate::ltask::tree::Tree;
use crate::manager::Manager;
use crate::observe::ledger::{self, Ledger};
use crate::progress::advisor::Advisor;
use crate::progress::machine::Machine;
use crate::progress::point::Points;
use crate::progress::policy::contract::{Limit, Policy};
use crate::progress::policy::select::{self, Selection};
use crate::progress::registry::Registry;
use crate::progress::short_slices::ShortSlices;

/// How long idle virtual processors poll for light tasks that wait for something, unless the knob says.
const TASKS_SPIN: Duration = Duration::from_micros(50);

/// Configures a [`Manager`]; what is not set comes from the knobs.
#[derive(Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    mode: Option<Mode>,
    points: Option<Points>,
    spin: Option<Option<Duration>>,
    #[cfg(test)]
    pub(crate) tasks: Option<Tree>,
    policy: Option<Arc<dyn Policy>>,
    uring: Option<bool>,
    times: Option<bool>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("mode", &self.mode)
            .field("points", &self.points)
            .field("spin", &self.spin)
            .field("policy", &self.policy.as_ref().map(|policy| policy.name()))
            .finish()
    }
}

impl Builder {
    /// The mode of the runtime that the manager will serve (`MARCEL_MODE`).
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Which points are on (`PIOM_POINTS`, `PIOM_ENABLE_PROGRESSION`).
    pub fn points(mut self, points: Points) -> Self {
        self.points = Some(points);
        self
    }

    /// How long a wait polls at the most before it sleeps; `None`: as long as it takes (`PIOM_BUSY_WAIT_USEC`).
    pub fn spin(mut self, spin: Option<Duration>) -> Self {
        self.spin = Some(spin);
        self
    }

    /// The policy of all sources, whatever `PIOM_POLICY` says. [`crate::policy::by_name`] gives those that are there.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Whether calls on files go by `io_uring`, where it is there (`PIOM_URING`).
    pub fn uring(mut self, on: bool) -> Self {
        self.uring = Some(on);
        self
    }

    /// Whether the counters have times: until events were found, and of waits (`PIOM_STATS`, which also has all of them
    /// told at the end).
    pub fn times(mut self, on: bool) -> Self {
        self.times = Some(on);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// A knob holds something unacceptable; the kernel gives no descriptors.
    pub fn build(self) -> Result<Arc<Manager>, Error> {
        marcel::plumbing::knob::warn_of_unknown(
            &["MARCEL_", "PIOM_"],
            &[marcel::KNOBS, knobs::KNOBS],
            &[],
        );
        let os = |doing| move |source: io::Error| Error::Os { doing, source };
        let mode = match self.mode {
            Some(mode) => mode,
            None => Mode::from_env().map_err(Error::of("MARCEL_MODE"))?,
        };
        let mut points = match self.points {
            Some(points) => points,
            None if !knobs::ENABLE_PROGRESSION.bool()? => Points::NONE,
            None => {
                let set = knobs::POINTS.set()?;
                let on = |name: &str| set.iter().any(|word| word == name);
                Points {
                    idle: on("idle"),
                    switch: on("switch"),
                    tick: on("tick"),
                    block: on("block"),
                    interrupt: on("interrupt"),
                }
            }
        };
        let lwps = knobs::SPARE_LWP.int()?.unwrap_or(4) as usize;
        if mode != Mode::Smp || lwps == 0 {
            points.block = false;
        }
        let limit = match (self.spin, knobs::BUSY_WAIT_USEC.int()?) {
            (Some(Some(time)), _) => Limit::For(time),
            (Some(None), _) | (None, Some(..0)) => Limit::Never,
            (None, Some(us)) => Limit::For(Duration::from_micros(us as u64)),
            (None, None) => Limit::Auto,
        };
        let policies = match self.policy {
            Some(policy) => Selection::all(policy),
            None => Selection::from_env()?,
        };
        let tick_period = Duration::from_micros(marcel::TIMER_PERIOD.int()?.unwrap_or(4000) as u64);
        let wants_uring = match self.uring {
            Some(on) => on,
            None => knobs::URING.bool()?,
        };
        let stats = knobs::STATS.bool()?;
        let prefers_waiters = knobs::PREFER_WAITERS.bool()?;
        marcel::trace::from_env().map_err(Error::of("MARCEL_TRACE"))?;
        knobs::LONG_CALLBACK_USEC.int()?; // told here, used by `fault`
        let spin = match limit {
            Limit::For(time) => Some(time),
            Limit::Never => None,
            Limit::Auto => Some(TASKS_SPIN),
        };
        let tree = Tree::new(tick_period, spin)?;
        #[cfg(test)]
        let tree = self.tasks.unwrap_or(tree);
        let slices = ShortSlices::asked_for(prefers_waiters);
        let machine = Arc::new(Machine::new(mode, points, limit, tick_period, slices));
        let tasks = Arc::new(Tasks::new(machine.clone(), tree));
        let registry = Registry::new(self.times.unwrap_or(stats));
        let advisor = Advisor::new(machine.clone(), policies);
        let ledger = Ledger::new(stats);
        let driver = Driver::new(machine, registry, advisor, tasks, ledger);
        let driver = Arc::new(driver.map_err(os("making an epoll set"))?);
        if stats {
            let driver: Weak<Driver> = Arc::downgrade(&driver);
            ledger::expect(driver);
        }
        let spare = SpareThreads::new(driver.clone(), lwps);
        let spare = spare.map_err(os("making the background watcher's descriptor"))?;
        let (number, cores) = select::dedicated()?;
        let dedicated = DedicatedThreads::new(driver.clone(), cores);
        dedicated.set(number.unwrap_or(0)).map_err(os("starting a dedicated kernel thread"))?;
        let on_demand = number.is_none();
        Ok(Arc::new(Manager::new(driver, spare, dedicated, on_demand, wants_uring)))
    }
}

impl Manager {
    /// A builder.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
