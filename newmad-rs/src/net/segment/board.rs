//! The board of a segment: where its owner shows the other ranks of its node what it gives to a collective.
//!
//! The board has [`PLACES`] places, one for each group that uses it. A place has a line with two words ([`Words`]) and
//! [`SHEETS`], each of which begins with the number of the collective that it is for and a word that says what was
//! written, followed by up to [`ROOM`] bytes. So what is short moves in one line of the cache.
//!
//! Only the owner writes there, marks of sleepers excepted. What a peer has written is taken for bytes, nothing else.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::notice::{SHEETS, Words};
use super::{HEAD, LINE, PLACE, PLACES, ROOM, SHEET, Segment};

/// A place on the board of a process.
#[derive(Clone)]
pub(crate) struct Place {
    _segment: Arc<Segment>,
    /// Its first byte, which the segment keeps.
    base: NonNull<u8>,
}

// SAFETY: shared memory that is accessed through atomics and raw copies only, and that the segment keeps.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// A place on the board of this segment; `None`: there is none of that number.
    pub(crate) fn new(segment: &Arc<Segment>, number: usize) -> Option<Place> {
        if number >= PLACES {
            return None;
        }
        let base = segment.board().as_ptr().wrapping_add(number * PLACE);
        Some(Place { _segment: segment.clone(), base: NonNull::new(base)? })
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < PLACE);
        // SAFETY: inside the place, which is inside the mapping.
        unsafe { self.base.add(offset) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: aligned, since places and sheets are multiples of a line, and only ever accessed as an atomic.
        unsafe { self.at(offset).cast().as_ref() }
    }

    /// The offset of the sheet on which a collective's bytes are.
    fn sheet(number: u64) -> usize {
        LINE + (number % SHEETS) as usize * SHEET
    }

    /// Its words.
    #[inline]
    pub(crate) fn words(&self) -> Words<'_> {
        Words {
            shown: std::array::from_fn(|sheet| self.word(Place::sheet(sheet as u64))),
            passed: self.word(0),
            marks: self.word(8),
        }
    }

    /// What the sheet for `number` has: set by its owner before it is shown.
    #[inline]
    pub(crate) fn label(&self, number: u64) -> &AtomicU64 {
        self.word(Place::sheet(number) + 8)
    }

    /// The bytes of the sheet for `number`. Between processes nothing else than the protocol keeps the owner from
    /// writing while others read.
    #[inline]
    pub(crate) fn bytes(&self, number: u64) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.at(Place::sheet(number) + HEAD), ROOM)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::net::segment::Geometry;

    #[test]
    fn places_and_sheets_do_not_overlap() {
        let geometry = Geometry { ranks: 2, slots: 4, slot_size: 192 };
        let (segment, fd) = Segment::create(&geometry).unwrap();
        let (segment, other) =
            (Arc::new(segment), Arc::new(Segment::open(&fd, &geometry).unwrap()));
        let pattern = |place: usize, number: u64| (20 * place as u64 + number) as u8;
        for index in 0..PLACES {
            let place = Place::new(&segment, index).unwrap();
            for number in SHEETS..2 * SHEETS {
                // SAFETY: this test's own memory.
                unsafe {
                    place.bytes(number).cast::<u8>().write_bytes(pattern(index, number), ROOM)
                };
                place.label(number).store(index as u64, Relaxed);
                assert_eq!(place.words().show(number), 0);
            }
            assert_eq!(place.words().pass(1), 0);
        }
        for index in 0..PLACES {
            let place = Place::new(&other, index).unwrap();
            for number in SHEETS..2 * SHEETS {
                assert!(place.words().is_shown(number) && place.words().has_come_to(number));
                assert_eq!(place.label(number).load(Relaxed), index as u64);
                // SAFETY: as above.
                let bytes = unsafe { place.bytes(number).as_ref() };
                assert!(bytes.iter().all(|&byte| byte == pattern(index, number)));
            }
            assert_eq!(place.words().passed.load(Relaxed), 1);
        }
        assert!(Place::new(&segment, PLACES).is_none());
    }
}
