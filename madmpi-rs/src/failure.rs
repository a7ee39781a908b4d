//! Errors of newmad as errors of MPI.

use crate::abi::{
    MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED, MPI_ERR_RANK, MPI_ERR_TAG,
    MPI_ERR_TRUNCATE, MPIX_ERR_REVOKED,
};
use crate::error::Fault;
use crate::job;

impl From<newmad::Error> for Fault {
    #[cold]
    fn from(error: newmad::Error) -> Fault {
        use newmad::Error::*;
        let class = match &error {
            Truncated { .. } => MPI_ERR_TRUNCATE,
            PeerDied { .. } | Revoked { gone: true, .. } => MPI_ERR_PROC_ABORTED,
            ContextRevoked => MPIX_ERR_REVOKED,
            BadRank { .. } => MPI_ERR_RANK,
            BadTag { .. } => MPI_ERR_TAG,
            Mismatch { expected, found, .. } if found > expected => MPI_ERR_TRUNCATE,
            Mismatch { .. } => MPI_ERR_COUNT,
            BadBuffer { .. } => MPI_ERR_ARG,
            _ => MPI_ERR_OTHER,
        };
        let with = match &error {
            PeerDied { rank, cause } if *cause != newmad::Cause::Left => company(*rank),
            _ => None,
        };
        Fault::new(class, error.to_string() + &with.unwrap_or_default())
    }
}

/// Whether a peer is gone because it has left the job in order.
pub(crate) fn has_left(error: &newmad::Error) -> bool {
    matches!(error, newmad::Error::PeerDied { cause: newmad::Cause::Left, .. })
}

/// With which process that rank ended, and with which other ranks; `None`: its process held no others.
fn company(rank: u32) -> Option<String> {
    let (process, ranks) = job::session().ok()?.process_of(rank).ok()?;
    let last = ranks.end.checked_sub(1).filter(|&last| last > ranks.start)?;
    Some(format!("; it was in process {process}, with ranks {} to {last}", ranks.start))
}
