//! Programs of other libraries: built on first use into the user's cache, run with their output read line by line.
//!
//! A program's folder has a name made of everything that it depends on, so a changed source, option or compiler makes
//! another program. `mad` processes may build one program at the same time: each builds under a name of its own and
//! renames the whole.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::harness::worker::WorkResult;

/// A source file: its path below the program's folder, and its text.
pub(crate) type Source = (&'static str, &'static str);

/// How long processes may take to end after they have said that everything is measured. Debian's MPICH over TCP does
/// not always return from `MPI_Finalize`; with asynchronous progress, in two runs of five.
pub(crate) const ENDING: Duration = Duration::from_secs(2);
/// How long a launcher may take to end its processes after SIGTERM.
const TERM: Duration = Duration::from_secs(2);
/// How much of a program's standard error is kept.
const WORDS_MAX: usize = 600;

/// The value of a variable, unless it is empty.
pub(crate) fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The user's cache of `mad`.
///
/// # Errors
/// What to set.
pub(crate) fn cache() -> Result<PathBuf, String> {
    set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))
        .map(|cache| cache.join("mad"))
        .ok_or_else(|| "no place for its program: set HOME or XDG_CACHE_HOME".into())
}

/// The folder of a program that depends on `inputs`.
///
/// # Errors
/// There is no cache.
pub(crate) fn place(name: &str, inputs: impl Hash) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    inputs.hash(&mut hasher);
    Ok(cache()?.join(format!("peers/{name}-{:016x}", hasher.finish())))
}

/// Builds `program` in its folder `place`, unless it is there. `command`: what builds it under the name that it is
/// given, from the sources in the folder.
///
/// # Errors
/// The file that cannot be written, or what the compiler says first.
pub(crate) fn build(
    place: &Path,
    program: &Path,
    sources: &[Source],
    command: impl FnOnce(&Path) -> Command,
) -> Result<(), String> {
    if program.exists() {
        return Ok(());
    }
    for (path, text) in sources {
        let path = place.join(path);
        let written = fs::create_dir_all(path.parent().unwrap_or(place))
            .and_then(|()| fs::write(&path, text));
        written.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let part = program.with_extension(std::process::id().to_string());
    let mut command = command(&part);
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", complaint(&String::from_utf8_lossy(&output.stderr))));
    }
    // Cargo has put the program in its place by itself.
    if !program.exists() {
        fs::rename(&part, program).map_err(|e| format!("{}: {e}", program.display()))?;
    }
    Ok(())
}

/// What a compiler complains about first.
fn complaint(said: &str) -> &str {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.contains("error") || line.contains("cannot find"));
    error.or_else(|| lines().next()).unwrap_or("it failed and said nothing")
}

/// How a program came to its end.
pub(crate) struct Outcome {
    /// `None`: it had said everything, did not end in time, and was killed.
    status: Option<ExitStatus>,
    /// What it said first on standard error.
    pub(crate) said: String,
}

impl Outcome {
    /// Whether it had to be killed after it had said everything.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.is_none()
    }

    /// How it has failed, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        let status = self.status.filter(|status| !status.success())?;
        Some(format!("ended with {status}: {}", self.said))
    }
}

/// Runs a program and gives each line of its standard output to `hear`, which returns true for the last one: from
/// then on the program has [`ENDING`] to end.
///
/// # Blocking
/// Until the program has ended.
///
/// # Errors
/// It cannot be started, or `hear` refuses a line. The program is ended first.
pub(crate) fn run(
    command: &mut Command,
    hear: impl FnMut(String) -> WorkResult<bool>,
) -> WorkResult<Outcome> {
    let name = Path::new(command.get_program()).display().to_string();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{name}: {e}"))?;
    let said = child.stderr.take().map(|stderr| std::thread::spawn(|| first_words(stderr)));
    let heard = lines(&mut child, hear);
    if matches!(heard, Ok(true)) {
        let status = Some(child.wait()?);
        let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
        return Ok(Outcome { status, said });
    }
    // Its standard error is not waited for: a process that it leaves behind may hold that open.
    kill(&mut child)?;
    heard.map(|_| Outcome { status: None, said: String::new() })
}

/// Gives the lines of a child's output to `hear`. True: the output has ended; false: it has not ended in time after
/// the last line.
fn lines(child: &mut Child, mut hear: impl FnMut(String) -> WorkResult<bool>) -> WorkResult<bool> {
    let (sender, receiver) = channel();
    let stdout = child.stdout.take();
    // This thread is not joined: it ends with the child's output.
    std::thread::spawn(move || {
        let lines = stdout.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        for line in lines {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut last = false;
    loop {
        let line = match last {
            false => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            true => receiver.recv_timeout(ENDING),
        };
        match line {
            Ok(line) => last |= hear(line?)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        }
    }
}

/// Ends a launcher: first by SIGTERM, so that it ends its processes; then by force. The launcher of this process ends
/// what is left behind.
fn kill(child: &mut Child) -> std::io::Result<()> {
    // SAFETY: takes no pointers; the child has not been waited for, so the id is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let until = Instant::now() + TERM;
    while Instant::now() < until {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait().map(drop)
}

/// The first lines of a program's standard error; the rest is read and forgotten.
fn first_words(stderr: impl Read) -> String {
    let mut words = String::new();
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if words.len() + line.len() < WORDS_MAX {
            words.extend([line.trim(), " "]);
        }
    }
    words.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_what_counts() {
        let said = "In file included from x.c:1:\nx.c:1:10: fatal error: abt.h: No such file\nnote";
        assert_eq!(complaint(said), "x.c:1:10: fatal error: abt.h: No such file");
        assert_eq!(complaint("\n"), "it failed and said nothing");
    }

    #[test]
    fn a_program_that_says_something_wrong_does_not_go_on() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$; exec sleep 60"]);
        let mut process = String::new();
        let refused = run(&mut shell, |line| {
            process = line;
            Err("wrong".into())
        });
        assert_eq!(refused.err().map(|why| why.to_string()).as_deref(), Some("wrong"));
        assert!(!Path::new("/proc").join(&process).exists(), "process {process} goes on");
    }

    #[test]
    fn a_failure_has_the_status_and_the_first_words() {
        let mut shell = Command::new("sh");
        let outcome = run(shell.args(["-c", "echo lost >&2; exit 3"]), |_| Ok(false)).unwrap();
        let failure = outcome.failure().unwrap();
        assert!(failure.contains('3') && failure.ends_with(": lost"), "{failure}");
    }
}
