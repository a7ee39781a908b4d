//! A [`DelegationLock`](super::delegation::DelegationLock) that one kernel thread may have for nothing: *biased
//! locking*.
//!
//! A lock that one kernel thread uses costs it two atomic read-modify-writes (6 ns each here) for nothing. So the lock
//! can be *biased* to a kernel thread: its owner enters and leaves with plain loads and stores, and says so in a flag
//! of its own. Any other thread *revokes* the bias, and the lock is the usual one. When the same kernel thread has then
//! come often enough in a row it gets the bias again; after every revocation it takes twice as often.
//!
//! ```text
//!   owner                                        another kernel thread
//!   enter:  inside = true                        1. word: BIASED -> HELD | REVOKED (a compare-exchange)
//!           (light fence)                        2. (heavy fence)
//!           word still BIASED to me? it is ours  3. inside? the lock is left to the owner: done, without it
//!   leave:  inside = false                          else it is ours, if we clear REVOKED
//!           (light fence)
//!           word still BIASED to me? done
//!           REVOKED? it is ours, if we clear it
//! ```
//!
//! * One of the two fences comes first. So if the owner is inside, or about to find out, the other sees its flag; if
//!   not, the owner sees `REVOKED`, at its entry or when it leaves. A revoked lock is held by the thread that clears
//!   `REVOKED`: exactly one does, and it runs what others have delegated meanwhile, as any holder. No thread waits.
//! * The light fence is one for the compiler, the heavy one `membarrier(2)`, as in `srcu`. Where the kernel refuses it,
//!   no thread gets a bias.
//! * Signal handlers of the owner see its flag: they leave their work, and the owner finds it when it leaves.
//! * A bias is given while no thread is between 1 and 3: so each thread clears the `REVOKED` of its own revocation.
//! * Kernel threads are told apart by their [`marcel::plumbing::slot`]; each has a flag of its own, so what a former
//!   owner does late does not matter. A thread without a slot gets no bias. A guard may be dropped by another kernel
//!   thread.
//!
//! What the model below shows is the protocol with real fences. Rejected: no lock at all, trusting the program (a
//! session is sound for any safe caller, and kernel threads of the I/O manager come, too); to wait until the owner has
//! left (the progress path blocks on nothing); a thread's number in the flag instead of a flag for each (two owners,
//! one after the other, overwrite each other's).

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crossbeam_utils::CachePadded;

use crate::shim::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, UnsafeCell};
use crate::srcu::SLOTS;
use crate::sync::delegation::Delegated;

const HELD: u64 = 1 << 63;
const BIASED: u64 = 1 << 62;
const REVOKED: u64 = 1 << 61;
const SHIFT: u32 = 48;
const SLOT: u64 = 0xff << SHIFT;
/// The holder, if any, is the thread that the bias names or named.
const OWNED: u64 = BIASED | REVOKED;
/// What others leave.
const LEFT: u64 = (1 << SHIFT) - 1;

/// How often in a row the same kernel thread comes before it gets the bias again: about what a revocation costs.
#[cfg(not(loom))]
const FIRST: u32 = 1024;
#[cfg(loom)]
const FIRST: u32 = 1;
/// The same after many revocations.
const MOST: u32 = FIRST << 10;

/// See the module's description.
pub struct BiasedLock<T: Delegated> {
    /// Alone on its cache lines: what is read before the lock is taken, here and in what the lock is a part of, does not wander
    /// with it from core to core.
    word: CachePadded<AtomicU64>,
    /// Biases are given.
    biasing: AtomicBool,
    /// The last holder, by slot, and how often in a row; written by holders.
    last: AtomicU32,
    row: AtomicU32,
    /// How often in a row is enough.
    needed: AtomicU32,
    revocations: AtomicU64,
    /// Kernel threads that are revoking a bias.
    revoking: AtomicU32,
    /// By slot: the kernel thread is in the lock, as its owner, or about to find out.
    inside: [AtomicBool; SLOTS],
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the holder only.
unsafe impl<T: Delegated + Send> Sync for BiasedLock<T> {}
// SAFETY: as above.
unsafe impl<T: Delegated + Send> Send for BiasedLock<T> {}

impl<T: Delegated> BiasedLock<T> {
    /// A free lock, without a bias.
    pub fn new(value: T) -> Self {
        BiasedLock {
            word: CachePadded::new(AtomicU64::new(0)),
            biasing: AtomicBool::new(false),
            last: AtomicU32::new(u32::MAX),
            row: AtomicU32::new(0),
            needed: AtomicU32::new(0),
            revocations: AtomicU64::new(0),
            revoking: AtomicU32::new(0),
            inside: std::array::from_fn(|_| AtomicBool::new(false)),
            value: UnsafeCell::new(value),
        }
    }

