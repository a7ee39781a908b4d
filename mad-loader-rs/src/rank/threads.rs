//! The number of kernel threads of a rank.

use marcel::sync::{Condvar, Mutex};

/// Counts threads; a thread may wait until there is none.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    count: Mutex<usize>,
    none: Condvar,
}

impl Threads {
    pub(crate) fn add(&self) {
        *self.lock() += 1;
    }

    pub(crate) fn remove(&self) {
        let mut count = self.lock();
        *count -= 1;
        if *count == 0 {
            self.none.notify_all();
        }
    }

    /// Waits until the count is zero. A green thread waits alone.
    pub(crate) fn wait(&self) {
        let mut count = self.lock();
        while *count > 0 {
            count = self.none.wait(count);
        }
    }

    fn lock(&self) -> marcel::sync::MutexGuard<'_, usize> {
        self.count.lock()
    }
}
