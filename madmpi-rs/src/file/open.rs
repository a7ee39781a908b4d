//! Opening, closing and deleting files; their size, and what is on the disk.

use core::ffi::c_int;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use marcel::plumbing::KernelMutex;
use pioman::fs::{self, Mapping};

use super::errors::{class, elsewhere, fault};
use super::exchange::{from_first, same};
use super::hints::{Hints, WORDS};
use super::mapped::Mapped;
use super::shared::Shared;
use super::view::View;
use super::{FILES, File, Settings};
use crate::abi::*;
use crate::comm::{Agreement, Comm};
use crate::errhandler;
use crate::error::Fault;
use crate::handle::Ref;

/// Checks the mode of access.
///
/// # Errors
/// Its bits do not go together.
fn check_amode(amode: c_int) -> Result<(), Fault> {
    const ACCESS: c_int = MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_WRONLY;
    const KNOWN: c_int = ACCESS
        | MPI_MODE_APPEND
        | MPI_MODE_CREATE
        | MPI_MODE_DELETE_ON_CLOSE
        | MPI_MODE_EXCL
        | MPI_MODE_SEQUENTIAL
        | MPI_MODE_UNIQUE_OPEN;
    let why = if amode & !KNOWN != 0 {
        "it has bits that are no mode"
    } else if (amode & ACCESS).count_ones() != 1 {
        "it has exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY"
    } else if amode & MPI_MODE_RDONLY != 0 && amode & (MPI_MODE_CREATE | MPI_MODE_EXCL) != 0 {
        "MPI_MODE_CREATE and MPI_MODE_EXCL do not go with MPI_MODE_RDONLY"
    } else if amode & MPI_MODE_RDWR != 0 && amode & MPI_MODE_SEQUENTIAL != 0 {
        "MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR"
    } else {
        return Ok(());
    };
    Err(Fault::argument(MPI_ERR_AMODE, "amode", amode, why))
}

/// What a rank opens.
struct Opened {
    file: fs::File,
    /// If `file` was opened by [`for_both`]: the descriptor before it, which is closed with it. Closing one earlier tells
    /// programs that watch the file that it is written (`IN_CLOSE_WRITE`), and ends this process's locks of it (`fcntl`).
    first: Option<fs::File>,
}

/// Opens the file at this rank.
fn open_here(path: &Path, amode: c_int, permissions: u32, creates: bool) -> io::Result<Opened> {
    let mut options = fs::OpenOptions::new();
    options.read(amode & (MPI_MODE_RDONLY | MPI_MODE_RDWR) != 0);
    options.write(amode & (MPI_MODE_WRONLY | MPI_MODE_RDWR) != 0);
    if creates {
        options.create(amode & MPI_MODE_CREATE != 0).mode(permissions);
        options.create_new(amode & MPI_MODE_CREATE != 0 && amode & MPI_MODE_EXCL != 0);
    }
    let file = options.open(path)?;
    let found = file.metadata()?;
    // A folder opens for reading, and every access fails then.
    if found.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    let both = if amode & MPI_MODE_WRONLY != 0 && found.is_file() { for_both(&file) } else { None };
    Ok(match both {
        Some(both) => Opened { file: both, first: Some(file) },
        None => Opened { file, first: None },
    })
}

/// A file that is open for writes, opened for reads too if its pages can be mapped then: the kernel maps no file that is
/// open for writes only. The program's reads are refused all the same.
///
/// Rejected: opening it for both at first. If that is not allowed, a second call cannot tell whether the first one has
/// created the file (`MPI_MODE_EXCL`). And NFS reads a page before it changes a part of it, if the file is open for reads.
fn for_both(file: &fs::File) -> Option<fs::File> {
    if !Mapping::is_supported(file, true).ok()? {
        return None;
    }
    // Not `/proc/self`, which has no descriptors once the main thread has ended.
    let same = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    fs::OpenOptions::new().read(true).write(true).open(same).ok()
}

