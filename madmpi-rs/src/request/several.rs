//! Several requests at once: waiting for one, for some or for all of them, and testing them.

use std::ops::Deref;

use marcel::plumbing::budget;

use super::outcome::Outcome;
use super::state::Work;
use super::table::{Freed, get};
use super::take::{Taken, take, take_alone, take_at_once, without_slot};
use super::wait::{self, Waiter};
use crate::abi::*;
use crate::error::Fault;

/// Which of several requests is over.
pub(crate) enum Any {
    Over(usize, Outcome),
    /// None is over, but one is active.
    Pending,
    /// All are null or idle.
    Inactive,
}

/// Whether a wait has to wait for the request: it is neither null nor idle.
fn is_active(request: MPI_Request) -> Result<bool, Fault> {
    match without_slot(request) {
        Some(found) => Ok(!matches!(found, Taken::Inactive)),
        None => Ok(!matches!(get(request)?.work, Work::Idle)),
    }
}

fn any_active(requests: &[MPI_Request]) -> Result<bool, Fault> {
    for &request in requests {
        if is_active(request)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_over(request: MPI_Request) -> Result<bool, Fault> {
    if without_slot(request).is_some() {
        return Ok(true);
    }
    let slot = get(request)?;
    Ok(slot.is_due() && !slot.is_left_alone())
}

/// Checks that every handle stands for a request.
///
/// # Errors
/// One does not: which.
pub(crate) fn check(requests: &[MPI_Request]) -> Result<(), Fault> {
    for (index, &request) in requests.iter().enumerate() {
        if without_slot(request).is_none() && get(request).is_err() {
            let name = format!("array_of_requests[{index}]");
            let why = "it is not a request, or was freed, or was completed before";
            return Err(Fault::handle(MPI_ERR_REQUEST, &name, request.0, why));
        }
    }
    Ok(())
}

/// Makes an attempt. If that fails, it polls for events and makes a second attempt. After the second failure it calls
/// `on_failed_test` of each operation.
fn attempt<R: Deref<Target = [MPI_Request]>, T>(
    mut requests: R,
    attempt: impl Fn(&mut R) -> Result<T, Fault>,
    failed: impl Fn(&T) -> bool,
) -> Result<T, Fault> {
    let found = attempt(&mut requests)?;
    if !failed(&found) {
        return Ok(found);
    }
    wait::poll()?;
    let found = attempt(&mut requests)?;
    if failed(&found) {
        requests.iter().for_each(|&request| wait::on_failed_test(request));
    }
    Ok(found)
}

/// Takes the outcome of the first request that is over.
fn take_any(requests: &mut [MPI_Request]) -> Result<Any, Fault> {
    let mut found = Any::Inactive;
    for (index, request) in requests.iter_mut().enumerate() {
        match take(request)? {
            Taken::Over(outcome) => return Ok(Any::Over(index, outcome)),
            Taken::Pending | Taken::Alone => found = Any::Pending,
            Taken::Inactive => {}
        }
    }
    Ok(found)
}

/// Takes the outcomes of all requests that are over; `None`: none is active.
fn take_some(requests: &mut [MPI_Request]) -> Result<Option<Vec<(usize, Outcome)>>, Fault> {
    let (mut all, mut active) = (Vec::new(), false);
    for (index, request) in requests.iter_mut().enumerate() {
        match take(request)? {
            Taken::Over(outcome) => all.push((index, outcome)),
            Taken::Pending | Taken::Alone => active = true,
            Taken::Inactive => {}
        }
    }
    Ok((active || !all.is_empty()).then_some(all))
}

/// Waits until one of the pending requests is over. If nothing will come for any of them, the outcome of the first.
fn wait_for_one(requests: &mut [MPI_Request]) -> Result<Option<(usize, Outcome)>, Fault> {
    let (mut waiters, mut alone) = (Vec::with_capacity(requests.len()), None);
    for (index, &request) in requests.iter().enumerate() {
        if without_slot(request).is_some() {
            continue;
        }
        let slot = get(request)?;
        if let Work::Idle = slot.work {
            continue;
        }
        if slot.is_left_alone() {
            alone.get_or_insert(index);
            continue;
        }
        drop(slot);
        match Waiter::new(request)? {
            Some(one) => waiters.push(one),
            None => return Ok(None),
        }
    }
    if let Some(index) = alone.filter(|_| waiters.is_empty()) {
        return Ok(Some((index, take_alone(&mut requests[index])?)));
    }
    while !waiters.is_empty() && !waiters.iter().any(Waiter::is_over) {
        let mut all: Vec<_> = waiters.iter().map(Waiter::awaited).collect();
        newmad::wait_any(&mut all);
    }
    Ok(None)
}

/// How often a wait for short messages polls before it prepares to wait.
const POLLS: u32 = 64;

/// How often it waits for the last one only.
const WAITS: u32 = 4;

/// Waits for all requests, in order, and gives their outcomes to `put`. It polls for the ends of short messages for a few
/// microseconds: most have ended by then, or end meanwhile, and preparing a wait costs as much as receiving one. Of several
/// messages under way after that, all peers learn of the wait before it begins.
///
/// # Errors
/// As [`check`]; outcomes of the requests before that one may have been given.
pub(crate) fn take_all(
    requests: &mut [MPI_Request],
    mut put: impl FnMut(Outcome),
) -> Result<(), Fault> {
    budget::spend();
    let (mut polls, mut waits, mut freed) = (0, 0, Freed::new());
    for at in 0..requests.len() {
        if let Some(status) = take_at_once(&mut requests[at], |slot| freed.free(slot)) {
            put(Outcome { status, fault: None });
            continue;
        }
        let outcome = loop {
            match take(&mut requests[at]) {
                Ok(Taken::Inactive) => break Outcome::EMPTY,
                Ok(Taken::Over(outcome)) => break outcome,
                Ok(Taken::Alone) => break take_alone(&mut requests[at])?,
                Ok(Taken::Pending) if polls < POLLS && is_short(requests[at])? => {
                    polls += 1;
                    wait::poll()?;
                }
                Ok(Taken::Pending) => {
                    polls = POLLS;
                    check(requests)?;
                    waits += 1;
                    wait_for_all(&requests[at..], waits <= WAITS)?;
                }
                Err(fault) => return check(requests).and(Err(fault)),
            }
        };
        put(outcome);
    }
    Ok(())
}

/// Whether the request is a short message that is under way.
fn is_short(request: MPI_Request) -> Result<bool, Fault> {
    Ok(get(request)?.is_short())
}

/// Waits until all requests are over, or, where that may do, at least the last of them if all are short: short messages come in
/// order mostly, so that those before it are over by then. Of several messages under way that are not short, all peers learn of the wait
/// before it begins.
///
/// # Errors
/// Another thread waits for one of them. The caller has checked the handles.
fn wait_for_all(requests: &[MPI_Request], last_may_do: bool) -> Result<(), Fault> {
    let (mut last, mut short) = (None, last_may_do);
    for (at, &request) in requests.iter().enumerate() {
        if without_slot(request).is_none() {
            let slot = get(request)?;
            if !slot.is_due() {
                short &= slot.is_short();
                last = Some(at);
            }
        }
    }
    let these = match short {
        true => last.map_or(&[][..], |at| &requests[at..=at]),
        false => requests,
    };
    let mut waiters = Vec::new();
    for &request in these {
        if without_slot(request).is_none() && !get(request)?.is_over() {
            waiters.extend(Waiter::new(request)?);
        }
    }
    if waiters.len() > 1 {
        let mut all: Vec<_> = waiters.iter().map(Waiter::awaited).collect();
        newmad::wait_all(&mut all);
    }
    waiters.iter().for_each(Waiter::wait);
    Ok(())
}

/// Waits for one request and takes its outcome. Never [`Any::Pending`].
pub(crate) fn wait_any(requests: &mut [MPI_Request]) -> Result<Any, Fault> {
    budget::spend();
    loop {
        match take_any(requests)? {
            Any::Pending => {
                if let Some((index, outcome)) = wait_for_one(requests)? {
                    return Ok(Any::Over(index, outcome));
                }
            }
            found => return Ok(found),
        }
    }
}

/// Takes the outcome of one request that is over.
pub(crate) fn test_any(requests: &mut [MPI_Request]) -> Result<Any, Fault> {
    attempt(requests, |requests| take_any(requests), |found| matches!(found, Any::Pending))
}

/// Waits for one request, and takes the outcomes of all that are over; `None`: none is active.
pub(crate) fn wait_some(
    requests: &mut [MPI_Request],
) -> Result<Option<Vec<(usize, Outcome)>>, Fault> {
    loop {
        match take_some(requests)? {
            Some(some) if some.is_empty() => {
                if let Some(one) = wait_for_one(requests)? {
                    return Ok(Some(vec![one]));
                }
            }
            found => return Ok(found),
        }
    }
}

/// Takes the outcomes of all requests that are over; `None`: none is active.
pub(crate) fn test_some(
    requests: &mut [MPI_Request],
) -> Result<Option<Vec<(usize, Outcome)>>, Fault> {
    let failed = |found: &Option<Vec<_>>| found.as_ref().is_some_and(Vec::is_empty);
    attempt(requests, |requests| take_some(requests), failed)
}

/// Whether all requests are over.
pub(crate) fn all_over(requests: &[MPI_Request]) -> Result<bool, Fault> {
    let over = |requests: &mut &[MPI_Request]| {
        for &request in &**requests {
            if !is_over(request)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    attempt(requests, over, |over| !over)
}

/// The active requests that are over; `None`: none is active.
pub(crate) fn over(requests: &[MPI_Request]) -> Result<Option<Vec<usize>>, Fault> {
    if !any_active(requests)? {
        return Ok(None);
    }
    let over = |requests: &mut &[MPI_Request]| {
        let mut all = Vec::new();
        for (index, &request) in requests.iter().enumerate() {
            if is_active(request)? && is_over(request)? {
                all.push(index);
            }
        }
        Ok(all)
    };
    attempt(requests, over, Vec::is_empty).map(Some)
}
