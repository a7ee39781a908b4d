//! How a type was made: `MPI_Type_get_envelope`, `MPI_Type_get_contents`.

use std::sync::Arc;

use super::shape::{Recipe, Shape};
use super::{Datatype, insert, remove};
use crate::abi::*;
use crate::error::Fault;

/// # Errors
/// There are large counts, and the function has no place for them.
pub(crate) fn no_counts(made: &Recipe, other: &str) -> Result<(), Fault> {
    if made.counts.is_empty() {
        return Ok(());
    }
    let why = format!("it was made by a function for large counts, which {other} tells");
    Err(Fault::argument(MPI_ERR_TYPE, "datatype", "large", &why))
}

/// Handles of the types that a type was made of: new ones, but for those that are always there.
pub(crate) fn handles(types: &[Arc<Shape>]) -> Result<Vec<MPI_Datatype>, Fault> {
    let mut handles = Vec::with_capacity(types.len());
    for shape in types {
        let handle = match shape.fixed.get() {
            Some(handle) => Ok(*handle),
            None => insert(Datatype::new(shape.clone(), true, None)),
        };
        match handle {
            Ok(handle) => handles.push(handle),
            Err(fault) => {
                // Those that are always there refuse.
                handles.into_iter().for_each(|handle| drop(remove(handle)));
                return Err(fault);
            }
        }
    }
    Ok(handles)
}

/// # Errors
/// It is one of the standard's own types.
pub(crate) fn derived(made: &Recipe) -> Result<(), Fault> {
    if made.combiner != MPI_COMBINER_NAMED {
        return Ok(());
    }
    let why = "the standard's own types are made of nothing";
    Err(Fault::argument(MPI_ERR_TYPE, "datatype", "a named one", why))
}
