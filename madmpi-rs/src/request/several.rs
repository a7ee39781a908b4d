//! Looking at several requests: one, some or all of them.

use super::outcome::Outcome;
use super::state::Work;
use super::table::get;
use super::take::{Taken, take, without_slot};
use super::wait::{self, Waiter};
use crate::abi::*;
use crate::error::Fault;

/// Whether the request is there to be waited for: neither null nor idle.
fn is_active(request: MPI_Request) -> Result<bool, Fault> {
    match without_slot(request) {
        Some(found) => Ok(!matches!(found, Taken::Inactive)),
        None => Ok(!matches!(get(request)?.work, Work::Idle)),
    }
}

fn is_over(request: MPI_Request) -> Result<bool, Fault> {
    Ok(without_slot(request).is_some() || get(request)?.is_over())
}

/// Every handle is one.
///
/// # Errors
/// One is not: which.
pub(crate) fn check(requests: &[MPI_Request]) -> Result<(), Fault> {
    for (index, &request) in requests.iter().enumerate() {
        if without_slot(request).is_none() && get(request).is_err() {
            let name = format!("array_of_requests[{index}]");
            let why = "it is not a request, or was freed, or is over and was told of";
            return Err(Fault::handle(MPI_ERR_REQUEST, &name, request.0, why));
        }
    }
    Ok(())
}

/// Takes the first one that is over. Else: whether there is an active one.
fn take_any(requests: &mut [MPI_Request]) -> Result<Result<(usize, Outcome), bool>, Fault> {
    let mut active = false;
    for (index, request) in requests.iter_mut().enumerate() {
        match take(*request)? {
            Taken::Inactive => {}
            Taken::Pending => active = true,
            Taken::Over { outcome, ended } => {
                if ended {
                    *request = MPI_REQUEST_NULL;
                }
                return Ok(Ok((index, outcome)));
            }
        }
    }
    Ok(Err(active))
}

/// Waits until one of those that are pending is over.
fn wait_for_one(requests: &[MPI_Request]) -> Result<(), Fault> {
    let mut waiting = Vec::with_capacity(requests.len());
    for &request in requests {
        if without_slot(request).is_some() || matches!(get(request)?.work, Work::Idle) {
            continue;
        }
        match Waiter::new(request)? {
            Some(one) => waiting.push(one),
            None => return Ok(()),
        }
    }
    while !waiting.is_empty() && !waiting.iter().any(Waiter::is_over) {
        let mut all: Vec<_> = waiting.iter().map(Waiter::awaited).collect();
        newmad::wait_any(&mut all);
    }
    Ok(())
}

/// How often a wait for short messages looks for events before it prepares to wait.
const LOOKS: u32 = 64;

/// Looks for the ends of short messages for a few microseconds; whether every handle is a request, and all are over. Most
/// that are waited for are there by then, or come meanwhile, and to prepare a wait costs as much as to receive one.
fn poll_for_all(requests: &[MPI_Request]) -> Result<bool, Fault> {
    let (mut at, mut looks) = (0, 0);
    while let Some(&request) = requests.get(at) {
        if without_slot(request).is_none() {
            let Ok(locked) = get(request) else { return Ok(false) };
            if !locked.is_over() {
                let short = matches!(locked.work, Work::Message(_)) && locked.place.is_short();
                drop(locked);
                if !short || looks == LOOKS {
                    return Ok(false);
                }
                looks += 1;
                wait::poll()?;
                continue;
            }
        }
        at += 1;
    }
    Ok(true)
}

/// Waits until all of them are over: of several messages that are under way, the peers are told at once.
///
/// # Errors
/// As [`check`].
pub(crate) fn wait_for_all(requests: &[MPI_Request]) -> Result<(), Fault> {
    if poll_for_all(requests)? {
        return Ok(());
    }
    check(requests)?;
    let mut waiting = Vec::new();
    for &request in requests {
        if without_slot(request).is_none() && !get(request)?.is_over() {
            waiting.extend(Waiter::new(request)?);
        }
    }
    if waiting.len() > 1 {
        let mut all: Vec<_> = waiting.iter().map(Waiter::awaited).collect();
        newmad::wait_all(&mut all);
    }
    waiting.iter().for_each(Waiter::wait);
    Ok(())
}