    /// Whether a kernel thread may get a bias: at once the next one that comes, and after a revocation one that comes
    /// often in a row. False, and nothing is changed, if it is wanted and the kernel refuses `membarrier`.
    pub fn set_biasing(&self, on: bool) -> bool {
        if on && !fences::are_to_be_had() {
            return false;
        }
        self.needed.store(0, Relaxed);
        // A bias that there is ends when the next one comes, the owner included.
        self.biasing.store(on, Relaxed);
        true
    }

    /// Whether a kernel thread may get a bias.
    pub fn is_biasing(&self) -> bool {
        self.biasing.load(Relaxed)
    }

    /// How often a bias was taken away.
    pub fn revocations(&self) -> u64 {
        self.revocations.load(Relaxed)
    }

    /// The lock, if it is free. Dropping the guard does what others have left meanwhile, then unlocks.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        if self.biasing.load(Relaxed) {
            return self.enter_mine();
        }
        match self.word.compare_exchange(0, HELD, Acquire, Relaxed) {
            Ok(_) => Some(self.guard()),
            Err(seen) if seen & OWNED == 0 => None,
            Err(_) => self.take(0),
        }
    }

    /// Has `T::run_delegated(bits)` done: here and now if the lock is free (true), else by the holder before it
    /// unlocks (false). The top 16 bits are reserved.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn delegate(&self, bits: u64) -> bool {
        debug_assert!(bits & !LEFT == 0 && bits != 0);
        if let Some(slot) = self.own_bias() {
            if let Some(mut guard) = self.enter(slot) {
                guard.run_delegated(bits);
                return true;
            }
            // We have interrupted the owner; unless it has lost the bias, it looks when it leaves.
            let add = |word: u64| (word & !LEFT == biased_to(slot)).then_some(word | bits);
            if self.inside[slot].load(Relaxed)
                && self.word.fetch_update(AcqRel, Relaxed, add).is_ok()
            {
                return false;
            }
        }
        self.take(bits).is_some()
    }

    /// Whether a thread holds the lock right now, or a bias.
    pub fn is_held(&self) -> bool {
        self.word.load(Relaxed) & (HELD | BIASED) != 0
    }

    #[inline]
    fn guard(&self) -> BiasedGuard<'_, T> {
        BiasedGuard { lock: self, _not_send: PhantomData }
    }

    #[inline]
    fn is_biased_to(&self, slot: usize) -> bool {
        self.word.load(Acquire) & !LEFT == biased_to(slot)
    }

    /// The calling kernel thread's slot, if the lock is biased to it.
    #[inline]
    fn own_bias(&self) -> Option<usize> {
        let seen = self.word.load(Acquire);
        if seen & BIASED == 0 {
            return None;
        }
        own_slot().filter(|&slot| seen & !LEFT == biased_to(slot))
    }

    /// For its owner, which got the bias just now.
    #[inline]
    fn enter(&self, slot: usize) -> Option<BiasedGuard<'_, T>> {
        if self.inside[slot].load(Acquire) {
            return None;
        }
        self.inside[slot].store(true, Relaxed);
        fences::light();
        if self.is_biased_to(slot) {
            return Some(self.guard());
        }
        self.go_out(slot);
        self.claim(slot).or_else(|| self.take(0))
    }

    /// A look at the word after this shows whether the bias was taken away while the owner was inside.
    #[inline]
    fn go_out(&self, slot: usize) {
        self.inside[slot].store(false, Release);
        fences::light();
    }

    /// The lock whose bias was taken from `slot`, if no other thread has it. Its owner must be outside.
    #[cold]
    #[inline(never)]
    fn claim(&self, slot: usize) -> Option<BiasedGuard<'_, T>> {
        let revoked = REVOKED | (slot as u64) << SHIFT;
        let clear = |word| (word & (REVOKED | SLOT) == revoked).then_some(word & !(REVOKED | SLOT));
        self.word.fetch_update(AcqRel, Acquire, clear).ok().map(|_| self.guard())
    }

    /// Out of line, so that the usual lock is as short as it was where it is taken.
    #[inline(never)]
    fn enter_mine(&self) -> Option<BiasedGuard<'_, T>> {
        match self.own_bias() {
            Some(slot) => self.enter(slot),
            None => self.take(0),
        }
    }

    /// Takes the lock without a bias, and with it, or in any case, leaves `bits`.
    #[cold]
    #[inline(never)]
    fn take(&self, bits: u64) -> Option<BiasedGuard<'_, T>> {
        let mut seen = self.word.load(Relaxed);
        loop {
            let owner = ((seen & SLOT) >> SHIFT) as usize;
            let biased = seen & BIASED != 0;
            let next = match biased {
                true => seen & !BIASED | HELD | REVOKED | bits,
                false => seen | HELD | bits,
            };
            if biased {
                self.revoking.fetch_add(1, AcqRel);
            }
            let swapped = self.word.compare_exchange(seen, next, AcqRel, Relaxed);
            if biased {
                let guard = swapped.ok().and_then(|_| self.revoke(owner));
                self.revoking.fetch_sub(1, Release);
                if swapped.is_ok() {
                    return guard;
                }
            }
            match swapped {
                Err(now) => seen = now,
                Ok(_) if seen & HELD == 0 => return Some(self.guard()),
                // Left to us when we were inside, or because the kernel has refused the heavy fence.
                Ok(_) if seen & REVOKED != 0 && own_slot() == Some(owner) => {
                    let outside = !self.inside[owner].load(Relaxed);
                    return if outside { self.claim(owner) } else { None };
                }
                Ok(_) => return None,
            }
        }
    }

    fn revoke(&self, owner: usize) -> Option<BiasedGuard<'_, T>> {
        self.revocations.fetch_add(1, Relaxed);
        let needed = self.needed.load(Relaxed);
        self.needed.store((needed * 2).clamp(FIRST, MOST), Relaxed);
        let outside = fences::heavy() && !self.inside[owner].load(Acquire);
        if outside { self.claim(owner) } else { None }
    }

    /// The holder leaves, in whichever way it came.
    #[inline(never)]
    fn go(&self) {
        let seen = self.word.load(Relaxed);
        if seen & OWNED != 0 {
            // Only its owner is in a lock that is biased, or was and is not claimed.
            let slot = ((seen & SLOT) >> SHIFT) as usize;
            self.go_out(slot);
            if self.word.load(Acquire) != biased_to(slot) {
                self.see_to_it(slot);
            }
        } else {
            self.leave_usual();
        }
    }

    /// Does what others have left; then it is free, or biased.
    #[cold]
    #[inline(never)]
    fn leave_usual(&self) {
        let next = self.next_owner().map_or(0, biased_to);
        while self.word.compare_exchange(HELD, next, AcqRel, Relaxed).is_err() {
            let bits = self.word.fetch_and(HELD, AcqRel) & !HELD;
            // Not to be dropped: that is what goes on here.
            ManuallyDrop::new(self.guard()).run_delegated(bits);
        }
    }

    /// The thread that gets the bias from the holder that leaves.
    fn next_owner(&self) -> Option<usize> {
        let slot = own_slot().filter(|_| self.biasing.load(Relaxed))?;
        let again = self.last.load(Relaxed) == slot as u32;
        let row = if again { self.row.load(Relaxed).saturating_add(1) } else { 0 };
        self.last.store(slot as u32, Relaxed);
        self.row.store(row, Relaxed);
        // The thread that revoked an earlier bias may still be about to clear `REVOKED`.
        let ours = row >= self.needed.load(Relaxed) && self.revoking.load(Acquire) == 0;
        ours.then_some(slot)
    }

    /// The owner has left, and the word is not what it was.
    #[cold]
    #[inline(never)]
    fn see_to_it(&self, slot: usize) {
        if self.claim(slot).is_some() {
            return;
        }
        // Or signal handlers have left something.
        loop {
            let word = self.word.load(Acquire);
            if word & BIASED == 0 || word & LEFT == 0 {
                return;
            }
            let Some(mut guard) = self.try_lock() else { return };
            let bits = self.word.fetch_and(!LEFT, AcqRel) & LEFT;
            if bits != 0 {
                guard.run_delegated(bits);
            }
        }
    }
}

