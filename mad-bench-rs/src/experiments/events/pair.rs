//! The two sides: the page that they share, and the raiser of the events.

use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::*;

use marcel::topology::bind_current_thread;

use crate::clock::now_ns;
use crate::experiments::detect::Dice;
use crate::experiments::events::mechanism::Mechanism;
use crate::experiments::events::page::Page;

/// How long after the receiver was ready an event comes at the earliest, and how much later it may be: falling asleep
/// takes some microseconds.
const GAP_NS: u64 = 20_000;
const GAP_MORE_NS: u64 = 20_000;

/// A page that children of this process share.
struct Shared(NonNull<Page>);

// SAFETY: a page of atomics.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Result<Shared, String> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever the kernel wants it.
        let memory = unsafe { libc::mmap(null_mut(), size_of::<Page>(), access, kind, -1, 0) };
        match NonNull::new(memory).filter(|_| memory != libc::MAP_FAILED) {
            Some(page) => Ok(Shared(page.cast())),
            None => Err(format!("shared memory: {}", std::io::Error::last_os_error())),
        }
    }
}

impl Deref for Shared {
    type Target = Page;
    fn deref(&self) -> &Page {
        // SAFETY: mapped until it is dropped, aligned to a page, and fresh memory is a valid value: zeros.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; no borrow of it is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Page>()) };
    }
}

/// Nanoseconds from event to receiver, `count` times after `warm_up` that are not kept. The caller receives; the
/// raiser is another thread or process, on core `core`.
///
/// # Blocking
/// The calling kernel thread, which also polls for some of the mechanisms.
///
/// # Errors
/// What the kernel refuses to either side.
pub(super) fn measure(
    mechanism: Mechanism,
    processes: bool,
    core: usize,
    warm_up: u64,
    count: u64,
) -> Result<Vec<f64>, String> {
    let page = Shared::new()?;
    // SAFETY: take no pointers.
    let me = unsafe { [libc::getpid(), libc::gettid()] };
    let events = warm_up + count;
    // The receiver would hear nothing any more: its process ends, too.
    let raise = || {
        if let Err(why) = raise(&mechanism, &page, me, core, events) {
            crate::out::complain(&format!("the raiser of events: {why}"));
            // SAFETY: takes no pointers.
            unsafe { libc::kill(me[0], libc::SIGTERM) };
        }
    };
    if processes {
        let child = Child::start(raise)?;
        let samples = receive(&mechanism, &page, events)?;
        child.end()?;
        return Ok(samples.into_iter().skip(warm_up as usize).collect());
    }
    std::thread::scope(|scope| {
        let raiser = std::thread::Builder::new().name("raiser".into()).spawn_scoped(scope, raise);
        let raiser = raiser.map_err(|e| format!("starting a kernel thread: {e}"))?;
        let samples = receive(&mechanism, &page, events)?;
        raiser.join().map_err(|_| "the raiser panicked".to_string())?;
        Ok(samples.into_iter().skip(warm_up as usize).collect())
    })
}

fn receive(mechanism: &Mechanism, page: &Page, events: u64) -> Result<Vec<f64>, String> {
    let mut samples = Vec::with_capacity(events as usize);
    for event in 1..=events {
        page.ready.store(event, Release);
        let at = mechanism.wait(page)?;
        // Noted before the event was raised, whatever told of that: the kernel, or the flag's release.
        samples.push(at.saturating_sub(page.raised.load(Acquire)) as f64);
    }
    Ok(samples)
}

fn raise(
    mechanism: &Mechanism,
    page: &Page,
    to: [i32; 2],
    core: usize,
    events: u64,
) -> Result<(), String> {
    bind_current_thread(core).map_err(|e| format!("binding to core {core}: {e}"))?;
    let mut dice = Dice::new();
    for event in 1..=events {
        while page.ready.load(Acquire) < event {
            std::hint::spin_loop();
        }
        let due = now_ns() + GAP_NS + dice.below(GAP_MORE_NS);
        while now_ns() < due {
            std::hint::spin_loop();
        }
        page.raised.store(now_ns(), Release);
        mechanism.raise(page, to)?;
    }
    Ok(())
}

/// A process that raises. It dies with this one; when this is dropped it is killed.
struct Child(i32);

impl Child {
    /// Forks: workers of this bench have one kernel thread, so the child may do what it likes.
    fn start(raise: impl FnOnce()) -> Result<Child, String> {
        // SAFETY: no other thread of this process holds a lock, since there is none.
        match unsafe { libc::fork() } {
            -1 => Err(format!("fork: {}", std::io::Error::last_os_error())),
            0 => {
                // SAFETY: takes no pointers. The parent's destructors are not the child's: it leaves by `_exit`.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
                raise();
                // SAFETY: takes no pointers.
                unsafe { libc::_exit(0) }
            }
            child => Ok(Child(child)),
        }
    }

    /// Waits for its end.
    fn end(self) -> Result<(), String> {
        let mut status = 0;
        // SAFETY: a child of ours that was not waited for; the status is writable.
        let ended = unsafe { libc::waitpid(self.0, &mut status, 0) } == self.0;
        std::mem::forget(self);
        match ended && status == 0 {
            true => Ok(()),
            false => Err(format!("the process that raises events ended with status {status:#x}")),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of ours that was not waited for; a null status is allowed.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, null_mut(), 0);
        }
    }
}
