//! Requests: waiting, testing, starting, cancelling, freeing.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{
    Array, ArrayMut, InOut, Out, StatusArray, StatusOut, Statuses, array, array_mut, out, read,
    statuses,
};
use crate::error::Fault;
use crate::request::generalized::{self, Cancel, Free, Query};
use crate::request::several::Any;
use crate::request::{self, Outcome, peek, several, wait};

/// Collects the outcomes of several requests and writes the program's statuses.
struct Outcomes {
    statuses: Statuses,
    written: usize,
    failed: Vec<(usize, c_int)>,
    first: Option<Fault>,
}

impl Outcomes {
    fn new(statuses: Statuses) -> Outcomes {
        Outcomes { statuses, written: 0, failed: Vec::new(), first: None }
    }

    #[inline]
    fn put(&mut self, outcome: Outcome) {
        let index = self.written;
        self.written += 1;
        self.statuses.at(index).put(outcome.status);
        if let Some(fault) = outcome.fault {
            self.fail(index, fault);
        }
    }

    #[cold]
    fn fail(&mut self, index: usize, fault: Fault) {
        self.failed.push((index, fault.class));
        self.first.get_or_insert(fault);
    }

    /// Writes the errors into the statuses, if there are any.
    fn end(self) -> Result<(), Fault> {
        let Some(first) = self.first else { return Ok(()) };
        for index in 0..self.written {
            let of = |&&(at, _): &&(usize, c_int)| at == index;
            let class = self.failed.iter().find(of).map_or(MPI_SUCCESS, |&(_, class)| class);
            self.statuses.at(index).put_error(class);
        }
        let text =
            format!("{} of {} requests failed: {}", self.failed.len(), self.written, first.text);
        Err(first.told_as(MPI_ERR_IN_STATUS, text))
    }
}

/// Gives the program the outcomes of some requests.
fn some(
    found: Option<Vec<(usize, Outcome)>>,
    outcount: Out<c_int>,
    indices: ArrayMut<c_int>,
    statuses: StatusArray,
) -> Result<(), Fault> {
    let Some(found) = found else { return out(outcount, "outcount", MPI_UNDEFINED) };
    out(outcount, "outcount", found.len() as c_int)?;
    let indices = array_mut!(indices[found.len() as i64])?;
    let mut outcomes = Outcomes::new(statuses!(statuses[found.len()]));
    for (place, (index, outcome)) in indices.iter_mut().zip(found) {
        *place = index as c_int;
        outcomes.put(outcome);
    }
    outcomes.end()
}

/// Gives the program the outcome of one of several requests. Without a flag one of them is over, or none is active.
fn any(
    found: Any,
    indx: Out<c_int>,
    flag: Option<Out<c_int>>,
    status: StatusOut,
) -> Result<(), Fault> {
    let pending = matches!(found, Any::Pending);
    if let Some(flag) = flag {
        out(flag, "flag", c_int::from(!pending))?;
    }
    let (index, outcome) = match found {
        Any::Over(index, outcome) => (index as c_int, outcome),
        Any::Pending | Any::Inactive => (MPI_UNDEFINED, Outcome::EMPTY),
    };
    out(indx, "indx", index)?;
    if pending { Ok(()) } else { outcome.give(status) }
}

