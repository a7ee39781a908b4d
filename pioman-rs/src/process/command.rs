//! What is to be run, and how.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};

use super::Child;

/// As [`std::process::Command`].
#[derive(Debug)]
pub struct Command {
    command: std::process::Command,
    /// Which of input, output and errors have been set.
    set: [bool; 3],
}

impl Command {
    /// To run `program`, found in `PATH` unless it is a path.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command { command: std::process::Command::new(program), set: [false; 3] }
    }

    /// One more argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg(arg);
        self
    }

    /// More arguments.
    pub fn args<S: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(key, value);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.command.env_remove(key);
        self
    }

    /// Removes all environment variables.
    pub fn env_clear(&mut self) -> &mut Self {
        self.command.env_clear();
        self
    }

    /// The folder to run in.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.command.current_dir(folder);
        self
    }

    /// Where its input comes from.
    pub fn stdin(&mut self, from: impl Into<Stdio>) -> &mut Self {
        self.command.stdin(from);
        self.set[0] = true;
        self
    }

    /// Where its output goes.
    pub fn stdout(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.command.stdout(to);
        self.set[1] = true;
        self
    }

    /// Where its errors go.
    pub fn stderr(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.command.stderr(to);
        self.set[2] = true;
        self
    }

    /// The standard library's command, for what is not here. Where input, output and errors go is set by the methods
    /// above: of what is set here [`Command::output`] does not know.
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.command
    }

    /// Starts it.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread, until the program is loaded.
    ///
    /// # Errors
    /// As [`std::process::Command::spawn`].
    pub fn spawn(&mut self) -> io::Result<Child> {
        // On the virtual processor's own thread: it takes a millisecond at most, and a child may be told to end with
        // the thread that has started it (`PR_SET_PDEATHSIG`), which a thread of the pool does soon.
        self.command.spawn().map(Child::from)
    }

    /// Runs it to its end.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// As [`std::process::Command::status`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Runs it to its end, and collects what it writes, unless it was set where that goes. Its input is empty, unless
    /// it was set.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// As [`std::process::Command::output`].
    pub fn output(&mut self) -> io::Result<Output> {
        if !self.set[0] {
            self.command.stdin(Stdio::null());
        }
        if !self.set[1] {
            self.command.stdout(Stdio::piped());
        }
        if !self.set[2] {
            self.command.stderr(Stdio::piped());
        }
        let spawned = self.spawn();
        // As before, for later calls of `spawn`.
        if !self.set[0] {
            self.command.stdin(Stdio::inherit());
        }
        if !self.set[1] {
            self.command.stdout(Stdio::inherit());
        }
        if !self.set[2] {
            self.command.stderr(Stdio::inherit());
        }
        spawned?.wait_with_output()
    }
}
