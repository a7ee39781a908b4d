//! Ends the process with a message and a backtrace when a green thread overflows its stack.
//!
//! An access to the guard page raises SIGSEGV. The handler, on the alternate stack, compares the address with the guard
//! of the running thread's stack. Other faults go on to the previous handler, such as Rust's for kernel threads.

use std::sync::{Once, OnceLock};

use super::fatal;
use crate::os::signal::{self, Action};
use crate::os::stderr::{say, say_number};
use crate::sched::here;
use crate::sched::vp::Kind;

static PREVIOUS: OnceLock<Action> = OnceLock::new();

/// Installs the handler, once per process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(previous) = Action::of(libc::SIGSEGV) {
            let _ = PREVIOUS.set(previous); // before the handler can run
            // SAFETY: the handler touches the running thread's own block, and makes system calls.
            let _ = unsafe { signal::handle(libc::SIGSEGV, handler) };
        }
    });
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(tcb) = here::tcb() {
        let stack = tcb.info.stack();
        if is_in_guard(address) {
            if fatal::begin() {
                say("\nmarcel: thread '");
                say(tcb.name().unwrap_or("<unnamed>"));
                say("' has overflowed its stack of ");
                say_number(stack.len() / 1024);
                say(" KiB (number ");
                say_number(tcb.info.number() as usize);
                if let Some(label) = fatal::label() {
                    say(", ");
                    say(label);
                }
                if let Some(vp) = here::vp() {
                    say(if vp.kind() == Kind::Reactive { ", on rx" } else { ", on vp" });
                    say_number(vp.index());
                }
                say("); give it more with Builder::stack_size or MARCEL_STACK_SIZE\n");
                // SAFETY: the first one, as `begin` has said; the kernel gives a valid ucontext.
                unsafe { fatal::report(&*context.cast(), stack.start) };
            }
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
    }
    if let Some(previous) = PREVIOUS.get() {
        // SAFETY: the handler's own arguments.
        unsafe { previous.pass_on(signal, info, context) };
    }
}

/// Whether `address` is in the guard below the stack of the green thread that a signal handler has interrupted here.
pub(super) fn is_in_guard(address: usize) -> bool {
    here::tcb().is_some_and(|tcb| {
        // SAFETY: the context of the thread that runs here stays where it is. The handler has interrupted the thread.
        let own = unsafe { (*tcb.own.context.get()).as_ref() };
        own.is_some_and(|own| own.stack().guard().contains(&address))
    })
}
