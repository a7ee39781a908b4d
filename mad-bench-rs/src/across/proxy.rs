//! What rank 0's launcher starts in place of a worker on another machine: it looks like one to the launcher, and
//! carries everything to and from the worker's [supervisor](super::supervisor), as `ssh` does for other launchers.
//!
//! Its end is the worker's: the same status, or the same signal. SIGKILL, of the launcher or by its death, closes the
//! connection, which has the supervisor kill the worker.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};

use crate::across::card::Agent;
use crate::across::frame::{Assignment, Frame};
use crate::across::greeting::Purpose;
use crate::across::link::{Link, call};
use crate::out::{Exit, Outcome, complain};
use mad_launch::signals::{HAND_ON, STOP, name};
use mad_launch::{End, Signals, readable, wait};

/// The variable that describes the worker for which a proxy stands.
pub(super) const VARIABLE: &str = "MAD_PROXY";

/// The worker for which a proxy stands. Its key is why this is not among the arguments, which every user of the
/// machine can read.
#[derive(Serialize, Deserialize)]
pub(super) struct Remote {
    /// Whose it is and where, in words.
    pub(super) whose: String,
    /// The agent that starts it.
    pub(super) agent: Agent,
    /// What of the assignment is not an argument.
    pub(super) assignment: Assignment,
}

/// The hidden subcommand.
pub fn run(args: Vec<String>) -> Outcome {
    let by_hand = |why: String| {
        Exit::Usage(format!("proxy: this is started by `mad bench`, not by hand: {why}"))
    };
    let text = std::env::var(VARIABLE).map_err(|e| by_hand(format!("{VARIABLE}: {e}")))?;
    let mut remote: Remote =
        serde_json::from_str(&text).map_err(|e| by_hand(format!("{VARIABLE}: {e}")))?;
    remote.assignment.args = args;
    let pmi = pmi().ok_or_else(|| by_hand("PMI_FD is no open descriptor".into()))?;
    // First: a signal that is ignored is not read.
    seem_to_catch(libc::SIGQUIT);
    let signals = Signals::catch().map_err(|e| Exit::Failed(format!("proxy: signals: {e}")))?;
    let lost =
        |why: String| Exit::Failed(format!("bench: the process manager's {} {why}", remote.whose));
    let stream = call(&remote.agent, Purpose::Worker).map_err(|e| {
        lost(format!(
            "the rank of the process manager there does not answer at {}: {e}",
            remote.agent.address
        ))
    })?;
    let mut proxy = Proxy { link: Link::over(stream), pmi: Some(pmi) };
    let gone = || lost("is gone".into());
    proxy.link.send(&Frame::Start(remote.assignment)).map_err(|_| gone())?;
    loop {
        match proxy.turn(&signals) {
            Ok(None) => {}
            Ok(Some(LastWord::Gone)) => return Err(gone()),
            Ok(Some(LastWord::Failed(why))) => return Err(lost(format!("starts nothing: {why}"))),
            Ok(Some(LastWord::Ended(End::Code(0), _))) => return Ok(()),
            Ok(Some(LastWord::Ended(End::Code(code), _))) => {
                return Err(Exit::Code(u8::try_from(code).unwrap_or(1)));
            }
            Ok(Some(LastWord::Ended(End::Signal(signal), pid))) => {
                let whose = &remote.whose;
                complain(&format!("process {pid} of {whose} was killed by {}", name(signal)));
                drop(signals);
                return Err(end_by(signal));
            }
            Err(e) => return Err(lost(format!("is given up: {e}"))),
        }
    }
}

/// The launcher's connection.
fn pmi() -> Option<UnixStream> {
    let fd: RawFd = std::env::var("PMI_FD").ok()?.parse().ok()?;
    // SAFETY: no memory is passed.
    let open = fd > 2 && unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    // SAFETY: it is open and was given to this process, of which nothing else has been told its number.
    open.then(|| UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Installs a handler that never runs. The launcher reads `SigCgt` in /proc to decide whether a process survives the
/// signal; this process takes the signal from a descriptor, which does not show there.
fn seem_to_catch(signal: i32) {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing, which is safe in any context.
    unsafe { libc::signal(signal, nothing as extern "C" fn(i32) as libc::sighandler_t) };
}

/// Ends this process as the worker has ended.
fn end_by(signal: i32) -> Exit {
    // SAFETY: no pointers are passed, and what the signal does is asked for. A dump of this process's memory is of no
    // use.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    Exit::Code(1) // a signal that does not end a process
}

/// The last that is heard.
enum LastWord {
    Ended(End, u32),
    Failed(String),
    Gone,
}

struct Proxy {
    link: Link,
    /// Until the worker closes its own.
    pmi: Option<UnixStream>,
}

impl Proxy {
    /// Waits for something and passes it on.
    fn turn(&mut self, signals: &Signals) -> std::io::Result<Option<LastWord>> {
        let pmi = self.pmi.as_ref().map_or(-1, |pmi| pmi.as_raw_fd());
        let mut fds = [readable(signals.fd()), readable(self.link.fd()), readable(pmi)];
        wait(&mut fds, None);
        let mut out = Vec::new();
        while let Some(signal) = signals.next() {
            if STOP.contains(&signal.number) || HAND_ON.contains(&signal.number) {
                out.push(Frame::Signal(signal.number));
            }
        }
        if fds[2].revents != 0 {
            out.extend(self.ask_launcher());
        }
        // If the other side is gone, its last words may still be there to be read.
        for frame in &out {
            let _ = self.link.send(frame);
        }
        if fds[1].revents == 0 {
            return Ok(None);
        }
        let Some(frames) = self.link.read()? else { return Ok(Some(LastWord::Gone)) };
        for frame in frames {
            match frame {
                Frame::Pmi(bytes) => self.tell_launcher(&bytes)?,
                Frame::PmiClosed => self.pmi = None,
                Frame::Out(bytes) => {
                    let mut out = std::io::stdout().lock();
                    out.write_all(&bytes)?;
                    out.flush()?;
                }
                Frame::Err(bytes) => std::io::stderr().lock().write_all(&bytes)?,
                Frame::Ended(end, pid) => return Ok(Some(LastWord::Ended(end, pid))),
                Frame::Failed(why) => return Ok(Some(LastWord::Failed(why))),
                Frame::Start(_) | Frame::Signal(_) => {
                    return Err(std::io::Error::other("it says what only a proxy says"));
                }
            }
        }
        Ok(None)
    }

    fn ask_launcher(&mut self) -> Option<Frame> {
        use std::io::Read;
        let mut buffer = [0; 16384];
        match self.pmi.as_mut()?.read(&mut buffer) {
            Ok(n) if n > 0 => Some(Frame::Pmi(buffer[..n].to_vec())),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => None,
            _ => {
                self.pmi = None;
                None
            }
        }
    }

    fn tell_launcher(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.pmi {
            Some(pmi) => pmi.write_all(bytes),
            None => Ok(()),
        }
    }
}
