//! Accesses: put, get and accumulations, whichever way the target is reached.

use std::sync::Arc;

use newmad::raw::Awaited;

use super::layout::{Packed, packed};
use super::pending::Access;
use super::remote::Fetch;
use super::target::{Target, basic, fit, origin};
use super::update::{Place, Update};
use super::{Reach, Win, direct, foreign};
use crate::abi::*;
use crate::datatype::{self, Choice, Elements, Row};
use crate::error::Fault;
use crate::op::{self, Accumulator};
use crate::request::{Operation, Outcome};

pub(crate) use super::pending::Pending;
pub(crate) use super::target::{Accumulation, Where};

/// The request of the program for an access. Its faults go to the window's error handler.
pub(crate) struct AccessRequest {
    pub(crate) access: Arc<Access>,
    pub(crate) win: MPI_Win,
}

impl Operation for AccessRequest {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.access.awaited()
    }

    fn outcome(&self) -> Outcome {
        match (self.access.outcome(), super::get(self.win)) {
            (Outcome { fault: Some(fault), status }, Ok(win)) => {
                Outcome { fault: Some(fault.on(win.share())), status }
            }
            (outcome, _) => outcome,
        }
    }
}

/// Bytes for an operator that does not look at its operand.
static UNUSED: [u8; 64] = [0; 64];

/// Has `fill` fill the first `len` bytes of packed elements, which are then at the origin: in place, if they lie in a row.
#[inline]
fn fetched(
    elements: &Elements,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if !elements.datatype.contiguous || len == 0 {
        let mut room = vec![0; len];
        fill(&mut room)?;
        elements.unpack_from(&room);
        return Ok(());
    }
    debug_assert!(len <= elements.len());
    // SAFETY: the elements, which are not fewer, are writable, by the invariant of their type, and left alone during the call.
    fill(unsafe { std::slice::from_raw_parts_mut(elements.address().cast(), len) })
}

/// # Errors
/// The call has a request, and the target is not locked.
#[inline]
fn check(win: &Win, target: &Target, request: bool) -> Result<(), Fault> {
    match request {
        true => win.epochs.check_passive(Some(target.rank)),
        false => Ok(()),
    }
}

/// # Errors
/// An argument is not acceptable; no epoch allows it; the target is gone.
#[inline]
pub(crate) fn put(win: &Win, from: Choice, at: &Where, request: bool) -> Result<Pending, Fault> {
    if !request && direct::put(win, &from, at).is_some() {
        return Ok(None);
    }
    let Some(mut target) = Target::new(win, at)? else { return Ok(None) };
    let from = origin(from, "origin")?;
    check(win, &target, request)?;
    fit(from.len() <= target.len, &target, &from)?;
    target.shorten(from.len());
    match target.reach {
        Reach::Here(to) => {
            let (rows, count) = (from.datatype.contiguous, target.count);
            let (from_at, to) =
                (from.address().cast::<u8>(), std::ptr::with_exposed_provenance_mut::<u8>(to));
            // SAFETY: the elements are readable, and the target's are memory of the window. An access to the own memory
            // may find both the same.
            unsafe {
                match (rows, target.datatype.contiguous) {
                    (true, true) => std::ptr::copy(from_at, to, from.len()),
                    (true, false) => target.datatype.unpack(from_at, from.len(), to, count),
                    (false, true) => from.datatype.pack(from_at, from.count as usize, to),
                    (false, false) => {
                        let copy = from.packed()?;
                        target.datatype.unpack(copy.as_ptr(), copy.len(), to, count);
                    }
                }
            }
            Ok(None)
        }
        Reach::Foreign(to, pid) => {
            let from = packed(&from)?;
            let runs = target.runs(to);
            // SAFETY: the bytes are these; the target has said where its window is.
            unsafe { foreign::write(pid, &runs, from.as_ptr())? };
            Ok(None)
        }
        Reach::Messages(to) => {
            let runs = target.runs(to);
            win.remote()?.put(target.rank, runs, from, request)
        }
    }
}

/// # Errors
/// As [`put`].
#[inline]
pub(crate) fn get(win: &Win, into: Choice, at: &Where, request: bool) -> Result<Pending, Fault> {
    if !request && direct::get(win, &into, at).is_some() {
        return Ok(None);
    }
    let Some(target) = Target::new(win, at)? else { return Ok(None) };
    let into = origin(into, "origin")?;
    check(win, &target, request)?;
    fit(target.len <= into.len(), &target, &into)?;
    match target.reach {
        Reach::Here(from) => {
            let (rows, count) = (into.datatype.contiguous, target.count);
            let (to, from) =
                (into.address().cast::<u8>(), std::ptr::with_exposed_provenance_mut::<u8>(from));
            // SAFETY: as in `put`, the other way round.
            unsafe {
                match (rows, target.datatype.contiguous) {
                    (true, true) => std::ptr::copy(from, to, target.len),
                    (false, true) => {
                        into.datatype.unpack(from, target.len, to, into.count as usize);
                    }
                    (true, false) => target.datatype.pack(from, count, to),
                    (false, false) => {
                        let mut copy = vec![0; target.len];
                        target.datatype.pack(from, count, copy.as_mut_ptr());
                        into.unpack_from(&copy);
                    }
                }
            }
            Ok(None)
        }
        Reach::Foreign(from, pid) => {
            let runs = target.runs(from);
            // SAFETY: the room has the length of the runs; the target has said where its window is.
            fetched(&into, target.len, |room| unsafe {
                foreign::read(pid, &runs, room.as_mut_ptr())
            })?;
            Ok(None)
        }
        Reach::Messages(from) => {
            let runs = target.runs(from);
            win.remote()?.get(target.rank, runs, into, request)
        }
    }
}

