//! `mad doctor`: what this machine offers to the library, tried out where that is possible, and what to do
//! about each lack.
//!
//! Checks are functions that give a [`Finding`]; [`probe`] holds those that need a second process, `kernel`
//! the system calls tried, `limits` what is only read.

mod kernel;
mod limits;
pub(crate) mod probe;

use clap::Args;
use serde::Serialize;

use mad_bench::out::{self, Outcome};

/// Options of `mad doctor`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad doctor
  mad doctor --json | grep lacking

Exit status 0 whatever is found: everything the library needs has a fallback, and each lack says which.")]
pub(crate) struct DoctorArgs {
    /// One JSON object per check and line
    #[arg(long)]
    json: bool,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It is there.
    Ok,
    /// It is there, with less than could be had.
    Limited,
    /// It is not there.
    Lacking,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    check: &'static str,
    status: Status,
    found: String,
    /// What to do about it; what happens without.
    advice: Option<&'static str>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, status: Status::Ok, found: found.into(), advice: None }
    }

    pub(crate) fn limited(
        check: &'static str,
        found: impl Into<String>,
        advice: &'static str,
    ) -> Finding {
        Finding { check, status: Status::Limited, found: found.into(), advice: Some(advice) }
    }

    pub(crate) fn lacking(
        check: &'static str,
        found: impl Into<String>,
        advice: &'static str,
    ) -> Finding {
        Finding { check, status: Status::Lacking, found: found.into(), advice: Some(advice) }
    }
}

/// Tries everything and prints it.
pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let checks: [fn() -> Finding; 20] = [
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
    ];
    let mut table = out::table(&["", "check", "found", "what to do about it"]);
    for check in checks {
        let finding = check();
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
            table.add_row([mark, finding.check, &finding.found, finding.advice.unwrap_or("")]);
        }
    }
    if args.json { Ok(()) } else { out::print(&table.trim_fmt()) }
}
