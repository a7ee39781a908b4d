//! Split collectives: one call begins the access, another ends it. A file has one at a time.

use std::sync::Arc;

use super::access::Access;
use super::background;
use super::{File, Split, SplitKind};
use crate::abi::*;
use crate::datatype::Choice;
use crate::error::Fault;
use crate::request::complete;

/// Begins an access.
///
/// # Errors
/// Another one is under way; as [`background::begin`].
pub(crate) fn begin(
    file: &Arc<File>,
    kind: SplitKind,
    access: Access,
    choice: Choice,
) -> Result<(), Fault> {
    file.check_no_split()?;
    let operation = background::begin(file, access, choice)?;
    *file.split.lock() = Some(Split { kind, operation });
    Ok(())
}

/// Ends the access; its status.
///
/// # Errors
/// None of that kind is under way; as a blocking access.
pub(crate) fn end(file: &File, kind: SplitKind) -> Result<MPI_Status, Fault> {
    let split = file.split.lock().take_if(|split| split.kind == kind);
    let Some(Split { operation, .. }) = split else {
        let why = "the file has no split collective under way that this call ends";
        return Err(Fault::new(MPI_ERR_OTHER, why));
    };
    complete(&*operation).map(|outcome| outcome.status)
}

impl File {
    /// # Errors
    /// A split collective is under way.
    pub(super) fn check_no_split(&self) -> Result<(), Fault> {
        match &*self.split.lock() {
            None => Ok(()),
            Some(Split { kind, .. }) => {
                let text = format!("a split collective of the file is under way: {kind:?}");
                Err(Fault::new(MPI_ERR_OTHER, text))
            }
        }
    }
}
