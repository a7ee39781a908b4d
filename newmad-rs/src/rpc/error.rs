//! What can go wrong with a call.

use std::fmt;

use crate::error::Error;

/// Why a call has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The session, or the way to the peer: it died, it left, the session is closed, there is no such rank.
    Session(Error),
    /// The peer has no service of that name or number (any more).
    NoService {
        /// Rank that was called.
        peer: u32,
        /// What was called.
        service: String,
    },
    /// The service's handler panicked.
    Panicked {
        /// Rank that was called.
        peer: u32,
        /// What was called.
        service: String,
        /// What the panic said.
        message: String,
    },
    /// The service's handler returned an error, or ended without a result.
    Failed {
        /// Rank that was called.
        peer: u32,
        /// What was called.
        service: String,
        /// What the error says.
        message: String,
    },
    /// Arguments or result are longer than `NMAD_RPC_MEMORY` of the side that was to take them.
    TooLong {
        /// Rank that was called.
        peer: u32,
        /// What was called.
        service: String,
        /// Whether it is the result; otherwise the arguments.
        result: bool,
        /// Their length in bytes.
        bytes: u64,
        /// Most that are taken.
        limit: u64,
    },
    /// The arguments or the result are not of the type that the receiving side expects, or not of this protocol.
    Undecodable {
        /// Rank that was called.
        peer: u32,
        /// What was called.
        service: String,
        /// Whether it is the result; otherwise the arguments.
        result: bool,
        /// What is wrong with them.
        message: String,
    },
    /// A value could not be turned into bytes.
    Unencodable(String),
    /// Calls made by handlers of calls made by handlers, too many levels of it.
    TooDeep {
        /// Most levels.
        limit: u32,
    },
    /// A service's name is empty or longer than 255 bytes.
    BadName(String),
    /// There is a service of that name or number already.
    Taken(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |result: &bool| if *result { "result" } else { "arguments" };
        match self {
            CallError::Session(error) => error.fmt(f),
            CallError::NoService { peer, service } => write!(
                f,
                "rank {peer} has no service {service}: it was removed, or is not registered yet \
                 (a barrier after registering makes sure)"
            ),
            CallError::Panicked { peer, service, message } => {
                write!(f, "service {service} of rank {peer} panicked: {message}")
            }
            CallError::Failed { peer, service, message } => {
                write!(f, "service {service} of rank {peer} failed: {message}")
            }
            CallError::TooLong { peer, service, result, bytes, limit } => write!(
                f,
                "the {} of service {service} of rank {peer} are {bytes} bytes, and at most {limit} are \
                 taken: raise NMAD_RPC_MEMORY there, or send it in parts",
                of(result)
            ),
            CallError::Undecodable { peer, service, result, message } => write!(
                f,
                "the {} of service {service} of rank {peer} are not of the expected type: {message}",
                of(result)
            ),
            CallError::Unencodable(message) => {
                write!(f, "a value cannot be turned into bytes: {message}")
            }
            CallError::TooDeep { limit } => write!(
                f,
                "handlers call services whose handlers call services: at most {limit} levels of that; \
                 answer first and call afterwards, or call from a thread of your own"
            ),
            CallError::BadName(name) => {
                write!(f, "{name:?} is no name for a service: it takes 1 to 255 bytes")
            }
            CallError::Taken(service) => {
                write!(f, "there is a service {service} already: remove it first")
            }
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CallError::Session(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        match error {
            Error::Call(call) => match call.downcast() {
                Ok(call) => *call,
                Err(other) => CallError::Session(Error::Call(other)),
            },
            error => CallError::Session(error),
        }
    }
}

/// A function that sends and calls returns either error.
///
/// ```
/// fn sum(session: &newmad::Session) -> Result<u64, newmad::Error> {
///     let rpc = session.rpc()?;
///     rpc.service("twice").bytes(|_, text| Ok::<_, String>(text.repeat(2)))?;
///     session.barrier()?;
///     Ok(rpc.call_bytes(session.rank(), "twice", b"abc")?.wait()?.len() as u64)
/// }
/// assert_eq!(newmad::run(sum)??, 6);
/// # Ok::<(), newmad::Error>(())
/// ```
impl From<CallError> for Error {
    fn from(error: CallError) -> Error {
        match error {
            CallError::Session(error) => error,
            error => Error::Call(Box::new(error)),
        }
    }
}
