//! A part of a file in memory: many short pieces are copied without a system call each.
//!
//! A page that the file has no more (another process has cut it), or that the disk cannot give, raises `SIGBUS` where it
//! is touched. The handler puts an empty page there and marks the mapping as lost, so the copy goes on, and its caller
//! learns afterwards that it is worth nothing: system calls then say why.
//!
//! Invariant: a thread that has touched an empty page finds `lost` after its copy. The handler sets `lost` before it
//! changes the page, by a system call.
//!
//! Only file systems whose page cache *is* the file are mapped. Others write whole pages back, with what other machines
//! had written beside.
//!
//! Rejected: `process_vm_writev` to the own process, which fails instead of raising a signal (300 ns for each piece).

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use marcel::plumbing::signal::{self, Action, KeepErrno};

use super::File;

/// Mappings that a process can have.
const MOST: usize = 64;
/// A slot that a mapping is about to take.
const TAKEN: usize = 1;

/// What the handler knows of a mapping. `begin` is 0 while there is none.
struct Slot {
    begin: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

impl Slot {
    /// Whether the mapping has that address.
    fn has(&self, address: usize) -> bool {
        let begin = self.begin.load(SeqCst);
        let end = self.end.load(SeqCst);
        // The end belongs to that beginning if the beginning has not changed: `end` is stored while there is none.
        let is_one = begin > TAKEN && self.begin.load(SeqCst) == begin;
        is_one && (begin..end).contains(&address)
    }
}

static SLOTS: [Slot; MOST] = [const {
    Slot { begin: AtomicUsize::new(0), end: AtomicUsize::new(0), lost: AtomicBool::new(false) }
}; MOST];

static PREVIOUS: OnceLock<Action> = OnceLock::new();

/// Installs the handler.
fn install() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let install = || {
            let _ = PREVIOUS.set(Action::of(libc::SIGBUS)?); // before the handler can run
            // SAFETY: the handler reads atomic words, and makes system calls.
            unsafe { signal::handle(libc::SIGBUS, handler) }
        };
        install().map_err(|error: io::Error| error.raw_os_error().unwrap_or(libc::EINVAL))
    });
    done.map_err(io::Error::from_raw_os_error)
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let _errno = KeepErrno::new();
    // SAFETY: the kernel gives a valid siginfo. One of its own has an address.
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr() as usize) };
    if is_fault && replace(address) {
        return;
    }
    if let Some(previous) = PREVIOUS.get() {
        // SAFETY: the handler's own arguments.
        unsafe { previous.pass_on(signal, info, context) };
    }
}

/// Puts an empty page where a mapping has lost its own. False: the address is in no mapping.
fn replace(address: usize) -> bool {
    let Some(slot) = SLOTS.iter().find(|slot| slot.has(address)) else { return false };
    slot.lost.store(true, SeqCst);
    let page = std::ptr::with_exposed_provenance_mut(address / page() * page());
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    // SAFETY: a page of a mapping, whose users expect that it changes.
    unsafe { libc::mmap(page, self::page(), protection, flags, -1, 0) != libc::MAP_FAILED }
}

/// Bytes of a page. In signal handlers, too.
fn page() -> usize {
    // SAFETY: no memory is passed.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// A part of a file in memory, shared with all that use the file.
///
/// # Context
/// Green and kernel threads; not the progress path. A page that is not in memory is read where it is touched, which blocks
/// the kernel thread: see [`Mapping::is_resident`].
///
/// # Signals
/// The first mapping handles `SIGBUS`, and passes on what is none of a mapping. A handler that the program installs
/// later is called instead.
#[derive(Debug)]
pub struct Mapping {
    slot: &'static Slot,
    at: usize,
    range: Range<u64>,
    /// The kernel tells this process which pages are in memory.
    tells: bool,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("lost", &self.lost).finish()
    }
}

