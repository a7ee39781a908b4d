//! `mad run`: the command line around [`mad_launch`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::knobs;
use mad_bench::out::{Exit, Outcome};
use mad_launch::{Failure, Job, Words};

/// Most processes that one `mad run` starts.
const PROCESSES_MAX: u32 = 4096;
/// Most ranks: so many the processes may hold in all, and so many one may.
const RANKS_MAX: i64 = 65536;
/// The knob that has each process hold several ranks.
const NMAD_RANKS: &str = "NMAD_RANKS";
/// What programs over madmpi are linked with.
const MADMPI: &str = "libmpi_abi.so";

/// Options of `mad run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad run -n 2 target/release/examples/stencil --size 512
  mad run -n 2 --driver tcp --timeout 60 ./ring
  mad run -n 8 --oversubscribed --tag-output ./ring
  mad run -n 64 --ranks-per-process 32 ./a.out        # an MPI program, compiled by madmpi's mpicc

The program finds its peers by PMI, version 1 or 2 (PMI_FD, PMI_RANK, PMI_SIZE); what does not speak it
(hostname, a script) is simply started N times. Knobs are environment variables: `mad knobs` lists them.
Standard input goes to rank 0. The cores are shared out
among the ranks: each binds its compute virtual processors to its own share (MARCEL_NVP, MARCEL_FIRSTCPU).

Exit status: 0 when every rank ended with 0; else that of the first rank that failed, 1 when it was killed
by a signal, when the job was interrupted or timed out, or when the program could not be started; 2 for
wrong usage. When a rank fails, the others have --grace seconds to end by themselves, then they get SIGTERM,
and one second later SIGKILL. With --keep-going they go on: a rank that was killed is named, and does not count, if
another one ends with 0; MPI_Abort ends the job as ever. Ctrl-C is passed on; a second one kills. Ctrl-\\ (SIGQUIT) is passed on. It has
processes with green threads (NMAD_RANKS, Rust programs over newmad) write what every thread of them does, and twice within
a second it ends them; other programs end by it.")]
pub(crate) struct RunArgs {
    /// Number of ranks: of processes, unless several ranks share one
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// Ranks that share a process, each a green thread with a copy of the program: for MPI programs over madmpi (sets
    /// NMAD_RANKS). Output is tagged with the process. docs/ranks-as-threads.md says which programs can
    #[arg(long, value_name = "K", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks_per_process: u32,
    /// How they reach each other: shm, tcp, verbs, local, or several rails as in shm+tcp (sets NMAD_DRIVER)
    #[arg(long, value_name = "DRIVER", value_parser = drivers)]
    driver: Option<String>,
    /// How green threads are run (sets MARCEL_MODE)
    #[arg(long, value_name = "MODE", value_parser = mad_bench::knobs::values_of("MARCEL_MODE"))]
    mode: Option<String>,
    /// More processes than cores: one compute virtual processor per process
    #[arg(long)]
    oversubscribed: bool,
    /// End the job after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = mad_bench::out::seconds)]
    timeout: Option<Duration>,
    /// When --timeout ends the job, have each process write first what every thread of it does (SIGQUIT)
    #[arg(long, requires = "timeout")]
    dump_on_timeout: bool,
    /// How long the other ranks may go on after one has failed
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = mad_bench::out::seconds)]
    grace: Duration,
    /// Let the other ranks go on when one has failed: for programs that survive it (ULFM)
    #[arg(long, conflicts_with = "grace")]
    keep_going: bool,
    /// Begin every line of output with the rank that wrote it, and never mix lines
    #[arg(long)]
    tag_output: bool,
    /// Have each process tell at the end what its I/O manager has done (sets PIOM_STATS)
    #[arg(long)]
    stats: bool,
    /// Have each process record what its scheduler and I/O manager do, into this directory, which has no
    /// traces yet (sets MARCEL_TRACE); then `mad trace DIR`
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// The program (a path, or a name to be found in PATH), and its arguments
    #[arg(value_name = "PROGRAM [ARGS]", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// `LD_LIBRARY_PATH` for programs, if this command lies in the prefix of an installed madmpi. Some programs (those over
/// rsmpi) do not know where their MPI is; a library that the user names comes first.
fn library_path() -> Option<OsString> {
    let command = std::env::current_exe().ok()?;
    let folder = command.parent()?.parent()?.join("lib");
    if !folder.join("libmpi_abi.so.1").exists() {
        return None;
    }
    let named = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let folders: Vec<PathBuf> =
        named.iter().flat_map(std::env::split_paths).chain([folder]).collect();
    std::env::join_paths(folders).ok()
}

