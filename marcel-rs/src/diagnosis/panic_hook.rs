//! The message of a panic beside that of another green thread.
//!
//! Rust counts panics for each *kernel* thread, and its default hook takes the second one for a panic inside a panic: it
//! writes a backtrace whatever `RUST_BACKTRACE` says. While a green thread waits in a destructor that a panic runs, the
//! panic of another one of its virtual processor would come so. There this hook writes the default one's text without
//! the backtrace.
//!
//! It takes the place of the default hook only, when the process builds its first runtime. A hook that the program has
//! set before stays, and one that it sets later replaces this one.
//!
//! Rejected: to have the default hook run by a kernel thread that counts no panic (its message names that thread); to set
//! the count, which is the standard library's own.

use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use crate::sched::unwinding::panics_may_meet;
use crate::task::current;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

/// Takes the place of the default hook. Does nothing in a thread that panics, which may not change hooks.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let found = panic::take_hook();
        // There is none now but the default one.
        let default = panic::take_hook();
        if function_of(&found) == function_of(&default) {
            panic::set_hook(Box::new(move |info| write(info, &default)));
        } else {
            panic::set_hook(found);
        }
    });
}

/// Which function a hook is.
fn function_of(hook: &Hook) -> usize {
    let hook: *const (dyn Fn(&PanicHookInfo<'_>) + Sync + Send) = &raw const **hook;
    // SAFETY: a pointer to a trait object is two words, of which the second one says what type is behind it.
    let [_, table]: [usize; 2] = unsafe { std::mem::transmute(hook) };
    table
}

fn write(info: &PanicHookInfo<'_>, default: &Hook) {
    let asked = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    if asked || !panics_may_meet() {
        return default(info);
    }
    let thread = std::thread::current();
    let name = current::current_name();
    let name = name.as_deref().or(thread.name()).unwrap_or("<unnamed>");
    let text = info.payload_as_str().unwrap_or("Box<dyn Any>");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    // A closed stream is no reason to panic here.
    let _ = writeln!(std::io::stderr(), "\nthread '{name}' panicked at {place}:\n{text}");
}
