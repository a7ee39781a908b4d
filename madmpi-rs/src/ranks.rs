//! Several ranks in one process: the program is loaded once for each rank, and each copy's `main` runs on a green thread.
//!
//! ```text
//!   ld.so ──initialises this library──▶ NMAD_RANKS unset: back, and on to the program's main: a process is one rank
//!                                       NMAD_RANKS=N: opens the sessions of N ranks, loads N copies, runs them, exits
//! ```
//!
//! So the program is an ordinary one and is started as usual, by whatever launcher; that the library is initialised before
//! `main` is all that this needs. The process's own copy of the program never runs.
//!
//! A rank's end is its alone once it has finalized MPI, or if it never initialised it. One that ends in between ends its
//! process, as one in a process of its own does: nobody can finish what it had begun.
//!
//! Rejected: a host program that loads this library and the program (it had to find the very library that the program
//! finds; other launchers would have to be told of it); to begin inside `MPI_Init` (what comes before it in `main` would
//! run once more).

use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;
use std::sync::Arc;

use marcel::plumbing::STACK_SIZE;
use marcel::topology::{Object, Topology};
use marcel::{Mode, Runtime};
use newmad::plumbing::knobs;
use pioman::Manager;

use crate::room::{self, Usage};
use crate::{job, per_rank, process};

/// The dynamic linker calls it with what `main` gets.
type Initializer = extern "C" fn(c_int, *const *const c_char, *const *const c_char);

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALIZER: Initializer = initialize;

extern "C" fn initialize(_: c_int, argv: *const *const c_char, _: *const *const c_char) {
    if std::env::var_os(knobs::RANKS.name).is_none() {
        return;
    }
    let end = host(argv);
    let status = end.unwrap_or_else(|why| {
        job::say(&why);
        1
    });
    // SAFETY: the process's own copy of the program has not begun; this thread runs no other code of Rust.
    unsafe { libc::exit(status) }
}

/// Runs the ranks of this process; the exit status.
fn host(argv: *const *const c_char) -> Result<c_int, String> {
    let ranks = knobs::RANKS.int().map_err(|e| e.to_string())?;
    let ranks = ranks.and_then(|ranks| u32::try_from(ranks).ok()).unwrap_or(1);
    // What the program starts is no host.
    // SAFETY: the process has one thread.
    unsafe { std::env::remove_var(knobs::RANKS.name) };
    // SAFETY: what the C library was started with: pointers to texts, and a null pointer behind them.
    let arguments: Vec<CString> = unsafe {
        let count = (0..).take_while(|&at| !(*argv.add(at)).is_null()).count();
        (0..count).map(|at| CStr::from_ptr(*argv.add(at)).to_owned()).collect()
    };
    if is_in_program() {
        return Err("NMAD_RANKS needs madmpi as a shared library, and it is linked into the program (-static-mpi)".into());
    }
    let program = std::env::current_exe().map_err(|e| format!("finding the program: {e}"))?;
    if !program.exists() {
        return Err(format!(
            "{}: the program's file was removed or replaced while it started: start it again",
            program.display()
        ));
    }
    let program = mad_loader::Program::open(&program).map_err(|e| e.to_string())?;
    per_rank::has(ranks as usize);
    let stack = stack(ranks)?;
    let load = |place| program.load(place).map_err(|e| e.to_string());
    let mut copies = Vec::with_capacity(ranks as usize);
    for place in 0..ranks as usize {
        let before = (place == room::MEASURED).then(Usage::now).flatten();
        copies.push(load(place)?);
        if let Some(before) = before
            && let Some(after) = Usage::now()
        {
            room::check(ranks, stack, before, after)?;
        }
    }
    run(copies, stack, &arguments)
}

/// The size of each of so many ranks' stacks: as `ulimit -s` gives it to a process, or more if `MARCEL_STACK_SIZE` asks for it.
fn stack(ranks: u32) -> Result<usize, String> {
    let asked = STACK_SIZE.int().map_err(|e| e.to_string())?.unwrap_or(0);
    let limit = room::limit(libc::RLIMIT_STACK).unwrap_or(libc::RLIM_INFINITY);
    Ok(stack_of(ranks, limit, asked.unsigned_abs() * 1024) as usize)
}

/// The same, of the limit and of the bytes that are asked for. Addresses are all that it takes: but a process has not more
/// than there are, so what no rank has asked for is bounded for each, and for all.
fn stack_of(ranks: u32, limit: u64, asked: u64) -> u64 {
    const EACH: u64 = 1 << 30;
    const ALL: u64 = 1 << 40;
    /// For a process without a limit, which says nothing about what it needs.
    const UNLIMITED: u64 = 64 << 20;
    let limit = if limit == libc::RLIM_INFINITY { UNLIMITED } else { limit };
    let limit = limit.min(EACH).min(ALL / u64::from(ranks.max(1)));
    limit.max(asked).max(mad_loader::STACK as u64).next_multiple_of(64 << 10)
}

