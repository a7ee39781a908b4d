//! Accesses by the file's pages in memory: a copy, where a system call for each piece would cost more than the pieces.
//!
//! | access | by pages if |
//! |---|---|
//! | scattered write | there are some pieces, which are short on average, and not far apart |
//! | scattered read | the same, and all pages are in memory |
//! | with a request | it is short, not far apart, and all pages are in memory: it is over when the call returns |
//!
//! An access with a request and without gaps is one system call: a write's pages only tell whether they are in memory. (A
//! read is by pages on tmpfs, where a system call does not say that it would wait.)
//!
//! System calls do the rest, and all that fails here: they say why. No bytes but those of the pieces change; holes between
//! them may become zeros.
//!
//! A write by pages writes its last byte first, by a system call. The file is as long then, without a loss of others' data;
//! if the rest fails, it stays as long. And nobody else's call is still making it longer: such a call shows the new length
//! before it clears what was behind the old end (ext4), so the length alone does not say that stores are safe. The call waits
//! for others that write, and those that come later clear nothing before their old end.
//!
//! A green thread uses pages that are in memory only, since it would block its kernel thread.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use pioman::fs::{self, Mapping};

use super::map::Extent;
use super::transfer::Buffer;
use super::view::View;

/// Accesses of fewer bytes than this part of what they reach over leave alone what is between their pieces.
const DENSE: u64 = 4;
/// Fewer pieces are not worth a mapping.
const FEW: u64 = 4;
/// A mapping is as long at most, and begins and ends at multiples of [`STEP`], so that the next access finds it.
const MOST: u64 = 256 << 20;
const STEP: u64 = 1 << 20;
/// Pages are as long, or longer.
const PAGE: u64 = 4 << 10;
/// An access with a request that is longer is left to another thread: the copy takes as long as that thread's wake-up.
const SHORT: u64 = 1 << 20;

/// Whether pieces of so many bytes, of which the first begins and the last ends there, are not far apart.
pub(super) fn are_close(len: u64, begin: u64, end: u64) -> bool {
    len >= (end - begin) / DENSE
}

/// The pages of a file that are mapped.
pub(super) struct Mapped {
    /// Whether the file may be mapped, for writes too if it is open for them.
    may: bool,
    writes: bool,
    /// The last one, for the next access.
    last: KernelMutex<Option<Arc<Mapping>>>,
}

impl Mapped {
    /// For a file that is opened for reads, and for writes if that is said.
    pub(super) fn new(file: &fs::File, writes: bool) -> Mapped {
        // One page tells whether it can be done.
        let may = Mapping::new(file, 0..1, writes).is_ok();
        Mapped { may, writes, last: KernelMutex::new(None) }
    }

    /// Whether scattered accesses of the calling thread that are not far apart go by pages. A green thread's writes may
    /// need pages that are not there.
    pub(super) fn may(&self, writes: bool) -> bool {
        self.may && !(writes && marcel::is_green())
    }

    /// Unmaps what is mapped.
    pub(super) fn end(&self) {
        let last = self.last.lock().take();
        drop(last); // not under the lock
    }

    /// The last mapping, if it has the bytes from `begin` on, up to `end` or so many that no other is worth it.
    fn last(&self, begin: u64, end: u64) -> Option<Arc<Mapping>> {
        let last = self.last.lock();
        let range = last.as_ref()?.range();
        let has = range.start <= begin && range.end >= end.min(begin + STEP);
        last.clone().filter(|_| has)
    }

    /// The mapping that has the bytes from `begin` on, up to `end` if it can be.
    fn from(&self, file: &fs::File, begin: u64, end: u64) -> Option<Arc<Mapping>> {
        if let Some(last) = self.last(begin, end) {
            return Some(last);
        }
        let first = begin / STEP * STEP;
        let end = end.checked_next_multiple_of(STEP)?.min(first + MOST);
        let new = Arc::new(Mapping::new(file, first..end, self.writes).ok()?);
        let old = self.last.lock().replace(new.clone());
        drop(old); // not under the lock
        Some(new)
    }

