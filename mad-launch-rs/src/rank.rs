//! One rank of a job: how it is started, its PMI connection, its output, how it ended.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::exec::Exec;
use super::pmi::Frames;
use super::signals;

/// Longest line of output that is passed on as one; longer ones are cut.
const OUTPUT_LINE_MAX: usize = 1 << 20;
/// Replies that a rank may leave unread.
const UNREAD_MAX: usize = 1 << 20;

/// Exit status of a rank that ends because another one is gone: `MPI_ERR_PROC_ABORTED` of madmpi.
pub(crate) const PEER_GONE: i32 = 58;

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl End {
    fn of(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(code),
            (None, signal) => End::Signal(signal.unwrap_or(0)),
        }
    }

    /// Place among ends that were seen at once, the likely cause first: a signal, an exit, an exit with
    /// [`PEER_GONE`].
    pub(crate) fn likely_cause(self) -> u8 {
        match self {
            End::Signal(_) => 0,
            End::Code(PEER_GONE) => 2,
            End::Code(_) => 1,
        }
    }

    /// In words: "exited with status 3", "was killed by SIGKILL (9)".
    pub fn words(self) -> String {
        match self {
            End::Code(code) => format!("exited with status {code}"),
            End::Signal(signal) => format!("was killed by {}", signals::name(signal)),
        }
    }
}

/// Which of a rank's two streams a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// A pipe from a rank, cut into lines.
pub struct Output {
    pipe: Pipe,
    held: Vec<u8>,
    /// How much is still read, once the end was set.
    left: Option<usize>,
}

enum Pipe {
    Out(ChildStdout),
    Err(ChildStderr),
}

impl Output {
    fn of(pipe: Pipe) -> Output {
        Output { pipe, held: Vec::new(), left: None }
    }

    /// The descriptor to poll.
    pub fn fd(&self) -> RawFd {
        match &self.pipe {
            Pipe::Out(pipe) => pipe.as_raw_fd(),
            Pipe::Err(pipe) => pipe.as_raw_fd(),
        }
    }

    /// Which stream this is.
    pub fn stream(&self) -> Stream {
        match &self.pipe {
            Pipe::Out(_) => Stream::Out,
            Pipe::Err(_) => Stream::Err,
        }
    }

    /// Sets the end: no more is read than is there now. A later call changes nothing.
    pub fn end_here(&mut self) {
        let fd = self.fd();
        self.left.get_or_insert_with(|| unread(fd));
    }

    /// Whether nothing is left of what it held when its end was set.
    pub(crate) fn is_at_end(&self) -> bool {
        self.left == Some(0)
    }

    /// Reads once; every complete line goes to `each`. True: the other end is closed, or the end that was set is reached, and
    /// what was left without a newline has been given too.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn read(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        let mut buffer = [0u8; 16384];
        let most = self.left.map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = match &mut self.pipe {
            _ if most == 0 => Ok(0),
            Pipe::Out(pipe) => pipe.read(&mut buffer[..most]),
            Pipe::Err(pipe) => pipe.read(&mut buffer[..most]),
        };
        let bytes = match read {
            Ok(0) => &[][..],
            Ok(n) => &buffer[..n],
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                return Ok(false);
            }
            Err(_) => &[][..],
        };
        self.left = self.left.map(|left| left - bytes.len());
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.held.extend_from_slice(piece);
            let complete = self.held.last() == Some(&b'\n');
            if complete || self.held.len() > OUTPUT_LINE_MAX {
                let line = std::mem::take(&mut self.held);
                each(line.strip_suffix(b"\n").unwrap_or(&line))?;
            }
        }
        let ends = bytes.is_empty() || self.left == Some(0);
        if ends && !self.held.is_empty() {
            let line = std::mem::take(&mut self.held);
            each(&line)?;
        }
        Ok(ends)
    }
}

/// How many bytes are in a pipe or a socket.
fn unread(fd: RawFd) -> usize {
    let mut there: libc::c_int = 0;
    // SAFETY: the call writes an int.
    unsafe { libc::ioctl(fd, libc::FIONREAD, &mut there) };
    usize::try_from(there).unwrap_or(0)
}

/// The launcher's end of a rank's PMI connection.
pub struct Connection {
    stream: UnixStream,
    /// What has arrived of a message that is not complete.
    pub(crate) frames: Frames,
    unsent: Vec<u8>,
}

impl Connection {
    /// The descriptor to poll.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// How many bytes have arrived that were not read.
    pub(crate) fn unread(&self) -> usize {
        unread(self.fd())
    }

    /// Whether writability is to be polled for.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// What has arrived; `None` when the other end is closed.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0u8; 16384];
        match self.stream.read(&mut buffer) {
            Ok(0) => None,
            Ok(n) => {
                buffer.truncate(n);
                Some(buffer)
            }
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                Some(Vec::new())
            }
            Err(_) => None,
        }
    }

    /// Sends what can be sent now and keeps the rest. False: the rank reads nothing, give it up.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.unsent.extend_from_slice(bytes);
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => break,
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break, // full: later; closed: its end is seen by the reader
            }
        }
        self.unsent.len() <= UNREAD_MAX
    }
}

