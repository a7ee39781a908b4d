//! The calls that wait for requests and test them.

use core::ffi::c_int;

use super::wait::{self, peek};
use super::{Outcome, several};
use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, array, array_mut, out, read};
use crate::status;

/// Where the statuses of several requests go; perhaps nowhere.
struct Statuses {
    place: *mut MPI_Status,
    written: usize,
    failed: Vec<(usize, c_int)>,
    first: Option<Fault>,
}

impl Statuses {
    fn new(place: *mut MPI_Status) -> Statuses {
        Statuses { place, written: 0, failed: Vec::new(), first: None }
    }

    fn put(&mut self, outcome: Outcome) {
        let index = self.written;
        self.written += 1;
        if !self.place.is_null() {
            // SAFETY: the program's promise that there is a status for each request.
            status::write_good(unsafe { self.place.add(index) }, outcome.status);
        }
        if let Some(fault) = outcome.fault {
            self.failed.push((index, fault.class));
            self.first.get_or_insert(fault);
        }
    }

    /// Errors are in the statuses, if there are any.
    fn end(self) -> Result<(), Fault> {
        let Some(first) = self.first else { return Ok(()) };
        if !self.place.is_null() {
            for index in 0..self.written {
                let of = |&&(at, _): &&(usize, c_int)| at == index;
                let class = self.failed.iter().find(of).map_or(MPI_SUCCESS, |&(_, class)| class);
                // SAFETY: as in `put`.
                unsafe { (*self.place.add(index)).MPI_ERROR = class };
            }
        }
        let text =
            format!("{} of {} requests failed: {}", self.failed.len(), self.written, first.text);
        Err(Fault { class: MPI_ERR_IN_STATUS, text: text.into(), on: first.on })
    }
}

/// Tells of one request.
#[inline]
fn one(outcome: Outcome, place: *mut MPI_Status) -> Result<(), Fault> {
    if let Some(fault) = outcome.fault {
        status::write(place, outcome.status);
        return Err(fault);
    }
    status::write_good(place, outcome.status);
    Ok(())
}

