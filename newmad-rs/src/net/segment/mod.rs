//! A process's segment: the memory in which it receives.
//!
//! Layout: one control page (the bell's word and the thread to signal, a word for probing cross-memory attach, how many threads wait), the board
//! ([`board`]: what collectives share), then for each rank a ring of small slots and a ring of large ones, each behind a
//! line with the count of slots given back. The owner consumes them all; rank `r` produces in its own pair. The memory
//! is a sealed `memfd`: it has no name in any file system, so nothing remains after a crash, and no peer can shrink it
//! under the others. Zeroed memory is a valid state, so nothing is touched beforehand and pages exist only for the slots
//! in use.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags};

use crate::error::{Error, during, os};

pub(crate) mod bell;
pub(crate) mod board;
pub(crate) mod notice;
pub(crate) mod peer_bell;
pub(crate) mod ring;
pub(crate) mod track;
pub(crate) mod word;

/// Bytes before the first slot of a ring, and the unit of what moves between cores.
const LINE: usize = 64;
const PAGE: usize = 4096;
/// Groups of a process that can use its board at once.
pub(crate) const PLACES: usize = 8;
/// Most bytes on a sheet. What is longer goes over several, in pieces; those who write there say how much of each they use
/// (`coll::shared`).
pub(crate) const ROOM: usize = SHEET - HEAD;
const HEAD: usize = 16;
const SHEET: usize = 64 * 1024 + LINE;
const PLACE: usize = LINE + notice::SHEETS as usize * SHEET;
/// Bytes of the board.
const BOARD: usize = PLACES * PLACE;
/// Bytes before the rings: the control page and the board.
const RINGS: usize = PAGE + BOARD.next_multiple_of(PAGE);
const BELL: usize = 0;
/// Which thread a sender signals that finds INTERRUPT in the bell's word, and by which signal. In the line of the word,
/// which such a sender has anyway.
const TARGET: usize = 8;
const PROBE: usize = 64;
/// What the probe word holds.
pub(crate) const PROBE_VALUE: u64 = 0x6e65_776d_6164_2121;
/// Where the segment's owner says how many of its threads wait for a large message. A line of its own: others look
/// at it once per large message, its owner writes it twice.
const WAITERS: usize = 128;
/// Slots of the large-track rings. Both sides copy at once, so what counts is that a piece is still in the cache when
/// the other side comes to it, and that a ring of them stays there: 16 or 32 KiB, half a MiB in all. (Smaller pieces
/// cost more turns, larger ones make the second copy of a short message wait for the first; two in flight are too
/// few. Stores around the cache, in either copy, halve the speed unless the messages are larger than the caches.)
pub(crate) const LARGE_SLOTS: usize = 32;
/// Bytes of each of them, a line for word and header included.
pub(crate) const LARGE_SIZE: usize = 16 * 1024 + 64;

/// Sizes from which the layout follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) ranks: usize,
    pub(crate) slots: usize,
    pub(crate) slot_size: usize,
}

/// Where one ring is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) offset: usize,
    pub(crate) slots: usize,
    pub(crate) slot_size: usize,
}

impl Geometry {
    /// Whether it came from this library's knobs: values of a peer are checked before use.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=1 << 16).contains(&self.ranks)
            && self.slots.is_power_of_two()
            && (2..=4096).contains(&self.slots)
            && (128..=1 << 20).contains(&self.slot_size)
            && self.slot_size.is_multiple_of(64)
    }

    fn small_bytes(&self) -> usize {
        (LINE + self.slots * self.slot_size).next_multiple_of(PAGE)
    }

    fn bytes_per_rank(&self) -> usize {
        self.small_bytes() + (LINE + LARGE_SLOTS * LARGE_SIZE).next_multiple_of(PAGE)
    }

    /// Bytes of the whole segment.
    pub(crate) fn bytes(&self) -> usize {
        RINGS + self.ranks * self.bytes_per_rank()
    }

    /// The ring of small slots in which `rank` produces.
    pub(crate) fn small(&self, rank: u32) -> Place {
        let offset = RINGS + rank as usize * self.bytes_per_rank();
        Place { offset, slots: self.slots, slot_size: self.slot_size }
    }

    /// The ring of large slots in which `rank` produces.
    pub(crate) fn large(&self, rank: u32) -> Place {
        let offset = RINGS + rank as usize * self.bytes_per_rank() + self.small_bytes();
        Place { offset, slots: LARGE_SLOTS, slot_size: LARGE_SIZE }
    }
}

