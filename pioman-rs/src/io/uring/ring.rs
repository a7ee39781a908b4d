//! The ring: see the module above.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

use io_uring::{IoUring, Probe, opcode, squeue::Entry};
use marcel::plumbing::Spin;
use marcel::sync::Semaphore;

use super::call::Call;
use super::slot::Slot;
use crate::fork::Birth;
use crate::manager::Manager;
use crate::progress::policy::hints::{Hint, Hints};
use crate::progress::source::Source;
use crate::progress::source::SourceId;
use crate::stderr::say;

/// Places of the submission queue; it is emptied at once.
const SUBMISSIONS: u32 = 256;
/// Places of the completion queue, the most that the kernel grants.
const COMPLETIONS: [u32; 3] = [4096, 1024, 256];
/// Completions that one look takes at most.
const BATCH: usize = 256;
/// Marks the entry of a cancellation; slots are aligned.
const CANCELLATION: u64 = 1;

/// How [`crate::fs`] makes calls that block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileEngine {
    /// By `io_uring`.
    Uring {
        /// Most operations in flight.
        most: usize,
        /// Operations that this kernel lacks; they go to the pool.
        lacks: Vec<&'static str>,
    },
    /// By kernel threads that block ([`marcel::blocking()`]).
    Pool {
        /// Why there is no ring.
        why: String,
    },
}

/// See the module's description.
pub(crate) struct Uring {
    ring: ManuallyDrop<IoUring>,
    /// A thread pushes an entry.
    pushing: Spin<()>,
    /// A thread reads completions.
    polling: Spin<()>,
    /// Entries of the completion queue that are still to come.
    in_flight: AtomicUsize,
    /// Operations that may begin of calls that wait for their ends: a permit comes back by itself.
    permits: Semaphore,
    /// Transfers that may begin: a permit comes back when their owner drops them.
    transfers: Semaphore,
    most: usize,
    /// Operations that the kernel knows, a bit each.
    known: u64,
    /// Its name in the registry, once it is there.
    id: OnceLock<SourceId>,
    birth: Birth,
}

impl Uring {
    fn new() -> io::Result<Uring> {
        let build = |completions| {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_cqsize(completions).build(SUBMISSIONS.min(completions / 2))
        };
        let mut ring = build(COMPLETIONS[0]);
        for &completions in &COMPLETIONS[1..] {
            // Locked memory counts the rings of old kernels.
            if ring.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ENOMEM)) {
                ring = build(completions);
            }
        }
        let ring = ring?;
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_rw_cur_pos() {
            return Err(io::Error::other("the kernel is too old (5.6 is needed)"));
        }
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let known = (0..64).filter(|&code| probe.is_supported(code));
        let mut known = known.fold(0, |mask, code| mask | 1u64 << code);
        if known & 1 << opcode::AsyncCancel::CODE == 0 {
            return Err(io::Error::other("the kernel cannot cancel operations"));
        }
        let most = ring.params().cq_entries() as usize / 2;
        // A call that waits on one of the kernel's workers (a FIFO is opened) holds it. By default there are four a core:
        // as many readers' opens would keep the writers' from ever beginning. The pool has no such limit.
        let mut workers = [most as u32, 0];
        if ring.submitter().register_iowq_max_workers(&mut workers).is_err() {
            known &= !(1 << opcode::OpenAt::CODE); // before Linux 5.15
        }
        Ok(Uring {
            ring: ManuallyDrop::new(ring),
            pushing: Spin::new(()),
            polling: Spin::new(()),
            in_flight: AtomicUsize::new(0),
            permits: Semaphore::new(most - most / 2),
            transfers: Semaphore::new(most / 2),
            most,
            known,
            id: OnceLock::new(),
            birth: Birth::here(),
        })
    }

    pub(crate) fn knows(&self, call: &Call) -> bool {
        self.known & 1 << call.code() != 0
    }

    /// For a wait for one of its operations.
    pub(crate) fn hints(&self, hint: Hint) -> Hints {
        self.id.get().map_or(Hints::new(hint), |&id| Hints::new(hint).on(id))
    }

    /// For calls whose thread waits for their end.
    pub(crate) fn permits(&self) -> &Semaphore {
        &self.permits
    }

    /// For transfers.
    pub(crate) fn transfers(&self) -> &Semaphore {
        &self.transfers
    }

    /// Whether this process is a child of the one that has made the ring.
    fn is_inherited(&self) -> bool {
        !self.birth.is_here()
    }

    /// That its operations end in this process.
    ///
    /// # Errors
    /// It is a child of the one that has made the ring.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.birth.check()
    }

    /// Begins an operation; `slot` is complete when it has ended.
    ///
    /// # Safety
    /// The caller holds a permit, of either kind. `slot` is fresh; it, and what `call` refers to, stay in place until it is complete.
    pub(crate) unsafe fn submit(&self, call: &Call, slot: &Slot) {
        let address = slot as *const Slot as u64;
        // SAFETY: the caller's promise.
        unsafe { self.push(&call.entry().user_data(address)) };
    }

    /// Asks the kernel to give an operation up. It ends all the same, sooner perhaps; `slot` is complete then. In a
    /// child of fork it is the parent's operation, and goes on.
    ///
    /// # Safety
    /// `slot` has been submitted here, and is in place.
    pub(crate) unsafe fn cancel(&self, slot: &Slot) {
        if !self.is_inherited() && slot.ask_to_cancel() {
            let address = slot as *const Slot as u64;
            let entry = opcode::AsyncCancel::new(address).build();
            // SAFETY: the slot waits for this entry too.
            unsafe { self.push(&entry.user_data(address | CANCELLATION)) };
        }
    }

    /// # Safety
    /// What the entry refers to stays in place until its completion has come. There is room for that.
    unsafe fn push(&self, entry: &Entry) {
        self.in_flight.fetch_add(1, SeqCst);
        loop {
            // SAFETY: no other thread pushes; the caller's promise.
            let pushed =
                self.pushing.with(|()| unsafe { self.ring.submission_shared().push(entry) });
            self.enter();
            if pushed.is_ok() {
                return;
            }
        }
    }

    /// Hands over whatever has been pushed: each pusher enters once at least, and each entering takes one at least.
    fn enter(&self) {
        let mut said = false;
        loop {
            // SAFETY: no argument.
            let entered =
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(SUBMISSIONS, 0, 0, None) };
            let Err(error) = entered else { return };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::EBUSY) => {
                    self.poll();
                    std::thread::yield_now();
                }
                // Forbidden since the ring was made (seccomp)? The entry is in the ring, and its memory in use.
                _ => {
                    if !std::mem::replace(&mut said, true) {
                        say(format_args!(
                            "pioman: io_uring_enter: {error}; trying again (PIOM_URING=0 does without)"
                        ));
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
        }
    }

    /// Takes completions. The caller has `polling`.
    fn take(&self) -> usize {
        let mut taken = 0;
        // SAFETY: no other thread reads completions.
        let mut queue = unsafe { self.ring.completion_shared() };
        while taken < BATCH
            && let Some(entry) = queue.next()
        {
            taken += 1;
            let data = entry.user_data();
            let slot = (data & !CANCELLATION) as *const Slot;
            // SAFETY: in place until its last entry has come, the submitter's promise.
            unsafe { &*slot }.ended((data & CANCELLATION == 0).then_some(entry.result()));
        }
        taken
    }
}

