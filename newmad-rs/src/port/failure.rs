//! Why two processes did not come together.

use std::{fmt, io};

/// Why two processes did not come together over a port.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The text is not the name of a port.
    BadName,
    /// The port does not exist (any more), or is not the one of that name.
    Refused,
    /// The other side did not come, or did not answer, in time.
    Late,
    /// The other side is gone, or says what makes no sense.
    Lost(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BadName => f.write_str("this is not the name of a port"),
            Failure::Refused => f.write_str("no port of that name is open"),
            Failure::Late => f.write_str("the other side did not answer in time"),
            Failure::Lost(source) => write!(f, "the other side is gone ({source})"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(source: io::Error) -> Failure {
        match source.kind() {
            io::ErrorKind::TimedOut => Failure::Late,
            io::ErrorKind::ConnectionRefused => Failure::Refused,
            _ => Failure::Lost(source),
        }
    }
}
