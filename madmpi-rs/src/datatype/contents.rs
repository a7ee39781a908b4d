//! The envelope of a datatype: how it was made, as `MPI_Type_get_envelope` and `MPI_Type_get_contents` report it.

use std::sync::Arc;

use super::shape::{Envelope, Shape};
use super::{Datatype, insert, remove};
use crate::abi::*;
use crate::error::Fault;

/// # Errors
/// The envelope has large counts, for which the function has no place.
pub(crate) fn no_counts(made: &Envelope, other: &str) -> Result<(), Fault> {
    if made.counts.is_empty() {
        return Ok(());
    }
    let why = format!("it was made by a function for large counts, use {other}");
    Err(Fault::argument(MPI_ERR_TYPE, "datatype", "large", &why))
}

/// Handles of the types that a type was made of: new ones, except for predefined types.
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
                // Predefined types refuse to be removed.
                handles.into_iter().for_each(|handle| drop(remove(handle)));
                return Err(fault);
            }
        }
    }
    Ok(handles)
}

/// # Errors
/// It is a predefined type.
pub(crate) fn derived(made: &Envelope) -> Result<(), Fault> {
    if made.combiner != MPI_COMBINER_NAMED {
        return Ok(());
    }
    let why = "a predefined type is not made of others";
    Err(Fault::argument(MPI_ERR_TYPE, "datatype", "a named one", why))
}
