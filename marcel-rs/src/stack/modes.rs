//! The modes of the floating-point units: rounding, flushing to zero, which exceptions trap.
//!
//! The calling convention says that they are kept across a call, as the callee-saved registers are, so a thread that
//! waits finds its own again and leaves none to others. The switch itself does not touch them: to load them takes
//! longer than a switch, and nearly every thread has those with which its runtime was built, so they are read when a
//! thread has left, and loaded only if they differ. That costs 2 ns of a yield (14 ns without).
//!
//! The flags that say which exceptions were raised are no modes: they are the kernel thread's, and a wait may set or
//! clear them. Those of the x87 are cleared: one that is raised traps as soon as a thread lets such exceptions trap,
//! whoever has raised it.

use std::cell::Cell;

pub(crate) use self::arch::Modes;
use super::switch::Switch;

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;
    use std::mem::MaybeUninit;

    /// The control bits of SSE's control and status register, and the control word of the x87.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Modes {
        sse: u32,
        x87: u16,
    }

    /// The lowest six bits of both status registers: what was raised.
    const FLAGS: u32 = 0x3f;

    impl Modes {
        #[inline(always)]
        pub(crate) fn now() -> Modes {
            // Two variables, each read as it was written: a read of both at once would wait for the two stores.
            let (mut sse, mut x87) = (MaybeUninit::<u32>::uninit(), MaybeUninit::<u16>::uninit());
            // SAFETY: each instruction writes the variable that it is given, whole.
            unsafe {
                asm!("stmxcsr [{}]", in(reg) sse.as_mut_ptr(), options(nostack, preserves_flags));
                asm!("fnstcw [{}]", in(reg) x87.as_mut_ptr(), options(nostack, preserves_flags));
                Modes { sse: sse.assume_init() & !FLAGS, x87: x87.assume_init() }
            }
        }

        #[cold]
        pub(super) fn load(self) {
            // SAFETY: the words were read by `now`, so no reserved bit is set.
            unsafe {
                asm!(
                    "ldmxcsr [{sse}]",
                    "fnclex",
                    "fldcw [{x87}]",
                    sse = in(reg) &raw const self.sse,
                    x87 = in(reg) &raw const self.x87,
                    options(nostack, readonly),
                );
            }
        }
    }

    /// Clears the flags of the x87.
    #[inline(always)]
    pub(super) fn clear_flags() {
        let status: u16;
        // SAFETY: reads a register.
        unsafe { asm!("fnstsw ax", out("ax") status, options(nomem, nostack, preserves_flags)) };
        if u32::from(status) & FLAGS != 0 {
            clear_raised();
        }
    }

    #[cold]
    fn clear_raised() {
        // SAFETY: changes these flags only.
        unsafe { asm!("fnclex", options(nomem, nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::asm;

    /// The control register; the flags have a register of their own.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Modes(u64);

    impl Modes {
        #[inline(always)]
        pub(crate) fn now() -> Modes {
            let word;
            // SAFETY: reads a register.
            unsafe {
                asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags))
            };
            Modes(word)
        }

        #[cold]
        pub(super) fn load(self) {
            // SAFETY: the word was read by `now`.
            unsafe { asm!("msr fpcr, {}", in(reg) self.0, options(nomem, nostack)) };
        }
    }

    /// Those that are raised do no harm.
    pub(super) fn clear_flags() {}
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    /// Not known here: they stay the kernel thread's.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Modes;

    impl Modes {
        pub(crate) fn now() -> Modes {
            Modes
        }

        pub(super) fn load(self) {}
    }

    pub(super) fn clear_flags() {}
}

impl Modes {
    /// The calling thread has these from now on.
    pub(crate) fn adopt(self) {
        if Modes::now() != self {
            self.load();
        }
    }
}

/// Those of a suspended thread, if they are not the usual ones.
#[derive(Default)]
pub(super) struct Own(Cell<Option<Modes>>);

impl Own {
    /// Runs the thread, by `resume`, with its modes; a thread that begins has the `usual` ones. The calling kernel thread
    /// has these, and has them again then.
    #[inline(always)]
    pub(super) fn around(&self, usual: Modes, resume: impl FnOnce() -> Switch) -> Switch {
        if let Some(own) = self.0.take() {
            own.load();
        }
        let how = resume();
        let left = Modes::now();
        arch::clear_flags();
        if left != usual {
            self.0.set((how != Switch::Ended).then_some(left));
            usual.load();
        }
        how
    }
}
