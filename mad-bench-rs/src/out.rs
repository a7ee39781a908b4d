//! Where the command writes, and how a command ends.
//!
//! `println!` panics when the reader is gone: everything goes through [`print()`], which turns that into
//! [`Exit::BrokenPipe`].

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

/// Why a command ends without success.
#[derive(Clone, Debug)]
pub enum Exit {
    /// Wrong usage: exit status 2.
    Usage(String),
    /// It failed, for this reason: exit status 1.
    Failed(String),
    /// It failed and has said why.
    Code(u8),
    /// The reader of the output is gone: not an error, and no reader to tell.
    BrokenPipe,
}

/// What every subcommand gives.
pub type Outcome = Result<(), Exit>;

/// Exit status of what Ctrl-C or a signal like it ended: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

impl Exit {
    /// Says the reason and gives the exit status.
    pub fn report(self) -> ExitCode {
        ExitCode::from(self.say())
    }

    /// The same, for one that goes on for a while.
    #[must_use]
    pub fn said(self) -> Exit {
        match self {
            Exit::BrokenPipe => Exit::BrokenPipe,
            other => Exit::Code(other.say()),
        }
    }

    fn say(self) -> u8 {
        match self {
            Exit::Usage(why) => {
                complain(&format!("error: {why}\n\nFor more information, try 'mad --help'."));
                2
            }
            Exit::Failed(why) => {
                complain(&format!("mad: {why}"));
                1
            }
            Exit::Code(code) => code,
            Exit::BrokenPipe => 0,
        }
    }
}

impl From<io::Error> for Exit {
    fn from(error: io::Error) -> Exit {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
            _ => Exit::Failed(format!("standard output: {error}")),
        }
    }
}

/// Writes to standard output, at once.
///
/// # Errors
/// [`Exit::BrokenPipe`] when the reader is gone.
pub fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Writes a line to standard error; a failure has no reader to be told to.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Tries whether a file can be written that takes a while to come to be. What is there stays as it is, and
/// nothing is made.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn try_file(path: &Path) -> io::Result<()> {
    // To open a pipe waits for its reader, and to close it again ends what that reads.
    if path.metadata().is_ok_and(|about| about.file_type().is_fifo()) {
        return Ok(());
    }
    match File::options().write(true).create_new(true).open(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match File::options().append(true).open(path) {
                // A link to nothing: writing makes the file that it names.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                tried => tried.map(drop),
            }
        }
        Err(error) => Err(error),
    }
}

const STYLE: comfy_table::TableStyle =
    comfy_table::presets::UTF8_HORIZONTAL_ONLY.row_separator(comfy_table::LineStyle::none());

/// A table in the one style that the command uses.
pub fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
        .set_header(header.iter().copied());
    let columns = table.width();
    table.set_width(width(columns));
    table
}

/// The width of a table on a terminal of so many columns, or on none. Terminals that do not know theirs say 0, for which
/// each column would be one character wide; nor is a table readable on very few.
fn width(columns: Option<u16>) -> u16 {
    columns.filter(|&columns| columns >= 40).unwrap_or(140)
}

/// A duration given in seconds, fractions allowed.
///
/// # Errors
/// `text` is no number of seconds up to a billion; which, in words.
pub fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    if !(0.0..=1e9).contains(&seconds) {
        return Err("not between 0 and 1000000000 seconds".into());
    }
    Ok(std::time::Duration::from_secs_f64(seconds))
}
