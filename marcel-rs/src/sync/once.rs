//! One-time initialisation.
//!
//! ```text
//!   INCOMPLETE ──call──▶ RUNNING ──returns──▶ COMPLETE
//!    ▲            ▲         ├──panics──────▶ POISONED ──call_once_force──▶ RUNNING
//!    │            │         └──unwound by a stopping runtime──▶ as it was before
//! ```
//!
//! COMPLETE is final, so the fast path is one load. All other changes are made under the list's lock, so a thread that
//! finds RUNNING there is in the queue before RUNNING ends. Unwinding by a stopping runtime is no panic: the next
//! caller runs the initialiser again.

use std::cell::Cell;
use std::fmt;
use std::ptr::null;
use std::sync::atomic::Ordering::*;

use super::Interrupted;
use super::signal::{Limits, Outcome};
use super::wait_list::{Inner, Join, Primitive, WaitList};
use crate::os::{AtomicU32, const_unless_modelled};
use crate::task::park;
use crate::tcb::block::Tcb;

const INCOMPLETE: u32 = 0;
const POISONED: u32 = 1;
const RUNNING: u32 = 2;
const COMPLETE: u32 = 3;

/// Runs an initialiser once, however many threads, green or kernel, call it.
///
/// # Panics of the initialiser
/// As with `std::sync::Once`: a panic poisons it; [`call_once`](Once::call_once) then panics, and
/// [`call_once_force`](Once::call_once_force) tries again.
///
/// ```
/// use marcel::sync::Once;
///
/// static START: Once = Once::new();
/// START.call_once(|| println!("only once"));
/// START.call_once(|| unreachable!());
/// assert!(START.is_completed());
/// ```
pub struct Once {
    word: AtomicU32,
    waiters: WaitList<Runner>,
}

/// The thread that runs the initialiser: it would wait for itself for ever.
pub(super) struct Runner(*const Tcb);

// SAFETY: the pointer is compared only.
unsafe impl Send for Runner {}

/// The state that the closure of [`Once::call_once_force`] gets.
pub struct OnceState {
    poisoned: bool,
    /// The state after the closure returns.
    end: Cell<u32>,
}

impl OnceState {
    /// Whether an earlier initialiser has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Tells that the closure could not initialise, so that the next caller tries again.
    pub(super) fn give_up(&self) {
        self.end.set(INCOMPLETE);
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.poisoned).finish()
    }
}

impl Primitive for Once {
    type State = Runner;
    type Waiter = ();

    fn list(&self) -> &WaitList<Runner> {
        &self.waiters
    }

    /// All waiters are woken, and check the state again.
    fn pass_on(&self, _: &()) {}
}

/// Held while the initialiser runs; sets the resulting state when dropped.
struct Running<'a> {
    once: &'a Once,
    before: u32,
    end: Option<u32>,
    /// It runs in a destructor of a thread that a stopping runtime unwinds: then a panic is one.
    in_destructor: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let unwound = super::is_stopping() && !self.in_destructor;
        let otherwise = if unwound { self.before } else { POISONED };
        let last = self.once.waiters.with(|inner| {
            inner.state = Runner(null());
            self.once.word.store(self.end.unwrap_or(otherwise), Release);
            inner.queue.last_ticket()
        });
        self.once.waiters.wake_up_to(last);
    }
}

impl Once {
    const_unless_modelled! {
        /// A `Once` whose initialiser has not run.
        pub fn new() -> Self {
            Once { word: AtomicU32::new(INCOMPLETE), waiters: WaitList::new(Runner(null())) }
        }
    }

    /// Runs `f` if no initialiser has run, or waits for the one that runs.
    ///
    /// When this returns, an initialiser has run to its end, and its writes are visible.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread. Destructors that run because the runtime stops
    /// wait too.
    ///
    /// # Panics
    /// When `f` panics, or an earlier initialiser has; when `f` calls this itself.
    #[inline]
    pub fn call_once(&self, f: impl FnOnce()) {
        if !self.is_completed() {
            self.call(false, |_| f());
        }
    }

    /// As [`Once::call_once`], also after an initialiser that has panicked.
    ///
    /// # Context, Blocking
    /// As [`Once::call_once`].
    ///
    /// # Panics
    /// `f` panics, or calls this itself.
    #[inline]
    pub fn call_once_force(&self, f: impl FnOnce(&OnceState)) {
        if !self.is_completed() {
            self.call(true, f);
        }
    }