#[inline]
fn biased_to(slot: usize) -> u64 {
    BIASED | (slot as u64) << SHIFT
}

#[cfg(not(loom))]
use marcel::plumbing::slot::current as own_slot;
#[cfg(loom)]
use model::own_slot;

impl<T: Delegated> std::fmt::Debug for BiasedLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BiasedLock")
    }
}

/// Access to the value of a [`BiasedLock`]. How it is held is in the lock, so that this is one word, which stays in a
/// register.
///
/// Stays with the thread that has it, and is not shared: the value may be `Send` without being `Sync`.
/// ```compile_fail
/// # fn f<T: pioman::plumbing::Delegated + Send>(guard: &pioman::plumbing::BiasedGuard<'_, T>) {
/// fn shared<T: Sync>(_: T) {}
/// shared(guard);
/// # }
/// ```
pub struct BiasedGuard<'a, T: Delegated> {
    lock: &'a BiasedLock<T>,
    _not_send: PhantomData<*mut T>,
}

impl<T: Delegated> BiasedGuard<'_, T> {
    /// Whether others have left work since the lock was taken: a holder that only looks around had better let go.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.lock.word.load(Relaxed) & (LEFT | REVOKED) != 0
    }

    #[inline]
    fn pointer(&self) -> *mut T {
        #[cfg(loom)]
        return self.lock.value.with_mut(|p| p);
        #[cfg(not(loom))]
        self.lock.value.get()
    }
}

