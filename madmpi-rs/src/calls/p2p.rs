//! Messages between two processes: sends in every mode, receives, both in one call, probes.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{InOut, Out, StatusOut, out, read};
use crate::datatype::choice;
use crate::message::Mode;
use crate::p2p::{self, probe, sendrecv};
use crate::request;

/// The sends of a mode: blocking, with a request, and persistent, each for small and for large counts.
macro_rules! sends {
    ($($mode:ident: $name:ident $large:ident $iname:ident $ilarge:ident $pname:ident $plarge:ident;)*) => {$(
        mpi! {
            fn $name / $large (
                buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
            ) on comm {
                p2p::send(&comm, choice!(buf, count, datatype), dest, tag, Mode::$mode)
            }

            fn $iname / $ilarge (
                buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
                request: Out<MPI_Request>,
            ) on comm {
                request.make(|| p2p::isend(&comm, choice!(buf, count, datatype), dest, tag, Mode::$mode))
            }

            fn $pname / $plarge (
                buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
                request: Out<MPI_Request>,
            ) on comm {
                request.make(|| p2p::send_init(&comm, choice!(buf, count, datatype), dest, tag, Mode::$mode))
            }
        }
    )*};
}

sends! {
    Standard: MPI_Send MPI_Send_c MPI_Isend MPI_Isend_c MPI_Send_init MPI_Send_init_c;
    Synchronous: MPI_Ssend MPI_Ssend_c MPI_Issend MPI_Issend_c MPI_Ssend_init MPI_Ssend_init_c;
    Buffered: MPI_Bsend MPI_Bsend_c MPI_Ibsend MPI_Ibsend_c MPI_Bsend_init MPI_Bsend_init_c;
    // A ready send is a standard one: newmad gains nothing from knowing that its receive is there already.
    Standard: MPI_Rsend MPI_Rsend_c MPI_Irsend MPI_Irsend_c MPI_Rsend_init MPI_Rsend_init_c;
}

mpi! {
    fn MPI_Recv / MPI_Recv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        status: StatusOut,
    ) on comm {
        p2p::recv(&comm, choice!(buf, count, datatype), source, tag)?.give(status)
    }

    fn MPI_Irecv / MPI_Irecv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        request.make(|| p2p::irecv(&comm, choice!(buf, count, datatype), source, tag))
    }

    fn MPI_Recv_init / MPI_Recv_init_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        request.make(|| p2p::recv_init(&comm, choice!(buf, count, datatype), source, tag))
    }

    fn MPI_Sendrecv / MPI_Sendrecv_c (
        sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int,
        recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, source: c_int, recvtag: c_int,
        comm: MPI_Comm, status: StatusOut,
    ) on comm {
        let outward = (choice!(sendbuf, sendcount, sendtype), dest, sendtag);
        let inward = (choice!(recvbuf, recvcount, recvtype), source, recvtag);
        sendrecv::sendrecv(&comm, outward, inward)?.give(status)
    }

    fn MPI_Sendrecv_replace / MPI_Sendrecv_replace_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, status: StatusOut,
    ) on comm {
        let (buffer, outward, inward) = (choice!(buf, count, datatype), (dest, sendtag), (source, recvtag));
        sendrecv::sendrecv_replace(&comm, buffer, outward, inward)?.give(status)
    }

    fn MPI_Isendrecv / MPI_Isendrecv_c (
        sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int,
        recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, source: c_int, recvtag: c_int,
        comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        let outward = (choice!(sendbuf, sendcount, sendtype), dest, sendtag);
        let inward = (choice!(recvbuf, recvcount, recvtype), source, recvtag);
        request.make(|| sendrecv::isendrecv(&comm, outward, inward))
    }

    fn MPI_Isendrecv_replace / MPI_Isendrecv_replace_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        let (buffer, outward, inward) = (choice!(buf, count, datatype), (dest, sendtag), (source, recvtag));
        request.make(|| sendrecv::isendrecv_replace(&comm, buffer, outward, inward))
    }

    fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: StatusOut) on comm {
        status.put(probe::probe(&comm, source, tag)?);
        Ok(())
    }

    fn MPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, status: StatusOut) on comm {
        let found = probe::iprobe(&comm, source, tag)?;
        out(flag, "flag", c_int::from(found.is_some()))?;
        if let Some(found) = found {
            status.put(found);
        }
        Ok(())
    }

    fn MPI_Mprobe(
        source: c_int, tag: c_int, comm: MPI_Comm, message: Out<MPI_Message>, status: StatusOut,
    ) on comm {
        message.check("message")?;
        let (handle, found) = probe::mprobe(&comm, source, tag)?;
        out(message, "message", handle)?;
        status.put(found);
        Ok(())
    }

    fn MPI_Improbe(
        source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, message: Out<MPI_Message>, status: StatusOut,
    ) on comm {
        message.check("message")?;
        flag.check("flag")?;
        let Some((handle, found)) = probe::improbe(&comm, source, tag)? else { return out(flag, "flag", 0) };
        out(flag, "flag", 1)?;
        out(message, "message", handle)?;
        status.put(found);
        Ok(())
    }

    fn MPI_Mrecv / MPI_Mrecv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, message: InOut<MPI_Message>, status: StatusOut,
    ) {
        let handle = read(message, "message")?;
        probe::on(handle, || {
            let taken = || out(message, "message", MPI_MESSAGE_NULL);
            let mut request = probe::imrecv(choice!(buf, count, datatype), handle, taken)?;
            request::wait(&mut request)?.give(status)
        })
    }

    fn MPI_Imrecv / MPI_Imrecv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, message: InOut<MPI_Message>, request: Out<MPI_Request>,
    ) {
        let handle = read(message, "message")?;
        probe::on(handle, || {
            let taken = || out(message, "message", MPI_MESSAGE_NULL);
            request.make(|| probe::imrecv(choice!(buf, count, datatype), handle, taken))
        })
    }
}
