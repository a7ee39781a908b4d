//! The instructions of user interrupts ([`super::uintr`]). Each traps (SIGILL, or SIGSEGV) on a processor or kernel without user interrupts: [`Usable`] proves that the
//! caller has looked.

use std::arch::asm;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// What `stui` and `clui` find in `ecx`. They are `wrpkru` and `rdpkru` with a prefix, which processors of AMD without user
/// interrupts ignore: where memory has protection keys, the emulator's `stui` would change the rights to them, unless `ecx`
/// has something else than 0. Then it traps (SIGSEGV).
const NOT_FOR_KEYS: u32 = 1;

static IN_USE: AtomicBool = AtomicBool::new(false);

/// The instructions, if threads of this process may have handlers of user interrupts.
#[inline]
pub(crate) fn in_use() -> Option<Usable> {
    IN_USE.load(Acquire).then_some(Usable(()))
}

/// Proof that the instructions can be executed by the threads of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usable(());

impl Usable {
    /// # Safety
    /// `testui` has been executed in this process without a trap, or an emulator takes the traps.
    pub(super) unsafe fn promised() -> Usable {
        Usable(())
    }

    /// From now on [`in_use`] says that there are user interrupts.
    pub(crate) fn announce(self) {
        IN_USE.store(true, Release);
    }

    /// Interrupts are delivered to the calling kernel thread from now on; what is pending, at once.
    #[inline]
    pub(crate) fn unmask(self) {
        // SAFETY: the instruction is there (`Usable`). A handler that runs at once may read and write memory.
        unsafe { asm!("stui", in("ecx") NOT_FOR_KEYS, options(nostack)) };
    }

    /// Interrupts of the calling kernel thread stay pending from now on.
    #[inline]
    pub(crate) fn mask(self) {
        // SAFETY: the instruction is there. Memory accesses are not moved across it.
        unsafe { asm!("clui", in("ecx") NOT_FOR_KEYS, options(nostack)) };
    }

    /// Whether interrupts are delivered to the calling kernel thread.
    #[inline]
    pub(crate) fn is_unmasked(self) -> bool {
        let flag: u8;
        // SAFETY: the instruction is there; it changes flags only.
        unsafe { asm!("testui", "setc {}", out(reg_byte) flag, options(nostack)) };
        flag != 0
    }

    /// Masks interrupts of the calling kernel thread until the guard is dropped, which restores what was before.
    #[inline]
    pub(crate) fn masked(self) -> Masked {
        let was_unmasked = self.is_unmasked();
        self.mask();
        Masked { usable: self, was_unmasked, own: PhantomData }
    }

    /// Interrupts the receiver that the kernel has registered for the calling process under this index.
    ///
    /// # Safety
    /// The kernel has given this index ([`super::uintr::calls::Calls::register_sender`]). With another one the processor faults.
    #[inline]
    pub(crate) unsafe fn send(self, index: u64) {
        // SAFETY: the instruction is there; the caller's promise. What was stored before is visible to the handler.
        unsafe { asm!("senduipi {}", in(reg) index, options(nostack)) };
    }
}

/// See [`Usable::masked`].
#[must_use = "interrupts are masked until this is dropped"]
#[derive(Debug)]
pub(crate) struct Masked {
    usable: Usable,
    was_unmasked: bool,
    /// The flag is the kernel thread's.
    own: PhantomData<*const ()>,
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        if self.was_unmasked {
            self.usable.unmask();
        }
    }
}

/// Executes `testui`, at an address that a handler of SIGILL can recognise. Traps where there are no user interrupts;
/// the handler continues after [`TESTUI_BYTES`] bytes, with `rax` 1. Otherwise the result is 0.
///
/// # Safety
/// A handler of SIGILL is installed that does so.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn try_testui() -> u64 {
    std::arch::naked_asm!("xor eax, eax", "testui", "ret")
}

/// Where `testui` is in [`try_testui`], and how long it is.
pub(super) const TESTUI_AT: usize = 2;
pub(super) const TESTUI_BYTES: usize = 4;
