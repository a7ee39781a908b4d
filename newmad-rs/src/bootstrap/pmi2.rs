//! A client of PMI-2, which Hydra, Slurm and `mad run` speak over the same descriptor as PMI-1.
//!
//! It begins as PMI-1 does (`cmd=init pmi_version=2 pmi_subversion=0` and its answer are lines). Then each request and
//! each answer is its length in six characters and as many bytes of `cmd=name;key=value;…`: `fullinit`, `kvs-put`,
//! `kvs-fence`, `kvs-get`, `finalize`. Of the rest of the protocol (processes started later, names, attributes of
//! nodes) nothing is used.

use std::time::{Duration, Instant};

use super::manager::Bootstrap;
use super::pmi1::ROOM;
use super::wire::{Wire, failed, lost, shorten, variable};
use crate::error::Error;
use crate::sys;

/// See the module.
pub(crate) struct Pmi2 {
    wire: Wire,
}

/// The value of `key` in an answer.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split(';').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

impl Pmi2 {
    /// Over a connection on which version 2 has been agreed on.
    pub(super) fn new(wire: Wire, deadline: Instant) -> Result<Pmi2, Error> {
        let mut pmi = Pmi2 { wire };
        let (rank, size) = (pmi.wire.rank, pmi.wire.size);
        let job = variable("PMI_JOBID")?.unwrap_or_default();
        let request = format!("cmd=fullinit;pmijobid={job};pmirank={rank};threaded=FALSE;");
        let answer = pmi.ask(&request, "fullinit-response", deadline)?;
        let same = |key, ours: u32| field(&answer, key).is_none_or(|it| it == ours.to_string());
        match same("rank", rank) && same("size", size) {
            true => Ok(pmi),
            false => Err(failed(format_args!(
                "PMI_RANK={rank} and PMI_SIZE={size}, but the process manager says {}",
                shorten(&answer)
            ))),
        }
    }

    fn ask(&mut self, request: &str, answer: &str, deadline: Instant) -> Result<String, Error> {
        let request_of_length = format!("{:6}{request}", request.len());
        let text = self.wire.ask(&request_of_length, deadline, Wire::framed);
        let text = text.map_err(|source| lost(&source, answer))?;
        if field(&text, "cmd") != Some(answer) {
            return Err(failed(format_args!("expected {answer}, got {}", shorten(&text))));
        }
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

impl Bootstrap for Pmi2 {
    fn rank(&self) -> u32 {
        self.wire.rank
    }

    fn size(&self) -> u32 {
        self.wire.size
    }

    fn room(&self) -> usize {
        ROOM
    }

    fn put(&mut self, key: &str, value: &str, deadline: Instant) -> Result<(), Error> {
        let put = format!("cmd=kvs-put;key={key};value={value};");
        self.ask(&put, "kvs-put-response", deadline).map(drop)
    }

    fn fence(&mut self, deadline: Instant) -> Result<(), Error> {
        self.ask("cmd=kvs-fence;", "kvs-fence-response", deadline).map(drop)
    }

    fn get(&mut self, owner: u32, key: &str, deadline: Instant) -> Result<String, Error> {
        // An empty job is this one; the owner is a hint where to look.
        let get = format!("cmd=kvs-get;jobid=;srcid={owner};key={key};");
        let answer = self.ask(&get, "kvs-get-response", deadline)?;
        let value = field(&answer, "value").ok_or_else(|| {
            failed(format_args!("no value of rank {owner} in {}", shorten(&answer)))
        })?;
        Ok(value.to_owned())
    }

    fn job(&mut self, deadline: Instant) -> Result<String, Error> {
        let answer = self.ask("cmd=job-getid;", "job-getid-response", deadline)?;
        let name = field(&answer, "jobid").filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or_else(|| failed("no name in job-getid-response"))
    }

    fn finish(&mut self) -> Result<(), Error> {
        let deadline = sys::deadline(Duration::from_secs(5));
        self.ask("cmd=finalize;", "finalize-response", deadline).map(drop)
    }
}
