//! What the protocols of this crate ask of the machine: atomics, a futex, an eventfd. Or loom's model of them
//! (`--cfg loom`), so that what the model checker runs is the code itself.

#[cfg(not(loom))]
pub(crate) mod alt_stack;
pub(crate) mod clock;
pub(crate) mod kernel_mutex;
#[cfg(not(loom))]
pub(crate) mod manager_count;
#[cfg(not(loom))]
pub(crate) mod memory;
pub(crate) mod signal;
pub(crate) mod sleeper;
#[cfg(not(loom))]
pub(crate) mod slot;
#[cfg(not(loom))]
pub(crate) mod stderr;
#[cfg(not(loom))]
pub(crate) mod this_thread;
#[cfg(not(loom))]
pub(crate) mod words;

#[cfg(not(loom))]
pub(crate) mod uintr;
#[cfg(target_arch = "x86_64")]
pub(crate) mod user_interrupts;

pub use kernel_mutex::KernelMutex;
#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;

/// A `const fn`, except for the model checker, whose atomics are made at run time.
macro_rules! const_unless_modelled {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])*
        $visibility const fn $($rest)*
        #[cfg(loom)]
        $(#[$attribute])*
        $visibility fn $($rest)*
    };
}
pub(crate) use const_unless_modelled;

/// Waits for the end of a kernel thread, unless the caller is that thread.
pub(crate) fn join_another(thread: JoinHandle<()>) {
    if thread.thread().id() != current_thread() {
        let _ = thread.join();
    }
}

#[cfg(not(loom))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use std::thread::{JoinHandle, yield_now};
    use std::time::Duration;

    pub(crate) use super::KernelMutex as Mutex;

    /// A cell whose accesses loom checks when a model runs.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// A word that a kernel thread can sleep on.
    #[derive(Debug)]
    pub(crate) struct Futex(AtomicU32);

    impl Futex {
        pub(crate) const fn new(value: u32) -> Futex {
            Futex(AtomicU32::new(value))
        }

        #[inline]
        pub(crate) fn word(&self) -> &AtomicU32 {
            &self.0
        }

        /// Sleeps while the word is `value`, at most for `timeout`. May return early.
        pub(crate) fn wait(&self, value: u32, timeout: Option<Duration>) {
            let timespec = timeout.map(|t| libc::timespec {
                tv_sec: t.as_secs().min(i64::MAX as u64) as i64,
                tv_nsec: t.subsec_nanos() as i64,
            });
            let pointer =
                timespec.as_ref().map_or(std::ptr::null(), |t| t as *const libc::timespec);
            // SAFETY: the word outlives the call; `pointer` is null or a valid timespec.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.0.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    value,
                    pointer,
                );
            }
        }

        /// Wakes one thread that sleeps on the word.
        pub(crate) fn wake(&self) {
            // SAFETY: the kernel uses the address as a key and does not read it.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.0.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                );
            }
        }
    }

    /// Makes an eventfd readable.
    pub(crate) fn kick(fd: i32) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is eight readable bytes. A full counter (EAGAIN) means it is readable already.
        unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
    }

    /// Identity of the calling kernel thread.
    pub(crate) fn current_thread() -> std::thread::ThreadId {
        std::thread::current().id()
    }

    /// Eventfds without a sleeper. They are not closed: a notifier may be about to write to one, and
    /// its number must not be another file's by then.
    static SPARE: Mutex<Vec<i32>> = Mutex::new(Vec::new());

    /// An eventfd, which does not block.
    pub(crate) fn eventfd() -> i32 {
        let spare = SPARE.lock().pop();
        // SAFETY: eventfd takes no pointers.
        spare.unwrap_or_else(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
    }

    /// Gives an eventfd back that is in no epoll set. A late notifier wakes its next user for nothing.
    pub(crate) fn spare_eventfd(fd: i32) {
        let mut count = 0u64.to_ne_bytes();
        // SAFETY: eight writable bytes. Nothing to read is as good.
        unsafe { libc::read(fd, count.as_mut_ptr().cast(), count.len()) };
        SPARE.lock().push(fd);
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    use loom::sync::Condvar;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use loom::thread::{JoinHandle, yield_now};
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    pub(crate) use super::kernel_mutex::ModelMutex as Mutex;

    /// As the kernel does it: the sleeper looks at the word and joins the queue under one lock.
    #[derive(Debug)]
    pub(crate) struct Futex {
        word: AtomicU32,
        kernel: Mutex<()>,
        queue: Condvar,
    }

    impl Futex {
        pub(crate) fn new(value: u32) -> Futex {
            Futex { word: AtomicU32::new(value), kernel: Mutex::new(()), queue: Condvar::new() }
        }

        pub(crate) fn word(&self) -> &AtomicU32 {
            &self.word
        }

        pub(crate) fn wait(&self, value: u32, _: Option<Duration>) {
            let kernel = self.kernel.lock();
            if self.word.load(Relaxed) == value {
                drop(self.queue.wait(kernel).unwrap());
            }
        }

        pub(crate) fn wake(&self) {
            drop(self.kernel.lock());
            self.queue.notify_one();
        }
    }

    loom::lazy_static! {
        /// The only eventfd of a model.
        static ref EVENTFD: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    }
    const FD: i32 = 3;

    pub(crate) fn kick(fd: i32) {
        assert_eq!(fd, FD, "a write to a descriptor that does not exist");
        *EVENTFD.0.lock() = true;
        EVENTFD.1.notify_one();
    }

    pub(crate) fn current_thread() -> loom::thread::ThreadId {
        loom::thread::current().id()
    }

    pub(crate) fn eventfd() -> i32 {
        FD
    }

    pub(crate) fn spare_eventfd(_: i32) {}

    /// Sleeps until the eventfd is readable, and drains it.
    #[cfg(test)]
    pub(crate) fn drain_eventfd() {
        let mut readable = EVENTFD.0.lock();
        while !*readable {
            readable = EVENTFD.1.wait(readable).unwrap();
        }
        *readable = false;
    }
}
