//! Whether there are user interrupts: by CPUID; then by executing `testui`, which shows that the kernel has switched
//! them on; only then are system calls thought of.

use std::fmt;

/// Why there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// CPUID does not name them.
    Processor,
    /// The kernel has not switched them on: `testui` traps.
    Kernel,
    /// The knob does not say which numbers the system calls have.
    Numbers,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Absent::Processor => "this processor has no user interrupts",
            Absent::Kernel => {
                "this processor has user interrupts, but its kernel has not switched them on"
            }
            Absent::Numbers => {
                "user interrupts are on, but no released kernel has the system calls for them: \
                 MARCEL_UINTR_CALLS says which numbers yours has given to them"
            }
        })
    }
}

/// What [`find`] asks, one after the other.
pub(crate) trait Machine {
    type Usable;
    type Numbers;
    fn has_cpuid_bit(&self) -> bool;
    fn executes_testui(&self) -> Option<Self::Usable>;
    fn numbers(&self) -> Option<Self::Numbers>;
}

/// Asks the machine, and no question of which the one before was answered no.
pub(crate) fn find<M: Machine>(machine: &M) -> Result<(M::Usable, M::Numbers), Absent> {
    if !machine.has_cpuid_bit() {
        return Err(Absent::Processor);
    }
    let usable = machine.executes_testui().ok_or(Absent::Kernel)?;
    let numbers = machine.numbers().ok_or(Absent::Numbers)?;
    Ok((usable, numbers))
}

#[cfg(target_arch = "x86_64")]
pub(crate) use here::Here;

#[cfg(target_arch = "x86_64")]
mod here {
    use std::sync::atomic::{AtomicI32, Ordering::*};

    use super::Machine;
    use crate::os::signal;
    use crate::os::uintr::calls::Numbers;
    use crate::os::user_interrupts::{TESTUI_AT, TESTUI_BYTES, Usable, try_testui};

    /// This machine; the text of `MARCEL_UINTR_CALLS`.
    pub(crate) struct Here<'a>(pub(crate) &'a str);

    impl Machine for Here<'_> {
        type Usable = Usable;
        type Numbers = Numbers;

        fn has_cpuid_bit(&self) -> bool {
            std::arch::x86_64::__cpuid_count(0, 0).eax >= 7
                && std::arch::x86_64::__cpuid_count(7, 0).edx >> 5 & 1 != 0
        }

        fn executes_testui(&self) -> Option<Usable> {
            // SAFETY: it did not trap.
            testui_works().then(|| unsafe { Usable::promised() })
        }

        fn numbers(&self) -> Option<Numbers> {
            Numbers::parse(self.0)
        }
    }

    /// The kernel thread that tries; 0: none.
    static TRYING: AtomicI32 = AtomicI32::new(0);

    /// Whether `testui` does not trap. One thread tries at a time.
    ///
    /// # Context
    /// While no other thread sets the action of SIGILL: when a runtime is built.
    fn testui_works() -> bool {
        static ONE: crate::os::KernelMutex<()> = crate::os::KernelMutex::new(());
        let _one = ONE.lock();
        let before = signal::Action::of(libc::SIGILL);
        // SAFETY: the handler changes the context of one known instruction only.
        let guarded = unsafe { signal::handle(libc::SIGILL, guard) };
        if guarded.is_err() {
            return false;
        }
        // SAFETY: no arguments.
        TRYING.store(unsafe { libc::gettid() }, SeqCst);
        // SAFETY: the handler is installed.
        let trapped = unsafe { try_testui() };
        TRYING.store(0, SeqCst);
        if let Ok(before) = before {
            before.restore(libc::SIGILL);
        }
        trapped == 0
    }

    extern "C" fn guard(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: no arguments; the context that the kernel gives to a handler with SA_SIGINFO.
        let (own, context) = unsafe { (libc::gettid(), &mut *context.cast::<libc::ucontext_t>()) };
        let registers = &mut context.uc_mcontext.gregs;
        let at = try_testui as *const () as i64 + TESTUI_AT as i64;
        if TRYING.load(SeqCst) == own && registers[libc::REG_RIP as usize] == at {
            registers[libc::REG_RIP as usize] += TESTUI_BYTES as i64;
            registers[libc::REG_RAX as usize] = 1;
        } else {
            // Another thread's, which meets it again.
            signal::restore_default(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Fake {
        yes: u32,
        asked: Cell<u32>,
    }

    impl Fake {
        fn ask(&self, question: u32) -> bool {
            self.asked.set(self.asked.get() + 1);
            self.yes > question
        }
    }

    impl Machine for Fake {
        type Usable = ();
        type Numbers = ();
        fn has_cpuid_bit(&self) -> bool {
            self.ask(0)
        }
        fn executes_testui(&self) -> Option<()> {
            self.ask(1).then_some(())
        }
        fn numbers(&self) -> Option<()> {
            self.ask(2).then_some(())
        }
    }

    #[test]
    fn nothing_is_tried_before_what_it_needs_is_there() {
        let cases = [
            (0, Err(Absent::Processor), 1),
            (1, Err(Absent::Kernel), 2),
            (2, Err(Absent::Numbers), 3),
            (3, Ok(((), ())), 3),
        ];
        for (yes, found, questions) in cases {
            let fake = Fake { yes, asked: Cell::new(0) };
            assert_eq!(find(&fake), found);
            assert_eq!(fake.asked.get(), questions);
        }
    }
}
