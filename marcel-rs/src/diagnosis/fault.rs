//! Names the green thread that dies of a signal, and writes its backtrace.
//!
//! For processes that run code of many origins on green threads, such as the ranks of a program. The handlers are beside
//! that of stack overflows ([`super::overflow`]), which every runtime installs. Each passes its signal on, so the process
//! ends, or the program's own handler runs, as it would have.

use std::sync::{Once, OnceLock};

use super::{fatal, overflow};
use crate::os::signal::{self, Action};
use crate::os::stderr::{say, say_address, say_number};
use crate::sched::here;

/// Signals of code that goes wrong.
const SIGNALS: [(i32, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

static PREVIOUS: [OnceLock<Action>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

/// From now on a thread that dies of a fault (`SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGFPE`) or of `SIGABRT` is named on
/// standard error, with its backtrace if it is green. Then the signal does what it did before. Messages, that of a stack
/// overflow too, contain what `label` says about the calling thread. The first call counts.
///
/// A handler that the program installs later is called instead.
///
/// # Safety
/// `label` is async-signal-safe. It is called in signal handlers, which may have interrupted any code of the thread: it
/// takes no lock, allocates and frees nothing, and does not panic.
pub unsafe fn name_faults(label: fn() -> Option<&'static str>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the caller's promise.
        unsafe { fatal::set_label(label) };
        for ((signal, _), previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
            if let Ok(action) = Action::of(signal) {
                let _ = previous.set(action); // before the handler can run
                // SAFETY: the handler reads the running thread's own block, and makes system calls.
                let _ = unsafe { signal::handle(signal, handler) };
            }
        }
    });
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(index) = SIGNALS.iter().position(|known| known.0 == signal) else { return };
    // SAFETY: the kernel gives a valid siginfo.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    // Another handler's message comes before. (That of an overflow, which ends by `abort`, has come then.)
    let is_said = signal == libc::SIGSEGV && overflow::is_in_guard(address);
    let (tcb, label) = (here::tcb(), fatal::label());
    if !is_said && (tcb.is_some() || label.is_some()) && fatal::begin() {
        say("\nmarcel: ");
        if let Some(tcb) = tcb {
            say("thread '");
            say(tcb.name().unwrap_or("<unnamed>"));
            say("' (number ");
            say_number(tcb.info.number() as usize);
            if let Some(label) = label {
                say(", ");
                say(label);
            }
            say(")");
        } else {
            say("a thread of ");
            say(label.unwrap_or_default());
        }
        say(" has received ");
        say(SIGNALS[index].1);
        // Codes of the kernel are positive: the signal is not one that was sent.
        if code > 0 && matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
            say(" at address ");
            say_address(address);
        }
        say("\n");
        match tcb {
            // SAFETY: the first one, as `begin` has said; the kernel gives a valid ucontext.
            Some(tcb) => unsafe { fatal::report(&*context.cast(), tcb.info.stack().start) },
            None => fatal::end(),
        }
    }
    if let Some(previous) = PREVIOUS[index].get() {
        // SAFETY: the handler's own arguments.
        unsafe { previous.pass_on(signal, info, context) };
    }
}
