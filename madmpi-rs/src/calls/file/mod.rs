//! Files.

mod data;
mod manage;
mod query;
mod split;

use std::sync::Arc;

use crate::abi::MPI_File;
use crate::error::Fault;
use crate::file::{self, File};

/// Does what a call asks of a file, whose error handler its faults go to.
#[inline]
fn on(handle: MPI_File, body: impl FnOnce(&Arc<File>) -> Result<(), Fault>) -> Result<(), Fault> {
    let file = file::get(handle)?;
    body(&file).map_err(|fault| fault.on(file.clone()))
}
