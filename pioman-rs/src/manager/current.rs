//! Which manager serves the caller.
//!
//! A green thread: the hooks of its runtime. A kernel thread: the one that it has *entered*. A caller that has neither
//! gets the one manager of the whole process, which is made when it is first asked for.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Error;
use crate::manager::Manager;
use marcel::plumbing::KernelMutex;

std::thread_local! {
    /// Those that the kernel thread has entered, innermost last; `None`: left, out of order. Not looked at by green
    /// threads, which move.
    ///
    /// Invariant: the last one is not left.
    static ENTERED: RefCell<Vec<Option<Arc<Manager>>>> = const { RefCell::new(Vec::new()) };
}

/// The manager that serves the caller: that of its runtime, or for a kernel thread the one that it has entered
/// ([`Manager::enter`]).
///
/// # Context
/// Not the progress path (it counts a reference).
pub fn current() -> Option<Arc<Manager>> {
    if marcel::is_green() {
        let hooks: Arc<dyn Any + Send + Sync> = marcel::plumbing::current_hooks()?;
        return hooks.downcast().ok();
    }
    ENTERED.try_with(|entered| entered.borrow().last().cloned().flatten()).ok().flatten()
}

impl Manager {
    /// The caller's manager ([`current`]), or else one that serves the whole process.
    ///
    /// # Errors
    /// There is none, and none can be made: see [`crate::Builder::build`].
    pub fn here() -> Result<Arc<Manager>, Error> {
        static OF_THE_PROCESS: KernelMutex<Option<Arc<Manager>>> = KernelMutex::new(None);
        if let Some(manager) = current() {
            return Ok(manager);
        }
        let mut slot = OF_THE_PROCESS.lock();
        if let Some(manager) = &*slot {
            return Ok(manager.clone());
        }
        Ok(slot.insert(Manager::builder().mode(marcel::Mode::Smp).build()?).clone())
    }

    /// Makes this manager the calling kernel thread's, until what this returns is dropped.
    ///
    /// The manager that was entered last, and not yet left, serves the thread. Guards may be dropped in any order.
    ///
    /// # Context
    /// A kernel thread. In a green thread, whose runtime has its manager, this has no effect.
    pub fn enter(self: &Arc<Self>) -> Entered {
        let place = (!marcel::is_green()).then(|| {
            ENTERED.with(|entered| {
                let mut entered = entered.borrow_mut();
                entered.push(Some(self.clone()));
                entered.len() - 1
            })
        });
        Entered { place, _here: PhantomData }
    }
}

/// See [`Manager::enter`].
#[derive(Debug)]
#[must_use]
pub struct Entered {
    /// Its place in [`ENTERED`]; `None` in a green thread.
    place: Option<usize>,
    /// It belongs to the kernel thread.
    _here: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let left = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let left = entered[place].take();
            while entered.last().is_some_and(Option::is_none) {
                entered.pop();
            }
            left
        });
        drop(left); // outside the borrow: it may be the last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use marcel::Mode;

    #[test]
    fn everybody_finds_the_manager_that_serves_them() {
        assert!(current().is_none());
        for mode in [Mode::NoThread, Mode::Mono, Mode::Smp] {
            let runtime =
                Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap();
            let is_ours = |found: Option<Arc<Manager>>| {
                found.is_some_and(|found| Arc::ptr_eq(&found, runtime.manager()))
            };
            assert!(runtime.run(|| is_ours(current())), "{mode:?}");
            {
                let _entered = runtime.manager().enter();
                assert!(is_ours(current()));
            }
            assert!(current().is_none());
        }
        assert!(Arc::ptr_eq(&Manager::here().unwrap(), &Manager::here().unwrap()));
    }

    #[test]
    fn guards_that_are_dropped_out_of_order_leave_their_own_managers() {
        let [first, second] = [(); 2].map(|()| Manager::builder().build().unwrap());
        let serves = |manager: &Arc<Manager>| {
            current().is_some_and(|current| Arc::ptr_eq(&current, manager))
        };
        let (outer, inner) = (first.enter(), second.enter());
        drop(outer);
        assert!(serves(&second), "its guard is still there");
        drop(inner);
        assert!(current().is_none());
        let [outer, between, inner] = [first.enter(), second.enter(), first.enter()];
        drop(outer);
        assert!(serves(&first), "the innermost guard is that of the same manager");
        drop(inner);
        assert!(serves(&second));
        drop(between);
        assert!(current().is_none());
    }
}
