//! A child that runs, or has ended.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::fd::{Interest, Registered};
use crate::io::timer::from_now;

/// Between two questions, where there is no pidfd: at first, and in the end.
const ASK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// As [`std::process::Child`]. Dropping it neither ends the child nor waits for it.
#[derive(Debug)]
pub struct Child {
    /// Its input, if that was [`std::process::Stdio::piped`].
    pub stdin: Option<ChildStdin>,
    /// Its output, if that was piped.
    pub stdout: Option<ChildStdout>,
    /// Its errors, if they were piped.
    pub stderr: Option<ChildStderr>,
    child: std::process::Child,
    /// Opened when it is first needed; `None` in it: the kernel gives none.
    pidfd: Option<Option<Registered<OwnedFd>>>,
}

impl From<std::process::Child> for Child {
    fn from(mut child: std::process::Child) -> Child {
        Child {
            stdin: child.stdin.take().map(ChildStdin::from),
            stdout: child.stdout.take().map(ChildStdout::from),
            stderr: child.stderr.take().map(ChildStderr::from),
            child,
            pidfd: None,
        }
    }
}

impl Child {
    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it (`SIGKILL`).
    ///
    /// # Errors
    /// As [`std::process::Child::kill`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// How it has ended, if it has.
    ///
    /// # Blocking
    /// No.
    ///
    /// # Errors
    /// As [`std::process::Child::try_wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Closes its input, and waits for its end.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// As [`std::process::Child::wait`]; the runtime of the thread stops.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        if !marcel::is_green() {
            return self.child.wait();
        }
        match self.ended(None)? {
            Some(status) => Ok(status),
            None => self.child.wait(), // not without a deadline
        }
    }

    /// As [`Child::wait`], for `time` at most; `None` if it runs then still. Its input stays open.
    ///
    /// # Blocking, Errors
    /// As [`Child::wait`].
    pub fn wait_timeout(&mut self, time: Duration) -> io::Result<Option<ExitStatus>> {
        self.wait_until(from_now(time))
    }

    /// As [`Child::wait_timeout`], until `deadline`.
    ///
    /// # Blocking, Errors
    /// As [`Child::wait`].
    pub fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        self.ended(Some(deadline))
    }

    /// Waits for its end, and collects what it writes meanwhile.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// Of reading and waiting.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        // Both at once: a child that fills one pipe while the other is read would wait for ever.
        let (stdout, stderr) = match (stdout, stderr) {
            (Some(stdout), Some(stderr)) if marcel::is_green() => {
                let other = marcel::spawn(move || all(Some(stderr)));
                (all(Some(stdout)), joined(other.join()))
            }
            (Some(stdout), Some(stderr)) => std::thread::scope(|scope| {
                let other =
                    std::thread::Builder::new().spawn_scoped(scope, || all(Some(stderr)))?;
                io::Result::Ok((all(Some(stdout)), joined(other.join())))
            })?,
            (stdout, stderr) => (all(stdout), all(stderr)),
        };
        let (stdout, stderr) = (stdout?, stderr?);
        Ok(Output { status: self.wait()?, stdout, stderr })
    }

    /// Waits for its end; `None` after the deadline.
    fn ended(&mut self, deadline: Option<Instant>) -> io::Result<Option<ExitStatus>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(status));
        }
        // It has not been waited for, so the number is still its own.
        let pidfd = self.pidfd.get_or_insert_with(|| open_pidfd(self.child.id()).ok());
        let child = &mut self.child;
        let Some(pidfd) = pidfd else { return ask(child, deadline) };
        let ended = |_: &OwnedFd| child.try_wait()?.ok_or(io::ErrorKind::WouldBlock.into());
        match deadline {
            None => pidfd.io(Interest::Readable, ended).map(Some),
            Some(deadline) => pidfd.io_until(Interest::Readable, deadline, ended),
        }
    }
}

fn open_pidfd(pid: u32) -> io::Result<Registered<OwnedFd>> {
    let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(Registered::lazy(pidfd_open(pid, PidfdFlags::empty())?)) // closed by `exec`
}

/// Asks now and then whether it has ended; `None` after the deadline.
fn ask(
    child: &mut std::process::Child,
    deadline: Option<Instant>,
) -> io::Result<Option<ExitStatus>> {
    let mut pause = ASK[0];
    loop {
        let status = child.try_wait()?;
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        if status.is_some() || left.is_some_and(|left| left.is_zero()) {
            return Ok(status);
        }
        marcel::sleep(left.map_or(pause, |left| left.min(pause)));
        pause = (pause * 2).min(ASK[1]);
    }
}

fn all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match pipe {
        Some(mut pipe) => pipe.read_to_end(&mut bytes).map(|_| bytes),
        None => Ok(bytes),
    }
}

fn joined<E>(result: Result<io::Result<Vec<u8>>, E>) -> io::Result<Vec<u8>> {
    result.unwrap_or_else(|_| {
        Err(io::Error::other("the thread that reads a child's errors has panicked"))
    })
}
