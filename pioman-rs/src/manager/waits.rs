//! Waits for completions, conditions and permits, with a manager that polls or sleeps meanwhile.

use std::time::Instant;

use marcel::plumbing::budget;

use crate::completion::cond::Cond;
use crate::completion::one_shot::Completion;
use crate::completion::semaphore::Semaphore;
use crate::completion::set;
use crate::completion::waitable::Waitable;
use crate::manager::Manager;
use crate::progress::policy::hints::Hint;

impl Waitable<'_> {
    /// Waits for it.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// As [`Manager::wait`].
    pub fn wait(&self, manager: &Manager) {
        match self {
            Waitable::Done(completion) => manager.wait(completion, Hint::Short),
            _ => {
                budget::spend();
                self.wait_with(|done| {
                    manager.wait(done, Hint::Short);
                    true
                });
            }
        }
    }

    /// As [`Waitable::wait`], until `deadline` at the latest; false after a time-out.
    pub fn wait_until(&self, manager: &Manager, deadline: Instant) -> bool {
        let wait = |done: &Completion| manager.wait_until(done, Hint::Short, deadline);
        match self {
            Waitable::Done(completion) => wait(completion),
            _ => {
                budget::spend();
                self.wait_with(wait)
            }
        }
    }
}

impl Cond {
    /// Waits until one of the bits is set.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// As [`Manager::wait`].
    pub fn wait(&self, manager: &Manager, mask: u64) {
        self.any(mask).wait(manager);
    }

    /// As [`Cond::wait`], until `deadline` at the latest; false after a time-out.
    pub fn wait_until(&self, manager: &Manager, mask: u64, deadline: Instant) -> bool {
        self.any(mask).wait_until(manager, deadline)
    }

    /// Waits until all of the bits are set.
    ///
    /// # Context, Blocking
    /// As [`Cond::wait`].
    pub fn wait_all(&self, manager: &Manager, mask: u64) {
        self.all(mask).wait(manager);
    }

    /// As [`Cond::wait_all`], until `deadline` at the latest; false after a time-out.
    pub fn wait_all_until(&self, manager: &Manager, mask: u64, deadline: Instant) -> bool {
        self.all(mask).wait_until(manager, deadline)
    }
}

impl Semaphore {
    /// Takes a permit (P).
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// As [`Manager::wait`].
    pub fn acquire(&self, manager: &Manager) {
        self.permit().wait(manager);
    }

    /// As [`Semaphore::acquire`], until `deadline` at the latest; false after a time-out.
    pub fn acquire_until(&self, manager: &Manager, deadline: Instant) -> bool {
        self.permit().wait_until(manager, deadline)
    }
}

impl Manager {
    /// Waits until one of them is there; which. Of several that are there at the call, the first. Only its permit, if
    /// it is one, is taken.
    ///
    /// ```
    /// use pioman::{Completion, Cond, Manager};
    ///
    /// let manager = Manager::here()?;
    /// let (done, cond) = (Completion::new(), Cond::new());
    /// cond.signal(0b100);
    /// assert_eq!(manager.wait_any(&[(&done).into(), cond.all(0b110), cond.any(0b110)]), 2);
    /// # Ok::<(), pioman::Error>(())
    /// ```
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// As [`Manager::wait`].
    ///
    /// # Panics
    /// With nothing to wait for.
    pub fn wait_any(&self, what: &[Waitable<'_>]) -> usize {
        assert!(!what.is_empty(), "wait_any without anything to wait for");
        budget::spend();
        set::wait_any(what, |done| {
            self.wait(done, Hint::Short);
            true
        })
        .expect("a wait without time-out ends with one of them")
    }

    /// As [`Manager::wait_any`], until `deadline` at the latest; `None` after a time-out.
    ///
    /// # Context, Blocking
    /// As [`Manager::wait_any`].
    pub fn wait_any_until(&self, what: &[Waitable<'_>], deadline: Instant) -> Option<usize> {
        budget::spend();
        set::wait_any(what, |done| self.wait_until(done, Hint::Short, deadline))
    }

    /// As [`Manager::wait_any`], or until `deadline`; `before_sleep` as for [`Manager::wait_prepared`].
    ///
    /// # Context, Blocking
    /// As [`Manager::wait_any`].
    pub fn wait_any_prepared(
        &self,
        what: &[Waitable<'_>],
        deadline: Option<Instant>,
        before_sleep: &dyn Fn(),
    ) -> Option<usize> {
        budget::spend();
        set::wait_any(what, |done| self.wait_prepared(done, Hint::Short, deadline, before_sleep))
    }

    /// Waits until each of them has been there. They need not be there at the same time: a bit of a condition may be
    /// cleared again while others are waited for.
    ///
    /// # Context, Blocking
    /// As [`Manager::wait_any`].
    pub fn wait_all(&self, what: &[Waitable<'_>]) {
        budget::spend();
        set::wait_all(what, |done| {
            self.wait(done, Hint::Short);
            true
        });
    }

    /// As [`Manager::wait_all`], until `deadline` at the latest; false after a time-out, and then no permit is
    /// taken.
    ///
    /// # Context, Blocking
    /// As [`Manager::wait_any`].
    pub fn wait_all_until(&self, what: &[Waitable<'_>], deadline: Instant) -> bool {
        budget::spend();
        set::wait_all(what, |done| self.wait_until(done, Hint::Short, deadline))
    }
}
