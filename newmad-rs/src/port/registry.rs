//! Names of services: under which a process publishes the name of its port, and others find it.
//!
//! A name is a file in a folder (`NMAD_NAMES`) that belongs to the user alone, so names are seen by all programs of one
//! user on one machine, or wherever the folder is. A file says which process has published it. When that process is gone
//! without taking the name back, the name is as good as free.
//!
//! Rejected: the process manager's names (those of `mad run` and Hydra end at their job, and jobs that are started apart
//! are what names are for); a server (one more process to start, to find and to protect).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::authentication::{KEY, derive};
use crate::connect::hex;
use crate::error::{Error, during};
use crate::knobs::NAMES;
use crate::sys;

/// The longest file of a name.
const LONGEST: u64 = 16 << 10;

/// What has become of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is this process's, or was.
    Done,
    /// Another process that lives has published it, or this one has before.
    Occupied,
    /// It is not published.
    Absent,
}

/// Publishes a text, mostly the name of a [`Port`](super::Port), under the name of a service.
///
/// # Errors
/// The folder of names cannot be used: it is missing and cannot be made, or is not this user's alone.
pub fn publish(service: &[u8], text: &str) -> Result<Taken, Error> {
    let folder = folder()?;
    let place = place(&folder, service);
    let fresh = folder.join(format!(".{}", hex(&sys::random::<16>()?)));
    let doing = "publishing a name";
    let _alone = alone(&folder).map_err(during(doing))?;
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh);
    let written = written
        .and_then(|mut file| file.write_all(format!("{}\n{text}", Process::own()).as_bytes()));
    if let Err(error) = written {
        let _ = fs::remove_file(&fresh);
        return Err(during(doing)(error));
    }
    let taken = loop {
        match fs::hard_link(&fresh, &place) {
            Ok(()) => break Ok(Taken::Done),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read(&place) {
                Some((process, _)) if process.lives() => break Ok(Taken::Occupied),
                // Its process is gone, or it is no such file.
                _ => match fs::remove_file(&place) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => break Err(error),
                    _ => {}
                },
            },
            Err(error) => break Err(error),
        }
    };
    let _ = fs::remove_file(&fresh);
    taken.map_err(during(doing))
}

/// Holds off others that publish and take back: of two that find a dead process's name, one would remove what the other has put
/// in its place.
fn alone(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let lock = options.open(folder.join(".lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// The text that a process that lives has published under that name.
///
/// # Errors
/// As [`publish`].
pub fn look_up(service: &[u8]) -> Result<Option<String>, Error> {
    let found = read(&place(&folder()?, service));
    Ok(found.filter(|(process, _)| process.lives()).map(|(_, text)| text))
}

/// Takes back a name that this process has published.
///
/// # Errors
/// As [`publish`].
pub fn unpublish(service: &[u8]) -> Result<Taken, Error> {
    let (folder, doing) = (folder()?, "taking back a name");
    let _alone = alone(&folder).map_err(during(doing))?;
    let place = place(&folder, service);
    match read(&place) {
        Some((process, _)) if process == Process::own() => {
            fs::remove_file(place).map_err(during(doing))?;
            Ok(Taken::Done)
        }
        Some((process, _)) if process.lives() => Ok(Taken::Occupied),
        _ => Ok(Taken::Absent),
    }
}

/// The folder of names, which is made if need be.
fn folder() -> Result<PathBuf, Error> {
    let user = rustix::process::getuid().as_raw();
    let named = NAMES.text()?;
    let folder = match named.is_empty() {
        true => std::env::temp_dir().join(format!("newmad-names-{user}")),
        false => PathBuf::from(named),
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(during("making the folder of names (NMAD_NAMES)")(error));
        }
        _ => {}
    }
    // Of a link: of the link itself, which another user may have put there.
    let found = fs::symlink_metadata(&folder).map_err(during("reading the folder of names"))?;
    match found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
        true => Ok(folder),
        false => Err(Error::Bootstrap(format!(
            "{} is not a folder that this user alone may write: set NMAD_NAMES to one that is",
            folder.display()
        ))),
    }
}

/// The file of a name: names have any characters, and may be longer than those of files.
fn place(folder: &Path, service: &[u8]) -> PathBuf {
    folder.join(hex(&derive(&[0; KEY], service)))
}

fn read(place: &Path) -> Option<(Process, String)> {
    let long = fs::metadata(place).ok()?.len() > LONGEST;
    let text = fs::read_to_string(place).ok().filter(|_| !long)?;
    parse(&text)
}

fn parse(text: &str) -> Option<(Process, String)> {
    let (process, text) = text.split_once('\n')?;
    Some((Process::parse(process)?, text.to_owned()))
}

/// A process, so that another one with its number is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    /// The machine, since it was started.
    boot: String,
    number: u32,
    /// When it was started, in the kernel's ticks.
    since: u64,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.boot, self.number, self.since)
    }
}

impl Process {
    fn own() -> Process {
        let number = std::process::id();
        Process { boot: boot(), number, since: since(number).unwrap_or_default() }
    }

    fn parse(line: &str) -> Option<Process> {
        let mut words = line.split(' ');
        let (boot, number, since) = (words.next()?, words.next()?, words.next()?);
        let (number, since) = (number.parse().ok()?, since.parse().ok()?);
        (words.next().is_none()).then(|| Process { boot: boot.to_owned(), number, since })
    }

    /// Whether it runs, as far as that can be known from here.
    fn lives(&self) -> bool {
        self.boot != boot() || since(self.number) == Some(self.since)
    }
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match id.trim() {
        "" => "-".into(),
        id => id.to_owned(),
    }
}

/// When a process was started. `None`: there is none of that number.
fn since(number: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name is in brackets, and may have blanks and brackets itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    // The 22nd of all, of which two are before the rest.
    fields.nth(18)?.parse().ok().filter(|_| !ended)
}

/// What any file might hold.
#[cfg(any(test, fuzzing))]
pub(crate) fn hostile(text: &str) {
    if let Some((process, rest)) = parse(text) {
        assert_eq!(parse(&format!("{process}\n{rest}")), Some((process, rest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_file_is_survived(text in "[a-z0-9-]{0,9} ?[0-9]{0,12} ?[0-9]{0,24}\n?\\PC{0,9}") {
            hostile(&text);
        }
    }

    #[test]
    fn a_name_is_found_until_it_is_taken_back_or_its_process_is_gone() {
        let service = format!("newmad's test {}", std::process::id()).into_bytes();
        assert_eq!(look_up(&service).unwrap(), None);
        assert_eq!(unpublish(&service).unwrap(), Taken::Absent);
        assert_eq!(publish(&service, "a port").unwrap(), Taken::Done);
        assert_eq!(look_up(&service).unwrap().as_deref(), Some("a port"));
        assert_eq!(publish(&service, "another").unwrap(), Taken::Occupied);
        assert_eq!(unpublish(&service).unwrap(), Taken::Done);
        assert_eq!(look_up(&service).unwrap(), None);
        // One of a process that has ended is no name.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = Process { number: child.id(), ..Process::own() };
        let place = place(&folder().unwrap(), &service);
        fs::write(&place, format!("{gone}\nold")).unwrap();
        assert_eq!(look_up(&service).unwrap(), None);
        assert_eq!(publish(&service, "new").unwrap(), Taken::Done);
        assert_eq!(look_up(&service).unwrap().as_deref(), Some("new"));
        assert_eq!(unpublish(&service).unwrap(), Taken::Done);
        assert!(!place.exists());
    }
}
