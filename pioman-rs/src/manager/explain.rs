//! What the policies choose now, and why: [`Manager::explain`].

use std::fmt;
use std::io;
use std::time::Duration;

use marcel::Mode;

use crate::driver::core::Driver;
use crate::manager::Manager;
use crate::progress::advisor::Question;
use crate::progress::machine::Machine;
use crate::progress::policy::contract::{Asker, Choice, Limit};
use crate::progress::policy::hints::Method;
use crate::progress::policy::hints::{Hint, Hints};
use crate::progress::registry::Pinned;
use crate::progress::wake_up;

/// What a manager would do now, source by source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The manager's mode.
    pub mode: Mode,
    /// The policy of sources that have none of their own.
    pub policy: String,
    /// The longest time to poll before sleeping.
    pub limit: Limit,
    /// The cost of a wake-up by the kernel.
    pub wake_up: Duration,
    /// Samples that it comes from; none: it is assumed.
    pub samples: u64,
    /// Dedicated kernel threads that are on.
    pub dedicated: usize,
    /// Every compute virtual processor is busy.
    pub loaded: bool,
    /// What is not as one might wish: points that are off, kernel threads that are refused.
    pub notes: Vec<String>,
    /// The sources; without any, what the manager's own policy says.
    pub sources: Vec<OfSource>,
}

/// What happens with one source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OfSource {
    /// Its name; empty: any source.
    pub source: String,
    /// Its policy.
    pub policy: String,
    /// Something is pending in it.
    pub pending: bool,
    /// What the policy answers, for each [`Asker`].
    pub answers: Vec<Answer>,
    /// The policy's numbers.
    pub detail: String,
}

/// One answer of a policy, and what comes of it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The caller.
    pub asker: Asker,
    /// The answer.
    pub choice: Choice,
    /// The nearest method that there is.
    pub served_by: Method,
}

impl Manager {
    /// What the policies choose now, with the present numbers and the reasons.
    ///
    /// # Context
    /// Not the progress path: it allocates.
    pub fn explain(&self) -> Explanation {
        let driver = &*self.driver;
        let machine = &*driver.machine;
        let sources = driver.registry.pin();
        let load = machine.snapshot();
        let of = |slot| explain_source(driver, &sources, slot);
        let mut all: Vec<OfSource> = sources.each().map(|(slot, _)| of(Some(slot))).collect();
        if all.is_empty() {
            all.push(of(None));
        }
        Explanation {
            mode: machine.mode,
            policy: driver.advisor.policies.default.name().to_owned(),
            limit: machine.limit,
            wake_up: load.wake_up,
            samples: machine.wake_up.samples(),
            dedicated: load.dedicated,
            loaded: load.loaded,
            notes: notes(machine),
            sources: all,
        }
    }

    /// Measures what a wake-up by the kernel costs, and goes on from there.
    ///
    /// # Blocking
    /// The calling kernel thread, for some 20 ms.
    ///
    /// # Errors
    /// The kernel refuses a pipe.
    pub fn measure_wake_up(&self) -> io::Result<Duration> {
        let time = wake_up::measure()?;
        self.driver.machine.wake_up.seed(time);
        Ok(time)
    }
}

fn explain_source(driver: &Driver, sources: &Pinned<'_>, slot: Option<usize>) -> OfSource {
    let load = driver.machine.snapshot();
    let registered = slot.and_then(|slot| sources.get(slot));
    let policy = slot.and_then(|slot| sources.policy(slot));
    let question =
        |asker| Question { slot, asker, hints: Hints::new(Hint::Short), waited: Duration::ZERO };
    let answer = |asker| {
        let choice = driver.advisor.ask(sources, &question(asker), &load);
        let served_by = match (asker, slot) {
            (Asker::Leaving, Some(slot)) => driver.advisor.possible(sources, slot, choice.method),
            _ if choice.method == Method::Dedicated && load.dedicated == 0 => Method::Block,
            _ => choice.method,
        };
        Answer { asker, choice, served_by }
    };
    OfSource {
        source: registered.map_or(String::new(), |r| r.source.name().to_owned()),
        policy: policy.unwrap_or(&*driver.advisor.policies.default).name().to_owned(),
        pending: registered.is_some_and(|registered| registered.source.pending()),
        answers: [Asker::Waiter, Asker::Idle, Asker::Passing, Asker::Leaving].map(answer).to_vec(),
        detail: driver.advisor.detail(sources, &question(Asker::Waiter), &load),
    }
}

fn notes(machine: &Machine) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |holds: bool, text: &str| {
        if holds {
            notes.push(text.to_owned());
        }
    };
    let points = machine.points;
    note(
        !machine.progresses(),
        "PIOM_ENABLE_PROGRESSION or PIOM_POINTS: nothing progresses outside calls",
    );
    note(
        machine.mode == Mode::NoThread,
        "mode no-thread: what is left pending outside calls is looked for by dedicated threads only",
    );
    note(
        machine.mode == Mode::Mono,
        "mode mono: no background watcher; what is to sleep in the kernel while the program computes is found \
             by interrupts where the source can, and by ticks",
    );
    note(
        machine.mode == Mode::Smp && !points.block,
        "no background watcher (PIOM_POINTS, PIOM_SPARE_LWP): ticks find what is to sleep in the kernel",
    );
    note(!points.tick, "no ticks (PIOM_POINTS): a kernel thread that sleeps serves instead");
    note(!points.idle, "idle virtual processors do not poll (PIOM_POINTS)");
    notes
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
        writeln!(
            f,
            "mode {}, policy {}{}",
            self.mode,
            self.policy,
            match self.loaded {
                true => ", every core computes",
                false => "",
            }
        )?;
        let limit = match self.limit {
            Limit::Auto => "as the policy has it".to_owned(),
            Limit::For(time) => format!("{} µs at the most", us(time)),
            Limit::Never => "without a limit".to_owned(),
        };
        writeln!(f, "time to poll before sleeping (PIOM_BUSY_WAIT_USEC): {limit}")?;
        let from = match self.samples {
            0 => "assumed, nothing measured yet".to_owned(),
            n => format!("measured, {n} samples"),
        };
        writeln!(f, "wake-up by the kernel: {:.1} µs ({from})", us(self.wake_up))?;
        writeln!(f, "dedicated kernel threads: {}", self.dedicated)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        self.sources.iter().try_for_each(|source| write!(f, "{source}"))
    }
}

impl fmt::Display for OfSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.source.is_empty() { "any source" } else { &self.source };
        let pending = if self.pending { ", something is pending" } else { "" };
        writeln!(f, "{name}: policy {}{pending}", self.policy)?;
        for answer in &self.answers {
            let caller = match answer.asker {
                Asker::Waiter => "a waiter",
                Asker::Idle => "an idle virtual processor",
                Asker::Passing => "a passing poller",
                Asker::Leaving => "left pending",
            };
            let method = |method| match method {
                Method::Poll => "poll",
                Method::Block => "block",
                Method::Tick => "tick",
                Method::Dedicated => "dedicated",
                Method::Interrupt => "interrupt",
            };
            write!(f, "  {caller}: {}", method(answer.choice.method))?;
            if answer.served_by != answer.choice.method {
                write!(f, ", which there is not: {}", method(answer.served_by))?;
            }
            writeln!(f, " ({})", answer.choice.why)?;
        }
        self.detail.lines().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
