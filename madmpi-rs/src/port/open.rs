//! The ports that this process has opened.

use std::collections::HashMap;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use newmad::port::Port;

use crate::abi::*;
use crate::error::Fault;

static PORTS: KernelMutex<Option<HashMap<String, Arc<Port>>>> = KernelMutex::new(None);

/// Opens a port; its name.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn open() -> Result<String, Fault> {
    let port = Port::open()?;
    let name = port.name().to_owned();
    PORTS.lock().get_or_insert_default().insert(name.clone(), Arc::new(port));
    Ok(name)
}

fn unknown() -> Fault {
    let why = "argument port_name is not the name of a port that this process has open";
    Fault::new(MPI_ERR_PORT, why)
}

/// The port of that name.
///
/// # Errors
/// This process has none.
pub(crate) fn find(name: &str) -> Result<Arc<Port>, Fault> {
    PORTS.lock().as_ref().and_then(|all| all.get(name)).cloned().ok_or_else(unknown)
}

/// Closes the port of that name.
///
/// # Errors
/// As [`find`].
pub(crate) fn close(name: &str) -> Result<(), Fault> {
    let closed = PORTS.lock().as_mut().and_then(|all| all.remove(name));
    closed.map(drop).ok_or_else(unknown)
}