/// A mapped segment.
pub(crate) struct Segment {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: shared memory that is accessed through atomics and raw copies only.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new segment and the descriptor by which others map it.
    pub(crate) fn create(geometry: &Geometry) -> Result<(Segment, OwnedFd), Error> {
        pioman::plumbing::check_file_size(geometry.bytes() as u64)
            .map_err(during("sizing the shared-memory segment"))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("newmad", flags)
            .map_err(during("creating the shared-memory segment"))?;
        rustix::fs::ftruncate(&fd, geometry.bytes() as u64)
            .map_err(during("sizing the shared-memory segment"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)
            .map_err(during("sealing the shared-memory segment"))?;
        let segment = Segment::map(fd.as_raw_fd(), geometry.bytes())?;
        segment.word64(PROBE).store(PROBE_VALUE, std::sync::atomic::Ordering::Relaxed);
        Ok((segment, fd))
    }

    /// Maps the segment of a peer, after checking that it is what it should be.
    pub(crate) fn open(fd: &OwnedFd, geometry: &Geometry) -> Result<Segment, Error> {
        let seals = rustix::fs::fcntl_get_seals(fd).unwrap_or(SealFlags::empty());
        let bytes = rustix::fs::fstat(fd).map(|stat| stat.st_size);
        let sized = bytes.is_ok_and(|bytes| usize::try_from(bytes) == Ok(geometry.bytes()));
        if !seals.contains(SealFlags::SHRINK) || !sized {
            return Err(Error::Bootstrap(
                "a peer's shared-memory segment is not what it announced".into(),
            ));
        }
        Segment::map(fd.as_raw_fd(), geometry.bytes())
    }

    fn map(fd: RawFd, bytes: usize) -> Result<Segment, Error> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Segment { base, bytes }),
            _ => Err(os("mapping the shared-memory segment")),
        }
    }

    fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= PAGE && offset.is_multiple_of(8));
        // SAFETY: aligned, inside the mapping, and only ever accessed as an atomic.
        unsafe { &*self.base.as_ptr().add(offset).cast() }
    }

    /// The word that asks for the bell.
    pub(crate) fn bell(&self) -> &AtomicU32 {
        // SAFETY: aligned, inside the control page, and only ever accessed as an atomic.
        unsafe { &*self.base.as_ptr().add(BELL).cast() }
    }

    /// The kernel thread of the owner that is to be signalled where the bell's word says so, and the signal above it.
    pub(crate) fn target(&self) -> &AtomicU64 {
        self.word64(TARGET)
    }

    /// How many of the owner's threads wait for a large message.
    pub(crate) fn waiters(&self) -> &AtomicU32 {
        // SAFETY: aligned, inside the control page, and only ever accessed as an atomic.
        unsafe { &*self.base.as_ptr().add(WAITERS).cast() }
    }

    /// The first byte of the board.
    fn board(&self) -> NonNull<u8> {
        // SAFETY: every segment has the board, as `Geometry::bytes` counts it.
        unsafe { self.base.add(PAGE) }
    }

    /// The address of the probe word in this process.
    pub(crate) fn probe_address(&self) -> u64 {
        self.word64(PROBE) as *const AtomicU64 as u64
    }

    /// The first byte of a ring, when all of it is inside.
    pub(crate) fn ring(&self, place: &Place) -> Option<NonNull<u8>> {
        let slots = place.slots.checked_mul(place.slot_size)?;
        let end = slots.checked_add(LINE)?.checked_add(place.offset)?;
        if end > self.bytes || !(place.offset | place.slot_size).is_multiple_of(64) {
            return None;
        }
        // SAFETY: inside the mapping, as just checked.
        Some(unsafe { self.base.add(place.offset) })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: our mapping; tracks that point into it hold the segment alive.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rings_do_not_overlap_and_fit() {
        let geometry = Geometry { ranks: 3, slots: 4, slot_size: 192 };
        assert!(geometry.is_sound());
        let (segment, fd) = Segment::create(&geometry).unwrap();
        let mut end = RINGS;
        for rank in 0..3 {
            for place in [geometry.small(rank), geometry.large(rank)] {
                assert!(place.offset >= end);
                end = place.offset + LINE + place.slots * place.slot_size;
                assert!(segment.ring(&place).is_some());
            }
        }
        assert!(end <= geometry.bytes());
        let other = Segment::open(&fd, &geometry).unwrap();
        segment.bell().store(1, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(other.bell().load(std::sync::atomic::Ordering::Relaxed), 1);
        let larger = Geometry { ranks: 4, ..geometry };
        assert!(Segment::open(&fd, &larger).is_err());
    }
}