/// Why the program that the words name cannot run with several ranks in a process; `None`: it can, or that is not known. What
/// starts another program (a debugger, `env`) is judged by the one that it is to start.
fn objection(words: &[OsString]) -> Option<String> {
    let mut named = words.iter().skip(1).map(PathBuf::from).filter(|path| path.is_file());
    let program = mad_launch::find(words.first()?).ok()?;
    let found = mad_loader::inspect(&program).ok()?;
    let uses_madmpi = |found: &mad_loader::Inspection| {
        found.libraries.iter().any(|library| library.starts_with(MADMPI))
    };
    if uses_madmpi(&found) && found.refusal.is_none()
        || named.any(|other| mad_loader::inspect(&other).is_ok_and(|found| uses_madmpi(&found)))
    {
        return None;
    }
    // What has newmad, or madmpi, in itself knows the variable, and says at its start what it can.
    let knob = NMAD_RANKS.as_bytes();
    if std::fs::read(&program).is_ok_and(|file| file.windows(knob.len()).any(|word| word == knob)) {
        return None;
    }
    use mad_loader::Refusal::{MissingLibraries, NotElf, Script};
    match found.refusal {
        // A script may start a program that can; what is missing the program's start tells.
        Some(NotElf | Script(_) | MissingLibraries(_)) => None,
        Some(refusal) => Some(format!("{}: {}", refusal.reason(), refusal.way_out())),
        None => Some(
            "it does not use madmpi as a shared library (libmpi_abi.so.1): compile an MPI program with madmpi's mpicc, \
             without -static-mpi; or run processes, without --ranks-per-process"
                .into(),
        ),
    }
}

/// Names of drivers, with `+` between them.
fn drivers(text: &str) -> Result<String, newmad::Error> {
    text.split('+').try_for_each(|name| name.parse::<newmad::Driver>().map(drop))?;
    Ok(text.to_owned())
}

/// Whether `mad trace` would find something in the directory.
fn has_traces(dir: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(dir)? {
        if entry?.path().extension().is_some_and(|extension| extension == "trace") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs the job that the command line describes.
pub(crate) fn run(args: RunArgs) -> Outcome {
    if args.driver.as_deref() == Some("local") && args.ranks > args.ranks_per_process {
        return Err(Exit::Usage(
            "--driver local reaches only threads of the same process: use it with -n 1, or take shm or tcp"
                .into(),
        ));
    }
    let (each, processes) = (args.ranks_per_process, args.ranks / args.ranks_per_process);
    if each > 1 && processes * each != args.ranks {
        return Err(Exit::Usage(format!(
            "{} ranks in processes of {each} are no whole number of processes: take a multiple of {each} with -n",
            args.ranks
        )));
    }
    if processes > PROCESSES_MAX {
        return Err(Exit::Usage(format!(
            "{processes} processes are more than the {PROCESSES_MAX} that can be started; several ranks share one with \
             --ranks-per-process"
        )));
    }
    if each > 1
        && let Some(why) = objection(&args.command)
    {
        let program = args.command[0].to_string_lossy();
        return Err(Exit::Failed(format!(
            "run: {program} cannot be {each} ranks of a process: {why}"
        )));
    }
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &str, value: &str| env.push((name.into(), value.into()));
    if args.oversubscribed {
        for (name, value) in knobs::OVERSUBSCRIBED {
            if std::env::var_os(name).is_none() {
                set(name, value);
            }
        }
    }
    if each > 1 {
        set(NMAD_RANKS, &each.to_string());
    }
    if let Some(driver) = &args.driver {
        set("NMAD_DRIVER", driver);
    }
    if let Some(mode) = &args.mode {
        set("MARCEL_MODE", mode);
    }
    if args.stats {
        env.push(("PIOM_STATS".into(), "1".into()));
    }
    if let Some(dir) = &args.trace {
        let failed =
            |why: &dyn std::fmt::Display| Exit::Failed(format!("run: {}: {why}", dir.display()));
        let made = std::fs::create_dir_all(dir).and_then(|()| std::fs::canonicalize(dir));
        let dir = made.map_err(|e| failed(&e))?;
        if has_traces(&dir).map_err(|e| failed(&e))? {
            return Err(failed(&format!(
                "it has traces of an earlier run, and `mad trace` would take both for one: remove them \
                 (rm {}/*.trace), or name another directory",
                dir.display()
            )));
        }
        env.push(("MARCEL_TRACE".into(), dir.into_os_string()));
    }
    env.extend(library_path().map(|path| ("LD_LIBRARY_PATH".into(), path)));
    let mut words = args.command.into_iter();
    let job = Job {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        ranks: processes,
        unit: if each > 1 { "process" } else { "rank" },
        env,
        places: Vec::new(),
        timeout: args.timeout,
        timeout_option: Some("--timeout"),
        dump_on_timeout: args.dump_on_timeout,
        grace: args.grace,
        keep_going: args.keep_going,
        name: "mad run",
    };
    let words = if args.tag_output { Words::Tagged } else { Words::Inherited };
    match mad_launch::run(&job, words) {
        Ok(()) => Ok(()),
        Err(Failure::Start(why)) => Err(Exit::Failed(format!("run: {why}"))),
        Err(Failure::Run { code, .. }) => Err(Exit::Code(code)),
        Err(Failure::BrokenPipe) => Err(Exit::Code(1)),
    }
}