impl Mapping {
    /// Whether the file is on a file system whose files can be mapped: to read, and to write if `writes`. The file itself
    /// may be open for less.
    ///
    /// # Errors
    /// The kernel's.
    pub fn is_supported(file: &File, writes: bool) -> io::Result<bool> {
        is_local(file, writes)
    }

    /// Maps a part of a file, and the rest of its first and last pages: to read, and to write if `writes`. The file need
    /// not be so long.
    ///
    /// # Errors
    /// The file system is not one whose page cache is the file; the process has too many mappings; the kernel's, also if
    /// the file was not opened for that.
    pub fn new(file: &File, range: Range<u64>, writes: bool) -> io::Result<Mapping> {
        if !is_local(file, writes)? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let tells = writes || tells_what_is_resident(file)?;
        install()?;
        let page = page() as u64;
        let begin = range.start / page * page;
        let end = range.end.checked_next_multiple_of(page).unwrap_or(0);
        let len = end.checked_sub(begin).and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|&len| len > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let take = |slot: &&Slot| slot.begin.compare_exchange(0, TAKEN, SeqCst, Relaxed).is_ok();
        let slot = SLOTS.iter().find(take).ok_or(io::ErrorKind::ResourceBusy)?;
        let protection = libc::PROT_READ | if writes { libc::PROT_WRITE } else { 0 };
        let (flags, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at =
            unsafe { libc::mmap64(std::ptr::null_mut(), len, protection, flags, fd, begin as i64) };
        if at == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            slot.begin.store(0, SeqCst);
            return Err(error);
        }
        let at = at.expose_provenance();
        slot.lost.store(false, SeqCst);
        slot.end.store(at + len, SeqCst);
        slot.begin.store(at, SeqCst);
        Ok(Mapping { slot, at, range: begin..end, tells })
    }

    /// The part of the file.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The address of a byte of the file, and how many bytes of the range are there.
    fn place(&self, range: &Range<u64>) -> Option<(*mut u8, usize)> {
        let inside = range.start >= self.range.start && range.end <= self.range.end;
        let len = range.end.checked_sub(range.start).filter(|_| inside)? as usize;
        let at = self.at + (range.start - self.range.start) as usize;
        Some((std::ptr::with_exposed_provenance_mut(at), len))
    }

    /// The same, from the beginning of its page on.
    fn pages(&self, range: &Range<u64>) -> Option<(*mut libc::c_void, usize)> {
        let page = page() as u64;
        let (at, len) = self.place(&(range.start / page * page..range.end))?;
        Some((at.cast(), len))
    }

    /// Whether all bytes of a part are in memory, so that no access waits for a disk. No, where the kernel does not tell:
    /// of files that are others', and that this process may not write.
    pub fn is_resident(&self, range: Range<u64>) -> bool {
        const CHUNK: usize = 4096;
        if !self.tells {
            return false;
        }
        let (Some((at, len)), mut pages) = (self.pages(&range), [0u8; CHUNK]) else {
            return false;
        };
        let step = CHUNK * page();
        (0..len).step_by(step).all(|begin| {
            let len = step.min(len - begin);
            let known = &mut pages[..len.div_ceil(page())];
            // SAFETY: pages of the mapping, and a byte for each.
            let asked = unsafe { libc::mincore(at.byte_add(begin), len, known.as_mut_ptr()) };
            asked == 0 && known.iter().all(|page| page & 1 == 1)
        })
    }

    /// Makes sure that a part can be written, as far as the kernel can: there is space for it, and the file has it.
    ///
    /// # Errors
    /// It cannot be.
    pub fn prepare_to_write(&self, range: Range<u64>) -> io::Result<()> {
        let (at, len) = self.pages(&range).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: pages of the mapping.
        if unsafe { libc::madvise(at, len, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // Older kernels do not know it: what is touched tells.
        if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) }
    }