// SAFETY: atomics, and loads of the shared ring by the holder of `polling`; nothing is allocated, and nothing waits.
unsafe impl Source for Uring {
    fn name(&self) -> &str {
        "io_uring"
    }

    fn poll(&self) -> bool {
        if !self.pending() {
            return false;
        }
        let taken = self.polling.try_with(|()| self.take()).unwrap_or(0);
        if taken > 0 {
            self.in_flight.fetch_sub(taken, SeqCst);
        }
        taken > 0
    }

    fn pending(&self) -> bool {
        self.in_flight.load(Relaxed) > 0 && !self.is_inherited()
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.ring.as_raw_fd())
    }

    /// The descriptor is readable while there are completions: nothing has to be asked for.
    fn arm(&self) -> bool {
        // SAFETY: no other thread reads completions.
        let is_empty = |_: &mut ()| unsafe { self.ring.completion_shared() }.is_empty();
        // (If another thread takes them right now, the caller looks again.)
        !self.pending() || self.polling.try_with(is_empty).unwrap_or(false)
    }

    fn disarm(&self) {}
}

impl Drop for Uring {
    fn drop(&mut self) {
        if !self.is_inherited() {
            // SAFETY: not used again. (In a child of fork other mappings may have its addresses.)
            unsafe { ManuallyDrop::drop(&mut self.ring) };
        }
    }
}

/// A manager's ring, or why it has none.
struct RingOrWhy(Result<Arc<Uring>, String>);

impl Manager {
    /// The manager's ring; `None` where there is none.
    pub(crate) fn uring(&self) -> Option<&Arc<Uring>> {
        self.uring_or_why().as_ref().ok().filter(|ring| !ring.is_inherited())
    }

    fn uring_or_why(&self) -> &Result<Arc<Uring>, String> {
        static TOO_MANY: Result<Arc<Uring>, String> = Err(String::new());
        let made = self.own_sources.get(|| Ok(RingOrWhy(self.make_uring())));
        made.map_or(&TOO_MANY, |made| &made.0)
    }

    fn make_uring(&self) -> Result<Arc<Uring>, String> {
        if !self.wants_uring {
            return Err("not wanted (PIOM_URING=0)".into());
        }
        let ring = Uring::new().map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSYS) => format!("the kernel has no io_uring: {error}"),
            Some(libc::EPERM | libc::EACCES) => format!("io_uring is forbidden here: {error}"),
            _ => format!("io_uring: {error}"),
        })?;
        let ring = Arc::new(ring);
        let id = self.add_builtin(ring.clone()).map_err(|error| format!("io_uring: {error}"))?;
        let _ = ring.id.set(id);
        Ok(ring)
    }

    /// How [`crate::fs`] makes calls that block, for green threads that this manager serves.
    ///
    /// # Context
    /// Not the progress path: the first call makes the ring.
    pub fn file_engine(&self) -> FileEngine {
        match self.uring_or_why() {
            Ok(ring) if ring.is_inherited() => {
                FileEngine::Pool { why: "the ring is that of the parent process".into() }
            }
            Ok(ring) => {
                let lacks = Call::NEEDED.iter().filter(|(code, _)| ring.known & 1 << code == 0);
                FileEngine::Uring { most: ring.most, lacks: lacks.map(|&(_, name)| name).collect() }
            }
            Err(why) => FileEngine::Pool { why: why.clone() },
        }
    }
}
