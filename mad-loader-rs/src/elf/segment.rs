//! Program headers.

use super::bytes::Bytes;
use crate::refusal::Refusal;

pub(super) const LOAD: u32 = 1;
pub(super) const DYNAMIC: u32 = 2;
pub(super) const INTERPRETER: u32 = 3;
pub(super) const THREAD_LOCALS: u32 = 7;
pub(super) const STACK: u32 = 0x6474_e551;
pub(super) const RELRO: u32 = 0x6474_e552;

/// Size of a program header.
pub(super) const SIZE: u64 = 56;

/// The page of every machine that this crate runs on.
pub(crate) const PAGE: u64 = 4096;

/// A program header: a part of the file, and its place in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(super) kind: u32,
    flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) in_file: u64,
    pub(crate) in_memory: u64,
    pub(crate) alignment: u64,
    /// Offset of this header in the file.
    pub(super) header: u64,
}

impl Segment {
    pub(super) fn read(bytes: Bytes<'_>, header: u64) -> Result<Segment, Refusal> {
        let segment = Segment {
            kind: bytes.u32(header)?,
            flags: bytes.u32(header + 4)?,
            offset: bytes.u64(header + 8)?,
            address: bytes.u64(header + 16)?,
            in_file: bytes.u64(header + 32)?,
            in_memory: bytes.u64(header + 40)?,
            alignment: bytes.u64(header + 48)?,
            header,
        };
        if segment.kind == LOAD {
            segment.check(bytes)?;
        }
        Ok(segment)
    }

    fn check(&self, bytes: Bytes<'_>) -> Result<(), Refusal> {
        bytes.at(self.offset, self.in_file)?;
        let end = self.address.checked_add(self.in_memory);
        let fits = end.is_some_and(|end| end < 1 << 46) && self.in_file <= self.in_memory;
        if !fits || !self.address.wrapping_sub(self.offset).is_multiple_of(PAGE) {
            return Err(Refusal::Damaged(format!(
                "a segment of {} bytes at {:#x} cannot be mapped from offset {:#x}",
                self.in_memory, self.address, self.offset
            )));
        }
        Ok(())
    }

    /// The file offset of `len` bytes at `address`, if the segment has them.
    pub(super) fn offset_of(&self, address: u64, len: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address)?;
        (inside.checked_add(len)? <= self.in_file).then(|| self.offset + inside)
    }

    /// Whether the segment has `len` bytes at `address` in memory.
    pub(crate) fn has(&self, address: u64, len: u64) -> bool {
        let inside = address.checked_sub(self.address);
        inside.and_then(|inside| inside.checked_add(len)).is_some_and(|end| end <= self.in_memory)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.flags & 2 != 0
    }

    pub(crate) fn is_executable(&self) -> bool {
        self.flags & 1 != 0
    }
}
