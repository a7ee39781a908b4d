//! The process beside a worker on an agent's machine: it starts the worker, and carries between it and its
//! [proxy](super::proxy) at rank 0 what a launcher has with a process of its own.
//!
//! ```text
//!  launcher ── PMI, pipes, signals ── proxy ══ TCP ══ supervisor ── PMI, pipes, signals ── worker
//! ```
//! It lives as long as the connection or the worker, whichever ends first. When the connection ends the worker is
//! killed, and in every case what the worker has left behind, which is inherited by the supervisor, as with the
//! launcher.
//!
//! A worker is this very program with the arguments of a worker, and its variables are knobs: nothing else can be
//! asked for.

use std::ffi::OsString;
use std::net::TcpStream;
use std::os::fd::{AsFd, RawFd};
use std::path::Path;
use std::time::Instant;

use crate::across::frame::{Assignment, Frame, OUTPUT_MAX};
use crate::across::link::Link;
use crate::knobs;
use crate::out::{Exit, Outcome};
use mad_launch::{Cleanup, DRAIN, DUMP_END, MARK, Rank, Ready, Signals, Start, Stream};
use mad_launch::{adopt_orphans, job_name, poll, readable, state};

/// The hidden subcommand that a worker is.
const WORKER: &str = "worker";

/// The hidden subcommand; its standard input is the connection.
pub fn run() -> Outcome {
    let failed = |what: &str, e: std::io::Error| Exit::Failed(format!("supervisor: {what}: {e}"));
    let connection = std::io::stdin().as_fd().try_clone_to_owned();
    let connection = connection.map_err(|e| failed("standard input", e))?;
    let mut link = Link::over(TcpStream::from(connection));
    adopt_orphans();
    // What comes from a terminal is rank 0's to pass on.
    let signals = Signals::catch().map_err(|e| failed("signals", e))?;
    let Some(first) = first(&mut link).map_err(|e| failed("the connection", e))? else {
        return Ok(());
    };
    let name = job_name();
    let cleanup = Cleanup::before(name.clone());
    let worker = match start(first.0, name) {
        Ok(worker) => worker,
        Err(why) => {
            let _ = link.send(&Frame::Failed(why)); // or the proxy has gone
            return Ok(());
        }
    };
    let mut supervisor = Supervisor { link, worker, gone: false };
    first.1.iter().for_each(|frame| supervisor.order(frame));
    while !supervisor.worker.reap() && !supervisor.gone {
        supervisor.turn(&signals);
        cleanup.collect_orphans(std::slice::from_ref(&supervisor.worker));
    }
    supervisor.worker.signal(libc::SIGKILL);
    while supervisor.worker.ended.is_none() && !supervisor.worker.reap() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    cleanup.processes();
    supervisor.last_words();
    Ok(())
}

/// The assignment, and what came with it; `None`: the proxy has gone.
fn first(link: &mut Link) -> std::io::Result<Option<(Assignment, Vec<Frame>)>> {
    loop {
        let Some(mut frames) = link.read()? else { return Ok(None) };
        if frames.is_empty() {
            continue;
        }
        let rest = frames.split_off(1);
        return match frames.pop() {
            Some(Frame::Start(assignment)) => Ok(Some((assignment, rest))),
            _ => Err(std::io::Error::other("it does not begin with what is to be started")),
        };
    }
}

/// Starts the worker, which carries that name.
///
/// # Errors
/// In a sentence, why not.
fn start(assignment: Assignment, name: String) -> Result<Rank, String> {
    if assignment.args.first().is_none_or(|word| word != WORKER) {
        return Err("only what measures is started here".into());
    }
    if let Some((name, _)) = assignment.env.iter().find(|(name, _)| knobs::find(name).is_none()) {
        return Err(format!("{name} is not a knob"));
    }
    let program =
        mad_launch::own_program().map_err(|e| format!("the path of this program: {e}"))?;
    let args: Vec<OsString> = assignment.args.into_iter().map(OsString::from).collect();
    let mut env: Vec<(OsString, OsString)> =
        assignment.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    env.push((MARK.into(), name.into()));
    Rank::start(&Start {
        program: Path::new(&program),
        name: program.as_os_str(),
        args: &args,
        env: &env,
        rank: assignment.rank,
        size: assignment.size,
        local: assignment.local,
        capture: true,
        dir: None,
        spawned: false,
    })
    .map_err(|e| format!("{} cannot be started: {e}", program.display()))
}

