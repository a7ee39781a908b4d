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
mod part;
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
pub(crate) use self::part::Part;
use self::threads::Threads;
pub(crate) use self::variables::{Variables, changed_environment};
use crate::elf::Copied;
use crate::say::flush_output;

/// A copy of a program with variables of its own.
#[derive(Debug)]
pub struct Rank {
    number: usize,
    /// "rank" and the number: at hand in signal handlers.
    label: String,
    path: CString,
    program: Part,
    /// Its copies of private libraries; those first that others need.
    libraries: Vec<Part>,
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

impl Rank {
    pub(crate) fn new(
        number: usize,
        path: CString,
        program: Part,
        libraries: Vec<Part>,
        copied: &[Copied],
    ) -> Rank {
        Rank {
            number,
            label: format!("rank {number}"),
            path,
            variables: Variables::new(program.base(), copied),
            program,
            libraries,
            handlers: Handlers::default(),
            thread_handlers: Handlers::default(),
            quick_handlers: Handlers::default(),
            exceptions: Exceptions::default(),
            threads: Threads::default(),
            options: Mutex::default(),
            started: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            saved: AtomicUsize::new(0),
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
        self.program.base()
    }

    /// Whether the rank's `main` has returned, or the rank has called `exit`.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        self.libraries.iter().chain([&self.program]).any(|part| part.contains(address))
    }

    /// Runs the program on the calling thread's stack, and returns its exit status: that of `exit`, or what `main`
    /// returned, from 0 to 255. `arguments` are the program's, its name first.
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
        let layout = this.program.layout();
        let own = Own {
            headers: this.base() + layout.headers.0 as usize,
            count: layout.headers.1 as usize / 56,
            entry: this.base() + layout.entry as usize,
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
        // As the kernel does with a process's: a status of 256 is success.
        status & 0xff
    }

    /// Calls the constructors of the rank's libraries, then the program's.
    ///
    /// # Safety
    /// Once, on the rank's thread, before `main`.
    pub(crate) unsafe fn construct(
        &self,
        argc: c_int,
        argv: *const *const c_char,
        environment: *const *const c_char,
    ) {
        for part in self.libraries.iter().chain([&self.program]) {
            // SAFETY: the caller's promise.
            unsafe { part.construct(argc, argv, environment) };
        }
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
            self.program.destroy();
            self.libraries.iter().rev().for_each(Part::destroy);
            self.leave(status)
        }
    }

    /// Writes what is buffered for the standard streams, and has [`Rank::run`] return `status`.
    ///
    /// # Safety
    /// As [`Rank::finish`].
    pub(crate) unsafe fn leave(&self, status: c_int) -> ! {
        // SAFETY: `enter` has saved its frame; the rest is the caller's promise.
        unsafe {
            flush_output();
            enter::leave(self.saved.load(Relaxed), status)
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