/// How long the launcher waits for the exit status of a rank that has closed its PMI connection: the status, if it comes,
/// explains more than the close.
const CLOSED: Duration = Duration::from_millis(200);
/// How long it does so while the kernel says that the rank is ending: a process may be stuck there, in a file system for one.
const ENDING: Duration = Duration::from_secs(10);

/// A PMI connection that was closed while its rank had not ended.
pub(crate) struct Closed {
    since: Instant,
    /// When the launcher looks again.
    pub(crate) look: Instant,
}

impl Closed {
    pub(crate) fn new(now: Instant) -> Closed {
        Closed { since: now, look: now + CLOSED }
    }

    /// Whether the close is all that the rank's peers can be told. False: its exit status may still come.
    pub(crate) fn says_all(&mut self, now: Instant, is_ending: impl FnOnce() -> bool) -> bool {
        if self.look <= now && now < self.since + ENDING && is_ending() {
            self.look = now + CLOSED;
        }
        self.look <= now
    }
}

/// One started process.
pub struct Rank {
    child: Child,
    /// How it ended, once it has.
    pub ended: Option<End>,
    /// Its PMI connection while that is open.
    pub connection: Option<Connection>,
    /// Its connection was closed without word that it ended: it may be about to.
    pub(crate) closed: Option<Closed>,
    /// Its captured streams that are still open.
    pub outputs: Vec<Output>,
}

/// What a rank is started with.
pub struct Start<'a> {
    /// Program, found already (see `find`).
    pub program: &'a Path,
    /// The program's name as the user gave it: its `argv[0]`.
    pub name: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Variables set for every rank.
    pub env: &'a [(OsString, OsString)],
    /// This rank's number.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// Which it is of those that share the cores, and how many do.
    pub local: (u32, u32),
    /// Whether its output is read by the launcher.
    pub capture: bool,
    /// Where it starts; `None`: where the launcher is.
    pub dir: Option<&'a Path>,
    /// Whether another process has asked for it.
    pub spawned: bool,
}

impl Rank {
    /// Starts the process.
    ///
    /// # Errors
    /// The kernel's: no descriptors, no processes, not executable.
    pub fn start(start: &Start<'_>) -> io::Result<Rank> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let theirs = OwnedFd::from(theirs);
        let fd = theirs.as_raw_fd();
        let mut command = Command::new(start.program);
        command
            .arg0(start.name)
            .args(start.args)
            .envs(start.env.iter().map(|(name, value)| (name, value)))
            .env("PMI_FD", fd.to_string())
            .env("PMI_RANK", start.rank.to_string())
            .env("PMI_SIZE", start.size.to_string())
            .env("MAD_LOCAL_RANK", start.local.0.to_string())
            .env("MAD_LOCAL_SIZE", start.local.1.to_string());
        for foreign in ["PMI_PORT", "PMI_ID", "PMI_SPAWNED", "PMIX_RANK", "PMIX_NAMESPACE"] {
            command.env_remove(foreign);
        }
        if let Some(dir) = start.dir {
            command.current_dir(dir);
        }
        if start.spawned {
            command.env("PMI_SPAWNED", "1").env_remove("NMAD_RANKS");
        }
        if start.rank != 0 || start.spawned {
            command.stdin(Stdio::null());
        }
        if start.capture {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let exec = Exec::of(start.program, start.name, &command)?;
        let launcher = std::process::id() as i32;
        let file_limit_ends = signals::file_limit_ends();
        // SAFETY: between fork and exec only async-signal-safe calls are made, on values copied into the
        // closure; it allocates nothing.
        unsafe {
            command.pre_exec(move || {
                die_with(launcher);
                signals::restore_file_limit(file_limit_ends);
                let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
                libc::sigemptyset(none.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
                // The one descriptor that it inherits.
                if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                exec.call()
            });
        }
        let mut child = command.spawn()?;
        let mut outputs = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            outputs.push(Output::of(Pipe::Out(pipe)));
        }
        if let Some(pipe) = child.stderr.take() {
            outputs.push(Output::of(Pipe::Err(pipe)));
        }
        let connection = Connection { stream: ours, frames: Frames::default(), unsent: Vec::new() };
        Ok(Rank { child, ended: None, connection: Some(connection), closed: None, outputs })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Collects its exit status if it has ended since the last look; true then.
    pub fn reap(&mut self) -> bool {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(End::of(status));
            return true;
        }
        false
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) {
        if let Ok(status) = self.child.wait() {
            self.ended = Some(End::of(status));
        }
    }

    /// Sends it a signal, if it still runs. No other process can have its id: it is reaped only here.
    pub fn signal(&self, signal: i32) {
        if self.ended.is_none() {
            // SAFETY: takes no pointers.
            unsafe { libc::kill(self.pid() as i32, signal) };
        }
    }
}

/// Between fork and exec: the process that is being started dies with its parent, whatever that dies of. Makes
/// async-signal-safe calls only.
pub fn die_with(parent: i32) {
    // SAFETY: takes no pointers, runs nothing of the parent's.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1); // it died before the line above
        }
    }
}

