//! What a light task is told at its submission.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use marcel::Priority;
use marcel::topology::Object;
use marcel::trace;

use crate::error::Error;
use crate::ltask::block::{Blocking, Callback, Fixed, Ltask, Run, Work};
use crate::ltask::exclusion::Exclusion;
use crate::ltask::place::Wanted;
use crate::ltask::report::{Progress, TaskError};
use crate::ltask::scheduler::Tasks;
use crate::ltask::state::Schedule;
use crate::manager::Manager;
use crate::tasks::task::{Handle, Task};
use crate::trace::Label;

/// When a light task is polled (PIOMan's `poll_level`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// At every visit of its queue: by idle virtual processors, in waits, at context switches.
    #[default]
    Always,
    /// Only by threads that have nothing better to do: not at context switches.
    WhenIdle,
}

/// The lane of its queue.
pub(crate) fn lane(priority: Priority, polling: Polling) -> usize {
    let class = match priority {
        Priority::High => 0,
        Priority::Normal => 2,
        Priority::Low => 4,
    };
    class + (polling == Polling::WhenIdle) as usize
}

/// Configures a light task.
#[derive(Default)]
#[must_use = "a builder does nothing before a `submit`"]
pub struct TaskBuilder {
    name: Option<Cow<'static, str>>,
    wanted: Wanted,
    priority: Priority,
    polling: Polling,
    block: Option<Box<dyn FnOnce() + Send>>,
    delay: Duration,
    callback: Option<Callback>,
    masked: bool,
}

impl TaskBuilder {
    /// A task that any virtual processor may run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its name, in messages.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only run on this core of the topology.
    pub fn cpu(self, cpu: usize) -> Self {
        self.cpus([cpu])
    }

    /// Only run on these cores of the topology. Those that this process may not use are left out.
    ///
    /// A virtual processor of one of them runs it, or the background watcher, bound to them, when all of those compute.
    /// Where no virtual processor is on any of them and there is no watcher (modes `no-thread` and `mono`), it is run
    /// elsewhere rather than never.
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.wanted = Wanted::Cores(cpus.into_iter().collect());
        self
    }

    /// Only run on the cores of this object of the topology, as [`TaskBuilder::cpus`].
    pub fn bind(mut self, place: Object) -> Self {
        self.wanted = Wanted::Object(place);
        self
    }

    /// Tasks of a higher priority that a visitor sees are called first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// When it is polled.
    pub fn polling(mut self, polling: Polling) -> Self {
        self.polling = polling;
        self
    }

    /// A way to wait for the same event in the kernel: returns when the task is done. It may be called, on a
    /// spare kernel thread, instead of further polls.
    pub fn blocking(mut self, block: impl FnOnce() + Send + 'static) -> Self {
        self.block = Some(Box::new(block));
        self
    }

    /// The blocking alternative is not used before this time after the submission: what is done soon is cheaper to
    /// poll for.
    pub fn blocking_after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Called once when the task has ended, before its waiters are woken: by the thread that ran it, or by the one that
    /// cancels it. It must not wait.
    pub fn on_end(
        mut self,
        callback: impl FnOnce(&Result<(), TaskError>) + Send + 'static,
    ) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// It starts masked: see [`Task::mask`].
    pub fn masked(mut self) -> Self {
        self.masked = true;
        self
    }

    /// Submits a task that is called until it is done (or panics, or is cancelled).
    ///
    /// # Context
    /// Green and kernel threads, other tasks; not a signal handler.
    ///
    /// # Wakes
    /// An idle virtual processor of its set, or
    /// the background watcher.
    ///
    /// # Errors
    /// No core that this process may use is among those asked for.
    pub fn submit(
        self,
        manager: &Arc<Manager>,
        run: impl FnMut() -> Progress + Send + 'static,
    ) -> Result<Task, Error> {
        self.submit_boxed(manager, Box::new(run))
    }

    /// Submits a task that is called once.
    ///
    /// # Context, Wakes, Errors
    /// As [`TaskBuilder::submit`].
    pub fn submit_once(
        self,
        manager: &Arc<Manager>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Task, Error> {
        let mut run = Some(run);
        self.submit(manager, move || {
            if let Some(run) = run.take() {
                run();
            }
            Progress::Done
        })
    }

    fn submit_boxed(self, manager: &Arc<Manager>, run: Run) -> Result<Task, Error> {
        let (tasks, masked) = (&manager.driver.tasks, self.masked);
        let handle = self.make(manager, run, None)?;
        let block = handle.block;
        tasks.tree.counts.submitted(1);
        if masked {
            let _nobody_runs_it = block.state.mask();
        }
        if block.fixed().can_block && !masked && tasks.machine.is_loaded() {
            block.start(tasks);
        } else if block.state.schedule() == Schedule::Push {
            tasks.add(block);
        }
        Ok(Task::new(handle))
    }

    /// Makes the block of a task that rests; it is a tasklet of the type `exclusion`.
    pub(super) fn make(
        self,
        manager: &Arc<Manager>,
        run: Run,
        exclusion: Option<Arc<Exclusion<Ltask>>>,
    ) -> Result<Handle, Error> {
        let tasks = &manager.driver.tasks;
        let (tree, machine) = (&tasks.tree, &*tasks.machine);
        let place = tree.place(&self.wanted)?;
        if let Some(exclusion) = &exclusion {
            exclusion.serve(&tasks.machine)?;
        }
        if machine.points.block {
            // Without it (no kernel thread to be had) visitors run what is late.
            manager.spare.start();
        }
        // Later than any time there is: never.
        let after = Instant::now().checked_add(self.delay);
        let can_block = self.block.is_some() && machine.points.block && after.is_some();
        if can_block {
            // With fewer than needed, or none, the task is polled.
            tree.has_spares(manager.spare.provide(tree.can_block(1)));
        }
        tasks.clear_away();
        let after = after.filter(|_| !self.delay.is_zero());
        let blocking = self.block.filter(|_| can_block).map(|call| {
            let exporter: Weak<Tasks> = Arc::downgrade(tasks);
            Blocking { call, after, exporter, held: None }
        });
        let name = self.name.unwrap_or(Cow::Borrowed("unnamed"));
        let fixed = Fixed {
            // A tasklet outlives the choice whether to trace.
            label: Label::of(&name, trace::is_on() || exclusion.is_some()),
            name,
            place,
            lane: lane(self.priority, self.polling),
            can_block,
            exclusion,
        };
        let block = Ltask::allocate(fixed, Work { run, blocking, callback: self.callback });
        Ok(Handle::new(block, manager))
    }
}

impl fmt::Debug for TaskBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("name", &self.name)
            .field("wanted", &self.wanted)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
