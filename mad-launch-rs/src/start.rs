//! Starting the processes of one part, all or none.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::pmi::spawn::Command;
use crate::rank::{self, Rank, Start};
use crate::{Job, Place};

/// What every process is started with.
pub(crate) struct Starter {
    /// What messages call a process.
    pub(crate) unit: &'static str,
    /// Variables.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The launcher reads the output.
    pub(crate) capture: bool,
    /// Processes are on other machines, too.
    pub(crate) elsewhere: bool,
}

/// A variable that tells a process to hold several ranks, which spawned ones do not.
const RANKS: &str = "NMAD_RANKS";

impl Starter {
    /// Starts the job of the command line.
    pub(crate) fn job(&self, job: &Job, program: &Path) -> Result<Vec<Rank>, String> {
        let rank = |rank: u32| {
            let place: Option<&Place> = job.places.get(rank as usize);
            let (mut args, mut env) = (job.args.clone(), self.env.clone());
            if let Some(proxy) = place.and_then(|place| place.proxy.as_ref()) {
                args.splice(..0, proxy.words.iter().cloned());
                env.extend(proxy.env.iter().cloned());
            }
            let local = place.map_or((rank, job.ranks), |place| place.local);
            let numbers = Numbers { rank, size: job.ranks, local };
            let from = From { dir: None, spawned: false };
            self.one((program, &job.program), &args, &env, numbers, from)
        };
        all(job.ranks, rank).map_err(|(at, error)| {
            start_error(&job.program.to_string_lossy(), (self.unit, at, job.ranks), &error)
        })
    }

    /// Starts what a process asks for.
    pub(crate) fn spawn(&self, commands: &[Command]) -> Result<Vec<Rank>, String> {
        if self.elsewhere {
            return Err("a job on several machines cannot start more processes".into());
        }
        let all_of_them: u32 = commands.iter().map(|command| command.processes).sum();
        let mut env = self.env.clone();
        env.retain(|(name, _)| name != RANKS);
        let mut found = Vec::new();
        for command in commands {
            let here = [Some("localhost".to_owned()), host()];
            if let Some(host) = command.hint(&["host"])
                && !here.iter().flatten().any(|name| name == host)
            {
                return Err(format!("host {host}: mad run starts processes on this machine only"));
            }
            let dir = command.hint(&["wdir", "wd"]).map(PathBuf::from);
            if let Some(dir) = dir.as_ref().filter(|dir| !dir.is_dir()) {
                return Err(format!("the folder {} (wd) does not exist", dir.display()));
            }
            let program = find(&command.program, command.hint(&["path"]), dir.as_deref())?;
            let args: Vec<OsString> = command.args.iter().map(OsString::from).collect();
            found.extend(
                (0..command.processes)
                    .map(|_| (command, program.clone(), dir.clone(), args.clone())),
            );
        }
        let rank = |rank: u32| {
            let (command, program, dir, args) = &found[rank as usize];
            let local = (rank, all_of_them);
            let numbers = Numbers { rank, size: all_of_them, local };
            let from = From { dir: dir.as_deref(), spawned: true };
            self.one((program, OsStr::new(&command.program)), args, &env, numbers, from)
        };
        all(all_of_them, rank).map_err(|(at, error)| {
            let program = found.get(at as usize).map_or("", |(command, ..)| &command.program);
            start_error(program, (self.unit, at, all_of_them), &error)
        })
    }

    fn one(
        &self,
        (program, name): (&Path, &OsStr),
        args: &[OsString],
        env: &[(OsString, OsString)],
        Numbers { rank, size, local }: Numbers,
        From { dir, spawned }: From<'_>,
    ) -> io::Result<Rank> {
        let capture = self.capture;
        Rank::start(&Start { program, name, args, env, rank, size, local, capture, dir, spawned })
    }
}

struct Numbers {
    rank: u32,
    size: u32,
    local: (u32, u32),
}

struct From<'a> {
    dir: Option<&'a Path>,
    spawned: bool,
}

/// Starts so many, or none: those that run already are killed if one cannot be started.
fn all(count: u32, start: impl Fn(u32) -> io::Result<Rank>) -> Result<Vec<Rank>, (u32, io::Error)> {
    let mut ranks = Vec::with_capacity(count as usize);
    for rank in 0..count {
        match start(rank) {
            Ok(rank) => ranks.push(rank),
            Err(error) => {
                ranks.iter().for_each(|rank: &Rank| rank.signal(libc::SIGKILL));
                ranks.iter_mut().for_each(Rank::wait);
                return Err((rank, error));
            }
        }
    }
    Ok(ranks)
}

fn host() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
}

/// The file of a program that is spawned: relative to this folder or to that of the new process; in the folders of
/// `path`, or in `PATH`.
fn find(program: &str, path: Option<&str>, dir: Option<&Path>) -> Result<PathBuf, String> {
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>());
    let in_path = |folder: &PathBuf| rank::find(folder.join(program).as_os_str()).ok();
    if let Some(found) = folders.iter().flatten().find_map(in_path) {
        return absolute(found);
    }
    match rank::find(OsStr::new(program)) {
        Ok(found) => absolute(found),
        Err(why) => {
            let there = dir.and_then(|dir| rank::find(dir.join(program).as_os_str()).ok());
            there.ok_or(why).and_then(absolute)
        }
    }
}

fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    std::path::absolute(&path).map_err(|error| format!("program {}: {error}", path.display()))
}

fn start_error(program: &str, (unit, rank, ranks): (&str, u32, u32), e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ENOENT) => format!(
            "program {program} is there but cannot be started: the interpreter or loader that it names is missing"
        ),
        Some(libc::ENOEXEC) => {
            format!("program {program} is neither a program nor a script with a #! line")
        }
        Some(libc::EAGAIN) => format!(
            "no more processes for this user after {unit} {rank} of {ranks}: raise `ulimit -u`, or start fewer"
        ),
        Some(libc::EMFILE | libc::ENFILE) => format!(
            "no more file descriptors after {unit} {rank} of {ranks}: raise `ulimit -n`, or start fewer"
        ),
        _ => format!("{unit} {rank} of {program} cannot be started: {e}"),
    }
}
