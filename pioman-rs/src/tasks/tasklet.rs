//! Tasklets as their users see them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use marcel::Priority;
use marcel::topology::Object;

use crate::error::Error;
use crate::ltask::block::Ltask;
use crate::ltask::exclusion::Exclusion;
use crate::ltask::report::Progress;
use crate::ltask::state::Schedule;
use crate::manager::Manager;
use crate::tasks::builder::TaskBuilder;
use crate::tasks::task::Handle;

/// A type of tasklets: those of one type exclude each other. All of them are one manager's. Cheap to clone.
#[derive(Clone)]
pub struct TaskletType(Arc<Exclusion<Ltask>>);

impl TaskletType {
    /// A new type.
    pub fn new() -> TaskletType {
        TaskletType(Arc::new(Exclusion::new()))
    }
}

impl Default for TaskletType {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TaskletType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskletType({:p})", self.0)
    }
}

/// Configures a [`Tasklet`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct TaskletBuilder {
    task: TaskBuilder,
    class: TaskletType,
}

impl TaskletBuilder {
    /// A tasklet of a type of its own that runs anywhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its name, in messages.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.task = self.task.name(name);
        self
    }

    /// Its type: those of one type exclude each other.
    pub fn of(mut self, class: &TaskletType) -> Self {
        self.class = class.clone();
        self
    }

    /// Only run on this core of the topology, as [`crate::TaskBuilder::cpus`].
    pub fn cpu(mut self, cpu: usize) -> Self {
        self.task = self.task.cpu(cpu);
        self
    }

    /// Only run on the cores of this object of the topology, as [`crate::TaskBuilder::cpus`].
    pub fn bind(mut self, place: Object) -> Self {
        self.task = self.task.bind(place);
        self
    }

    /// Makes it; nothing runs until it is scheduled.
    ///
    /// # Errors
    /// No core that this process may use is among those asked for; the type has tasklets of another manager.
    pub fn build(
        self,
        manager: &Arc<Manager>,
        mut run: impl FnMut() + Send + 'static,
    ) -> Result<Tasklet, Error> {
        let run = Box::new(move || {
            run();
            Progress::Done
        });
        let task = self.task.priority(Priority::High);
        task.make(manager, run, Some(self.class.0)).map(Tasklet)
    }
}

/// A tasklet; see [`TaskletBuilder`]. Dropping it is its end: if it runs, that is waited for.
pub struct Tasklet(Handle);

impl Tasklet {
    /// It runs soon, on another thread or later on this one. False if it is scheduled already: then both are one. A
    /// tasklet that is running runs once more.
    ///
    /// # Context
    /// Anywhere, signal handlers included: it allocates nothing.
    ///
    /// # Wakes
    /// An idle virtual processor of its set, or the
    /// background watcher.
    pub fn schedule(&self) -> bool {
        let (tasks, block) = (self.0.tasks(), self.0.block);
        tasks.tree.counts.submitted(1); // before it can end
        match block.state.schedule() {
            Schedule::Push => tasks.add(block),
            Schedule::Later => {}
            Schedule::Merged | Schedule::Refused => {
                tasks.tree.counts.submitted(-1);
                return false;
            }
        }
        true
    }

    /// It does not run until [`Tasklet::enable`]; what is scheduled meanwhile runs then. Returns when it does not run
    /// any more: true; or false inside a light task or tasklet, where it does not wait for that.
    ///
    /// # Blocking
    /// The calling thread yields as long as the tasklet runs.
    #[must_use = "it may still be running"]
    pub fn disable(&self) -> bool {
        self.0.mask()
    }

    /// It runs again when it is scheduled.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    ///
    /// # Wakes
    /// As [`Tasklet::schedule`].
    pub fn enable(&self) {
        self.0.unmask();
    }
}

impl fmt::Debug for Tasklet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasklet").field("name", &self.0.block.name()).finish()
    }
}
