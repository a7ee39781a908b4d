//! Numbers and texts at offsets of a file that is not trusted.

use crate::refusal::Refusal;

/// The longest name that is accepted. Bounds the time that a file of overlapping names can cost.
const LONGEST: usize = 32 * 1024;

/// A file's contents.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The `len` bytes at `offset`.
    pub(super) fn at(self, offset: u64, len: u64) -> Result<&'a [u8], Refusal> {
        let range = offset.checked_add(len).and_then(|end| {
            let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(end).ok()?);
            self.0.get(start..end)
        });
        range.ok_or_else(|| {
            Refusal::Damaged(format!(
                "{len} bytes at offset {offset} are outside the file of {} bytes",
                self.0.len()
            ))
        })
    }

    fn array<const N: usize>(self, offset: u64) -> Result<[u8; N], Refusal> {
        let mut array = [0; N];
        array.copy_from_slice(self.at(offset, N as u64)?);
        Ok(array)
    }

    pub(super) fn u8(self, offset: u64) -> Result<u8, Refusal> {
        self.array::<1>(offset).map(|bytes| bytes[0])
    }

    pub(super) fn u16(self, offset: u64) -> Result<u16, Refusal> {
        self.array(offset).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, offset: u64) -> Result<u32, Refusal> {
        self.array(offset).map(u32::from_le_bytes)
    }

    pub(super) fn u64(self, offset: u64) -> Result<u64, Refusal> {
        self.array(offset).map(u64::from_le_bytes)
    }

    /// The text at `offset` that ends with a NUL, before `end`.
    pub(super) fn text(self, offset: u64, end: u64) -> Result<&'a [u8], Refusal> {
        let rest = self.at(offset, end.saturating_sub(offset))?;
        let rest = &rest[..rest.len().min(LONGEST)];
        match rest.iter().position(|byte| *byte == 0) {
            Some(len) => Ok(&rest[..len]),
            None => Err(Refusal::Damaged(format!(
                "the name at offset {offset} has no end, or more than {LONGEST} bytes"
            ))),
        }
    }
}
