//! One copy of a program, and its life.
//!
//! ```text
//!  Program::load      Rank::run                     _start ─▶ __libc_start_main (calls::start)
//!  loaded ──────────▶ entered ──▶ constructors ─▶ main ─▶ handlers ─▶ destructors ─▶ Rank::run returns
//!                                      └──── exit, from anywhere on the same thread ────┘
//! ```
//!
//! Constructors and destructors run on the rank's own stack, as an executable's do: with its arguments, as this rank.
//! Handlers of `atexit` and C++'s destructors of static objects run when the rank ends, not when the process does.
//!
//! Invariant: a rank that has started is never freed, and its copy never unloaded. Other ranks, messages and kernel
//! threads may have addresses in it.

mod arguments;
#[cfg(target_arch = "x86_64")]
mod enter;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_enter.rs"]
mod enter;
pub(crate) mod handlers;
mod member;
mod options;
mod threads;
mod variables;

use std::cell::UnsafeCell;
use std::ffi::{CString, c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};

use self::arguments::{Arguments, Own};
use self::handlers::Handlers;
use self::member::Member;
use self::options::OptionsPlace;
use self::threads::Threads;
pub(crate) use self::variables::{Variables, changed_environment};
use crate::elf::{Copied, Elf, Functions};

/// A copy of a program with variables of its own.
#[derive(Debug)]
pub struct Rank {
    number: usize,
    /// "rank" and the number: at hand in signal handlers.
    label: String,
    path: CString,
    base: usize,
    elf: Arc<Elf>,
    pub(crate) variables: Variables,
    pub(crate) handlers: Handlers,
    /// Destructors of `thread_local` objects of the thread that runs `main`.
    pub(crate) thread_handlers: Handlers,
    /// Handlers of `at_quick_exit`.
    pub(crate) quick_handlers: Handlers,
    /// C++'s exceptions that the main thread is handling: a pointer and a count. Its libraries' to read and write.
    pub(crate) exceptions: Exceptions,
    /// Its kernel threads.
    pub(crate) threads: Threads,
    pub(crate) options: Mutex<OptionsPlace>,
    started: AtomicBool,
    ended: AtomicBool,
    /// What `enter` has left for `leave`.
    saved: AtomicUsize,
    /// Destructors that have not run yet.
    destructors: AtomicUsize,
}

/// Memory of the C++ library, used by the rank's main thread only.
#[derive(Debug, Default)]
pub(crate) struct Exceptions(UnsafeCell<[usize; 2]>);

// SAFETY: this crate only gives the address away; one thread uses it.
unsafe impl Sync for Exceptions {}

impl Exceptions {
    pub(crate) fn get(&self) -> *mut [usize; 2] {
        self.0.get()
    }
}

type Constructor = extern "C-unwind" fn(c_int, *const *const c_char, *const *const c_char);
type Destructor = extern "C-unwind" fn();

impl Rank {
    pub(crate) fn new(
        number: usize,
        path: CString,
        base: usize,
        elf: Arc<Elf>,
        copied: &[Copied],
    ) -> Rank {
        let words = elf.dynamic.fini_array.len as usize / 8;
        Rank {
            number,
            label: format!("rank {number}"),
            path,
            base,
            variables: Variables::new(base, copied),
            elf,
            handlers: Handlers::default(),
            thread_handlers: Handlers::default(),
            quick_handlers: Handlers::default(),
            exceptions: Exceptions::default(),
            threads: Threads::default(),
            options: Mutex::default(),
            started: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            saved: AtomicUsize::new(0),
            destructors: AtomicUsize::new(words + 1),
        }
    }