    /// Calls `copy` with the address of the first byte of a part, which is readable, and writable if the mapping is.
    /// Other threads and processes may write it meanwhile: it is no reference of Rust's.
    ///
    /// # Errors
    /// A page was lost: what was copied is worth nothing, and so is the mapping from now on.
    pub fn access<T>(&self, range: Range<u64>, copy: impl FnOnce(*mut u8) -> T) -> io::Result<T> {
        let (at, _) = self.place(&range).ok_or(io::ErrorKind::InvalidInput)?;
        let copied = copy(at);
        match self.slot.lost.load(SeqCst) {
            true => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            false => Ok(copied),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let at = std::ptr::with_exposed_provenance_mut(self.at);
        // Before the addresses can be another's.
        self.slot.begin.store(TAKEN, SeqCst);
        // SAFETY: this mapping's own; its users are gone.
        unsafe { libc::munmap(at, (self.range.end - self.range.start) as usize) };
        self.slot.begin.store(0, SeqCst);
    }
}

/// Whether `mincore` answers for this file. It says of others' files that all is in memory.
fn tells_what_is_resident(file: &File) -> io::Result<bool> {
    // SAFETY: no memory is passed.
    let user = unsafe { libc::geteuid() };
    Ok(user == 0 || file.metadata()?.uid() == user)
}

/// Whether the kernel's page cache is the file, for all that use it. An overlay has a file that is open for reads only where
/// it was before somebody opens it for writes.
fn is_local(file: &File, writes: bool) -> io::Result<bool> {
    const LOCAL: [libc::c_long; 4] =
        [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC, libc::TMPFS_MAGIC];
    let is_local = |kind| LOCAL.contains(&kind) || (writes && kind == libc::OVERLAYFS_SUPER_MAGIC);
    let mut found = std::mem::MaybeUninit::<libc::statfs64>::uninit();
    // SAFETY: room for the answer, which is there when the call succeeds.
    unsafe {
        match libc::fstatfs64(file.as_raw_fd(), found.as_mut_ptr()) {
            0 => Ok(is_local(found.assume_init().f_type as libc::c_long)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn file(name: &str, len: u64) -> File {
        let path = std::env::temp_dir().join(format!("pioman-{name}-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(len).unwrap();
        file.into()
    }

    #[test]
    fn what_is_stored_is_read_and_the_other_way_round() {
        let file = file("mapping", 20_000);
        let Ok(mapping) = Mapping::new(&file, 5000..15_000, true) else {
            return eprintln!("skipped: no file system here whose page cache is the file");
        };
        assert_eq!(mapping.range(), 4096..16_384);
        mapping.prepare_to_write(5000..15_000).unwrap();
        assert!(mapping.is_resident(5000..15_000));
        // SAFETY: a byte of the mapping.
        mapping.access(6000..6001, |at| unsafe { at.write_volatile(7) }).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 6000).unwrap();
        assert_eq!(byte, [7]);
        file.write_all_at(&[8], 9000).unwrap();
        // SAFETY: as above.
        let read = mapping.access(9000..9001, |at| unsafe { at.read_volatile() });
        assert_eq!(read.unwrap(), 8);
        assert!(
            mapping.access(0..1, |_| ()).is_err()
                && mapping.access(16_384..16_385, |_| ()).is_err()
        );
        assert!(!mapping.is_resident(0..5000));
    }

    #[test]
    fn a_file_that_is_cut_is_an_error_and_no_signal() {
        let file = file("mapping-cut", 20_000);
        let Ok(mapping) = Mapping::new(&file, 0..20_000, true) else {
            return eprintln!("skipped: no file system here whose page cache is the file");
        };
        file.set_len(100).unwrap();
        // SAFETY: a byte of the mapping.
        let touch = |at: *mut u8| unsafe { at.write_volatile(1) };
        mapping.access(50..51, touch).unwrap();
        let lost = mapping.access(10_000..10_001, touch);
        assert_eq!(lost.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        assert!(mapping.access(50..51, touch).is_err());
        drop(mapping);
        file.set_len(20_000).unwrap();
        let again = Mapping::new(&file, 0..20_000, true).unwrap();
        again.access(10_000..10_001, touch).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 10_000).unwrap();
        assert_eq!(byte, [1]);
    }
}