    /// Whether an initialiser has run to its end.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.word.load(Acquire) == COMPLETE
    }

    /// Waits until an initialiser has run to its end. A destructor that runs because the runtime stops does
    /// not wait.
    ///
    /// # Context, Blocking
    /// As [`Once::call_once`].
    ///
    /// # Panics
    /// An initialiser has panicked.
    pub fn wait(&self) {
        let _ = self.wait_within(false, &Limits::NONE);
    }

    /// As [`Once::wait`], but goes on waiting when an initialiser panics.
    ///
    /// # Context, Blocking
    /// As [`Once::wait`].
    pub fn wait_force(&self) {
        let _ = self.wait_within(true, &Limits::NONE);
    }

    /// As [`Once::wait`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking, Panics
    /// As [`Once::wait`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops.
    pub fn wait_interruptible(&self) -> Result<(), Interrupted> {
        self.wait_within(false, &Limits::INTERRUPTIBLE)
    }

    /// As [`Once::wait_force`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking
    /// As [`Once::wait`].
    ///
    /// # Errors
    /// As [`Once::wait_interruptible`].
    pub fn wait_force_interruptible(&self) -> Result<(), Interrupted> {
        self.wait_within(true, &Limits::INTERRUPTIBLE)
    }

    fn wait_within(&self, force: bool, limits: &Limits) -> Result<(), Interrupted> {
        while !self.is_completed() {
            let mut poisoned = false;
            let ready = |_: &mut Inner<Runner, ()>| match self.word.load(Relaxed) {
                COMPLETE => Join::No,
                POISONED if !force => {
                    poisoned = true;
                    Join::No
                }
                _ => Join::Back,
            };
            let (outcome, ()) = self.wait_in_turn("once", limits, (), ready, || ());
            assert!(!poisoned, "the initialiser has panicked: the Once is poisoned");
            if outcome != Outcome::Woken {
                return Err(Interrupted);
            }
        }
        Ok(())
    }

    #[cold]
    fn call(&self, force: bool, f: impl FnOnce(&OnceState)) {
        loop {
            let mut seen = RUNNING;
            let mut itself = false;
            let ready = |inner: &mut Inner<Runner, ()>| {
                seen = self.word.load(Acquire);
                match seen {
                    RUNNING => {
                        itself = std::ptr::eq(inner.state.0, park::current());
                        return if itself { Join::No } else { Join::Back };
                    }
                    INCOMPLETE => self.word.store(RUNNING, Relaxed),
                    POISONED if force => self.word.store(RUNNING, Relaxed),
                    _ => return Join::No,
                }
                inner.state = Runner(park::current());
                Join::No
            };
            let _ = self.wait_in_turn("once", &Limits::TO_THE_END, (), ready, || ());
            assert!(!itself, "an initialiser waits for itself");
            match seen {
                COMPLETE => return,
                RUNNING => {}
                POISONED if !force => panic!("the initialiser has panicked: the Once is poisoned"),
                before => {
                    let mut running = Running {
                        once: self,
                        before,
                        end: None,
                        in_destructor: super::is_stopping(),
                    };
                    let state =
                        OnceState { poisoned: before == POISONED, end: Cell::new(COMPLETE) };
                    f(&state);
                    running.end = Some(state.end.get());
                    return;
                }
            }
        }
    }
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Value {
        once: Once,
        value: UnsafeCell<u32>,
    }

    // SAFETY: the protocol of `Once`, which loom checks here.
    unsafe impl Sync for Value {}

    impl Value {
        fn new() -> Arc<Value> {
            Arc::new(Value { once: Once::new(), value: UnsafeCell::new(0) })
        }

        fn get(&self) -> u32 {
            // SAFETY: one initialiser runs.
            self.once.call_once(|| self.value.with_mut(|value| unsafe { *value += 1 }));
            self.read()
        }

        fn read(&self) -> u32 {
            // SAFETY: it is written no more.
            self.value.with(|value| unsafe { *value })
        }
    }

    #[test]
    fn one_initialiser_runs_and_all_see_what_it_did() {
        loom::model(|| {
            let value = Value::new();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let value = value.clone();
                    thread::spawn(move || value.get())
                })
                .collect();
            assert_eq!(value.get(), 1);
            others.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), 1));
        });
    }

    #[test]
    fn after_one_that_gives_up_the_next_one_runs() {
        loom::model(|| {
            let value = Value::new();
            let other = {
                let value = value.clone();
                thread::spawn(move || value.once.call_once_force(OnceState::give_up))
            };
            let waiter = {
                let value = value.clone();
                thread::spawn(move || {
                    value.once.wait();
                    value.read()
                })
            };
            assert_eq!(value.get(), 1);
            other.join().unwrap();
            assert_eq!(waiter.join().unwrap(), 1);
        });
    }
}