/// Tells of some requests.
fn some(
    found: Option<Vec<(usize, Outcome)>>,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<(), Fault> {
    let Some(found) = found else { return out(outcount, "outcount", MPI_UNDEFINED) };
    out(outcount, "outcount", found.len() as c_int)?;
    let indices = array_mut(indices, found.len() as i64, "array_of_indices")?;
    let mut statuses = Statuses::new(statuses);
    for (place, (index, outcome)) in indices.iter_mut().zip(found) {
        *place = index as c_int;
        statuses.put(outcome);
    }
    statuses.end()
}

/// Tells of one of several requests, or that there is none.
fn any(
    found: Option<(usize, Outcome)>,
    indx: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Fault> {
    let (index, outcome) =
        found.map_or((MPI_UNDEFINED, Outcome::EMPTY), |(index, outcome)| (index as c_int, outcome));
    out(indx, "indx", index)?;
    one(outcome, status)
}

mpi! {
    fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) {
        let mut handle = read(request, "request")?;
        let outcome = wait::wait(&mut handle)?;
        out(request, "request", handle)?;
        one(outcome, status)
    }

    fn MPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) {
        let mut handle = read(request, "request")?;
        out(flag, "flag", 0)?;
        let Some(outcome) = wait::test(&mut handle)? else { return Ok(()) };
        out(flag, "flag", 1)?;
        out(request, "request", handle)?;
        one(outcome, status)
    }

    fn MPI_Waitall(
        count: c_int, array_of_requests: *mut MPI_Request, array_of_statuses: *mut MPI_Status,
    ) {
        let requests = array_mut(array_of_requests, count.into(), "array_of_requests")?;
        several::wait_for_all(requests)?;
        let mut statuses = Statuses::new(array_of_statuses);
        for request in requests {
            statuses.put(wait::wait(request)?);
        }
        statuses.end()
    }

    fn MPI_Testall(
        count: c_int, array_of_requests: *mut MPI_Request, flag: *mut c_int, array_of_statuses: *mut MPI_Status,
    ) {
        let requests = array_mut(array_of_requests, count.into(), "array_of_requests")?;
        several::check(requests)?;
        let over = several::all_over(requests)?;
        out(flag, "flag", c_int::from(over))?;
        if !over {
            return Ok(());
        }
        let mut statuses = Statuses::new(array_of_statuses);
        for request in requests {
            statuses.put(wait::wait(request)?);
        }
        statuses.end()
    }

    fn MPI_Waitany(
        count: c_int, array_of_requests: *mut MPI_Request, indx: *mut c_int, status: *mut MPI_Status,
    ) {
        let requests = array_mut(array_of_requests, count.into(), "array_of_requests")?;
        several::check(requests)?;
        any(several::wait_any(requests)?, indx, status)
    }

    fn MPI_Testany(
        count: c_int, array_of_requests: *mut MPI_Request, indx: *mut c_int, flag: *mut c_int,
        status: *mut MPI_Status,
    ) {
        let requests = array_mut(array_of_requests, count.into(), "array_of_requests")?;
        several::check(requests)?;
        out(flag, "flag", 1)?;
        match several::test_any(requests)? {
            Ok(found) => any(Some(found), indx, status),
            Err(false) => any(None, indx, status),
            Err(true) => {
                out(flag, "flag", 0)?;
                out(indx, "indx", MPI_UNDEFINED)
            }
        }
    }

    fn MPI_Waitsome(
        incount: c_int, array_of_requests: *mut MPI_Request, outcount: *mut c_int, array_of_indices: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) {
        let requests = array_mut(array_of_requests, incount.into(), "array_of_requests")?;
        several::check(requests)?;
        some(several::wait_some(requests)?, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Testsome(
        incount: c_int, array_of_requests: *mut MPI_Request, outcount: *mut c_int, array_of_indices: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) {
        let requests = array_mut(array_of_requests, incount.into(), "array_of_requests")?;
        several::check(requests)?;
        some(several::test_some(requests)?, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Request_get_status(request: MPI_Request, flag: *mut c_int, status: *mut MPI_Status) {
        several::all_over(&[request])?;
        let found = peek(request)?;
        out(flag, "flag", c_int::from(found.is_some()))?;
        found.map_or(Ok(()), |outcome| one(outcome, status))
    }

    fn MPI_Request_get_status_all(
        count: c_int, array_of_requests: *const MPI_Request, flag: *mut c_int, array_of_statuses: *mut MPI_Status,
    ) {
        let requests = array(array_of_requests, count.into(), "array_of_requests")?;
        several::check(requests)?;
        let over = several::all_over(requests)?;
        out(flag, "flag", c_int::from(over))?;
        let mut statuses = Statuses::new(array_of_statuses);
        for &request in requests.iter().filter(|_| over) {
            statuses.put(peek(request)?.unwrap_or(Outcome::EMPTY));
        }
        statuses.end()
    }

    fn MPI_Request_get_status_any(
        count: c_int, array_of_requests: *const MPI_Request, indx: *mut c_int, flag: *mut c_int,
        status: *mut MPI_Status,
    ) {
        let requests = array(array_of_requests, count.into(), "array_of_requests")?;
        several::check(requests)?;
        out(flag, "flag", 1)?;
        match several::over(requests)? {
            None => any(None, indx, status),
            Some(over) => match over.first() {
                Some(&index) => {
                    let outcome = peek(requests[index])?.unwrap_or(Outcome::EMPTY);
                    any(Some((index, outcome)), indx, status)
                }
                None => {
                    out(flag, "flag", 0)?;
                    out(indx, "indx", MPI_UNDEFINED)
                }
            },
        }
    }

    fn MPI_Request_get_status_some(
        incount: c_int, array_of_requests: *const MPI_Request, outcount: *mut c_int, array_of_indices: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) {
        let requests = array(array_of_requests, incount.into(), "array_of_requests")?;
        several::check(requests)?;
        let mut found = None;
        if let Some(over) = several::over(requests)? {
            let all = found.get_or_insert(Vec::new());
            for index in over {
                all.push((index, peek(requests[index])?.unwrap_or(Outcome::EMPTY)));
            }
        }
        some(found, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Start(request: *mut MPI_Request) {
        super::persistent::start(read(request, "request")?)
    }

    fn MPI_Startall(count: c_int, array_of_requests: *mut MPI_Request) {
        for &request in array(array_of_requests.cast_const(), count.into(), "array_of_requests")? {
            super::persistent::start(request)?;
        }
        Ok(())
    }
}
