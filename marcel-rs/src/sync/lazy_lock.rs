//! A value that is initialised at the first access.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

use super::once_lock::OnceLock;
use crate::os::const_unless_modelled;

/// A value that its initialiser makes at the first access, for green and kernel threads in any mixture.
///
/// # Panics of the initialiser
/// As with `std::sync::LazyLock`: it poisons the value, and every access from then on panics. An initialiser that a stopping
/// runtime unwinds is gone as well, and there is no second one: the same, where a [`Once`](super::Once) would run the next
/// closure. Let a value that outlives runtimes be made by an initialiser that does not wait.
///
/// ```
/// use marcel::sync::LazyLock;
///
/// static TABLE: LazyLock<Vec<u32>> = LazyLock::new(|| (0..10).map(|n| n * n).collect());
/// assert_eq!(TABLE[3], 9);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    initialiser: Cell<Option<F>>,
}

// SAFETY: the initialiser is taken by the one thread that `value` lets run it; the rest is `Sync` as `OnceLock` is.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}

impl<T: std::panic::UnwindSafe, F: std::panic::UnwindSafe> std::panic::RefUnwindSafe
    for LazyLock<T, F>
{
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    const_unless_modelled! {
        /// A value that `initialiser` makes at the first access.
        pub fn new(initialiser: F) -> Self {
            LazyLock {
                value: OnceLock::new(),
                initialiser: Cell::new(Some(initialiser)),
            }
        }
    }

    /// Returns the value, and initialises it first if necessary.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread, while another thread runs the initialiser.
    ///
    /// # Panics
    /// The initialiser panics, has panicked or was unwound by a runtime that stopped, or accesses the value itself.
    #[inline]
    pub fn force(this: &Self) -> &T {
        match this.value.get() {
            Some(value) => value,
            None => this.make(),
        }
    }

    #[cold]
    fn make(&self) -> &T {
        self.value.init_or_poison(|| {
            let initialiser = self.initialiser.take().expect("unwound by a runtime that stopped");
            initialiser()
        })
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.get() {
            Some(value) => f.debug_tuple("LazyLock").field(value).finish(),
            None => f.write_str("LazyLock(<uninit>)"),
        }
    }
}