mpi! {
    fn MPI_Wait(request: InOut<MPI_Request>, status: StatusOut) {
        let mut handle = read(request, "request")?;
        let outcome = wait(&mut handle)?;
        out(request, "request", handle)?;
        outcome.give(status)
    }

    fn MPI_Test(request: InOut<MPI_Request>, flag: Out<c_int>, status: StatusOut) {
        let mut handle = read(request, "request")?;
        out(flag, "flag", 0)?;
        let Some(outcome) = request::test(&mut handle)? else { return Ok(()) };
        out(flag, "flag", 1)?;
        out(request, "request", handle)?;
        outcome.give(status)
    }

    fn MPI_Waitall(
        count: c_int, array_of_requests: ArrayMut<MPI_Request>, array_of_statuses: StatusArray,
    ) {
        let requests = array_mut!(array_of_requests[count])?;
        let mut outcomes = Outcomes::new(statuses!(array_of_statuses[requests.len()]));
        several::take_all(requests, |outcome| outcomes.put(outcome))?;
        outcomes.end()
    }

    fn MPI_Testall(
        count: c_int, array_of_requests: ArrayMut<MPI_Request>, flag: Out<c_int>, array_of_statuses: StatusArray,
    ) {
        let requests = array_mut!(array_of_requests[count])?;
        several::check(requests)?;
        let over = several::all_over(requests)?;
        out(flag, "flag", c_int::from(over))?;
        if !over {
            return Ok(());
        }
        let mut outcomes = Outcomes::new(statuses!(array_of_statuses[requests.len()]));
        for request in requests {
            outcomes.put(wait(request)?);
        }
        outcomes.end()
    }

    fn MPI_Waitany(
        count: c_int, array_of_requests: ArrayMut<MPI_Request>, indx: Out<c_int>, status: StatusOut,
    ) {
        let requests = array_mut!(array_of_requests[count])?;
        several::check(requests)?;
        any(several::wait_any(requests)?, indx, None, status)
    }

    fn MPI_Testany(
        count: c_int, array_of_requests: ArrayMut<MPI_Request>, indx: Out<c_int>, flag: Out<c_int>,
        status: StatusOut,
    ) {
        let requests = array_mut!(array_of_requests[count])?;
        several::check(requests)?;
        flag.check("flag")?;
        any(several::test_any(requests)?, indx, Some(flag), status)
    }

    fn MPI_Waitsome(
        incount: c_int, array_of_requests: ArrayMut<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: ArrayMut<c_int>, array_of_statuses: StatusArray,
    ) {
        let requests = array_mut!(array_of_requests[incount])?;
        several::check(requests)?;
        some(several::wait_some(requests)?, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Testsome(
        incount: c_int, array_of_requests: ArrayMut<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: ArrayMut<c_int>, array_of_statuses: StatusArray,
    ) {
        let requests = array_mut!(array_of_requests[incount])?;
        several::check(requests)?;
        some(several::test_some(requests)?, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Request_get_status(request: MPI_Request, flag: Out<c_int>, status: StatusOut) {
        several::all_over(&[request])?;
        let found = peek(request)?;
        out(flag, "flag", c_int::from(found.is_some()))?;
        found.map_or(Ok(()), |outcome| outcome.give(status))
    }

    fn MPI_Request_get_status_all(
        count: c_int, array_of_requests: Array<MPI_Request>, flag: Out<c_int>, array_of_statuses: StatusArray,
    ) {
        let requests = array!(array_of_requests[count])?;
        several::check(requests)?;
        let over = several::all_over(requests)?;
        out(flag, "flag", c_int::from(over))?;
        let mut outcomes = Outcomes::new(statuses!(array_of_statuses[requests.len()]));
        for &request in requests.iter().filter(|_| over) {
            outcomes.put(peek(request)?.unwrap_or(Outcome::EMPTY));
        }
        outcomes.end()
    }

    fn MPI_Request_get_status_any(
        count: c_int, array_of_requests: Array<MPI_Request>, indx: Out<c_int>, flag: Out<c_int>,
        status: StatusOut,
    ) {
        let requests = array!(array_of_requests[count])?;
        several::check(requests)?;
        let found = match several::over(requests)?.as_deref() {
            None => Any::Inactive,
            Some([]) => Any::Pending,
            Some(&[index, ..]) => Any::Over(index, peek(requests[index])?.unwrap_or(Outcome::EMPTY)),
        };
        any(found, indx, Some(flag), status)
    }

    fn MPI_Request_get_status_some(
        incount: c_int, array_of_requests: Array<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: ArrayMut<c_int>, array_of_statuses: StatusArray,
    ) {
        let requests = array!(array_of_requests[incount])?;
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

    fn MPI_Start(request: InOut<MPI_Request>) {
        request::start(read(request, "request")?)
    }

    fn MPI_Startall(count: c_int, array_of_requests: Array<MPI_Request>) {
        // One that cannot be started keeps no other from it: ranks wait for what they do.
        array!(array_of_requests[count])?.iter().map(|&request| request::start(request)).fold(Ok(()), Result::and)
    }

    fn MPI_Cancel(request: InOut<MPI_Request>) { request::cancel(read(request, "request")?) }

    fn MPI_Request_free(request: InOut<MPI_Request>) {
        let fault = request::free(read(request, "request")?)?;
        out(request, "request", MPI_REQUEST_NULL)?;
        fault.map_or(Ok(()), Err)
    }

    fn MPI_Grequest_start(
        query_fn: Option<Query>, free_fn: Option<Free>, cancel_fn: Option<Cancel>, extra_state: *mut c_void,
        request: Out<MPI_Request>,
    ) {
        request.make(|| generalized::start(query_fn, free_fn, cancel_fn, extra_state))
    }

    fn MPI_Grequest_complete(request: MPI_Request) { generalized::complete(request) }
}
