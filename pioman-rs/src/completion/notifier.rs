//! A file descriptor that becomes readable when something completes: for programs with an event loop of their own.
//!
//! ```text
//!   QUIET ──arm──▶ ARMED ──notify: one write──▶ RUNG ──arm: drained──▶ ARMED
//!
//!   event loop   arm; look at the requests; nothing there: poll(2), epoll_wait(2) … on the descriptor
//!   notifier     publish (the completion is complete); ARMED? then RUNG, and write
//! ```
//!
//! Both sides do a read-modify-write on the word between what they publish and what they look at, so one of the two
//! sees the other: no event is lost between the look and the sleep. Until the descriptor is armed again nothing is
//! written: a burst rings once, and a thread that does not sleep pays for no system call.
//!
//! Rejected: a counter of events that each completion adds to (a system call for each).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

use rustix::event::{EventfdFlags, eventfd};

use crate::completion::bell::Bell;
use crate::completion::node::{After, Node};
use crate::completion::waitable::{Enlist, Waitable};

struct Inner {
    bell: Bell,
    fd: OwnedFd,
}

impl Inner {
    fn ring(&self) {
        if self.bell.notify() {
            let one = 1u64.to_ne_bytes();
            // SAFETY: eight readable bytes. The counter cannot be full: it is emptied before each arming.
            unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }
}

/// See the module's description: arm, look, and only then sleep.
///
/// ```
/// use pioman::{Completion, Notifier};
/// use std::os::fd::{AsFd, AsRawFd};
///
/// let notifier = Notifier::new()?;
/// let done = Completion::new();
/// let _watched = notifier.watch(&done);
/// # std::thread::scope(|s| { s.spawn(|| done.complete());
/// loop {
///     notifier.arm();
///     if done.is_done() {
///         break;
///     }
///     let mut poll =
///         libc::pollfd { fd: notifier.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
///     // The program's other descriptors would be beside it.
///     unsafe { libc::poll(&mut poll, 1, -1) };
/// }
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Notifier(Arc<Inner>);

impl Notifier {
    /// Not armed, nothing watched.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn new() -> io::Result<Notifier> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Notifier(Arc::new(Inner { bell: Bell::new(), fd })))
    }

    /// From now on the next event makes the descriptor readable; it is not so any more for earlier ones. Look at
    /// your requests after this and before you sleep. At most one thread at a time.
    ///
    /// # Blocking
    /// Does not. A system call, but the first time.
    pub fn arm(&self) {
        if self.0.bell.is_used() {
            // A write that is still to come makes it readable for nothing until the next arming.
            let _ = rustix::io::read(&self.0.fd, &mut [0; 8]);
        }
        self.0.bell.arm();
    }

    /// Makes the descriptor readable if it is armed.
    ///
    /// # Context
    /// Anywhere, the tick's handler included.
    ///
    /// # Wakes
    /// The threads that sleep on the descriptor.
    pub fn notify(&self) {
        self.0.ring();
    }

    /// Has it notified, once, when `what` is there; at once, if it is there already. A permit is the watcher's.
    /// Dropping what this returns ends that.
    ///
    /// # Context
    /// Not the progress path (it allocates).
    pub fn watch<'a>(&self, what: impl Into<Waitable<'a>>) -> Watched<'a> {
        let what = what.into();
        let watcher = Arc::new(Watcher {
            node: Watcher::node(),
            inner: self.0.clone(),
            fired: AtomicBool::new(false),
        });
        // SAFETY: in an `Arc`, until it has left or was fired.
        if !unsafe { what.enlist(NonNull::from(&*watcher).cast()) } {
            watcher.fired.store(true, Release);
            self.notify();
        }
        Watched { what, watcher }
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Notifier").field(&self.0.fd.as_raw_fd()).finish()
    }
}

#[repr(C)]
struct Watcher {
    node: Node,
    inner: Arc<Inner>,
    fired: AtomicBool,
}

impl Watcher {
    fn node() -> Node {
        unsafe fn fire(node: *const Node) -> After {
            // SAFETY: the first field of a watcher, which stays until it is fired.
            let watcher = unsafe { &*node.cast::<Watcher>() };
            watcher.inner.ring();
            watcher.fired.store(true, Release); // the last touch
            None
        }
        // SAFETY: atomics and a write to an eventfd, which does not block.
        unsafe { Node::new(fire) }
    }
}

/// Something that a [`Notifier`] watches, until this is dropped.
#[must_use = "dropped at once, it is watched no more"]
pub struct Watched<'a> {
    what: Waitable<'a>,
    watcher: Arc<Watcher>,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let watcher = &*self.watcher;
        self.what.leave_or_fired(&watcher.node, || watcher.fired.load(Acquire));
    }
}

impl std::fmt::Debug for Watched<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watched").field(&self.what).finish()
    }
}
