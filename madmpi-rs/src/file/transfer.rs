//! Bytes to and from the file.
//!
//! A write writes each extent by itself: what lies between is not touched, not even with what was there, since others
//! may be writing it. A read reads what lies between, too, where that is short: it costs less than another call.

use std::io;
use std::os::unix::fs::FileExt;

use pioman::fs::File;

use super::map::Extent;

/// A read goes on over gaps up to this length.
const GAP: u64 = 16 << 10;

/// How far an access has come: the bytes, and the error that ended it.
pub(super) struct Progress {
    pub(super) bytes: u64,
    pub(super) error: Option<io::Error>,
}

/// Bytes that a write takes, or that a read fills.
pub(super) enum Buffer<'a> {
    From(&'a [u8]),
    Into(&'a mut [u8]),
}

impl Buffer<'_> {
    pub(super) fn none(writes: bool) -> Buffer<'static> {
        if writes { Buffer::From(&[]) } else { Buffer::Into(&mut []) }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Buffer::From(bytes) => bytes.len() as u64,
            Buffer::Into(bytes) => bytes.len() as u64,
        }
    }
}

/// Writes all of `bytes` at `at`; how many are written.
fn write_row(file: &File, mut at: u64, mut bytes: &[u8]) -> (u64, Option<io::Error>) {
    let begin = at;
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return (at - begin, Some(io::ErrorKind::WriteZero.into())),
            Ok(n) => (at, bytes) = (at + n as u64, &bytes[n..]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (at - begin, Some(error)),
        }
    }
    (at - begin, None)
}

/// Fills `into` from `at` on, up to the end of the file.
pub(super) fn read_row(file: &File, mut at: u64, into: &mut [u8]) -> (u64, Option<io::Error>) {
    let (begin, mut done) = (at, 0);
    while done < into.len() {
        match file.read_at(&mut into[done..], at) {
            Ok(0) => break,
            Ok(n) => (at, done) = (at + n as u64, done + n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (at - begin, Some(error)),
        }
    }
    (at - begin, None)
}

/// Writes `bytes` to the extents, which are as long.
pub(super) fn write(file: &File, extents: impl Iterator<Item = Extent>, bytes: &[u8]) -> Progress {
    let mut done = 0;
    for Extent { at, len } in extents {
        let (written, error) = write_row(file, at, &bytes[done as usize..][..len as usize]);
        done += written;
        if error.is_some() {
            return Progress { bytes: done, error };
        }
    }
    Progress { bytes: done, error: None }
}

/// Reads the extents into `into`, which is as long, up to the end of the file. Where there are gaps, up to `sieve` bytes are
/// read at a time into the buffer.
pub(super) fn read(
    file: &File,
    extents: impl Iterator<Item = Extent>,
    into: &mut [u8],
    (buffer, sieve): (&mut Vec<u8>, u64),
) -> Progress {
    let (mut extents, mut done) = (extents.peekable(), 0);
    let mut group: Vec<Extent> = Vec::new();
    while let Some(first) = extents.next() {
        let near = |last: Extent, next: &Extent| {
            next.at >= last.end() && next.at - last.end() <= GAP && next.end() - first.at <= sieve
        };
        let mut last = first;
        group.clear();
        while let Some(next) = extents.next_if(|next| near(last, next)) {
            group.push(next);
            last = next;
        }
        let len: u64 = first.len + group.iter().map(|extent| extent.len).sum::<u64>();
        let place = &mut into[done as usize..][..len as usize];
        let (came, error) = if group.is_empty() {
            read_row(file, first.at, place)
        } else {
            group.insert(0, first);
            let span = (last.end() - first.at) as usize;
            if buffer.len() < span {
                buffer.resize(span, 0);
            }
            let (got, error) = read_row(file, first.at, &mut buffer[..span]);
            (pick(&buffer[..got as usize], first.at, &group, place), error)
        };
        done += came;
        if came < len || error.is_some() {
            return Progress { bytes: done, error };
        }
    }
    Progress { bytes: done, error: None }
}

/// Copies the extents out of bytes that begin at `begin`; how many bytes of them are there.
fn pick(bytes: &[u8], begin: u64, extents: &[Extent], mut into: &mut [u8]) -> u64 {
    let mut done = 0;
    for Extent { at, len } in extents {
        let from = bytes.get((at - begin) as usize..).unwrap_or_default();
        let len = from.len().min(*len as usize);
        let (to, rest) = std::mem::take(&mut into).split_at_mut(len);
        to.copy_from_slice(&from[..len]);
        (into, done) = (rest, done + len as u64);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn scattered_bytes_come_back_and_gaps_stay(
            runs in proptest::collection::vec((0..30_000u64, 1..3000u64), 1..8),
            sieve in 4096..100_000u64,
            cut in 0..20_000u64,
        ) {
            let mut at = 0;
            let extents: Vec<Extent> = runs.iter().map(|&(gap, len)| {
                let extent = Extent { at: at + gap, len };
                at = extent.end();
                extent
            }).collect();
            let path = std::env::temp_dir().join(format!("madmpi-transfer-{}", std::process::id()));
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            let before = vec![7; at as usize];
            prop_assert!(write_row(&file, 0, &before).1.is_none());
            let len: u64 = extents.iter().map(|extent| extent.len).sum();
            let bytes: Vec<u8> = (0..len).map(|byte| byte as u8 | 8).collect();
            let written = write(&file, extents.iter().copied(), &bytes);
            prop_assert!(written.error.is_none() && written.bytes == len);
            let (mut expected, mut from) = (before, &bytes[..]);
            for extent in &extents {
                let (own, rest) = from.split_at(extent.len as usize);
                expected[extent.at as usize..extent.end() as usize].copy_from_slice(own);
                from = rest;
            }
            let mut all = vec![0; at as usize];
            prop_assert_eq!(read_row(&file, 0, &mut all).0, at);
            prop_assert_eq!(&all, &expected);
            // What is beyond the end does not come.
            let end = at - cut.min(at);
            file.set_len(end).unwrap();
            let there: u64 = extents.iter().map(|e| end.clamp(e.at, e.end()) - e.at).sum();
            let mut back = vec![0; len as usize];
            let came = read(&file, extents.iter().copied(), &mut back, (&mut Vec::new(), sieve));
            prop_assert!(came.error.is_none());
            prop_assert_eq!(came.bytes, there);
            prop_assert_eq!(&back[..there as usize], &bytes[..there as usize]);
        }
    }
}
