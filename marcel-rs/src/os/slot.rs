//! A small number for each kernel thread, its *slot*, and counters that one kernel thread writes at a time.
//!
//! Code that counts something for each kernel thread (polls, pins, records of a trace) has an array with an element per
//! slot instead of a shared word, whose every change costs an atomic read-modify-write (6 ns here) and a line that
//! wanders between cores. A slot is claimed at the first call, and given back when the kernel thread ends; its next
//! owner goes on counting where the last one stopped, which it sees: claim and return are acquire and release.
//!
//! A [`Counter`] is changed by one instruction without a lock prefix where there is such a thing. So a signal handler
//! that interrupts its thread comes before or after a change, and none is lost; and it costs what a plain addition
//! does. Elsewhere it is a read-modify-write.
//!
//! All of it may be called in signal handlers, hence no destructor of a Rust thread-local (whose registration
//! allocates) but a key of pthread's: the C library keeps the first 32 of them in the thread's own block. With a later
//! key, or when all slots are taken, there are none to be had, and callers have a shared element to fall back on.
//!
//! Rejected: the number of the virtual processor (plain kernel threads wait and poll as well); the processor number of
//! `rseq` (a thread may be moved between reading it and counting).

use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Once, OnceLock};

use crate::os::signal::AllBlocked;
use crate::os::this_thread;
use crate::os::words::{self, SLOT};

/// How many kernel threads may have a slot at a time.
pub const SLOTS: usize = 128;

/// Keys from this one on may have to allocate.
const KEYS: u32 = 32;
/// There is no key.
const NONE: u32 = u32::MAX;

static KEY: AtomicU32 = AtomicU32::new(NONE);
static TAKEN: [AtomicU64; SLOTS / 64] = [const { AtomicU64::new(0) }; SLOTS / 64];

/// One more than the calling kernel thread's slot; 0: it has none.
#[inline(always)]
fn own() -> usize {
    words::get::<SLOT>().addr()
}

/// Makes slots available; until then no thread has one. Runtimes and I/O managers call it when they are built.
///
/// # Context
/// Not a signal handler.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut key = 0;
        // SAFETY: a valid place for the key, and a destructor with the C calling convention.
        if unsafe { libc::pthread_key_create(&mut key, Some(give_back)) } == 0 && key < KEYS {
            KEY.store(key, Release);
        }
    });
}

/// The calling kernel thread's slot, less than [`SLOTS`]; `None` if there is none for it.
///
/// # Context
/// Anywhere, signal handlers included. What is done with the answer on a green thread is done before that can switch.
#[inline]
pub fn current() -> Option<usize> {
    match own() {
        0 => claim(),
        slot => Some(slot - 1),
    }
}

/// The kernel's number of the thread that has slot `slot`, or had it last, and its virtual processor, if it is one: the
/// index, with the highest bit set for a reactive one.
pub fn owner(slot: usize) -> (u32, Option<u32>) {
    let owner = last_owner(slot);
    (owner.tid, owner.vp.checked_sub(1))
}

/// What is known of the kernel thread that has a slot, or had it last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// The kernel's number.
    pub(crate) tid: u32,
    /// One more than the number of its virtual processor; 0 if it is none.
    pub(crate) vp: u32,
    /// Its name, up to sixteen bytes.
    pub(crate) name: [u64; 2],
}

struct OwnerWords {
    tid: AtomicU32,
    vp: AtomicU32,
    name: [AtomicU64; 2],
}

static OWNERS: [OwnerWords; SLOTS] = [const {
    OwnerWords {
        tid: AtomicU32::new(0),
        vp: AtomicU32::new(0),
        name: [const { AtomicU64::new(0) }; 2],
    }
}; SLOTS];

/// Called by each kernel thread that gets a slot.
static ON_CLAIM: OnceLock<fn(Owner)> = OnceLock::new();

/// Has `tell` called by each kernel thread that gets a slot from now on, in signal handlers too. One caller has its
/// way.
pub(crate) fn on_claim(tell: fn(Owner)) {
    ON_CLAIM.get_or_init(|| tell);
}

/// Notes what the calling kernel thread, which has `slot`, is now.
pub(crate) fn set_owner(slot: usize) -> Owner {
    let mut name = [0u8; 16];
    // SAFETY: gettid has no arguments; sixteen writable bytes.
    let tid = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        libc::gettid()
    } as u32;
    let name = u128::from_le_bytes(name);
    let owner =
        Owner { tid, vp: this_thread::vp_number(), name: [name as u64, (name >> 64) as u64] };
    let words = &OWNERS[slot];
    words.tid.store(owner.tid, Relaxed);
    words.vp.store(owner.vp, Relaxed);
    words.name[0].store(owner.name[0], Relaxed);
    words.name[1].store(owner.name[1], Relaxed);
    owner
}

