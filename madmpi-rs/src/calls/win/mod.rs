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