    /// The number that [`Program::load`](crate::Program::load) was given.
    pub fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The address where the copy is: what its symbols' values are added to.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Whether the rank's `main` has returned, or the rank has called `exit`.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.elf.layout.span() as usize
    }

    /// Runs the program on the calling thread's stack, and returns its exit status: that of `exit`, or what `main`
    /// returned. `arguments` are the program's, its name first.
    ///
    /// # Blocking
    /// Until the program ends.
    ///
    /// # Panics
    /// The rank has been started before.
    ///
    /// # Safety
    /// The program is code of this process from now on. The stack is as large as the program needs; 8 MiB is what a
    /// process's own has. The calling thread is not unwound before the program ends.
    pub unsafe fn run(self: &Arc<Rank>, arguments: Vec<CString>) -> c_int {
        assert!(!self.started.swap(true, AcqRel), "rank {} has been started before", self.number);
        // Kept for good: see the module's invariant.
        // SAFETY: one count of the rank is never given back.
        let this: &'static Rank = unsafe { &*Arc::into_raw(self.clone()) };
        let own = Own {
            headers: this.base + this.elf.layout.headers.0 as usize,
            count: this.elf.layout.headers.1 as usize / 56,
            entry: this.base + this.elf.layout.entry as usize,
            path: this.path.as_ptr(),
        };
        let arguments = Box::leak(Box::new(Arguments::new(arguments, &own)));
        let belongs = Belongs::to(this, true);
        // SAFETY: the entry is in the copy's code; the words stay, as does the rank.
        let status = unsafe {
            enter::enter(
                own.entry,
                arguments.words.as_ptr(),
                arguments.words.len(),
                this.saved.as_ptr(),
            )
        };
        drop(belongs);
        this.ended.store(true, Release);
        status
    }

    /// Calls the program's constructors.
    ///
    /// # Safety
    /// Once, on the rank's thread, before `main`.
    pub(crate) unsafe fn construct(
        &self,
        argc: c_int,
        argv: *const *const c_char,
        environment: *const *const c_char,
    ) {
        let call = |address: usize| {
            // SAFETY: an address that the linker has written for this purpose.
            let function: Constructor = unsafe { std::mem::transmute(address) };
            function(argc, argv, environment);
        };
        let dynamic = &self.elf.dynamic;
        self.each(dynamic.preinit_array, call);
        if dynamic.init != 0 {
            call(self.base + dynamic.init as usize);
        }
        self.each(dynamic.init_array, call);
    }

    fn each(&self, functions: Functions, call: impl Fn(usize)) {
        (0..functions.len as usize / 8).filter_map(|i| self.function(functions, i)).for_each(call);
    }

    fn function(&self, functions: Functions, index: usize) -> Option<usize> {
        let at = self.base + functions.address as usize + 8 * index;
        // SAFETY: the parser has checked that a segment has the array; the copy is never unloaded.
        let function = unsafe { (at as *const usize).read_unaligned() };
        (function != 0 && function != usize::MAX).then_some(function)
    }

    /// Ends the rank: handlers, destructors, output; then [`Rank::run`] returns `status`.
    ///
    /// A handler or destructor that ends the rank again leaves what is left to that call, as in the C library.
    ///
    /// # Safety
    /// The caller runs the rank's `main`, and has nothing to drop, nor have its callers up to `Rank::run`.
    pub(crate) unsafe fn finish(&self, status: c_int) -> ! {
        // SAFETY: the copy is loaded. The rest is the caller's promise.
        unsafe {
            self.thread_handlers.run(status);
            self.handlers.run(status);
            self.destroy();
            self.leave(status)
        }
    }

    /// Writes buffered output, and has [`Rank::run`] return `status`.
    ///
    /// # Safety
    /// As [`Rank::finish`].
    pub(crate) unsafe fn leave(&self, status: c_int) -> ! {
        // SAFETY: `enter` has saved its frame; the rest is the caller's promise.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            enter::leave(self.saved.load(Relaxed), status)
        }
    }

    /// Calls the destructors that have not been called, the last one first, then the old-fashioned one.
    fn destroy(&self) {
        let dynamic = &self.elf.dynamic;
        while let Ok(left) = self.destructors.fetch_update(AcqRel, Acquire, |n| n.checked_sub(1)) {
            let address = match left.checked_sub(2) {
                Some(index) => self.function(dynamic.fini_array, index),
                None => (dynamic.fini != 0).then(|| self.base + dynamic.fini as usize),
            };
            if let Some(address) = address {
                // SAFETY: an address that the linker has written for this purpose.
                let function: Destructor = unsafe { std::mem::transmute(address) };
                function();
            }
        }
    }
}

/// Ranks and the threads that belong to them.
pub(crate) mod current {
    use super::{Rank, member};

    /// The calling thread's rank.
    ///
    /// The reference is valid for good: a rank that has started is never freed.
    pub(crate) fn rank() -> Option<&'static Rank> {
        // SAFETY: `Belongs` sets it to ranks that are kept for good.
        unsafe { member::member().rank.cast::<Rank>().as_ref() }
    }

    /// Whether the calling thread runs its rank's `main`.
    pub(crate) fn is_main() -> bool {
        member::member().is_main
    }
}

/// The calling thread belongs to a rank until the value is dropped.
pub(crate) struct Belongs(Member);

impl Belongs {
    pub(crate) fn to(rank: &'static Rank, is_main: bool) -> Belongs {
        let before = member::member();
        member::set(Member { rank: (&raw const *rank).cast(), is_main });
        Belongs(before)
    }
}

impl Drop for Belongs {
    fn drop(&mut self) {
        member::set(self.0);
    }
}

/// Number of the rank that the calling thread belongs to: the green thread in [`Rank::run`], and the kernel threads
/// that the rank has made with `pthread_create`.
pub fn current_rank() -> Option<usize> {
    current::rank().map(Rank::number)
}
