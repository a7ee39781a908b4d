//! The cache file: what was measured on this machine, as text that a person can read and change.
//!
//! ```text
//! newmad sampling 1
//! # rail protocol bytes nanoseconds
//! shm eager 4 160
//! tcp stream 65536 41000
//! end 2
//! ```
//! Lines that begin with `#` say nothing; the last line counts the measurements, so that a file that was cut is
//! noticed. A file that is not sound is refused as a whole, with the line and what is wrong with it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::curve::MOST;
use super::table::{Protocol, Sampling};
use crate::error::BadCache;

const FIRST: &str = "newmad sampling 1";
/// Larger files are none of ours.
const LARGEST: u64 = 1 << 20;
/// No message takes longer than a day, or is longer than a pebibyte.
const BOUNDS: (u64, u64) = (1 << 50, 86_400_000_000_000);
/// Most rails and protocols.
const CURVES: usize = 64;

/// Where the cache file of this machine is: `newmad/sampling-HOST.txt` in `$XDG_CACHE_HOME`, or in `~/.cache`.
pub fn default_path() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder =
        absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let host: String = host.trim().chars().map(plain).take(64).collect();
    Some(folder.join("newmad").join(format!("sampling-{host}.txt")))
}

/// What there is where a cache file is to be. Links are followed, and stay.
enum Place {
    /// A file, or nothing: `new` is written and takes the place of `path`.
    File { path: PathBuf, new: PathBuf },
    /// What a descriptor of this process writes to, as at `/dev/stdout`: the same descriptor once more.
    Open(File),
    /// A pipe, a device, a folder, a link to nothing, or a file that another process has open: not to be replaced.
    Other(PathBuf),
}

impl Place {
    /// Makes the folder.
    fn of(path: &Path) -> io::Result<Place> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if let Some(open) = open_file(path) {
            return Ok(own(&open)?.map_or(Place::Other(open), Place::Open));
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.symlink_metadata().is_ok_and(|about| !about.is_file()) {
            return Ok(Place::Other(path));
        }
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        Ok(Place::File { path, new: new.into() })
    }
}

/// Where `/proc` has the open file that `path` names, if it names one: `/dev/stdout`, and links to it, do.
fn open_file(path: &Path) -> Option<PathBuf> {
    let mut path = std::path::absolute(path).ok()?;
    // The kernel follows no more links than this.
    for _ in 0..40 {
        let to = fs::read_link(&path).ok()?;
        let folder = path.parent()?.canonicalize().ok()?;
        if folder.starts_with("/proc") {
            return Some(folder.join(path.file_name()?));
        }
        path = folder.join(to);
    }
    None
}

