//! The drivers that `NMAD_DRIVER` names.

use crate::error::Error;

/// What carries the messages between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Driver {
    /// Shared memory of one machine.
    Shm,
    /// TCP.
    Tcp,
    /// InfiniBand or RoCE, by libibverbs.
    Verbs,
    /// Nothing: a session of one process.
    Local,
}

impl std::str::FromStr for Driver {
    type Err = Error;
    fn from_str(name: &str) -> Result<Driver, Error> {
        match name {
            "shm" => Ok(Driver::Shm),
            "tcp" => Ok(Driver::Tcp),
            "verbs" => Ok(Driver::Verbs),
            "local" => Ok(Driver::Local),
            other => Err(Error::UnknownDriver { name: other.to_owned() }),
        }
    }
}

impl std::fmt::Display for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Driver::Shm => "shm",
            Driver::Tcp => "tcp",
            Driver::Verbs => "verbs",
            Driver::Local => "local",
        })
    }
}

/// Rails as they are written in `NMAD_DRIVER`.
pub(super) fn names(rails: &[Driver]) -> String {
    rails.iter().map(Driver::to_string).collect::<Vec<_>>().join("+")
}
