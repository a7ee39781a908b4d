//! A client of PMI-1, the text protocol that `mad run`, Hydra and others speak over an inherited descriptor.
//!
//! One line per request and answer, `cmd=name key=value ...`: `init` (which settles the version), `get_maxes` and
//! `get_my_kvsname`, `put` and `barrier_in` when a session opens, `get` for each peer that it talks to, and `finalize`
//! when it closes. Meanwhile it may ask for more processes (`mcmd=spawn … endcmd`).

use std::time::{Duration, Instant};

use super::manager::Bootstrap;
use super::spawn::{COUNTS, Command, NOTE, Spawner, counts_of, program_of, was_spawned};
use super::wire::{Wire, failed, lost, shorten};
use crate::error::Error;
use crate::sys;

/// Longest value that is put, whatever the process manager promises: what else a line holds has to fit beside it,
/// and some servers read lines into 1024 bytes, and cut what is longer without a word.
pub(super) const ROOM: usize = 640;

/// See the module.
pub(crate) struct Pmi1 {
    wire: Wire,
    kvs: String,
    room: usize,
}

/// The value of `key` in an answer.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Agrees with the process manager on a version of the protocol; false: it does not speak this one.
pub(super) fn init(wire: &mut Wire, version: (u32, u32), deadline: Instant) -> Result<bool, Error> {
    let (major, minor) = version;
    let request = format!("cmd=init pmi_version={major} pmi_subversion={minor}");
    let answer = ask(wire, &request, "response_to_init", deadline)?;
    let agreed = field(&answer, "rc").is_none_or(|rc| rc == "0");
    Ok(agreed && field(&answer, "pmi_version").is_none_or(|theirs| theirs == major.to_string()))
}

/// Sends a line and gives the one that answers it, whatever its result.
fn ask(wire: &mut Wire, request: &str, answer: &str, deadline: Instant) -> Result<String, Error> {
    let text = wire.ask(&format!("{request}\n"), deadline, Wire::line);
    let text = text.map_err(|source| lost(&source, answer))?;
    match field(&text, "cmd") == Some(answer) {
        true => Ok(text),
        false => Err(failed(format_args!("expected {answer}, got {}", shorten(&text)))),
    }
}

impl Pmi1 {
    /// Over a connection that [`init`] has set up.
    pub(super) fn new(wire: Wire, deadline: Instant) -> Result<Pmi1, Error> {
        let mut pmi = Pmi1 { wire, kvs: String::new(), room: ROOM };
        let maxes = pmi.ask("cmd=get_maxes", "maxes", deadline)?;
        let promised = field(&maxes, "vallen_max").and_then(|value| value.parse().ok());
        pmi.room = promised.unwrap_or(ROOM).min(ROOM);
        let name = pmi.ask("cmd=get_my_kvsname", "my_kvsname", deadline)?;
        pmi.kvs =
            field(&name, "kvsname").ok_or_else(|| failed("no name in my_kvsname"))?.to_owned();
        Ok(pmi)
    }

    fn ask(&mut self, request: &str, answer: &str, deadline: Instant) -> Result<String, Error> {
        let text = ask(&mut self.wire, request, answer, deadline)?;
        match field(&text, "rc") {
            None | Some("0") => Ok(text),
            Some(_) => Err(failed(format_args!(
                "the process manager refused {}: {}",
                shorten(request),
                shorten(&text)
            ))),
        }
    }
}

impl Bootstrap for Pmi1 {
    fn rank(&self) -> u32 {
        self.wire.rank
    }

    fn size(&self) -> u32 {
        self.wire.size
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
        let value = field(&answer, "value").ok_or_else(|| {
            failed(format_args!("no value of rank {owner} in {}", shorten(&answer)))
        })?;
        Ok(value.to_owned())
    }

    fn job(&mut self, _: Instant) -> Result<String, Error> {
        Ok(self.kvs.clone())
    }

    fn spawner(&mut self) -> Option<&mut dyn Spawner> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), Error> {
        let deadline = sys::deadline(Duration::from_secs(5));
        self.ask("cmd=finalize", "finalize_ack", deadline).map(drop)
    }
}

impl Spawner for Pmi1 {
    fn spawn(
        &mut self,
        commands: &[Command],
        note: &str,
        deadline: Instant,
    ) -> Result<String, Error> {
        let request = request(commands, note)?;
        let answer = ask(&mut self.wire, &request, "spawn_result", deadline)?;
        match field(&answer, "rc") {
            None | Some("0") => Ok(field(&answer, "jobid").unwrap_or_default().to_owned()),
            Some(_) => {
                let why = field(&answer, "msg")
                    .map_or_else(|| shorten(&answer), |why| why.replace('_', " "));
                Err(failed(format_args!("the process manager has started nothing: {why}")))
            }
        }
    }

