//! `mad doctor`: what this machine offers to the library, tried out where that is possible, and what to do
//! about each lack. Or, of a program, whether it can run as ranks of one process.
//!
//! Checks are functions that give a [`Finding`]; [`probe`] holds those that need a second process, `kernel`
//! the system calls tried, `limits` what is only read, `program` what a program is.

mod choices;
mod finding;
mod kernel;
mod limits;
pub(crate) mod probe;
mod program;

use std::path::PathBuf;

use clap::Args;
use finding::{Finding, Status};
use mad_bench::out::{self, Outcome};

/// Options of `mad doctor`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad doctor
  mad doctor --json | grep lacking
  mad doctor ./a.out                  can it run as ranks of one process, and what would they share?

Exit status 0 whatever is found: everything the library needs has a fallback, and each lack says which.")]
pub(crate) struct DoctorArgs {
    /// A program: whether it can run several times in one process, why not, and which data of libraries its ranks would
    /// share. None of its code runs
    program: Option<PathBuf>,

    /// One JSON object per check and line
    #[arg(long)]
    json: bool,
}

/// Tries everything and prints it.
pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let checks: [fn() -> Finding; 21] = [
        limits::cores,
        limits::hwloc,
        limits::clock,
        probe::cross_memory_attach,
        kernel::memfd,
        limits::dev_shm,
        kernel::loopback,
        kernel::timer_signal,
        kernel::slice,
        kernel::priority,
        kernel::real_time,
        kernel::io_uring,
        kernel::huge_pages,
        limits::descriptors,
        limits::processes,
        limits::locked_memory,
        limits::mappings,
        limits::verbs,
        limits::user_interrupts,
        limits::perf_events,
        choices::measured,
    ];
    let findings: Box<dyn Iterator<Item = Finding>> = match &args.program {
        Some(program) => Box::new(program::findings(program)?.into_iter()),
        None => Box::new(checks.into_iter().map(|check| check())),
    };
    let mut table = out::table(&["", "check", "found", "what to do about it"]);
    for finding in findings {
        if args.json {
            let line = serde_json::to_string(&finding)
                .map_err(|e| out::Exit::Failed(format!("doctor: {e}")))?;
            out::print(&line)?;
        } else {
            let mark = match finding.status {
                Status::Ok => "ok",
                Status::Limited => "limited",
                Status::Lacking => "lacking",
            };
            table.add_row([
                mark,
                finding.check,
                &finding.found,
                finding.advice.as_deref().unwrap_or(""),
            ]);
        }
    }
    if args.json { Ok(()) } else { out::print(&table.trim_fmt()) }
}
