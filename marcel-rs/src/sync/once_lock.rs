//! A cell that is written once.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::Interrupted;
use super::once::Once;
use crate::os::const_unless_modelled;

/// A cell that is written once and then only read, by green and kernel threads in any mixture.
///
/// There is no poisoning: an initialiser that panics leaves the cell empty, and the next one runs.
///
/// ```
/// use marcel::sync::OnceLock;
///
/// static NAME: OnceLock<String> = OnceLock::new();
/// assert_eq!(NAME.get_or_init(|| "marcel".into()), "marcel");
/// assert_eq!(NAME.set("pm2".into()), Err("pm2".into()));
/// ```
pub struct OnceLock<T> {
    once: Once,
    /// Initialised when `once` is completed.
    value: UnsafeCell<MaybeUninit<T>>,
    /// It owns a value.
    _owns: PhantomData<T>,
}

// SAFETY: the value may be written by one thread and read, and dropped, by others.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T: std::panic::RefUnwindSafe + std::panic::UnwindSafe> std::panic::RefUnwindSafe
    for OnceLock<T>
{
}

impl<T> OnceLock<T> {
    const_unless_modelled! {
        /// An empty cell.
        pub fn new() -> Self {
            OnceLock {
                once: Once::new(),
                value: UnsafeCell::new(MaybeUninit::uninit()),
                _owns: PhantomData,
            }
        }
    }

    /// Returns the value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it is initialised and written no more.
        self.once.is_completed().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Returns the value, if there is one.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`.
        self.once.is_completed().then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Waits until the value is set.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread.
    ///
    /// # Panics
    /// In a destructor that runs because the runtime stops, when there is no value: use
    /// [`wait_interruptible`](OnceLock::wait_interruptible) there.
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.get().expect("no value will come: the runtime stops")
    }

    /// As [`OnceLock::wait`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking
    /// As [`OnceLock::wait`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops.
    pub fn wait_interruptible(&self) -> Result<&T, Interrupted> {
        self.once.wait_force_interruptible()?;
        self.get().ok_or(Interrupted)
    }

    /// Sets the value, unless there is one.
    ///
    /// # Blocking
    /// As [`OnceLock::get_or_init`].
    ///
    /// # Errors
    /// The cell has a value already. The error is `value`.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_try_init::<()>(|| value.take().ok_or(())).ok();
        match value {
            None => Ok(()),
            Some(value) => Err(value),
        }
    }

    /// Returns the value, and initialises it with `f` first if the cell is empty.
    ///
    /// One initialiser runs, however many threads call this.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread, while another thread's initialiser runs.
    ///
    /// # Wakes
    /// All threads that wait for the value.
    ///
    /// # Panics
    /// `f` panics, or asks for the value itself.
    #[inline]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        match self.get_or_try_init(|| Ok::<T, std::convert::Infallible>(f())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// As [`OnceLock::get_or_init`]; an initialiser that fails leaves the cell empty.
    ///
    /// # Context, Blocking, Wakes, Panics
    /// As [`OnceLock::get_or_init`].
    ///
    /// # Errors
    /// The errors of `f`.
    pub fn get_or_try_init<E>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let mut error = None;
        self.once.call_once_force(|state| match f() {
            // SAFETY: one initialiser runs at a time, and no thread reads before its end.
            Ok(value) => unsafe { *self.value.get() = MaybeUninit::new(value) },
            Err(failed) => {
                error = Some(failed);
                state.give_up();
            }
        });
        match error {
            Some(error) => Err(error),
            None => Ok(self.get().expect("an initialiser has run to its end")),
        }
    }

    /// As [`OnceLock::get_or_init`]; after an initialiser that has panicked this panics, too.
    pub(super) fn init_or_poison(&self, f: impl FnOnce() -> T) -> &T {
        // SAFETY: as in `get_or_try_init`.
        self.once.call_once(|| unsafe { *self.value.get() = MaybeUninit::new(f()) });
        self.get().expect("an initialiser has run to its end")
    }

    /// Consumes the cell and returns its value.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value and leaves the cell empty.
    pub fn take(&mut self) -> Option<T> {
        let full = self.once.is_completed();
        self.once = Once::new();
        // SAFETY: it was initialised, and counts as empty from now on.
        full.then(|| unsafe { self.value.get_mut().assume_init_read() })
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        self.take();
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = Self::new();
        let _ = cell.set(value);
        cell
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().map_or_else(Self::new, |value| Self::from(value.clone()))
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceLock").field(value).finish(),
            None => f.write_str("OnceLock(<uninit>)"),
        }
    }
}