struct Supervisor {
    link: Link,
    worker: Rank,
    /// The other side is.
    gone: bool,
}

impl Supervisor {
    /// Waits for something and passes it on.
    fn turn(&mut self, signals: &Signals) {
        let ranks = std::slice::from_ref(&self.worker);
        for ready in poll(signals, &[readable(self.link.fd())], ranks, |_| true, None) {
            match ready {
                // SIGCHLD is what counts, and the caller looks by itself.
                Ready::Signals => while signals.next().is_some() {},
                Ready::Output(_, fd) => self.output(fd),
                Ready::Connection(_) => self.pmi(),
                Ready::Own => match self.link.read() {
                    Ok(Some(frames)) => frames.iter().for_each(|frame| self.order(frame)),
                    Ok(None) | Err(_) => self.gone = true,
                },
            }
        }
    }

    fn send(&mut self, frame: &Frame) {
        self.gone |= self.link.send(frame).is_err();
    }

    /// Does what the proxy says.
    fn order(&mut self, frame: &Frame) {
        match frame {
            Frame::Pmi(bytes) => {
                if let Some(pmi) = &mut self.worker.connection {
                    let _ = pmi.send(bytes); // if it reads nothing, its time limit comes
                }
            }
            // It would end the worker: then what the kernel knows is said, as the launcher does of its own.
            Frame::Signal(libc::SIGQUIT) if !state::catches(self.worker.pid(), libc::SIGQUIT) => {
                let mut text = format!("{}\n", state::of(self.worker.pid())).into_bytes();
                text.extend_from_slice(DUMP_END);
                text.push(b'\n');
                self.send(&Frame::Err(text));
            }
            Frame::Signal(number) => self.worker.signal(*number),
            _ => self.gone = true,
        }
    }

    fn pmi(&mut self) {
        let Some(pmi) = &mut self.worker.connection else { return };
        let _ = pmi.send(b"");
        match pmi.read() {
            Some(bytes) if bytes.is_empty() => {}
            Some(bytes) => self.send(&Frame::Pmi(bytes)),
            None => {
                self.worker.connection = None;
                self.send(&Frame::PmiClosed);
            }
        }
    }

    /// Passes on what the worker has written to one of its pipes, line by line.
    fn output(&mut self, fd: RawFd) {
        let outputs = &mut self.worker.outputs;
        let Some(at) = outputs.iter().position(|output| output.fd() == fd) else { return };
        let output = &mut outputs[at];
        let stream = output.stream();
        let mut text = Vec::new();
        let closed = output.read(|line| {
            text.extend_from_slice(line);
            text.push(b'\n');
            Ok(())
        });
        if !matches!(closed, Ok(false)) {
            drop(self.worker.outputs.swap_remove(at));
        }
        for piece in text.chunks(OUTPUT_MAX) {
            self.send(&match stream {
                Stream::Out => Frame::Out(piece.to_vec()),
                Stream::Err => Frame::Err(piece.to_vec()),
            });
        }
    }

    /// After the worker's end: what it still had said, and how it ended.
    fn last_words(&mut self) {
        let until = Instant::now() + DRAIN;
        while let Some(fd) = self.worker.last_output(until) {
            self.output(fd);
        }
        // Abort, finalize: the launcher wants to know.
        self.pmi();
        if let Some(end) = self.worker.ended {
            let pid = self.worker.pid();
            self.send(&Frame::Ended(end, pid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
        let assignment = Assignment {
            args: args.iter().map(|&word| word.into()).collect(),
            env: env.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            rank: 1,
            size: 2,
            local: (0, 1),
        };
        start(assignment, "test".into()).err().expect("it was started")
    }

    #[test]
    fn nothing_but_a_worker_with_knobs_is_started() {
        for args in [&[][..], &["run", "sh"], &["bench", "latency"]] {
            assert!(refused(args, &[]).contains("only what measures"), "{args:?}");
        }
        let preload = refused(&["worker", "{}"], &[("LD_PRELOAD", "/tmp/x.so")]);
        assert!(preload.contains("LD_PRELOAD"));
    }
}