/// Where programs are looked for without `PATH`, as the C library does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file that `program` names: itself when it has a slash, else the first executable of that name in
/// `PATH`. The result has a slash.
///
/// # Errors
/// A sentence that says what was looked for and where.
pub fn find(program: &OsStr) -> Result<PathBuf, String> {
    let shown = program.to_string_lossy();
    if shown.is_empty() {
        return Err("the program's name is empty".into());
    }
    if shown.contains('/') {
        let path = Path::new(program);
        return match path.metadata() {
            Err(e) => Err(format!("program {shown}: {e}")),
            Ok(meta) if meta.is_dir() => Err(format!("program {shown}: it is a directory")),
            Ok(_) if !executable(path) => {
                Err(format!("program {shown}: no permission to execute it (chmod +x?)"))
            }
            Ok(_) => Ok(path.into()),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path)
        .map(|dir| match dir.as_os_str().is_empty() {
            true => Path::new(".").join(program),
            false => dir.join(program),
        })
        .find(|file| file.is_file() && executable(file))
        .ok_or_else(|| {
            let here = if Path::new(program).is_file() {
                format!(" (there is a ./{shown}: say ./{shown} to start that)")
            } else {
                String::new()
            };
            format!(
                "program {shown} is missing: no such executable in PATH={}{here}",
                path.display()
            )
        })
}

/// What starts this program once more: its path, or, where another file or none is there by now (the program was built anew),
/// the kernel's link to the file that runs. The link is relative to the process that starts it: no shell or other
/// command may come between.
///
/// # Errors
/// The kernel does not tell the path.
pub fn own_program() -> io::Result<PathBuf> {
    const RUNNING: &str = "/proc/self/exe";
    let path = std::env::current_exe()?;
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino())).ok();
    Ok(if identity(&path) == identity(RUNNING.as_ref()) { path } else { RUNNING.into() })
}

fn executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_output_is_found_behind_a_stream_that_stays_open_and_silent() {
        let mut rank = Rank::start(&Start {
            program: Path::new("/bin/sh"),
            name: OsStr::new("sh"),
            args: &["-c".into(), ":".into()],
            env: &[],
            rank: 0,
            size: 1,
            local: (0, 1),
            capture: false,
            dir: None,
            spawned: false,
        })
        .unwrap();
        rank.wait();
        let (out, _silent) = io::pipe().unwrap();
        let (err, mut speaks) = io::pipe().unwrap();
        let (out, err) = (OwnedFd::from(out), OwnedFd::from(err));
        rank.outputs = [Pipe::Out(out.into()), Pipe::Err(err.into())].map(Output::of).into();
        let late = Instant::now() + std::time::Duration::from_secs(600);
        speaks.write_all(b"word\n").unwrap();
        assert_eq!(rank.last_output(late), Some(rank.outputs[1].fd()));
        // The time is over: what has been written counts, and no more.
        let now = Instant::now();
        speaks.write_all(b"last ").unwrap();
        let mut said = Vec::new();
        while let Some(fd) = rank.last_output(now) {
            speaks.write_all(b"too late\n").unwrap();
            let at = rank.outputs.iter().position(|output| output.fd() == fd).unwrap();
            let ends = rank.outputs[at].read(|line| {
                said.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            });
            if ends.unwrap() {
                rank.outputs.remove(at);
            }
        }
        assert_eq!(said, ["word", "last "]);
    }

    #[test]
    fn a_rank_that_is_stuck_in_its_end_is_not_waited_for_without_end() {
        let begin = Instant::now();
        let mut closed = Closed::new(begin);
        assert!(!closed.says_all(begin, || true));
        assert!(closed.says_all(begin + CLOSED, || false));
        let mut now = begin;
        for _ in 0..1000 {
            now = closed.look;
            if closed.says_all(now, || true) {
                break;
            }
        }
        assert!((begin + ENDING..=begin + ENDING + CLOSED).contains(&now));
    }

    #[test]
    fn of_ends_seen_at_once_a_consequence_comes_last() {
        let mut ends = [End::Code(PEER_GONE), End::Code(6), End::Signal(libc::SIGKILL)];
        ends.sort_by_key(|end| end.likely_cause());
        assert_eq!(ends, [End::Signal(libc::SIGKILL), End::Code(6), End::Code(PEER_GONE)]);
    }
}
