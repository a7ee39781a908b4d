//! Connecting with processes that run already.

use core::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};

use newmad::port::registry::{self, Taken};

use super::comm::give;
use super::entry::mpi;
use crate::abi::*;
use crate::args::{Out, Text, TextOut};
use crate::coll::check_root;
use crate::error::Fault;
use crate::port::meeting::{Met, meet};
use crate::port::{deadline, fault, open};
use crate::{comm, info, job};

/// The name of a port, needed at the root only.
fn name(port_name: Text) -> Result<String, Fault> {
    let text = port_name.bytes_below(MPI_MAX_PORT_NAME, MPI_ERR_PORT, "port_name")?;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The name of a service.
fn service(service_name: Text<'_>) -> Result<&[u8], Fault> {
    let service = service_name.bytes_or(MPI_ERR_ARG, "service_name")?;
    match service.is_empty() {
        true => Err(bad_service(service, "a name has characters")),
        false => Ok(service),
    }
}

#[cold]
fn bad_service(service: &[u8], why: &str) -> Fault {
    let shown = String::from_utf8_lossy(service);
    Fault::argument(MPI_ERR_SERVICE, "service_name", shown, why)
}

/// The socket of the program's, once more: the program's stays open.
fn duplicate(fd: c_int) -> Result<OwnedFd, Fault> {
    // SAFETY: no memory is passed.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(Fault::argument(MPI_ERR_ARG, "fd", fd, "it is not an open descriptor"));
    }
    // SAFETY: it is new, and nothing else's.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

mpi! {
    fn MPI_Open_port(info: MPI_Info, port_name: TextOut<{ MPI_MAX_PORT_NAME }>) {
        info::check(info)?;
        let name = open::open()?;
        port_name.put(name.as_bytes(), "port_name").map(drop)
    }

    fn MPI_Close_port(port_name: Text) {
        open::close(&name(port_name)?)
    }

    /// The name is known to all programs of this user on this machine (`NMAD_NAMES`).
    fn MPI_Publish_name(service_name: Text, info: MPI_Info, port_name: Text) {
        info::check(info)?;
        let (service, port) = (service(service_name)?, name(port_name)?);
        match registry::publish(service, &port)? {
            Taken::Done => Ok(()),
            _ => Err(bad_service(service, "a process that runs has published it")),
        }
    }

    fn MPI_Unpublish_name(service_name: Text, info: MPI_Info, _port_name: Text) {
        info::check(info)?;
        let service = service(service_name)?;
        match registry::unpublish(service)? {
            Taken::Done => Ok(()),
            Taken::Occupied => Err(bad_service(service, "another process has published it")),
            Taken::Absent => Err(bad_service(service, "it is not published")),
        }
    }

    fn MPI_Lookup_name(service_name: Text, info: MPI_Info, port_name: TextOut<{ MPI_MAX_PORT_NAME }>) {
        info::check(info)?;
        let service = service(service_name)?;
        match registry::look_up(service)? {
            Some(port) => port_name.put(port.as_bytes(), "port_name").map(drop),
            None => {
                let shown = String::from_utf8_lossy(service);
                let why = "no process that runs has published it, on this machine, as this user";
                Err(Fault::argument(MPI_ERR_NAME, "service_name", shown, why))
            }
        }
    }

    fn MPI_Comm_join(fd: c_int, intercomm: Out<MPI_Comm>) {
        give(intercomm, None)?;
        let own = comm::own().ok_or_else(job::not_initialised)?;
        let socket = duplicate(fd)?;
        let join = || {
            let (channel, first) = newmad::port::join(socket, deadline()).map_err(fault)?;
            Ok(Met { channel, first })
        };
        give(intercomm, Some(meet(own, 0, join, own.errhandler())?))
    }

    fn MPI_Comm_accept(
        port_name: Text, info: MPI_Info, root: c_int, comm: MPI_Comm, newcomm: Out<MPI_Comm>,
    ) on comm {
        give(newcomm, None)?;
        let root = check_root(&comm, root)?;
        let at_root = comm.rank() == root;
        let port = if at_root { info::check(info).and_then(|()| open::find(&name(port_name)?)).map(Some) } else { Ok(None) };
        let accept = || {
            let port = port?.ok_or_else(job::not_initialised)?;
            let channel = port.accept(None).map_err(fault)?;
            Ok(Met { channel, first: true })
        };
        give(newcomm, Some(meet(&comm, root, accept, comm.errhandler())?))
    }

    fn MPI_Comm_connect(
        port_name: Text, info: MPI_Info, root: c_int, comm: MPI_Comm, newcomm: Out<MPI_Comm>,
    ) on comm {
        give(newcomm, None)?;
        let root = check_root(&comm, root)?;
        let at_root = comm.rank() == root;
        let name = if at_root { info::check(info).and_then(|()| name(port_name)).map(Some) } else { Ok(None) };
        let connect = || {
            let name = name?.ok_or_else(job::not_initialised)?;
            let channel = newmad::port::call(&name, deadline()).map_err(fault)?;
            Ok(Met { channel, first: false })
        };
        give(newcomm, Some(meet(&comm, root, connect, comm.errhandler())?))
    }
}