/// The path that the program names.
fn path(name: &[u8]) -> PathBuf {
    // ROMIO's file systems have prefixes; all of them are the system's here.
    const PREFIXES: [&[u8]; 3] = [b"ufs:", b"nfs:", b"file:"];
    let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(*prefix)).unwrap_or(name);
    PathBuf::from(OsStr::from_bytes(name))
}

/// Opens a file at all ranks of a communicator.
///
/// # Errors
/// An argument of a rank is not acceptable; a rank cannot open it, and so no rank has; a rank has died.
pub(crate) fn open(
    comm: &Comm,
    name: Result<&[u8], Fault>,
    amode: c_int,
    info: MPI_Info,
) -> Result<MPI_File, Fault> {
    comm.check_intra()?;
    let mut hints = Hints::default();
    // The name may be relative, and the program may be in another folder later: when a thread of it has gone there
    // meanwhile, and when `close` deletes by this name.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let wanted = hints.take(info).and(check_amode(amode)).and(name).map(path).map(absolute);
    let comm = Ref::Shared(comm.hidden_twin()?);
    let group = Agreement::of_comm(&comm)?;
    let class_of = |wrong: Option<&Fault>| wrong.map_or(0, |fault| fault.class as u64);
    // Whose arguments are wrong; the hints of the first; whether all have the same mode.
    let mut words = [0; WORDS + 1];
    words[..WORDS].copy_from_slice(&hints.words());
    (words[0], words[WORDS]) = (class_of(wanted.as_ref().err()), amode as u64);
    let [all, _] = group.gather(words)?;
    let path = wanted?;
    if let Some(rank) = all.iter().position(|words| words[0] != 0) {
        return Err(elsewhere("MPI_File_open", rank, all[rank][0]));
    }
    if all.iter().any(|words| words[WORDS] != all[0][WORDS]) {
        let why = "all ranks open a file in the same mode";
        return Err(Fault::argument(MPI_ERR_NOT_SAME, "amode", amode, why));
    }
    hints = Hints::of(std::array::from_fn(|index| all[0][index]));
    // The first rank creates the file, the others find it.
    let what = format!("opening {}", path.display());
    let mut own = None;
    for turn in 0..2 {
        let opened = match (comm.rank() == 0) == (turn == 0) {
            true => Some(open_here(&path, amode, hints.permissions, turn == 0)),
            false => None,
        };
        let failed = opened.as_ref().and_then(|opened| opened.as_ref().err());
        let [all, _] = group.gather([failed.map_or(0, |error| class(error) as u64)])?;
        match opened {
            Some(Ok(opened)) => own = Some(opened),
            Some(Err(error)) => return Err(fault(&what, &error)),
            None => {}
        }
        if let Some(rank) = all.iter().position(|&[class]| class != 0) {
            return Err(elsewhere(&what, rank, all[rank][0]));
        }
    }
    let Some(Opened { file, first }) = own else {
        return Err(Fault::new(MPI_ERR_INTERN, "no turn has opened the file"));
    };
    let shared = Shared::new(&comm)?;
    let settings = Settings { errhandler: errhandler::files(), hints };
    let mapped = Mapped::new(&file, amode & MPI_MODE_RDONLY == 0);
    let file = Arc::new(File {
        handle: OnceLock::new(),
        comm,
        file,
        _first: first,
        path,
        amode,
        view: KernelMutex::new(Arc::new(View::bytes()?)),
        pointer: KernelMutex::new(0),
        shared,
        atomic: AtomicBool::new(false),
        settings: KernelMutex::new(settings),
        split: KernelMutex::new(None),
        kept: KernelMutex::default(),
        mapped,
    });
    let begin = from_first(&file.comm, || {
        let begin = if amode & MPI_MODE_APPEND != 0 { file.size()? as i64 } else { 0 };
        file.shared.set(begin).map(|()| begin)
    })?;
    *file.pointer.lock() = begin;
    let handle = FILES.insert(file.clone()).map(MPI_File);
    let handle = handle.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many files are open"))?;
    let _ = file.handle.set(handle);
    Ok(handle)
}

