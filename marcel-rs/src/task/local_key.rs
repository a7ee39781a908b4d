//! Green-thread-local values: `std::thread_local!`'s habits, one value for each green thread.
//!
//! A key is a number, given at its first use; a thread's control block has a small vector of slots that the number
//! indexes. So an access is: the running thread's block, a bounds check, a load.
//!
//! ```text
//!   slot:  empty ──first access──▶ address of the value ──thread's end──▶ GONE ──block's next user──▶ empty
//! ```
//!
//! Each value has a heap block of its own, so that it stays where it is while the vector grows (an initialiser may
//! use other keys). These blocks are linked, newest first, which is the order in which they are destroyed: as in
//! `std`, a value may use in its destructor whatever was there when it was made, and values that destructors make
//! are destroyed next. A key whose value is gone is not made again in that thread, so this ends.
//!
//! Kernel threads have control blocks as well and are served in the same way.
//!
//! The lookup is one function that is not inlined: with free migration a thread goes on on another kernel thread,
//! and a caller must not keep the address of the first one's thread-locals in a register. The value's own address
//! belongs to the green thread and may be kept.
//!
//! Rejected: a hash map keyed by the key's address (five times slower); values inside the vector (they would move);
//! fixed slots in the block (every block would pay for the keys of every library).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::sched::here;
use crate::task::park;
use crate::tcb::locals::{self, Header};

/// The slot of the calling thread for key `index`.
#[inline(never)]
fn lookup(index: usize) -> *mut Header {
    park::current().own.locals.get(index)
}

/// Destroys the calling thread's values; see [`Locals::destroy`].
#[inline(never)]
pub(crate) fn destroy() {
    park::current().own.locals.destroy();
}

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A key of green-thread-local values; declared by [`crate::thread_local!`].
///
/// Each thread has a value of its own, made at the thread's first access and destroyed at its end, by the thread
/// itself, before the thread that joins it goes on. Values are destroyed in the reverse order of their making, also
/// when a thread panics or is unwound because its runtime stops. A destructor may use other keys, and make their
/// values; a key whose value is gone gives an [`AccessError`]. A destructor's panic ends that destructor only.
///
/// On a kernel thread outside a runtime the value is the kernel thread's. There the destructors run with those of
/// `std`'s thread-locals, as far as the system runs these (not for the main thread, as a rule).
///
/// `std`'s own thread-locals are shared by all the green threads of a virtual processor.
pub struct LocalKey<T: 'static> {
    /// 0 before the first use.
    index: AtomicU32,
    init: fn() -> T,
}

// SAFETY: the values are per thread, what is shared is an atomic and a function.
unsafe impl<T> Sync for LocalKey<T> {}

/// The value has been destroyed, or is being, or the thread is too near to its end to have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the green-thread-local value is already destroyed")
    }
}

impl std::error::Error for AccessError {}

#[cold]
#[track_caller]
fn gone(error: AccessError) -> ! {
    panic!("marcel::LocalKey: {error}; in destructors, use try_with")
}

