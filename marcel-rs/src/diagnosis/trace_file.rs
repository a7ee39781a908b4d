//! The file that a trace is saved to. Numbers are little-endian.
//!
//! ```text
//!   magic "MADTRACE", version u32, process u32, rank u32 (all ones: none), 0 u32
//!   two moments: count u64, nanoseconds u64 of the monotonic clock; the first when recording began
//!   events lost for want of a ring u64
//!   names u32, each: number u32, bytes u32, the bytes
//!   threads u32, each: number u32, name u32        those that had a name when this was written
//!   rings u32, each: slot u32, kernel thread u32, virtual processor u32 (number + 1; 0: none), 0 u32,
//!                    the kernel thread's name 16 bytes, records lost u64, records u64, then the records:
//!                    time u64 (a count), word u64, a u64, b u64
//! ```
//!
//! A file is written under another name and renamed, so that no reader sees half of one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::os::slot::SLOTS;
use crate::recorder;
use crate::recorder::names;
use crate::recorder::ring::Rings;

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"MADTRACE";
/// Changes when the format does.
pub const VERSION: u32 = 1;

/// The process's rank, if it was started as one of several.
pub(super) fn rank() -> Option<u32> {
    ["PMI_RANK", "PMIX_RANK"].iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Writes what has been recorded since [`crate::trace::start`] to a file, while others may go on recording.
///
/// # Context
/// Green and kernel threads; not a signal handler.
///
/// # Blocking
/// Blocks the kernel thread while it writes.
///
/// # Errors
/// Nothing has ever been recorded; those of the file system.
pub fn save(path: &Path) -> io::Result<()> {
    let rings = recorder::made().ok_or_else(|| io::Error::other("nothing has been recorded"))?;
    write(rings, recorder::lost(), path)
}

fn write(rings: &Rings, lost: u64, path: &Path) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = Path::new(&unfinished);
    let mut out = BufWriter::new(File::create(unfinished)?);
    let written = content(rings, lost, &mut out).and_then(|()| out.flush());
    let renamed = written.and_then(|()| fs::rename(unfinished, path));
    if renamed.is_err() {
        let _ = fs::remove_file(unfinished);
    }
    renamed
}

fn content(rings: &Rings, lost: u64, out: &mut impl Write) -> io::Result<()> {
    let [u4, u8] = [|x: u64| (x as u32).to_le_bytes().to_vec(), |x: u64| x.to_le_bytes().to_vec()];
    let moments = rings.moments();
    let copies: Vec<_> = (0..SLOTS).map(|slot| rings.copy(slot)).collect();
    out.write_all(&MAGIC)?;
    let rank = rank().unwrap_or(u32::MAX);
    for x in [VERSION, std::process::id(), rank, 0] {
        out.write_all(&u4(x.into()))?;
    }
    for moment in moments {
        out.write_all(&u8(moment.count))?;
        out.write_all(&u8(moment.ns))?;
    }
    out.write_all(&u8(lost))?;
    let threads: Vec<_> = super::snapshot::threads()
        .into_iter()
        .filter_map(|thread| Some((thread.number, names::intern(thread.name.as_deref()?))))
        .collect();
    let names = names::all();
    out.write_all(&u4(names.len() as u64))?;
    for (number, name) in names {
        out.write_all(&u4(number.into()))?;
        out.write_all(&u4(name.len() as u64))?;
        out.write_all(name.as_bytes())?;
    }
    out.write_all(&u4(threads.len() as u64))?;
    for (number, name) in threads {
        out.write_all(&u4(number.into()))?;
        out.write_all(&u4(name.into()))?;
    }
    let copies: Vec<_> = copies.into_iter().filter(|copy| !copy.records.is_empty()).collect();
    out.write_all(&u4(copies.len() as u64))?;
    for copy in copies {
        for x in [copy.slot as u32, copy.tid, copy.vp, 0] {
            out.write_all(&u4(x.into()))?;
        }
        for x in [copy.name[0], copy.name[1], copy.lost, copy.records.len() as u64] {
            out.write_all(&u8(x))?;
        }
        for x in copy.records.iter().flatten() {
            out.write_all(&u8(*x))?;
        }
    }
    Ok(())
}