/// Closes a file, at all ranks.
///
/// # Errors
/// A split collective is under way. The system says that data of earlier writes are lost, or a rank has died: then the file
/// is closed nevertheless.
pub(crate) fn close(file: &File) -> Result<(), Fault> {
    file.check_no_split()?;
    FILES.remove(file.handle().0);
    file.mapped.end();
    // Closing any of its descriptors brings out what a file system has to say of earlier writes.
    let closed = file.file.try_clone().and_then(fs::File::close);
    let closed = closed.map_err(|error| fault(&file.says("closing"), &error));
    let freed = file.shared.free();
    let deletes = file.amode & MPI_MODE_DELETE_ON_CLOSE != 0;
    let met = from_first(&file.comm, || match deletes {
        true => delete(&file.path).map(|()| 0),
        false => Ok(0),
    });
    closed.and(freed).and(met.map(drop))
}

fn delete(path: &Path) -> Result<(), Fault> {
    let what = || format!("deleting {}", path.display());
    fs::remove_file(path).map_err(|error| fault(&what(), &error))
}

/// Deletes a file.
///
/// # Errors
/// The system's.
pub(crate) fn delete_named(name: &[u8]) -> Result<(), Fault> {
    delete(&path(name))
}

fn size_argument(size: MPI_Offset) -> Result<u64, Fault> {
    let negative = |_| Fault::argument(MPI_ERR_ARG, "size", size, "it must not be negative");
    u64::try_from(size).map_err(negative)
}

/// Steps in which space is made sure of where the file system has no call for it.
const STEP: usize = 1 << 20;