impl<T: 'static> LocalKey<T> {
    /// For [`crate::thread_local!`].
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        LocalKey { index: AtomicU32::new(0), init }
    }

    #[inline]
    fn index(&self) -> usize {
        match self.index.load(Relaxed) {
            0 => self.number(),
            index => index as usize - 1,
        }
    }

    #[cold]
    fn number(&self) -> usize {
        let fresh = NEXT.fetch_add(1, Relaxed);
        assert!(fresh != 0, "four thousand million keys");
        // Another thread may be faster: then a number is lost.
        let index = match self.index.compare_exchange(0, fresh, Relaxed, Relaxed) {
            Ok(_) => fresh,
            Err(theirs) => theirs,
        };
        index as usize - 1
    }

    /// The calling thread's value, made by `init` at the first access.
    #[inline]
    fn value(&'static self, init: impl FnOnce() -> T) -> Result<*const T, AccessError> {
        let mut slot = lookup(self.index());
        if slot.is_null() {
            let value = init();
            slot = park::current().own.locals.put(self.index(), value);
        }
        // SAFETY: this key's slot, which has a value by now.
        unsafe { locals::value(slot) }.ok_or(AccessError)
    }

    /// Calls `f` with the calling thread's value.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path. `f` may wait: the value stays this thread's.
    ///
    /// # Errors
    /// The value has been destroyed, since the thread ends.
    #[inline]
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let value = self.value(self.init)?;
        // SAFETY: the value lives until this thread destroys it, which it does not while it runs `f`.
        Ok(f(unsafe { &*value }))
    }

    /// Calls `f` with the calling thread's value, if the thread has made one and has not destroyed it.
    ///
    /// # Context
    /// Green and kernel threads, signal handlers too: makes no value and allocates nothing.
    pub fn if_made<R>(&'static self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let index = self.index.load(Relaxed).checked_sub(1)?;
        let slot = here::tcb()?.own.locals.get(index as usize);
        if slot.is_null() {
            return None;
        }
        // SAFETY: this key's slot. The value lives while its thread, which is here, runs `f`.
        unsafe { locals::value::<T>(slot) }.map(|value| f(unsafe { &*value }))
    }

    /// As [`LocalKey::try_with`].
    ///
    /// # Panics
    /// Where that gives an error.
    #[inline]
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f).unwrap_or_else(|error| gone(error))
    }

    /// Gives the thread `value` if it has none (without the key's initialiser), else calls `f` with it.
    #[track_caller]
    fn put<V>(&'static self, value: V, make: fn(V) -> T, f: impl FnOnce(&T, V)) {
        let mut value = Some(value);
        // The initialiser takes the value; when it did not run, the value is still here.
        let at = self.value(|| match value.take() {
            Some(value) => make(value),
            None => (self.init)(),
        });
        match (at, value) {
            (Err(error), _) => gone(error),
            // SAFETY: as in `try_with`.
            (Ok(at), Some(value)) => f(unsafe { &*at }, value),
            (Ok(_), None) => {}
        }
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets the value; the initialiser does not run.
    ///
    /// # Panics
    /// When the value has been destroyed.
    #[track_caller]
    pub fn set(&'static self, value: T) {
        self.put(value, Cell::new, Cell::set);
    }

    /// A copy of the value.
    ///
    /// # Panics
    /// When the value has been destroyed.
    #[inline]
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes the value, leaving the default one.
    ///
    /// # Panics
    /// When the value has been destroyed.
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Replaces the value, and returns the old one.
    ///
    /// # Panics
    /// When the value has been destroyed.
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Calls `f` with the value borrowed. `f` may wait: no other thread borrows this thread's value.
    ///
    /// # Panics
    /// When the value has been destroyed, or is borrowed mutably.
    #[track_caller]
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Calls `f` with the value borrowed mutably.
    ///
    /// # Panics
    /// When the value has been destroyed, or is borrowed.
    #[track_caller]
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets the value; the initialiser does not run.
    ///
    /// # Panics
    /// When the value has been destroyed, or is borrowed.
    #[track_caller]
    pub fn set(&'static self, value: T) {
        self.put(value, RefCell::new, |cell, value| *cell.borrow_mut() = value);
    }

    /// Takes the value, leaving the default one.
    ///
    /// # Panics
    /// When the value has been destroyed, or is borrowed.
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Replaces the value, and returns the old one.
    ///
    /// # Panics
    /// When the value has been destroyed, or is borrowed.
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalKey")
    }
}

/// Declares keys of green-thread-local values, as `std`'s macro does for kernel threads; see [`LocalKey`].
///
/// ```
/// use std::cell::Cell;
///
/// marcel::thread_local! {
///     static CALLS: Cell<u32> = const { Cell::new(0) };
///     static NAME: String = format!("made for {:?}", marcel::current());
/// }
///
/// let runtime = marcel::Runtime::builder().vps(1).build()?;
/// runtime.run(|| {
///     CALLS.set(7);
///     let other = marcel::spawn(|| CALLS.get()).join().unwrap();
///     assert_eq!((CALLS.get(), other), (7, 0));
///     assert!(NAME.with(|name| name.starts_with("made")));
/// });
/// # Ok::<(), marcel::Error>(())
/// ```
#[macro_export]
macro_rules! thread_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::LocalKey<$t> = {
            const INIT: $t = $init;
            fn init() -> $t {
                INIT
            }
            $crate::LocalKey::new(init)
        };
        $($crate::thread_local!($($rest)*);)?
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::LocalKey<$t> = {
            fn init() -> $t {
                $init
            }
            $crate::LocalKey::new(init)
        };
        $($crate::thread_local!($($rest)*);)?
    };
}