/// Waits for one of them, and takes what came of it; `None`: there is none to wait for.
pub(crate) fn wait_any(requests: &mut [MPI_Request]) -> Result<Option<(usize, Outcome)>, Fault> {
    loop {
        match take_any(requests)? {
            Ok(found) => return Ok(Some(found)),
            Err(false) => return Ok(None),
            Err(true) => wait_for_one(requests)?,
        }
    }
}

/// As [`wait_any`], if one is over, after a look for events if none is; `Err`: whether there is an active one.
pub(crate) fn test_any(
    requests: &mut [MPI_Request],
) -> Result<Result<(usize, Outcome), bool>, Fault> {
    match take_any(requests)? {
        Err(true) => {
            wait::poll()?;
            let found = take_any(requests)?;
            if let Err(true) = found {
                requests.iter().for_each(|&request| wait::on_failed_test(request));
            }
            Ok(found)
        }
        found => Ok(found),
    }
}

/// Takes all that are over.
fn take_some(requests: &mut [MPI_Request]) -> Result<Vec<(usize, Outcome)>, Fault> {
    let mut all = Vec::new();
    for (index, request) in requests.iter_mut().enumerate() {
        if let Taken::Over { outcome, ended } = take(*request)? {
            if ended {
                *request = MPI_REQUEST_NULL;
            }
            all.push((index, outcome));
        }
    }
    Ok(all)
}

/// Waits for one of them, and takes all that are over; `None`: there is none to wait for.
pub(crate) fn wait_some(
    requests: &mut [MPI_Request],
) -> Result<Option<Vec<(usize, Outcome)>>, Fault> {
    loop {
        let some = take_some(requests)?;
        if !some.is_empty() {
            return Ok(Some(some));
        }
        if !any_active(requests)? {
            return Ok(None);
        }
        wait_for_one(requests)?;
    }
}

/// Takes all that are over, after a look for events if none is; `None`: there is none to wait for.
pub(crate) fn test_some(
    requests: &mut [MPI_Request],
) -> Result<Option<Vec<(usize, Outcome)>>, Fault> {
    let some = take_some(requests)?;
    if !some.is_empty() {
        return Ok(Some(some));
    }
    if !any_active(requests)? {
        return Ok(None);
    }
    wait::poll()?;
    let some = take_some(requests)?;
    if some.is_empty() {
        requests.iter().for_each(|&request| wait::on_failed_test(request));
    }
    Ok(Some(some))
}

fn any_active(requests: &[MPI_Request]) -> Result<bool, Fault> {
    for &request in requests {
        if is_active(request)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether all of them are over, after a look for events if not.
pub(crate) fn all_over(requests: &[MPI_Request]) -> Result<bool, Fault> {
    let over = |requests: &[MPI_Request]| -> Result<bool, Fault> {
        for &request in requests {
            if !is_over(request)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if over(requests)? {
        return Ok(true);
    }
    wait::poll()?;
    let all = over(requests)?;
    if !all {
        requests.iter().for_each(|&request| wait::on_failed_test(request));
    }
    Ok(all)
}

/// Which of them are over, after a look for events if none is; `None`: there is none to wait for.
pub(crate) fn over(requests: &[MPI_Request]) -> Result<Option<Vec<usize>>, Fault> {
    if !any_active(requests)? {
        return Ok(None);
    }
    let over = |requests: &[MPI_Request]| -> Result<Vec<usize>, Fault> {
        let mut all = Vec::new();
        for (index, &request) in requests.iter().enumerate() {
            if is_active(request)? && is_over(request)? {
                all.push(index);
            }
        }
        Ok(all)
    };
    let all = over(requests)?;
    if !all.is_empty() {
        return Ok(Some(all));
    }
    wait::poll()?;
    over(requests).map(Some)
}