impl File {
    /// Bytes of the file.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn size(&self) -> Result<u64, Fault> {
        // A network file system waits for its server.
        let size = marcel::blocking(|| self.file.size());
        size.map_err(|error| fault(&self.says("the size of"), &error))
    }

    /// Has the first rank change the file, at all ranks.
    fn change(
        &self,
        size: MPI_Offset,
        what: &str,
        change: impl FnOnce(u64) -> io::Result<()>,
    ) -> Result<(), Fault> {
        let size = self.check_writes().and_then(|()| size_argument(size));
        same(&self.comm, "size", size.clone())?;
        from_first(&self.comm, || {
            change(size?).map(|()| 0).map_err(|error| fault(&self.says(what), &error))
        })?;
        Ok(())
    }

    fn check_writes(&self) -> Result<(), Fault> {
        match self.amode & MPI_MODE_RDONLY {
            0 => Ok(()),
            _ => Err(Fault::new(MPI_ERR_READ_ONLY, "the file was opened with MPI_MODE_RDONLY")),
        }
    }

    /// Cuts the file, or fills it up with zeroes, at all ranks.
    ///
    /// # Errors
    /// The sizes differ, or are negative; the system's; a rank has died.
    pub(crate) fn set_size(&self, size: MPI_Offset) -> Result<(), Fault> {
        self.change(size, "setting the size of", |size| self.file.set_len(size))
    }

    /// Makes sure that the first `size` bytes can be written, at all ranks.
    ///
    /// # Errors
    /// As [`File::set_size`].
    pub(crate) fn preallocate(&self, size: MPI_Offset) -> Result<(), Fault> {
        self.change(size, "allocating space for", |size| match size {
            0 => Ok(()),
            _ => match self.file.allocate(0, size) {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => self.fill(size),
                allocated => allocated,
            },
        })
    }

    /// Writes zeroes from the end of the file on. What the file has already stays as it is.
    fn fill(&self, size: u64) -> io::Result<()> {
        let (zeroes, mut at) = (vec![0; STEP], marcel::blocking(|| self.file.size())?);
        while at < size {
            let len = (size - at).min(STEP as u64);
            self.file.write_all_at(&zeroes[..len as usize], at)?;
            at += len;
        }
        Ok(())
    }

    /// Brings this rank's writes to the disk, and waits for the other ranks.
    ///
    /// # Errors
    /// The system's, here or at another rank; a rank has died.
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        let synced = self.file.sync_data().map_err(|error| fault(&self.says("syncing"), &error));
        same(&self.comm, "sync", synced.map(|()| 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::io::Read;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    fn name(what: &str) -> PathBuf {
        std::env::temp_dir().join(format!("madmpi-open-{what}-{}", std::process::id()))
    }

    /// For what a file is open.
    fn access_of(file: &fs::File) -> c_int {
        // SAFETY: no memory is passed.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) & libc::O_ACCMODE }
    }

    #[test]
    fn a_file_to_write_can_be_mapped_if_one_for_both_can() {
        let path = name("mapped");
        for (amode, creates) in [(MPI_MODE_CREATE | MPI_MODE_EXCL, true), (0, false)] {
            let opened = open_here(&path, MPI_MODE_WRONLY | amode, 0o600, creates).unwrap();
            let both = open_here(&path, MPI_MODE_RDWR, 0, false).unwrap();
            assert!(both.first.is_none());
            let can_be = Mapping::new(&both.file, 0..1, true).is_ok();
            assert_eq!(Mapping::new(&opened.file, 0..1, true).is_ok(), can_be);
            let access = if can_be { libc::O_RDWR } else { libc::O_WRONLY };
            assert_eq!(access_of(&opened.file), access);
            assert_eq!(opened.first.is_some(), can_be);
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn opening_a_file_to_write_does_not_say_that_it_is_written() {
        let path = name("watched");
        std::fs::write(&path, "").unwrap();
        let text = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: no memory is passed.
        let watch = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        if watch < 0 {
            std::fs::remove_file(&path).unwrap();
            return eprintln!("skipped: the user has too many watches");
        }
        // SAFETY: a new descriptor.
        let mut watch = unsafe { std::fs::File::from_raw_fd(watch) };
        // SAFETY: a text that ends.
        let added = unsafe {
            libc::inotify_add_watch(watch.as_raw_fd(), text.as_ptr(), libc::IN_CLOSE_WRITE)
        };
        assert!(added >= 0);
        let opened = open_here(&path, MPI_MODE_WRONLY, 0, false).unwrap();
        let mut events = [0; 256];
        assert_eq!(watch.read(&mut events).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(opened);
        assert!(watch.read(&mut events).unwrap() > 0);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_may_not_be_read_opens_for_writes() {
        const NOBODY: libc::uid_t = 65534;
        let path = name("unreadable");
        let mut new = std::fs::OpenOptions::new();
        drop(new.write(true).create_new(true).mode(0o200).open(&path).unwrap());
        // Whether this could be tried.
        let as_user = |path: &Path| {
            // The superuser may read all: without that right, the owner of the file still has none.
            // SAFETY: no memory is passed. It changes the thread, which ends soon.
            unsafe { libc::setfsuid(NOBODY) };
            if std::fs::OpenOptions::new().write(true).open(path).is_err() {
                return false; // the folder is the superuser's alone
            }
            let read = open_here(path, MPI_MODE_RDONLY, 0, false).map(drop);
            assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EACCES));
            let Opened { file, first } = open_here(path, MPI_MODE_WRONLY, 0, false).unwrap();
            assert_eq!(access_of(&file), libc::O_WRONLY);
            assert!(first.is_none());
            file.write_all_at(b"x", 0).unwrap();
            true
        };
        // SAFETY: no memory is passed.
        let (user, dumps) = unsafe { (libc::geteuid(), libc::prctl(libc::PR_GET_DUMPABLE)) };
        // In a user namespace, that user may not exist.
        let given = user != 0 || std::os::unix::fs::chown(&path, Some(NOBODY), None).is_ok();
        let done = std::thread::scope(|scope| scope.spawn(|| given && as_user(&path)).join());
        if dumps == 1 {
            // The kernel has taken it from the process with the thread's user: other tests read their files in `/proc`.
            // SAFETY: no memory is passed.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
        }
        let len = std::fs::metadata(&path).unwrap().len();
        std::fs::remove_file(&path).unwrap();
        match done.unwrap() {
            true => assert_eq!(len, 1),
            false => eprintln!("skipped: no user here who may write a file and not read it"),
        }
    }
}