/// Whether this library is a part of the program: each copy would have one of its own.
fn is_in_program() -> bool {
    let home = |address: usize| {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: memory for the answer; zeroes are a valid one.
        unsafe {
            libc::dladdr(std::ptr::without_provenance(address), info.as_mut_ptr());
            info.assume_init().dli_fbase
        }
    };
    // SAFETY: takes no pointers.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    home(entry) == home(initialize as *const () as usize)
}

fn run(
    copies: Vec<Arc<mad_loader::Rank>>,
    stack: usize,
    arguments: &[CString],
) -> Result<c_int, String> {
    let mode = Mode::from_env().map_err(|e| e.to_string())?;
    let manager = Manager::builder().mode(mode).build().map_err(|e| e.to_string())?;
    let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.run(|| {
        let builder = newmad::Session::builder().manager(manager).ordered();
        let sessions = builder.open_ranks(copies.len() as u32).map_err(|e| e.to_string())?;
        let mut threads = Vec::with_capacity(copies.len());
        let places = places(copies.len(), runtime.load().compute_vps());
        for (copy, session) in copies.into_iter().zip(sessions) {
            let mut thread = marcel::Builder::new().name(format!("rank {}", session.rank()));
            if let Some(place) = places.get(threads.len()) {
                thread = thread.bind(*place);
            }
            let arguments = arguments.to_vec();
            let rank = thread
                .stack_size(stack)
                .spawn(move || live(&copy, session, arguments))
                .map_err(|e| {
                    format!("starting a rank with a stack of {} MiB (ulimit -s): {e}", stack >> 20)
                })?;
            threads.push(rank);
        }
        let mut first = 0;
        for rank in threads {
            let status = rank.join().map_err(|_| "a rank has panicked".to_owned())?;
            first = if first == 0 { status } else { first };
        }
        Ok(first)
    })
}

/// The core of each of so many ranks, on so many virtual processors: neighbours share a virtual processor, and each has as many as another. A thread stays on
/// the processor where it has begun; so ranks that were left to themselves would stay where one had begun while another waited.
/// Empty: the process has one processor, or they have no cores.
fn places(ranks: usize, vps: usize) -> Vec<Object> {
    let cores = Topology::current().and_then(|topology| {
        let cores = topology.cores_for(vps, None)?;
        Ok((topology, cores))
    });
    let Ok((topology, cores)) = cores else { return Vec::new() };
    if cores.len() < 2 {
        return Vec::new();
    }
    let place = |rank: usize| {
        let node = &topology.nodes()[topology.leaf_of(cores[rank * cores.len() / ranks])?];
        Some(Object { level: node.level, id: node.id })
    };
    (0..ranks).map(place).collect::<Option<_>>().unwrap_or_default()
}

/// A rank from its beginning to its end; its exit status.
fn live(copy: &Arc<mad_loader::Rank>, session: newmad::Session, arguments: Vec<CString>) -> c_int {
    let rank = session.rank();
    per_rank::acts_for(copy.number());
    session.adopt_thread();
    job::opened(session.clone());
    // SAFETY: the program is what the user has started.
    let status = unsafe { copy.run(arguments) };
    if job::is_up() {
        let why =
            "has ended, and has not called MPI_Finalize: so its process ends, with all its ranks";
        job::end(&format!("rank {rank} {why}"), status)
    }
    if job::session().is_ok() {
        process::leave();
    } else {
        let _ = session.close(); // nothing is left to report an error to
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_as_large_as_the_limit_says_or_larger_if_asked_for() {
        const MIB: u64 = 1 << 20;
        let none = libc::RLIM_INFINITY;
        for (ranks, limit, asked, expected) in [
            (1, 8 * MIB, 0, 8 * MIB),
            (32, MIB, 256 << 10, 8 * MIB),
            (32, 64 * MIB, 256 << 10, 64 * MIB),
            (32, 8 * MIB, 64 * MIB, 64 * MIB),
            (32, none, 0, 64 * MIB),
            (32, 1 << 50, 0, 1 << 30),
            (65536, 1 << 50, 0, 16 * MIB),
            (65536, 1 << 50, 32 * MIB, 32 * MIB),
            (1, 9 * MIB + 1, 0, 9 * MIB + (64 << 10)),
        ] {
            assert_eq!(stack_of(ranks, limit, asked), expected, "{ranks} {limit} {asked}");
        }
    }
}
