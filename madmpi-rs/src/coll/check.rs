//! A check that all members call the same collective. With `NMAD_CHECK=1` members exchange, before each collective,
//! its function, root and operator, and its length where all have the same. A difference is an error that names the
//! rank, instead of a hang or wrong data. The check costs one round of short messages per collective.

use std::sync::{Arc, OnceLock};

use newmad::coll::{Blocks, Pending, Task};
use newmad::raw::Awaited;

use crate::abi::*;
use crate::comm::{Comm, Series};
use crate::datatype::{self, Choice};
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{Operation, Outcome};

/// What has to be the same at all members.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    function: &'static str,
    root: i64,
    op: usize,
    bytes: i64,
}

/// Bytes of the signature that a member sends to the others.
const SIGNATURE: usize = 96;

impl Call {
    #[inline]
    pub(crate) fn new(function: &'static str) -> Call {
        Call { function, root: -1, op: 0, bytes: -1 }
    }

    #[inline]
    pub(crate) fn rooted(self, root: i32) -> Call {
        Call { root: i64::from(root), ..self }
    }

    #[inline]
    pub(crate) fn combining(self, op: MPI_Op) -> Call {
        // Handles of user operators differ between processes.
        Call { op: if op.0 < 4096 { op.0 } else { 4096 }, ..self }
    }

    /// Adds a length that all members have to give. Without the check nobody asks for it.
    #[inline]
    pub(crate) fn of_bytes(self, buffer: Choice) -> Call {
        let bytes = if is_on() { bytes_of(buffer) } else { self.bytes };
        Call { bytes, ..self }
    }

    fn words(&self) -> String {
        let mut words = self.function.to_owned();
        for (name, value) in [("root", self.root), ("bytes", self.bytes)] {
            if value >= 0 {
                words.push_str(&format!(" {name} {value}"));
            }
        }
        if self.op != 0 {
            words.push_str(&format!(" op {:#x}", self.op));
        }
        words
    }

    fn signature(&self) -> [u8; SIGNATURE] {
        let mut bytes = [0; SIGNATURE];
        let words = self.words();
        let len = words.len().min(SIGNATURE);
        bytes[..len].copy_from_slice(&words.as_bytes()[..len]);
        bytes
    }
}

#[cold]
fn bytes_of(buffer: Choice) -> i64 {
    let size = datatype::get(buffer.datatype).map_or(0, |datatype| datatype.size as i64);
    buffer.count.saturating_mul(size)
}

#[inline]
fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    // The session has refused a value that the knob does not accept.
    *ON.get_or_init(|| newmad::plumbing::knobs::CHECK.bool().unwrap_or(false))
}

/// An exchange of signatures.
struct SignatureExchange {
    comm: Ref<Comm>,
    pending: Pending<()>,
    own: String,
    mine: Vec<u8>,
    all: Vec<u8>,
}

fn start(
    comm: &Ref<Comm>,
    call: &Call,
    series: Option<Series>,
) -> Result<SignatureExchange, Fault> {
    // Both groups' collectives keep one order, or are in the same series: the same thread calls both.
    let group = comm.checking_group()?;
    let mine = call.signature().to_vec();
    let mut all = vec![0; SIGNATURE * comm.group.size() as usize];
    let task = Task::Allgather { blocks: Blocks::Even(SIGNATURE) };
    // SAFETY: the memory stays where it is, and is read after the end: `Drop` waits.
    let exchange =
        unsafe { group.bytes(&task, None, &raw const mine[..], &raw mut all[..], false) };
    let pending = match series {
        None => exchange.start()?,
        Some(series) => exchange.start_in(series.number())?,
    };
    Ok(SignatureExchange { comm: comm.clone(), pending, own: call.words(), mine, all })
}

impl SignatureExchange {
    fn verdict(&self) -> Result<(), Fault> {
        let over = self.pending.wait_over();
        over.map_err(|error| Fault::from(error).on(self.comm.share()))?;
        for (rank, theirs) in self.all.chunks(SIGNATURE).enumerate() {
            if theirs != self.mine {
                let end = theirs.iter().position(|&byte| byte == 0).unwrap_or(SIGNATURE);
                let theirs = String::from_utf8_lossy(&theirs[..end]);
                let fault = Fault::new(
                    MPI_ERR_OTHER,
                    format!(
                        "members call different collectives: \
                         this one calls {}, rank {rank} of the communicator {theirs}",
                        self.own
                    ),
                );
                return Err(fault.on(self.comm.share()));
            }
        }
        Ok(())
    }
}

impl Drop for SignatureExchange {
    fn drop(&mut self) {
        let _ = self.pending.wait_over();
    }
}

/// Checks before a blocking collective.
pub(super) fn check(comm: &Ref<Comm>, call: &Call) -> Result<(), Fault> {
    if !is_on() || comm.remote.is_some() {
        return Ok(());
    }
    start(comm, call, None)?.verdict()
}

/// Checks beside a collective with a request: the program learns of a difference instead of waiting for ever.
pub(super) fn check_beside(
    comm: &Ref<Comm>,
    call: &Call,
    series: Option<Series>,
    operation: Arc<dyn Operation>,
) -> Result<Arc<dyn Operation>, Fault> {
    if !is_on() || comm.remote.is_some() {
        return Ok(operation);
    }
    let exchange = start(comm, call, series)?;
    Ok(Arc::new(CheckedOperation { exchange, operation, verdict: OnceLock::new() }))
}

struct CheckedOperation {
    operation: Arc<dyn Operation>,
    exchange: SignatureExchange,
    verdict: OnceLock<Result<(), Fault>>,
}

impl Operation for CheckedOperation {
    fn awaited(&self) -> Option<Awaited<'_>> {
        if let Some(exchange) = self.exchange.pending.awaited().pending() {
            return Some(exchange);
        }
        let verdict = self.verdict.get_or_init(|| self.exchange.verdict());
        verdict.as_ref().ok().and_then(|()| self.operation.awaited())
    }

    fn on_failed_test(&self) {
        self.operation.on_failed_test();
    }

    fn outcome(&self) -> Outcome {
        match self.verdict.get_or_init(|| self.exchange.verdict()) {
            Ok(()) => self.operation.outcome(),
            Err(fault) => Outcome::failed(fault.clone()),
        }
    }
}