/// The kernel thread that has `slot`, or had it last.
pub(crate) fn last_owner(slot: usize) -> Owner {
    let words = &OWNERS[slot];
    Owner {
        tid: words.tid.load(Relaxed),
        vp: words.vp.load(Relaxed),
        name: [words.name[0].load(Relaxed), words.name[1].load(Relaxed)],
    }
}

#[cold]
fn claim() -> Option<usize> {
    let key = KEY.load(Acquire);
    if key == NONE {
        return None;
    }
    // A handler in between might claim another slot, which would never be given back.
    let _blocked = AllBlocked::new();
    let claimed = own();
    if claimed != 0 {
        return Some(claimed - 1);
    }
    let slot = TAKEN.iter().enumerate().find_map(|(at, word)| {
        let free = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let before = word.fetch_update(AcqRel, Acquire, free).ok()?;
        Some(at * 64 + before.trailing_ones() as usize)
    })?;
    // SAFETY: a key of ours; its value only has to be other than null.
    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(slot + 1)) };
    words::set::<SLOT>(without_provenance_mut(slot + 1));
    let owner = set_owner(slot);
    if let Some(tell) = ON_CLAIM.get() {
        tell(owner);
    }
    Some(slot)
}

/// The kernel thread ends. (Should another key's destructor ask for a slot after this, it is called once more.)
extern "C" fn give_back(value: *mut libc::c_void) {
    let slot = value.addr() - 1;
    words::set::<SLOT>(null_mut());
    TAKEN[slot / 64].fetch_and(!(1 << (slot % 64)), Release);
}

/// A counter that one kernel thread changes at a time, with the signal handlers that interrupt it. Others may read it.
/// (If two kernel threads change it at once a change may be lost, and nothing worse.)
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`; what its thread did before is visible to the thread that [gets](Counter::get) the new value.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri), not(sanitized)))]
        // SAFETY: the address of an `AtomicU64`; for other threads this is a relaxed load and a releasing store, as
        // all stores are on x86-64. Without `nomem` the compiler moves no access across it.
        unsafe {
            std::arch::asm!("add qword ptr [{}], {}", in(reg) self.0.as_ptr(), in(reg) n, options(nostack));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri), not(sanitized))))]
        self.0.fetch_add(n, Release);
    }

    /// As [`Counter::add`], and returns what it was before.
    #[inline(always)]
    pub fn take(&self, n: u64) -> u64 {
        #[cfg(all(target_arch = "x86_64", not(miri), not(sanitized)))]
        // SAFETY: as in `add`.
        unsafe {
            let before: u64;
            std::arch::asm!("xadd qword ptr [{}], {}", in(reg) self.0.as_ptr(), inout(reg) n => before, options(nostack));
            before
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri), not(sanitized))))]
        self.0.fetch_add(n, Release)
    }

    /// Adds `n` to a counter that several threads change.
    #[inline]
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Release);
    }

    /// Makes it zero, while no thread changes it.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    /// Its value; what was done before its last change is visible then.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::signal;
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn each_kernel_thread_has_its_own_and_gives_it_back() {
        prepare();
        for _ in 0..20 {
            let all = Mutex::new(HashSet::new());
            let barrier = Barrier::new(16);
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        let slot = current().unwrap();
                        assert_eq!(current(), Some(slot));
                        assert!(all.lock().unwrap().insert(slot), "two have slot {slot}");
                        barrier.wait(); // all are alive together
                    });
                }
            });
        }
        // 320 threads have come and gone: more than there are slots.
        let (tx, rx) = std::sync::mpsc::channel();
        std::thread::spawn(move || tx.send(current()).unwrap()).join().unwrap();
        assert!(rx.recv().unwrap().is_some());
    }

    /// The signal handler counts while its thread counts; nothing is lost.
    #[test]
    fn a_handler_s_changes_and_those_it_interrupts_are_all_counted() {
        static COUNTER: Counter = Counter::new();
        static TICKETS: Counter = Counter::new();
        static HANDLED: AtomicU64 = AtomicU64::new(0);
        extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            COUNTER.add(1);
            TICKETS.take(1);
            HANDLED.fetch_add(1, Relaxed);
        }
        // SAFETY: the handler only adds.
        unsafe { signal::handle(libc::SIGRTMIN() + 9, handler) }.unwrap();
        // SAFETY: no arguments.
        let me = unsafe { libc::pthread_self() };
        let stop = std::sync::atomic::AtomicBool::new(false);
        let mut own = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2000 {
                    // SAFETY: the thread lives: it is the one that joins us.
                    unsafe { libc::pthread_kill(me, libc::SIGRTMIN() + 9) };
                    std::hint::spin_loop();
                }
                stop.store(true, Release);
            });
            while !stop.load(Acquire) {
                for _ in 0..1000 {
                    COUNTER.add(1);
                    assert!(TICKETS.take(1) >= own);
                    own += 1;
                }
            }
        });
        let handled = HANDLED.load(Relaxed);
        assert!(handled > 0);
        assert_eq!(COUNTER.get(), own + handled);
        assert_eq!(TICKETS.get(), own + handled);
    }
}