    fn runs(&mut self, job: &str, deadline: Instant) -> Result<bool, Error> {
        if !job.starts_with(MAD) {
            return Ok(true);
        }
        let request = format!("cmd=mad_spawned jobid={job}");
        let answer = self.ask(&request, "mad_spawned_result", deadline)?;
        Ok(field(&answer, "runs") != Some("0"))
    }

    fn end(&mut self, job: &str, deadline: Instant) -> Result<(), Error> {
        if !job.starts_with(MAD) {
            return Ok(());
        }
        let request = format!("cmd=mad_spawned jobid={job} end=1");
        self.ask(&request, "mad_spawned_result", deadline).map(drop)
    }

    fn note(&mut self, deadline: Instant) -> Result<Option<String>, Error> {
        match was_spawned() {
            true => self.get(0, NOTE, deadline).map(Some),
            false => Ok(None),
        }
    }

    fn program(&mut self, deadline: Instant) -> Result<Option<u32>, Error> {
        let answer = self.ask("cmd=get_appnum", "appnum", deadline)?;
        let known = field(&answer, "appnum").and_then(|number| number.parse().ok());
        if known.is_some() || !was_spawned() {
            return Ok(known);
        }
        // Slurm answers -1. Another library's program that has spawned this one has put nothing.
        let counts = self.get(0, COUNTS, deadline).ok();
        Ok(counts.and_then(|counts| program_of(self.rank(), &counts)))
    }

    fn universe(&mut self, deadline: Instant) -> Result<Option<u32>, Error> {
        let answer = self.ask("cmd=get_universe_size", "universe_size", deadline)?;
        Ok(field(&answer, "size").and_then(|size| size.parse().ok()))
    }
}

/// Names of jobs of `mad run`, which tells and does more than the protocol has.
const MAD: &str = "mad-";

/// Process managers end a process that sends longer ones.
const LONGEST_LINE: usize = 8000;

/// The lines that ask for processes, without the last newline.
fn request(commands: &[Command], note: &str) -> Result<String, Error> {
    use std::fmt::Write;
    let (mut text, counts) = (String::new(), counts_of(commands));
    for (at, command) in commands.iter().enumerate() {
        let Command { program, args, processes, hints } = command;
        let words = args.iter().chain(hints.iter().flat_map(|(key, value)| [key, value]));
        if words.chain([program]).any(|word| word.contains(['\n', '\r'])) {
            return Err(failed("PMI-1 passes no arguments and hints with a newline in them"));
        }
        let (total, so_far) = (commands.len(), at + 1);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "mcmd=spawn\nnprocs={processes}\nexecname={program}\ntotspawns={total}\nspawnssofar={so_far}\n"
        );
        for (at, arg) in args.iter().enumerate() {
            let _ = writeln!(text, "arg{}={arg}", at + 1);
        }
        let _ = writeln!(text, "argcnt={}", args.len());
        // Some servers cut what is longer, without a word.
        let told: &[_] = match counts.len() < ROOM {
            true => &[(NOTE, note), (COUNTS, &counts)],
            false => &[(NOTE, note)],
        };
        let _ = writeln!(text, "preput_num={}", told.len());
        for (at, (key, value)) in told.iter().enumerate() {
            let _ = write!(text, "preput_key_{at}={key}\npreput_val_{at}={value}\n");
        }
        let _ = writeln!(text, "info_num={}", hints.len());
        for (at, (key, value)) in hints.iter().enumerate() {
            let _ = write!(text, "info_key_{at}={key}\ninfo_val_{at}={value}\n");
        }
        text.push_str(if so_far == total { "endcmd" } else { "endcmd\n" });
    }
    if text.lines().any(|line| line.len() > LONGEST_LINE) {
        return Err(failed(format_args!(
            "PMI-1 passes no arguments and hints of more than some {LONGEST_LINE} bytes"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_programs_are_one_request() {
        let command = |program: &str, args: &[&str]| Command {
            program: program.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            processes: 2,
            hints: vec![("wdir".into(), "/tmp".into())],
        };
        let text = request(&[command("a", &[]), command("b", &["x y", ""])], "port").unwrap();
        assert_eq!(text.lines().filter(|line| *line == "endcmd").count(), 2);
        for line in [
            "execname=b",
            "spawnssofar=2",
            "arg1=x y",
            "arg2=",
            "argcnt=2",
            "preput_val_0=port",
            "preput_val_1=2,2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.ends_with("endcmd"));
        assert!(request(&[command("a", &["x\ncmd=abort"])], "port").is_err());
        assert!(request(&[command("a", &[&"x".repeat(8193)])], "port").is_err());
    }

    #[test]
    fn answers_are_read_by_key() {
        let line = "cmd=get_result rc=0 msg=success value=newmad1,shm,1";
        assert_eq!(field(line, "cmd"), Some("get_result"));
        assert_eq!(field(line, "value"), Some("newmad1,shm,1"));
        assert_eq!(field(line, "val"), None);
        assert_eq!(field("", "cmd"), None);
    }
}
