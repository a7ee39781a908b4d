//! Where the bytes of an access lie at the target, for a process that does not have the datatype: runs at absolute
//! addresses, in the order of the packed data.

use smallvec::{SmallVec, smallvec};

use crate::datatype::{Datatype, Elements};
use crate::error::Fault;

/// `count` runs of `len` bytes, `stride` apart. Also how a message describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) at: usize,
    pub(super) stride: isize,
    pub(super) count: usize,
    pub(super) len: usize,
}

/// Most accesses have one.
pub(super) type Runs = SmallVec<[Run; 1]>;
pub(super) type Pieces = SmallVec<[Piece; 1]>;

/// A part of the packed data, with its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) runs: Runs,
    /// Where it begins in the packed data.
    pub(super) begin: usize,
    pub(super) len: usize,
}

impl Run {
    pub(super) fn whole(at: usize, len: usize) -> Run {
        Run { at, stride: 0, count: 1, len }
    }

    /// The runs one by one.
    pub(super) fn each(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count as isize).map(move |index| {
            (self.at.wrapping_add_signed(self.stride.wrapping_mul(index)), self.len)
        })
    }

    fn bytes(&self) -> usize {
        self.count * self.len
    }

    /// Splits it after at most `bytes`, at least one; the second part are up to two runs.
    fn split(self, bytes: usize) -> (Run, [Option<Run>; 2]) {
        let from = |first: usize, count| {
            let by = self.stride.wrapping_mul(first as isize);
            let run = Run { at: self.at.wrapping_add_signed(by), count, ..self };
            (count > 0).then_some(run)
        };
        match bytes / self.len {
            0 => {
                let rest = Run::whole(self.at + bytes, self.len - bytes);
                (Run::whole(self.at, bytes), [Some(rest), from(1, self.count - 1)])
            }
            whole => (Run { count: whole, ..self }, [from(whole, self.count - whole), None]),
        }
    }
}

/// The runs of elements at an address.
pub(super) fn runs(datatype: &Datatype, count: usize, at: usize) -> Runs {
    if datatype.contiguous {
        return smallvec![Run::whole(at, datatype.size * count)];
    }
    let mut runs = Runs::new();
    datatype.shape().part.flat.strips(count, datatype.extent, usize::MAX, |strip| {
        let begin = at.wrapping_add_signed(strip.at);
        let run = match strip.stride == strip.len as isize {
            true => Run::whole(begin, strip.count * strip.len),
            false => Run { at: begin, stride: strip.stride, count: strip.count, len: strip.len },
        };
        match runs.last_mut() {
            Some(last) if last.count == 1 && run.count == 1 && last.at + last.len == run.at => {
                last.len += run.len;
            }
            _ => runs.push(run),
        }
    });
    runs
}

/// Cuts runs into pieces of at most `bytes` bytes, a multiple of `unit`, and at most `most` runs.
pub(super) fn pieces(mut runs: Runs, bytes: usize, most: usize, unit: usize) -> Pieces {
    let bytes = (bytes / unit).max(1) * unit;
    runs.retain(|run| run.bytes() > 0);
    if let [run] = runs[..]
        && run.bytes() <= bytes
    {
        return smallvec![Piece { runs, begin: 0, len: run.bytes() }];
    }
    runs.reverse();
    let mut rest = runs;
    let (mut all, mut piece) = (Pieces::new(), Piece::default());
    while let Some(run) = rest.pop() {
        // A piece that may take no more runs ends where an element ends.
        let full = piece.runs.len() >= most && piece.len.is_multiple_of(unit);
        if piece.len == bytes || full {
            let begin = piece.begin + piece.len;
            all.push(std::mem::replace(&mut piece, Piece { begin, ..Piece::default() }));
        }
        let room = bytes - piece.len;
        // Within an element the piece goes to the element's end.
        let room = match piece.runs.len() + 1 >= most && !piece.len.is_multiple_of(unit) {
            true => unit - piece.len % unit,
            false => room,
        };
        let (now, later) = match run.bytes() <= room {
            true => (run, [None, None]),
            false => run.split(room),
        };
        rest.extend(later.into_iter().rev().flatten());
        piece.len += now.bytes();
        piece.runs.push(now);
    }
    if piece.len > 0 {
        all.push(piece);
    }
    all
}

/// The runs of the first `bytes` of the packed data.
pub(super) fn first(runs: Runs, bytes: usize) -> Runs {
    let piece = pieces(runs, bytes, usize::MAX, 1).into_iter().next();
    piece.filter(|_| bytes > 0).map(|piece| piece.runs).unwrap_or_default()
}

/// Packed elements of the origin: in place, if they lie in a row.
pub(super) enum Packed<'a> {
    Row(&'a [u8]),
    Copy(Box<[u8]>),
}

impl std::ops::Deref for Packed<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Packed::Row(bytes) => bytes,
            Packed::Copy(bytes) => bytes,
        }
    }
}

/// # Errors
/// There is no memory for a copy.
#[inline]
pub(super) fn packed(elements: &Elements) -> Result<Packed<'_>, Fault> {
    if !elements.datatype.contiguous || elements.len() == 0 {
        return elements.packed().map(Packed::Copy);
    }
    // SAFETY: the elements are readable, by the invariant of their type, and left alone during the call.
    let row = unsafe { std::slice::from_raw_parts(elements.address().cast(), elements.len()) };
    Ok(Packed::Row(row))
}

/// Copies the bytes of runs together.
///
/// # Safety
/// The runs are readable here; `to` has room for them; the two do not overlap.
pub(super) unsafe fn gather(runs: &[Run], mut to: *mut u8) {
    for (at, len) in runs.iter().flat_map(|run| run.each()) {
        let from = std::ptr::with_exposed_provenance::<u8>(at);
        // SAFETY: the caller's promise.
        unsafe {
            to.copy_from_nonoverlapping(from, len);
            to = to.add(len);
        }
    }
}

/// Copies bytes to runs.
///
/// # Safety
/// The runs are writable here; `from` has as many bytes; the two do not overlap.
pub(super) unsafe fn scatter(runs: &[Run], mut from: *const u8) {
    for (at, len) in runs.iter().flat_map(|run| run.each()) {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(at);
        // SAFETY: the caller's promise.
        unsafe {
            to.copy_from_nonoverlapping(from, len);
            from = from.add(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(runs: &[Run]) -> Vec<usize> {
        runs.iter().flat_map(|run| run.each()).flat_map(|(at, len)| at..at + len).collect()
    }

    proptest! {
        #[test]
        fn pieces_have_the_same_bytes_in_the_same_order(
            runs in proptest::collection::vec((0..5000usize, -40..40isize, 1..9usize, 1..40usize), 0..9),
            unit in 1..5usize,
            bytes in 1..100usize,
            most in 1..6usize,
        ) {
            let runs: Runs = runs
                .into_iter()
                .map(|(at, stride, count, len)| Run { at: at + 1000, stride, count, len: len * unit })
                .collect();
            let all = bytes_of(&runs);
            let pieces = pieces(runs, bytes, most, unit);
            let mut begin = 0;
            for piece in &pieces {
                prop_assert_eq!(piece.begin, begin);
                prop_assert_eq!(bytes_of(&piece.runs).len(), piece.len);
                prop_assert!(piece.len <= bytes.max(unit) && piece.len % unit == 0 && piece.len > 0);
                prop_assert!(piece.runs.len() <= most + unit);
                begin += piece.len;
            }
            let cut: Vec<usize> = pieces.iter().flat_map(|piece| bytes_of(&piece.runs)).collect();
            prop_assert_eq!(cut, all);
        }
    }
}