impl<T: Delegated> Deref for BiasedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.pointer() }
    }
}

impl<T: Delegated> DerefMut for BiasedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, the borrow exclusive.
        unsafe { &mut *self.pointer() }
    }
}

impl<T: Delegated> std::fmt::Debug for BiasedGuard<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BiasedGuard")
    }
}

impl<T: Delegated> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let lock = self.lock;
        if lock.biasing.load(Relaxed)
            || lock.word.compare_exchange(HELD, 0, AcqRel, Relaxed).is_err()
        {
            lock.go();
        }
    }
}

/// One of two threads passes a light one, the other a heavy one: then one of the two came first.
#[cfg(not(loom))]
mod fences {
    use crate::srcu::barrier;
    use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

    pub(super) fn are_to_be_had() -> bool {
        barrier::is_to_be_had()
    }

    #[inline(always)]
    pub(super) fn light() {
        compiler_fence(SeqCst);
    }

    /// False: the kernel has withdrawn its promise, and the answer is not known.
    pub(super) fn heavy() -> bool {
        barrier::all_threads()
    }
}
#[cfg(loom)]
mod fences {
    use crate::shim::{Ordering::SeqCst, fence};

    pub(super) fn are_to_be_had() -> bool {
        true
    }
    pub(super) fn light() {
        fence(SeqCst);
    }
    pub(super) fn heavy() -> bool {
        if super::model::is_refused() {
            return false;
        }
        fence(SeqCst);
        true
    }
}

#[cfg(all(test, not(loom)))]
#[path = "biased_tests.rs"]
mod tests;

#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "biased_model.rs"]
mod model;
