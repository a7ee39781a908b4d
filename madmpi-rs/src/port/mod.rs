//! Connecting groups of processes: ports, and what the two sides tell each other when they meet.
//!
//! | file | what |
//! |---|---|
//! | `open` | the ports of this process, by their names |
//! | `meeting` | two sides, whose roots have a channel, become one circle with an intercommunicator |
//! | `spawn`, `soft` | starting processes, which then connect; how many |
//! | `wire` | what the roots say |

pub(crate) mod meeting;
pub(crate) mod open;
pub(crate) mod soft;
pub(crate) mod spawn;
mod wire;

use std::time::{Duration, Instant};

use crate::abi::*;
use crate::error::Fault;

/// Until when another process has to come, or to answer (`NMAD_CONNECT_TIMEOUT_MS`).
pub(crate) fn deadline() -> Instant {
    Instant::now() + newmad::port::patience().unwrap_or(Duration::from_secs(30))
}

/// What a failure to come together is to the program.
pub(crate) fn fault(failure: newmad::port::Failure) -> Fault {
    use newmad::port::Failure::*;
    match failure {
        BadName => {
            let why = "argument port_name is not the name of a port, as MPI_Open_port gives it";
            Fault::new(MPI_ERR_PORT, why)
        }
        Refused => Fault::new(
            MPI_ERR_PORT,
            "no port of that name is open: it was closed, or its process is gone",
        ),
        Late => {
            let why = "the other side did not come in time (NMAD_CONNECT_TIMEOUT_MS): no process accepts at that port?";
            Fault::new(MPI_ERR_PORT, why)
        }
        lost => Fault::new(MPI_ERR_PROC_ABORTED, format!("connecting: {lost}")),
    }
}
