//! Sources of events that this bench brings along, as a library on top of the manager would: plain users of
//! [`Source`], with one request at a time.
//!
//! `eventfd`: looking costs a system call. `shm`: looking costs a load; the raiser of the event rings a bell only if
//! a waiter sleeps (`arm`), or interrupts a virtual processor that computes (`arm_interrupt`), as drivers over shared
//! memory do.

use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use marcel::plumbing::SignalTarget;
use pioman::{Completion, Hint, Hints, Manager, Policy, Source, SourceHandle, policy};

use crate::experiments::detect::kernel::EventFd;
use crate::experiments::detect::library;
use crate::experiments::detect::stage::Stage;
use crate::harness::worker::WorkResult;

/// The one request of a source: the thread that takes its completion out completes it.
struct Request(AtomicPtr<Completion>);

impl Request {
    fn new() -> Request {
        Request(AtomicPtr::new(null_mut()))
    }

    #[inline]
    fn pending(&self) -> bool {
        !self.0.load(Relaxed).is_null()
    }

    /// The event has come. Progress path.
    fn complete(&self) -> bool {
        let completion = self.0.swap(null_mut(), AcqRel);
        // SAFETY: `wait` keeps it alive until it is complete or taken back.
        let Some(completion) = (unsafe { completion.as_ref() }) else { return false };
        completion.complete();
        true
    }
}

/// Looks for the event and says how it is waited for.
trait Look: Source {
    fn request(&self) -> &Request;
    fn ring(&self);
}

/// An event descriptor.
struct Descriptor {
    fd: EventFd,
    request: Request,
}

// SAFETY: atomics and one system call that does not block (the tick saves `errno`).
unsafe impl Source for Descriptor {
    fn name(&self) -> &str {
        "eventfd"
    }
    fn poll(&self) -> bool {
        self.request.pending() && self.fd.take() && self.request.complete()
    }
    fn pending(&self) -> bool {
        self.request.pending()
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.raw())
    }
    fn arm(&self) -> bool {
        true // readable until the event is taken
    }
    fn disarm(&self) {}
}

impl Look for Descriptor {
    fn request(&self) -> &Request {
        &self.request
    }
    fn ring(&self) {
        self.fd.ring();
    }
}

/// A word in memory with a bell.
struct Word {
    word: AtomicU32,
    /// Whether the raiser is to ring.
    armed: AtomicBool,
    /// Whom it signals instead; 0: nobody.
    target: AtomicU64,
    bell: EventFd,
    request: Request,
}

// SAFETY: atomics and one system call that does not block (the tick saves `errno`).
unsafe impl Source for Word {
    fn name(&self) -> &str {
        "shm"
    }
    fn poll(&self) -> bool {
        let here = self.request.pending()
            && self.word.load(Acquire) != 0
            && self.word.swap(0, SeqCst) != 0;
        here && {
            self.disarm();
            self.request.complete()
        }
    }
    fn pending(&self) -> bool {
        self.request.pending()
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.bell.raw())
    }
    fn can_interrupt(&self) -> bool {
        true
    }
    fn arm_interrupt(&self, target: SignalTarget) -> bool {
        self.target.store(target.to_word(), SeqCst);
        self.armed.store(true, SeqCst);
        self.word.load(SeqCst) == 0
    }
    fn arm(&self) -> bool {
        self.target.store(0, SeqCst);
        // An old ring is taken out before the look at the word: a new one comes after the word.
        self.bell.take();
        self.armed.store(true, SeqCst);
        self.word.load(SeqCst) == 0
    }
    fn disarm(&self) {
        if self.armed.load(Relaxed) && self.armed.swap(false, SeqCst) {
            self.bell.take();
        }
    }
}

impl Look for Word {
    fn request(&self) -> &Request {
        &self.request
    }
    fn ring(&self) {
        self.word.store(1, SeqCst);
        if self.armed.load(SeqCst) {
            match self.target.swap(0, SeqCst) {
                0 => self.bell.ring(),
                word => {
                    self.armed.store(false, SeqCst);
                    SignalTarget::from_word(word).signal();
                }
            }
        }
    }
}

/// A registered source and the wait for its event.
struct Waited<S: Look> {
    source: Arc<S>,
    manager: Arc<Manager>,
    handle: SourceHandle,
}

impl<S: Look + 'static> Waited<S> {
    fn register(source: S, method: &str, manager: &Arc<Manager>) -> WorkResult<Arc<dyn Stage>> {
        let source = Arc::new(source);
        let handle = manager.add_source(source.clone())?;
        if let Some(policy) = policy_of(method) {
            handle.set_policy(policy)?;
        }
        Ok(Arc::new(Waited { source, manager: manager.clone(), handle }))
    }
}

impl<S: Look> Stage for Waited<S> {
    fn raise(&self) {
        self.source.ring();
    }

    fn wait(&self, _: u64) -> Result<(), String> {
        let completion = Completion::new();
        let request = &self.source.request().0;
        request.store((&raw const completion).cast_mut(), SeqCst);
        let hints = Hints::new(Hint::Short).on(self.handle.id());
        // A wait may end by unwinding (a runtime that stops): the pointer must not outlive it.
        let _back = TakenBack { request, completion: &completion };
        // Without a time-out, as nearly every wait: the kernel's timers cost something of their own.
        self.manager.wait(&completion, hints);
        Ok(())
    }
}

/// Takes the completion out when it is dropped, or waits for the thread that has taken it.
struct TakenBack<'a> {
    request: &'a AtomicPtr<Completion>,
    completion: &'a Completion,
}

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        if self.request.swap(null_mut(), SeqCst).is_null() {
            while !self.completion.is_done() {
                std::hint::spin_loop();
            }
        }
    }
}

/// The policy that looks for events by this method and no other; none for `auto`: that of the process.
fn policy_of(method: &str) -> Option<Arc<dyn Policy>> {
    policy::by_name(match method {
        "poll" => "always-poll",
        "block" => "always-block",
        "tick" => "timer-only",
        "dedicated" => "dedicated",
        "interrupt" => "interrupt",
        _ => return None,
    })
}

/// Names of these sources.
pub(crate) const NAMES: [&str; 2] = ["shm", "eventfd"];

/// The stage whose waiter asks the manager for an event of this source, one of those here or in [`library`]; the method
/// counts for those here.
///
/// # Errors
/// What the manager or the kernel refuses.
pub(crate) fn stage(
    source: &str,
    method: &str,
    manager: &Arc<Manager>,
) -> WorkResult<Arc<dyn Stage>> {
    match source {
        "eventfd" => Waited::register(
            Descriptor { fd: EventFd::new(false)?, request: Request::new() },
            method,
            manager,
        ),
        "shm" => Waited::register(
            Word {
                word: AtomicU32::new(0),
                armed: AtomicBool::new(false),
                target: AtomicU64::new(0),
                bell: EventFd::new(false)?,
                request: Request::new(),
            },
            method,
            manager,
        ),
        other => Ok(library::stage(other).ok_or_else(|| format!("there is no source {other}"))??),
    }
}
