//! User interrupts: one thread interrupts another without the kernel (x86-64, from Sapphire Rapids on; \[Goedefroit23\]).
//!
//! **Never run on hardware.** No machine of this project's has them, and no released kernel lets programs use them. The
//! tests run this code with an emulator ([`emulator`]) that traps the instructions and does what the manuals say. It
//! executes the very bytes that are meant for the processor. It says nothing about their speed.
//!
//! A receiver is a kernel thread with a handler for 64 *vectors*. The kernel gives it a descriptor for a vector; a
//! sender, of this process or another, registers that and gets an *index*, with which `senduipi` sends. What has been sent
//! and not yet delivered is a bit for each vector: many of one vector are delivered once, the highest vector first, while
//! the receiver has interrupts unmasked (its flag, UIF). They are masked in the handler.
//!
//! | file | what |
//! |---|---|
//! | [`user_interrupts`](super::user_interrupts) | the instructions: `stui`, `clui`, `testui`, `senduipi`; masking around a section |
//! | `stub` | the handler: saves what the interrupted code may use, calls the function of the vector |
//! | `detect` | whether they are there: by CPUID, then by trying `testui`; only then by system calls |
//! | `calls` | the system calls, whose numbers the user gives |
//!
//! System calls are never tried blindly: kernels without user interrupts have given the numbers of Intel's patches to
//! others (471 is `rseq_slice_yield` from 6.19 on, which answers 0, as a success would).

#[cfg(target_arch = "x86_64")]
pub(crate) mod calls;
pub(crate) mod detect;
#[cfg(all(any(test, feature = "emulated-user-interrupts"), target_arch = "x86_64"))]
pub(crate) mod emulator;
#[cfg(target_arch = "x86_64")]
pub(crate) mod stub;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