/// Duplicates the descriptor that `open` names, if it is this process's. The duplicate shares its position in the file:
/// to open the file again would begin at its start, over what was written through the descriptor.
fn own(open: &Path) -> io::Result<Option<File>> {
    if open.parent().map(Path::to_owned) != fs::canonicalize("/proc/self/fd").ok() {
        return Ok(None);
    }
    let number = open.file_name().and_then(|name| name.to_str()?.parse().ok());
    let Some(number) = number else { return Ok(None) };
    // SAFETY: the call takes no pointers.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor, which nothing else has.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(copy) });
    let flags = rustix::fs::fcntl_getfl(&file)?;
    match flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
        true => Ok(Some(file)),
        false => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// Writes a file and has it on the disk.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

impl Sampling {
    /// Reads a cache file.
    ///
    /// # Errors
    /// It cannot be read, or is not sound.
    pub fn read(path: &Path) -> Result<Sampling, BadCache> {
        let bad = |why: String| BadCache { path: path.to_owned(), why };
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text))
            .map_err(|error| bad(error.to_string()))?;
        Sampling::parse(&text).map_err(bad)
    }

    /// Writes a cache file, whole or not at all. Its folder is made. A pipe, a device or an open file (`/dev/stdout`) is
    /// written into.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        match Place::of(path)? {
            Place::File { path, new } => {
                let written = create(&new, &self.text()).and_then(|()| fs::rename(&new, path));
                if written.is_err() {
                    let _ = fs::remove_file(&new);
                }
                written
            }
            Place::Open(mut file) => file.write_all(self.text().as_bytes()),
            Place::Other(path) => {
                let mut file =
                    File::options().write(true).create(true).truncate(true).open(path)?;
                file.write_all(self.text().as_bytes())
            }
        }
    }

    /// Tries whether [`Sampling::write`] can write there, before anything is measured: a full disk is not foreseen, and
    /// pipes are not tried. The folder is made.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn try_place(path: &Path) -> io::Result<()> {
        match Place::of(path)? {
            Place::File { new, .. } => File::create(&new).and_then(|_| fs::remove_file(&new)),
            Place::Open(_) => Ok(()),
            // To open a pipe waits for its reader, and to close it again ends what that reads. Writing makes the file
            // that a link names and that is not there.
            Place::Other(path) => match fs::metadata(&path) {
                Ok(about) if !about.file_type().is_fifo() => {
                    File::options().write(true).open(path).map(drop)
                }
                _ => Ok(()),
            },
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{FIRST}\n# rail protocol bytes nanoseconds\n");
        let mut count = 0;
        for (rail, protocol, curve) in self.curves() {
            for (bytes, ns) in curve.points() {
                text.push_str(&format!("{rail} {} {bytes} {ns}\n", protocol.name()));
                count += 1;
            }
        }
        text.push_str(&format!("end {count}\n"));
        text
    }

    pub(crate) fn parse(text: &str) -> Result<Sampling, String> {
        if text.len() as u64 > LARGEST {
            return Err(format!("it is longer than {LARGEST} bytes"));
        }
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(first, _)| first != FIRST) {
            return Err(format!("its first line is not {FIRST:?}"));
        }
        let mut sampling = Sampling::new();
        let mut count = 0;
        for (line, number) in lines {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad =
                || format!("line {number} is not \"rail protocol bytes nanoseconds\": {line:.80?}");
            let fields: Vec<&str> = line.split(' ').collect();
            if let ["end", all] = fields[..] {
                return match all.parse() == Ok(count) {
                    true => Ok(sampling),
                    false => {
                        Err(format!("line {number} counts {all:.20} lines and there are {count}"))
                    }
                };
            }
            let [rail, protocol, bytes, ns] = fields[..] else { return Err(bad()) };
            let protocol = Protocol::ALL.into_iter().find(|known| known.name() == protocol);
            let protocol = protocol.ok_or_else(bad)?;
            let (bytes, ns): (u64, u64) =
                bytes.parse().ok().zip(ns.parse().ok()).ok_or_else(bad)?;
            let sound = rail.len() <= 16
                && rail.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
                && bytes <= BOUNDS.0
                && (1..=BOUNDS.1).contains(&ns);
            if !sound {
                return Err(bad());
            }
            sampling.add(rail, protocol, bytes, ns);
            count += 1;
            if sampling.curves.len() > CURVES || count > CURVES * MOST {
                return Err(format!("line {number}: there are too many measurements"));
            }
        }
        Err("it has no end: it was cut".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some() -> Sampling {
        let mut sampling = Sampling::new();
        for bytes in [4, 1024, 65536] {
            sampling.add("shm", Protocol::Eager, bytes, 100 + bytes);
            sampling.add("tcp.2", Protocol::Fragments, bytes, 10_000 + bytes);
        }
        sampling
    }

    #[test]
    fn what_is_written_is_read_and_what_was_cut_is_refused() {
        let path =
            std::env::temp_dir().join(format!("newmad-cache-{}/x/y.txt", std::process::id()));
        some().write(&path).unwrap();
        assert_eq!(Sampling::read(&path).unwrap(), some());
        let text = some().text();
        for cut in 0..text.len() - 1 {
            assert!(Sampling::parse(&text[..cut]).is_err(), "{cut}");
        }
        std::fs::remove_dir_all(path.parent().unwrap().parent().unwrap()).unwrap();
        let error = Sampling::read(&path).unwrap_err().to_string();
        assert!(error.contains("y.txt") && error.contains("mad sample"), "{error}");
    }

    #[test]
    fn a_link_stays_and_its_file_is_written() {
        let folder =
            std::env::temp_dir().join(format!("newmad-cache-links-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (link, file) = (folder.join("link"), folder.join("file"));
        std::os::unix::fs::symlink("file", &link).unwrap();
        // The first time the file is not there yet.
        for _ in 0..2 {
            Sampling::try_place(&link).unwrap();
            some().write(&link).unwrap();
            assert!(link.is_symlink() && !file.is_symlink());
            assert_eq!(Sampling::read(&file).unwrap(), some());
        }
        assert!(Sampling::try_place(&folder).is_err() && some().write(&folder).is_err());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_wrong_line_is_named() {
        for wrong in
            ["shm eager 4", "shm fast 4 5", "shm eager 4 0", "s/m eager 4 5", "shm eager -4 5"]
        {
            let text = format!("{FIRST}\nshm eager 1 1\n{wrong}\nend 2\n");
            let error = Sampling::parse(&text).unwrap_err();
            assert!(error.contains("line 3"), "{error}");
        }
        assert!(Sampling::parse(&format!("{FIRST}\nshm eager 1 1\nend 2\n")).is_err());
        assert!(Sampling::parse("").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(newmad sampling 1\n)?([a-z ]{0,9}[0-9 ]{0,25}\n|shm eager [0-9]{1,20} [0-9]{1,20}\n|end [0-9]\n){0,20}") {
            if let Ok(sampling) = Sampling::parse(&text) {
                prop_assert_eq!(Sampling::parse(&sampling.text()).unwrap(), sampling.clone());
                let _ = (sampling.threshold("shm", true), sampling.pace("shm"));
            }
        }

        #[test]
        fn any_bytes_are_survived(text: String) {
            prop_assert!(Sampling::parse(&text).is_err());
        }
    }
}
