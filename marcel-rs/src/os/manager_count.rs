//! A count that each kernel thread has of its own, for the I/O manager, which has no word of its own in `words`. It begins
//! with 0.
//!
//! # Context
//! Anywhere, signal handlers included. A handler leaves the count as it was.

use super::words::{self, MANAGER};

/// The calling kernel thread's count.
#[inline(always)]
pub fn get() -> usize {
    words::get::<MANAGER>().addr()
}

/// One more.
#[inline(always)]
pub fn increase() {
    words::add::<MANAGER>(1);
}

/// One less.
#[inline(always)]
pub fn decrease() {
    words::add::<MANAGER>(-1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_thread_counts_for_itself() {
        increase();
        increase();
        let other = std::thread::spawn(|| {
            let first = get();
            increase();
            (first, get())
        });
        assert_eq!(other.join().unwrap(), (0, 1));
        decrease();
        assert_eq!(get(), 1);
        decrease();
        assert_eq!(get(), 0);
    }
}
