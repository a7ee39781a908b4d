//! Windows.

mod access;
mod create;
mod query;
mod sync;

use crate::abi::MPI_Win;
use crate::error::Fault;
use crate::win::{self, Win};

/// Does what a call asks of a window, whose error handler its faults go to.
#[inline]
fn on(handle: MPI_Win, body: impl FnOnce(&Win) -> Result<(), Fault>) -> Result<(), Fault> {
    let win = win::get(handle)?;
    body(&win).map_err(|fault| fault.on(win.share()))
}

/// As [`on`], for calls that are as short as a look at the window is: they take no reference to it.
#[inline]
fn on_lent(handle: MPI_Win, body: impl FnOnce(&Win) -> Result<(), Fault>) -> Result<(), Fault> {
    // SAFETY: the standard has a program free a window after all its calls on it are over; these bodies free none, and
    // call no function of the program.
    unsafe { win::with(handle, body) }
}