/// Checks the datatype of a call that takes one element.
fn single(handle: MPI_Datatype, compares: bool) -> Result<(), Fault> {
    let datatype = datatype::get(handle)?;
    let why = match datatype.row {
        None => "it must be a predefined datatype",
        Some(row) if compares && !op::is_comparable(row) => {
            "only integers, logical values and bytes are compared"
        }
        Some(_) => return Ok(()),
    };
    Err(Fault::handle(MPI_ERR_TYPE, "datatype", handle.0, why))
}

/// # Errors
/// As [`put`]; the operator does not take the elements.
pub(crate) fn accumulate(
    win: &Win,
    what: Accumulation,
    at: &Where,
    request: bool,
) -> Result<Pending, Fault> {
    if !request && let Some(done) = direct::accumulate(win, &what, at) {
        return done.map(|()| None);
    }
    let Some(mut target) = Target::new(win, at)? else { return Ok(None) };
    let unused = what.op == MPI_NO_OP && what.compare.is_none();
    if unused && what.result.is_none() {
        let why = "it is for accumulations that fetch: see MPI_Get_accumulate and MPI_Fetch_and_op";
        return Err(Fault::argument(MPI_ERR_OP, "op", "MPI_NO_OP", why));
    }
    if what.single {
        single(at.datatype, what.compare.is_some())?;
    }
    let from = if unused { None } else { Some(origin(what.from, "origin")?) };
    let result = what.result.map(|result| origin(result, "result")).transpose()?;
    let compare = what.compare.map(|compare| origin(compare, "compare")).transpose()?;
    let op = if what.compare.is_some() { op::get(MPI_REPLACE)? } else { op::get(what.op)? };
    check(win, &target, request)?;
    for elements in result.iter().chain(&compare) {
        fit(target.len <= elements.len(), &target, elements)?;
    }
    if let Some(from) = &from {
        let may_be_shorter = result.is_none() && from.len() < target.len;
        fit(may_be_shorter || from.len() == target.len, &target, from)?;
        target.shorten(from.len());
    }
    if target.len == 0 {
        return Ok(None);
    }
    let (kind, row) = basic(&target.datatype)?;
    let operator = Accumulator::new(&op, row)?;
    let is_alike = match (operator, &from) {
        (Accumulator::Kernel(_), Some(from)) => basic(&from.datatype)?.1.basic == row.basic,
        _ => true,
    };
    if !is_alike || !target.len.is_multiple_of(row.size) {
        let text = "the elements are of another type at the origin than at the target";
        return Err(Fault::new(MPI_ERR_TYPE, text));
    }
    let operand = match &from {
        Some(from) => packed(from)?,
        None if target.len <= UNUSED.len() => Packed::Row(&UNUSED[..target.len]),
        None => Packed::Copy(vec![0; target.len].into()),
    };
    let compare = compare.as_ref().map(packed).transpose()?;
    let update = match &compare {
        Some(compare) => Update::Swap { compare, operand: &operand },
        None => Update::Combine(operator, &operand),
    };
    if let Reach::Messages(to) = target.reach {
        let runs = target.runs(to);
        let fetch = Fetch { update, operator: what.op, kind, size: row.size, result };
        return win.remote()?.update(target.rank, runs, fetch, request);
    }
    let _held = win.update_lock(target.rank).lock(&|| win.alive())?;
    match &result {
        Some(result) => {
            fetched(result, target.len, |room| apply(&target, &update, Some(room), row))?;
        }
        None => apply(&target, &update, None, row)?,
    }
    Ok(None)
}

/// Updates memory that is reached without messages.
fn apply(
    target: &Target,
    update: &Update<'_>,
    fetched: Option<&mut [u8]>,
    row: &Row,
) -> Result<(), Fault> {
    let runs;
    let place = match target.reach {
        Reach::Here(at) if target.is_whole() => {
            Place::Here(std::ptr::with_exposed_provenance_mut(at), target.count, &target.datatype)
        }
        Reach::Here(at) => {
            runs = target.runs(at);
            Place::Runs(&runs)
        }
        Reach::Foreign(at, pid) => {
            runs = target.runs(at);
            Place::Foreign(pid, &runs)
        }
        Reach::Messages(_) => return Err(Fault::new(MPI_ERR_INTERN, "reached by messages")),
    };
    // SAFETY: memory of the window; the lengths were compared.
    unsafe { update.apply(place, fetched, row.size) }
}
