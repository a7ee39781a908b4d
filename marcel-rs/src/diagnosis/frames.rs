//! A thread's registers, and a copy of its stack.

/// The registers from which an unwinder starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) pc: usize,
    pub(super) sp: usize,
    pub(super) fp: usize,
    /// The link register, on architectures that have one.
    pub(super) lr: usize,
}

/// The input of an unwinder.
#[cfg_attr(
    not(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64"))),
    expect(dead_code, reason = "there is no unwinder")
)]
pub(super) struct Frames {
    pub(super) registers: Registers,
    /// Address of the first byte of the copy.
    pub(super) from: usize,
    pub(super) stack: Vec<u8>,
}

/// The registers of the code that a signal interrupted.
#[cfg(target_arch = "x86_64")]
pub(super) fn registers(context: &libc::ucontext_t) -> Registers {
    let at = |register: i32| context.uc_mcontext.gregs[register as usize] as usize;
    Registers { pc: at(libc::REG_RIP), sp: at(libc::REG_RSP), fp: at(libc::REG_RBP), lr: 0 }
}

/// The registers of the code that a signal interrupted.
#[cfg(target_arch = "aarch64")]
pub(super) fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        pc: machine.pc as usize,
        sp: machine.sp as usize,
        fp: machine.regs[29] as usize,
        lr: machine.regs[30] as usize,
    }
}

/// The registers of this architecture are not read.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn registers(_: &libc::ucontext_t) -> Registers {
    Registers::default()
}
