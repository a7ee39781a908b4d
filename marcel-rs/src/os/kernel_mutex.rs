//! A mutex for data that only short sections touch: it blocks the kernel thread, and so every green thread of a virtual
//! processor. [`crate::sync::Mutex`] is the one for sections that wait.
//!
//! A panic of the holder does not poison it: every section leaves the data whole.

/// See the module.
#[derive(Debug, Default)]
pub struct KernelMutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> KernelMutex<T> {
    /// A mutex over `value`.
    pub const fn new(value: T) -> Self {
        KernelMutex(std::sync::Mutex::new(value))
    }

    /// The value, without the mutex.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T: ?Sized> KernelMutex<T> {
    /// Waits for the mutex.
    #[inline]
    pub fn lock(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<std::sync::MutexGuard<'_, T>> {
        use std::sync::TryLockError::*;
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(Poisoned(error)) => Some(error.into_inner()),
            Err(WouldBlock) => None,
        }
    }

    /// The value, which no other thread can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The same for a model checker, whose mutexes are made at run time.
#[cfg(loom)]
#[derive(Debug)]
pub struct ModelMutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> ModelMutex<T> {
    pub fn new(value: T) -> Self {
        ModelMutex(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
