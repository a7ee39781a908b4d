//! Runs an ordinary executable several times in one process, each copy with variables of its own, each `main` on the
//! stack of a green thread.
//!
//! ```no_run
//! let program = mad_loader::Program::open("./a.out".as_ref())?;
//! let ranks = (0..8).map(|number| program.load(number)).collect::<Result<Vec<_>, _>>()?;
//! let runtime = marcel::Runtime::builder().build()?;
//! runtime.run(|| {
//!     let threads: Vec<_> = ranks
//!         .into_iter()
//!         .map(|rank| {
//!             let thread = marcel::Builder::new().stack_size(mad_loader::STACK);
//!             // SAFETY: the program is trusted as this one is.
//!             thread.spawn(move || unsafe { rank.run(vec![c"./a.out".into()]) }).unwrap()
//!         })
//!         .collect();
//!     for thread in threads {
//!         println!("exit status {}", thread.join().unwrap());
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How
//! [`Program::open`] reads the executable and judges whether it can run so ([`Refusal`]). [`Program::load`] copies it to a
//! memory file in which it is no executable by its flags any more, has the dynamic linker load that, and redirects the
//! copy's calls of some functions of the C library here: those that start and end a program, that change what all ranks
//! share, and that block. [`Rank::run`] jumps to the entry; the program's start code calls `__libc_start_main`, which is
//! one of those functions and receives `main`.
//!
//! # What ranks share
//! The process: its descriptors, working directory, environment, signal handlers, memory limits, and shared libraries
//! with their variables. `docs/ranks-as-threads.md` lists what that means for programs.
//!
//! Thread-locals of a program that is linked as `docs/ranks-as-threads.md` says are a rank's own.
//!
//! Inside, from the bottom: `file` and `elf` read files; `lister` knows which dynamic linker may be run; `check` judges; `linker` is the dynamic linker's face; `rank` is a copy's
//! life; `calls` are the functions that programs call here; `program` loads. `hostile` makes broken files for tests.

mod calls;
mod check;
mod elf;
mod error;
mod file;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod inspect;
mod job;
mod linker;
mod lister;
mod program;
mod rank;
mod refusal;
mod say;

pub use crate::{
    error::Error,
    inspect::{Inspection, SharedData, inspect},
    program::Program,
    rank::{Rank, current_rank},
    refusal::Refusal,
    say::flush_output,
};

/// The size of the stack that a process's `main` has by default: what programs expect.
pub const STACK: usize = 8 << 20;
