//! Types and constants of the ABI.

use core::ffi::c_int;

/// `intptr_t`.
pub(crate) type MPI_Aint = isize;
/// 64 bits.
pub(crate) type MPI_Count = i64;
/// 64 bits.
pub(crate) type MPI_Offset = i64;

macro_rules! handles {
    ($($name:ident)*) => {$(
        /// A handle: a constant of the ABI, or what [`crate::handle`] makes of an object. A pointer, for C.
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) struct $name(pub(crate) usize);
    )*};
}
handles! {
    MPI_Comm MPI_Datatype MPI_Errhandler MPI_File MPI_Group MPI_Info MPI_Message MPI_Op MPI_Request MPI_Session MPI_Win
}

/// A status: what a call reports of a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MPI_Status {
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
    /// The bytes of the message (two numbers), whether it was cancelled, and unused numbers.
    pub(crate) MPI_internal: [c_int; 5],
}

#[allow(dead_code)] // the table is the standard's, whole
mod constants {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}
pub(crate) use constants::*;

/// The error classes of the ULFM proposal, which are not the standard's (`mpi-ext.h`). A failed process has one class,
/// whether a program knows the proposal or not; the others are between the standard's classes and `MPI_ERR_LASTCODE`.
pub(crate) const MPIX_ERR_PROC_FAILED: c_int = MPI_ERR_PROC_ABORTED;
pub(crate) const MPIX_ERR_PROC_FAILED_PENDING: c_int = 0x3f01;
pub(crate) const MPIX_ERR_REVOKED: c_int = 0x3f02;

impl MPI_Status {
    /// The empty status: a wait for nothing gives it.
    pub(crate) const EMPTY: MPI_Status = MPI_Status {
        MPI_SOURCE: MPI_ANY_SOURCE,
        MPI_TAG: MPI_ANY_TAG,
        MPI_ERROR: MPI_SUCCESS,
        MPI_internal: [0; 5],
    };

    /// The status of a message that was sent.
    pub(crate) const SENT: MPI_Status =
        MPI_Status { MPI_SOURCE: MPI_UNDEFINED, MPI_TAG: MPI_UNDEFINED, ..MPI_Status::EMPTY };

    /// The status of a message from or to `MPI_PROC_NULL`.
    pub(crate) const NO_PROC: MPI_Status =
        MPI_Status { MPI_SOURCE: MPI_PROC_NULL, MPI_TAG: MPI_ANY_TAG, ..MPI_Status::EMPTY };

    pub(crate) fn of(source: c_int, tag: c_int, bytes: usize) -> MPI_Status {
        let mut status = MPI_Status { MPI_SOURCE: source, MPI_TAG: tag, ..MPI_Status::EMPTY };
        status.set_bytes(bytes);
        status
    }

    pub(crate) fn bytes(&self) -> usize {
        let [low, high, ..] = self.MPI_internal;
        (low as u32 as usize) | (high as u32 as usize) << 32
    }

    pub(crate) fn set_bytes(&mut self, bytes: usize) {
        self.MPI_internal[0] = bytes as u32 as c_int;
        self.MPI_internal[1] = (bytes >> 32) as u32 as c_int;
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.MPI_internal[2] != 0
    }

    pub(crate) fn set_cancelled(&mut self, cancelled: bool) {
        self.MPI_internal[2] = c_int::from(cancelled);
    }
}
