//! The command line: one subcommand per file.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::doctor::probe::{self, Probe};
use crate::{doctor, knobs, mpiexec, run, topo, trace};
use mad_bench::across::{proxy, supervisor};
use mad_bench::command::{self as bench, BenchArgs, work};
use mad_bench::knobs as names;
use mad_bench::{demo, report, sample};
use marcel::plumbing::knob::WARNED;

/// Runs hybrid thread + message programs on this machine, and the experiments that measure them.
#[derive(Parser, Debug)]
#[command(name = "mad", version, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  mad run -n 2 ./stencil --size 512   start two processes that can reach each other
  mad demo                            the main result, in under a minute
  mad bench overlap --driver shm      measure: which side waits while the other computes
  mad sample                          measure the rails of this machine, for sessions to choose by
  mad report -o report.html           the experiments, in one page
  mad trace DIR -o out.json           a picture of what a run did, for Perfetto
  mad topo                            the cores that may be used
  mad knobs                           the environment variables that tune the library
  mad doctor                          what this machine offers, and what to do about each lack

Exit status: 0 success, 1 a run failed, 2 wrong usage, 130 interrupted (bench, report).")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start N processes of a program that can reach each other
    Run(run::RunArgs),
    /// Run one of the experiments
    Bench(Box<BenchArgs>),
    /// Measure how long messages take here, for sessions to choose by
    Sample(sample::SampleArgs),
    /// Show the main result in under a minute
    Demo(demo::DemoArgs),
    /// Run the experiments and write one page about them
    Report(report::ReportArgs),
    /// Make a picture, or tables, of what a run has recorded
    Trace(trace::TraceArgs),
    /// Show the cores that may be used and how they hang together
    Topo(topo::TopoArgs),
    /// Show every knob, its value in force and where that comes from
    Knobs(knobs::KnobsArgs),
    /// Show what this machine offers, and what to do about each lack
    Doctor(doctor::DoctorArgs),
    /// One of the two processes with which `mad doctor` tries cross-memory attach
    #[command(subcommand, hide = true)]
    Probe(Probe),
    /// A process that measures, started by `mad bench`
    #[command(hide = true)]
    Worker {
        /// What to measure
        spec: String,
    },
    /// What `mad bench` starts in place of a process on another machine
    #[command(hide = true)]
    Proxy {
        /// The arguments of that process
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The process beside one that measures for a `mad bench` on another machine
    #[command(hide = true)]
    Supervisor,
}

/// The words of the command line. Under MPI's names for a launcher they become those of `mad run`; `--help` and an option
/// that is not known end the process here.
fn words() -> Vec<OsString> {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let Some(name) = mpiexec::name(&called) else {
        return std::iter::once(called).chain(words).collect();
    };
    let command = Cli::command();
    let run = command.find_subcommand("run").expect("a subcommand");
    let words: Vec<OsString> = words.collect();
    match words.first().and_then(|word| word.to_str()) {
        Some("-h" | "--help") => {
            let usage =
                format!("Usage: {name} [OPTIONS] PROGRAM [ARGS]...\n\n{}", mpiexec::known(run));
            let _ = mad_bench::out::print(&format!("{usage}\n\n'mad run --help' says more.")); // or no reader
            std::process::exit(0)
        }
        Some("-V" | "--version") => vec!["mad".into(), "--version".into()],
        _ => mpiexec::translate(run, words.into_iter()).unwrap_or_else(|why| {
            mad_bench::out::complain(&format!("{name}: {why}"));
            std::process::exit(2)
        }),
    }
}

/// The options of the subcommand that was asked for, in a sentence.
fn options(named: Option<&OsString>) -> String {
    let mut command = Cli::command();
    command.build();
    let known = named.and_then(|name| command.find_subcommand(name)).unwrap_or(&command);
    let options: Vec<String> = known
        .get_arguments()
        .filter_map(|option| Some(format!("--{}", option.get_long()?)))
        .collect();
    format!("'{}' has the options {}", known.get_bin_name().unwrap_or("mad"), options.join(", "))
}

/// Warns of misspelt knobs, and has the processes that this one starts not warn of them again.
fn warn_of_unknown_knobs() {
    let names = names::warn_of_unknown();
    if !names.is_empty() {
        // SAFETY: the process has no other thread yet that could read the environment.
        unsafe { std::env::set_var(WARNED, names.join(",")) };
    }
}

/// Parses the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    mad_launch::signals::keep_exit_statuses();
    warn_of_unknown_knobs();
    let words = words();
    let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| {
        let unknown = error.kind() == ErrorKind::UnknownArgument;
        let _ = error.print(); // there is no reader to tell
        if unknown {
            mad_bench::out::complain(&options(words.get(1)));
        }
        std::process::exit(error.exit_code())
    });
    let outcome = match cli.command {
        Command::Run(args) => run::run(args),
        Command::Bench(args) => bench::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Topo(args) => topo::run(&args),
        Command::Knobs(args) => knobs::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Probe(probe) => probe::run(&probe),
        Command::Worker { spec } => work::run(&spec),
        Command::Proxy { args } => proxy::run(args),
        Command::Supervisor => supervisor::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}
