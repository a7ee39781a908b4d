//! A few words that each kernel thread has of its own, read by two instructions anywhere.
//!
//! Every call of the library asks which thread calls it, several times: 22 times for half a ping-pong of MPI messages
//! between two green threads. In a shared library a thread-local costs a call of the C library for each access, since the
//! library could be loaded at any time; and callers must not inline it, since compilers compute its *address* once for a
//! function, and keep it across a switch, after which a thread that migrates is on another kernel thread. Together, 18
//! instructions each time; here, two, which the compiler takes for an effect and so repeats each time.
//!
//! The words lie in the part of the thread's memory that the C library keeps for what is loaded at the start
//! (*initial-exec*). A library that is loaded later (`dlopen`) finds some room there, by default 1.6 KB for all, in which its
//! thread-locals have to fit: madmpi's take half a kilobyte.
//!
//! On other machines they are thread-locals as any. Signal handlers may read them in both cases.

/// The virtual processor that the kernel thread is, the thread that it runs, its worker, whether a handler runs, one more
/// than its slot, and a count of the I/O manager's (`manager_count`).
pub(crate) const VP: usize = 0;
pub(crate) const TCB: usize = 1;
pub(crate) const WORKER: usize = 2;
pub(crate) const IN_TICK: usize = 3;
pub(crate) const SLOT: usize = 4;
pub(crate) const MANAGER: usize = 5;
const COUNT: usize = 6;

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(miri)))]
mod imp {
    use std::arch::{asm, global_asm};

    use super::COUNT;

    /// Of this version of the crate.
    macro_rules! name {
        () => {
            concat!("marcel_words_", env!("CARGO_PKG_VERSION"))
        };
    }

    global_asm!(
        concat!(".pushsection .tbss.", name!(), ",\"awT\",@nobits"),
        ".balign 32",
        concat!(".globl ", name!()),
        concat!(".hidden ", name!()),
        concat!(".type ", name!(), ", @object"),
        concat!(".size ", name!(), ", {size}"),
        concat!(name!(), ":"),
        ".zero {size}",
        ".popsection",
        size = const COUNT * size_of::<*mut ()>(),
    );

    /// The calling kernel thread's word.
    #[inline(always)]
    pub(crate) fn get<const WORD: usize>() -> *mut () {
        const { assert!(WORD < COUNT) };
        let value;
        // SAFETY: reads a word of the calling thread's own, which is there as long as the thread is.
        unsafe {
            asm!(
                concat!("mov {value}, qword ptr [rip + ", name!(), "@GOTTPOFF]"),
                "mov {value}, qword ptr fs:[{value} + {at}]",
                value = out(reg) value,
                at = const WORD * size_of::<*mut ()>(),
                options(nostack, preserves_flags, readonly),
            );
        }
        value
    }

    /// Changes it.
    #[inline(always)]
    pub(crate) fn set<const WORD: usize>(value: *mut ()) {
        const { assert!(WORD < COUNT) };
        // SAFETY: writes a word of the calling thread's own, which nothing has a reference to.
        unsafe {
            asm!(
                concat!("mov {place}, qword ptr [rip + ", name!(), "@GOTTPOFF]"),
                "mov qword ptr fs:[{place} + {at}], {value}",
                place = out(reg) _,
                value = in(reg) value,
                at = const WORD * size_of::<*mut ()>(),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Adds to it, by one instruction: a signal handler comes before or after.
    #[inline(always)]
    pub(crate) fn add<const WORD: usize>(by: isize) {
        const { assert!(WORD < COUNT) };
        // SAFETY: as above.
        unsafe {
            asm!(
                concat!("mov {place}, qword ptr [rip + ", name!(), "@GOTTPOFF]"),
                "add qword ptr fs:[{place} + {at}], {by}",
                place = out(reg) _,
                by = in(reg) by,
                at = const WORD * size_of::<*mut ()>(),
                options(nostack),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(miri))))]
mod imp {
    use std::cell::Cell;
    use std::ptr::null_mut;

    use super::COUNT;

    thread_local! {
        static WORDS: [Cell<*mut ()>; COUNT] = const { [const { Cell::new(null_mut()) }; COUNT] };
    }

    /// The calling kernel thread's word.
    #[inline(never)]
    pub(crate) fn get<const WORD: usize>() -> *mut () {
        // No instruction, but an effect, as far as the compiler knows: no result of the function is used twice.
        // SAFETY: it does nothing.
        unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
        WORDS.with(|words| words[WORD].get())
    }

    /// Changes it.
    #[inline(never)]
    pub(crate) fn set<const WORD: usize>(value: *mut ()) {
        WORDS.with(|words| words[WORD].set(value));
    }

    /// Adds to it. A signal handler in between leaves it as it was.
    #[inline(never)]
    pub(crate) fn add<const WORD: usize>(by: isize) {
        WORDS.with(|words| words[WORD].set(words[WORD].get().wrapping_byte_offset(by)));
    }
}

pub(crate) use imp::{add, get, set};

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null_mut, without_provenance_mut};

    #[test]
    fn each_kernel_thread_has_its_own_and_a_new_one_has_none() {
        let own = without_provenance_mut(8);
        let before = get::<IN_TICK>();
        set::<IN_TICK>(own);
        let others = std::thread::spawn(move || {
            let found = [get::<VP>(), get::<WORKER>(), get::<IN_TICK>()];
            set::<IN_TICK>(without_provenance_mut(16));
            found.map(|word| word.addr())
        });
        assert_eq!(others.join().unwrap(), [0; 3]);
        assert_eq!(get::<IN_TICK>(), own);
        set::<IN_TICK>(before);
        assert_eq!(get::<IN_TICK>(), null_mut());
    }
}
