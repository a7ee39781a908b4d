//! Where a session's figures come from.

use std::io::{self, Write};
use std::path::PathBuf;

use super::cache::default_path;
use super::table::Sampling;
use crate::error::Error;

/// Where a session's figures come from (`NMAD_SAMPLING`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This machine's cache file, if there is one.
    Cache,
    /// This file.
    File(PathBuf),
    /// Measured when the session opens.
    Now,
    /// Built in.
    Off,
}

impl Source {
    pub(crate) fn of(text: &str) -> Source {
        match text {
            "" => Source::Cache,
            "now" => Source::Now,
            "off" => Source::Off,
            path => Source::File(path.into()),
        }
    }

    /// What is known before the session opens.
    ///
    /// # Errors
    /// The file that the knob names is not sound. The usual one is only complained about.
    pub(crate) fn load(&self) -> Result<Sampling, Error> {
        match self {
            Source::Now | Source::Off => Ok(Sampling::new()),
            Source::File(path) => Sampling::read(path).map_err(Error::Sampling),
            Source::Cache => {
                let path = default_path().filter(|path| path.exists());
                let Some(path) = path else { return Ok(Sampling::new()) };
                Ok(Sampling::read(&path).unwrap_or_else(|error| {
                    // Not `eprintln`, which panics if standard error cannot be written.
                    let _ = writeln!(io::stderr(), "newmad: {error}; built-in figures serve");
                    Sampling::new()
                }))
            }
        }
    }
}