    /// Forgets a mapping that has failed.
    fn forget(&self, failed: &Arc<Mapping>) {
        let mut last = self.last.lock();
        let is_it = last.as_ref().is_some_and(|last| Arc::ptr_eq(last, failed));
        let old = if is_it { last.take() } else { None };
        drop(last);
        drop(old);
    }
}

/// An access by pages.
pub(super) struct ByPages<'a> {
    pub(super) file: &'a fs::File,
    pub(super) mapped: &'a Mapped,
    pub(super) view: &'a View,
    pub(super) position: u64,
}

impl ByPages<'_> {
    /// Accesses scattered bytes; whether it has. `false`: it is for system calls.
    pub(super) fn scattered(&self, bytes: &mut Buffer<'_>) -> bool {
        let map = &self.view.map;
        let fits = !map.is_long() && bytes.len() / map.piece().max(1) >= FEW;
        fits && self.access(bytes, marcel::is_green()).is_some()
    }

    /// Accesses bytes if nothing has to be waited for; whether it has.
    pub(super) fn at_once(&self, bytes: &mut Buffer<'_>) -> bool {
        let len = bytes.len();
        if len > SHORT {
            return false;
        }
        // Of bytes in a row, one system call costs less than copies of pages.
        let row = self.bounds(len).filter(|(begin, end)| end - begin == len);
        let Some((begin, end)) = row else {
            return self.access(bytes, true).is_some();
        };
        match bytes {
            Buffer::From(from) => self.write_if_resident(from, begin, end).is_some(),
            Buffer::Into(into) => {
                let len = into.len();
                let read = self.file.read_at_once(into, begin) == Some(len);
                read || self.access(bytes, true).is_some()
            }
        }
    }

    /// Where `len` bytes begin and end in the file, if there are some, and their places ascend.
    fn bounds(&self, len: u64) -> Option<(u64, u64)> {
        let ByPages { view, position, .. } = self;
        let place = |position| view.map.place(position)?.checked_add(view.disp);
        let last = position + len.checked_sub(1)?;
        view.map.ascends().then_some((place(*position)?, place(last)? + 1))
    }

    /// Writes bytes in a row. A page of which a write changes a part is read first if it is not in memory.
    fn write_if_resident(&self, bytes: &[u8], begin: u64, end: u64) -> Option<()> {
        let ByPages { file, mapped, .. } = self;
        if !mapped.may {
            return None;
        }
        let mapping = match mapped.last(begin, end) {
            Some(last) => last,
            // A page behind the end of the file is not in memory: another mapping would not help.
            None if file.size().ok()? <= (end - 1) / PAGE * PAGE => return None,
            None => mapped.from(file, begin, end)?,
        };
        let is_resident = mapping.is_resident(begin..end);
        is_resident.then(|| file.write_all_at(bytes, begin).ok())?
    }

    fn access(&self, bytes: &mut Buffer<'_>, only_resident: bool) -> Option<()> {
        let ByPages { file, mapped, view, position } = self;
        let (len, writes) = (bytes.len(), matches!(bytes, Buffer::From(_)));
        let (begin, end) = self.bounds(len).filter(|_| mapped.may)?;
        if !are_close(len, begin, end) {
            return None;
        }
        if !writes || only_resident {
            // Reads find out by system calls where the file ends.
            file.size().ok().filter(|&size| size >= end)?;
        }
        let mut copy =
            Copy { mapped, file, end, only_resident: only_resident || !writes, part: None };
        if only_resident {
            copy.begin(begin, writes)?;
        }
        if let Buffer::From(bytes) = bytes {
            file.write_all_at(&bytes[bytes.len() - 1..], end - 1).ok()?;
        }
        let mut done = 0;
        for Extent { mut at, len } in view.extents(*position, len) {
            let end = at + len;
            while at < end {
                let len = copy.piece(bytes, done, at, end - at)?;
                (at, done) = (at + len as u64, done + len);
            }
        }
        Some(())
    }
}

