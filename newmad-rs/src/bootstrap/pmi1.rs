//! A client of PMI-1, the text protocol that `mad run`, Hydra and others speak over an inherited descriptor.
//!
//! One line per request and answer, `cmd=name key=value ...`. Used once per process: `init`, `get_maxes`,
//! `get_my_kvsname`, `put` and `barrier_in` when a session opens, `get` for each peer that it talks to, and `finalize`
//! when it closes.

use std::os::fd::AsRawFd;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Bootstrap;
use crate::error::Error;
use crate::sys;

/// Longest line that is accepted.
const LINE: usize = 64 * 1024;

/// Longest value that is put, whatever the process manager promises.
const ROOM: usize = 640;

static USED: AtomicBool = AtomicBool::new(false);

/// See the module.
pub(crate) struct Pmi1 {
    socket: OwnedFd,
    rank: u32,
    size: u32,
    kvs: String,
    room: usize,
    pending: Vec<u8>,
}

fn failed(why: impl std::fmt::Display) -> Error {
    Error::Bootstrap(format!("PMI-1: {why}"))
}

fn variable(name: &str) -> Result<Option<String>, Error> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => Err(failed(format_args!("{name} is not text"))),
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Result<T, Error> {
    let value =
        variable(name)?.ok_or_else(|| failed(format_args!("PMI_FD is set but {name} is not")))?;
    value
        .trim()
        .parse()
        .map_err(|_| failed(format_args!("{name}={value:?} is not a number in range")))
}

/// The value of `key` in an answer.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

impl Pmi1 {
    /// The process manager that started this process; `None` without one.
    pub(crate) fn from_environment(deadline: Instant) -> Result<Option<Pmi1>, Error> {
        let Some(fd) = variable("PMI_FD")? else { return Ok(None) };
        let fd: RawFd = fd
            .trim()
            .parse()
            .map_err(|_| failed(format_args!("PMI_FD={fd:?} is not a descriptor's number")))?;
        let (rank, size): (u32, u32) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        if size == 0 || rank >= size || size > 1 << 16 {
            return Err(failed(format_args!("PMI_RANK={rank} and PMI_SIZE={size} make no sense")));
        }
        // SAFETY: no memory is passed.
        if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            return Err(failed(format_args!(
                "PMI_FD={fd} is not open: start the program with `mad run`, or unset PMI_FD"
            )));
        }
        if USED.swap(true, Ordering::SeqCst) {
            return Err(failed("this process has opened its session already; a process opens one"));
        }
        // SAFETY: the process manager gave us the descriptor, and `USED` lets it be taken once.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: no memory is passed. Children of this process have no business with it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        let mut pmi = Pmi1 { socket, rank, size, kvs: String::new(), room: 0, pending: Vec::new() };
        pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline)?;
        let maxes = pmi.ask("cmd=get_maxes", "maxes", deadline)?;
        // Whatever else a line holds has to fit beside the value: some servers read lines into 1024 bytes.
        let promised = field(&maxes, "vallen_max").and_then(|value| value.parse().ok());
        pmi.room = promised.unwrap_or(ROOM).min(ROOM);
        let name = pmi.ask("cmd=get_my_kvsname", "my_kvsname", deadline)?;
        pmi.kvs =
            field(&name, "kvsname").ok_or_else(|| failed("no name in my_kvsname"))?.to_owned();
        Ok(Some(pmi))
    }

    fn ask(&mut self, request: &str, answer: &str, deadline: Instant) -> Result<String, Error> {
        let lost = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::TimedOut => failed(format_args!(
                "no {answer} from the process manager in time (NMAD_CONNECT_TIMEOUT_MS); \
                 another process of the session may have failed to start"
            )),
            _ => failed(format_args!(
                "the process manager is gone ({source}) while waiting for {answer}"
            )),
        };
        // The descriptor may be a pipe or socket that blocks, and others may share its flags: poll first.
        let mut line = Vec::from(request);
        line.push(b'\n');
        sys::send_all(self.socket.as_raw_fd(), &line, deadline).map_err(lost)?;
        let text = self.line(deadline).map_err(lost)?;
        if field(&text, "cmd") != Some(answer) {
            return Err(failed(format_args!("expected {answer}, got {text:?}")));
        }
        match field(&text, "rc") {
            None | Some("0") => Ok(text),
            Some(_) => {
                Err(failed(format_args!("the process manager refused {request:?}: {text:?}")))
            }
        }
    }

    fn line(&mut self, deadline: Instant) -> std::io::Result<String> {
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            if self.pending.len() > LINE {
                return Err(std::io::Error::other("its answer is too long"));
            }
            let mut bytes = [0; 4096];
            let fd = self.socket.as_raw_fd();
            if !sys::wait_fd(fd, libc::POLLIN, deadline)? {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            // SAFETY: the array is writable for its length.
            let got = unsafe {
                libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)
            };
            match got {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                got if got > 0 => self.pending.extend_from_slice(&bytes[..got as usize]),
                _ => sys::retry(fd, libc::POLLIN, deadline)?,
            }
        }
    }
}

impl Bootstrap for Pmi1 {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn room(&self) -> usize {
        self.room
    }

    fn put(&mut self, key: &str, value: &str, deadline: Instant) -> Result<(), Error> {
        let put = format!("cmd=put kvsname={} key={key} value={value}", self.kvs);
        self.ask(&put, "put_result", deadline).map(drop)
    }

    fn fence(&mut self, deadline: Instant) -> Result<(), Error> {
        self.ask("cmd=barrier_in", "barrier_out", deadline).map(drop)
    }

    fn get(&mut self, owner: u32, key: &str, deadline: Instant) -> Result<String, Error> {
        let get = format!("cmd=get kvsname={} key={key}", self.kvs);
        let answer = self.ask(&get, "get_result", deadline)?;
        let value = field(&answer, "value")
            .ok_or_else(|| failed(format_args!("no value of rank {owner} in {answer:?}")))?;
        Ok(value.to_owned())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let deadline = sys::deadline(Duration::from_secs(5));
        self.ask("cmd=finalize", "finalize_ack", deadline).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_key() {
        let line = "cmd=get_result rc=0 msg=success value=newmad1,shm,1";
        assert_eq!(field(line, "cmd"), Some("get_result"));
        assert_eq!(field(line, "value"), Some("newmad1,shm,1"));
        assert_eq!(field(line, "val"), None);
        assert_eq!(field("", "cmd"), None);
    }
}
