//! Ends the process with a message and a backtrace when a green thread overflows its stack.
//!
//! An access to the guard page raises SIGSEGV. The handler, on the alternate stack, compares the address with the guard
//! of the running thread's stack. Other faults go on to the previous handler, such as Rust's for kernel threads.

use std::mem::MaybeUninit;
use std::sync::Once;

use super::fatal;
use crate::sched::here;
use crate::sched::vp::Kind;
use crate::stack::memory::GUARD;

static mut PREVIOUS: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// Installs the handler, once per process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: PREVIOUS is written once, here, before the handler can run; valid sigaction values.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            let mut previous: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut previous);
            (&raw mut PREVIOUS).write(MaybeUninit::new(previous));
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(tcb) = here::tcb() {
        let stack = tcb.info.stack();
        if (stack.start.wrapping_sub(GUARD)..stack.start).contains(&address) {
            say("\nmarcel: thread '");
            say(tcb.name().unwrap_or("<unnamed>"));
            say("' has overflowed its stack of ");
            say_number(stack.len() / 1024);
            say(" KiB (number ");
            say_number(tcb.info.number() as usize);
            if let Some(vp) = here::vp() {
                say(if vp.kind() == Kind::Reactive { ", on rx" } else { ", on vp" });
                say_number(vp.index());
            }
            say("); give it more with Builder::stack_size or MARCEL_STACK_SIZE\n");
            // SAFETY: the kernel gives a valid ucontext.
            fatal::report(unsafe { &*context.cast() }, stack.start);
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
    }
    // SAFETY: written by `install` before this handler could run.
    let previous = unsafe { (&raw const PREVIOUS).read().assume_init() };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // Restores the default action: the faulting instruction runs again and ends the process.
            // SAFETY: valid arguments.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        }
        address if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the previous handler has this signature, by its SA_SIGINFO flag.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(address) };
            handler(signal, info, context);
        }
        address => {
            // SAFETY: the previous handler has the plain signature.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(address) };
            handler(signal);
        }
    }
}

fn say_number(mut number: usize) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    say(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

fn say(text: &str) {
    // SAFETY: valid bytes; write is async-signal-safe.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}