/// A copy under way.
struct Copy<'a> {
    mapped: &'a Mapped,
    file: &'a fs::File,
    /// The end of the access.
    end: u64,
    only_resident: bool,
    /// A mapping, and the end of the part of it that is ready.
    part: Option<(Arc<Mapping>, u64)>,
}

impl Copy<'_> {
    /// Copies bytes from `at` on, or those of them that a mapping has; how many.
    #[inline]
    fn piece(&mut self, bytes: &mut Buffer<'_>, done: usize, at: u64, len: u64) -> Option<usize> {
        if self.part.as_ref().is_none_or(|(_, end)| at >= *end) {
            self.begin(at, matches!(bytes, Buffer::From(_)))?;
        }
        let (mapping, end) = self.part.as_ref()?;
        let len = len.min(end - at) as usize;
        let range = at..at + len as u64;
        // SAFETY: the mapping has so many bytes there, the program's memory too; the kernel's pages are none of it.
        let copied = mapping.access(range, |page| unsafe {
            match bytes {
                Buffer::From(from) => {
                    page.copy_from_nonoverlapping(from[done..][..len].as_ptr(), len);
                }
                Buffer::Into(into) => {
                    page.copy_to_nonoverlapping(into[done..][..len].as_mut_ptr(), len);
                }
            }
        });
        if copied.is_err() {
            self.mapped.forget(mapping);
        }
        copied.ok().map(|()| len)
    }

    /// Makes the pages from `at` on ready.
    #[cold]
    fn begin(&mut self, at: u64, writes: bool) -> Option<()> {
        let mapping = self.mapped.from(self.file, at, self.end)?;
        let part = at..self.end.min(mapping.range().end);
        let ready = (!self.only_resident || mapping.is_resident(part.clone()))
            && (!writes || mapping.prepare_to_write(part.clone()).is_ok());
        if !ready {
            return None;
        }
        self.part = Some((mapping, part.end));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, contents: &[u8]) -> fs::File {
        let path = std::env::temp_dir().join(format!("madmpi-{name}-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(contents, 0).unwrap();
        file.into()
    }

    #[test]
    fn rows_in_memory_are_accessed_at_once_and_others_are_not() {
        let contents: Vec<u8> = (0..30_000u32).map(|at| (at % 251) as u8).collect();
        let file = file("rows", &contents);
        let (mapped, view) = (Mapped::new(&file, true), View::bytes().ok().unwrap());
        if !mapped.may {
            return eprintln!("skipped: no file system here whose page cache is the file");
        }
        let at = |position| ByPages { file: &file, mapped: &mapped, view: &view, position };
        let mut into = vec![0; 10_000];
        assert!(at(5000).at_once(&mut Buffer::Into(&mut into)));
        assert_eq!(into, contents[5000..15_000]);
        // Beyond the end, where no page is in memory, however long pages are.
        assert!(!at(25_000).at_once(&mut Buffer::Into(&mut into)));
        assert!(!at(5 << 20).at_once(&mut Buffer::From(&into)));
        assert!(at(7000).at_once(&mut Buffer::From(&into)));
        let mut all = vec![0; 40_000];
        let len = file.read_at(&mut all, 0).unwrap();
        assert_eq!(all[..len], [&contents[..7000], &into[..], &contents[17_000..]].concat());
    }

    #[test]
    fn a_write_behind_the_end_makes_no_mapping() {
        let file = file("behind", &[1; 30_000]);
        let (mapped, view) = (Mapped::new(&file, true), View::bytes().ok().unwrap());
        if !mapped.may {
            return eprintln!("skipped: no file system here whose page cache is the file");
        }
        let write = |position| {
            let pages = ByPages { file: &file, mapped: &mapped, view: &view, position };
            pages.at_once(&mut Buffer::From(&[2; 100]))
        };
        assert!(write(30_000)); // the file's last page has room
        let before = mapped.last.lock().clone().unwrap();
        assert!(!write(5 << 20));
        assert!(Arc::ptr_eq(&before, mapped.last.lock().as_ref().unwrap()));
        assert_eq!(file.size().unwrap(), 30_100);
    }
}
