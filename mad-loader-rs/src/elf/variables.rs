//! The writable variables that a shared library exports.

use super::Elf;
use super::bytes::Bytes;
use super::segment;
use crate::refusal::Refusal;

const SECTION: u64 = 64;
const SYMBOL: u64 = 24;
const DYNAMIC_SYMBOLS: u32 = 11;
const OBJECT: u8 = 1;

/// Most names that are kept: a report is to be read.
const MOST: usize = 64;

impl Elf {
    /// Bytes that a process may write once the dynamic linker is done: variables with and without initial values.
    pub(crate) fn writable_bytes(&self) -> u64 {
        let relro = self.layout.segment(segment::RELRO).map_or(0, |relro| relro.in_memory);
        let writable: u64 =
            self.layout.loads().filter(|l| l.is_writable()).map(|l| l.in_memory).sum();
        writable.saturating_sub(relro)
    }

    /// Names of exported variables that a process may write, a few of them.
    ///
    /// They are in the table of dynamic symbols, whose length only the section headers tell; a file without those has
    /// no names here.
    pub(crate) fn writable_names(&self, file: &[u8]) -> Result<Vec<String>, Refusal> {
        let bytes = Bytes(file);
        let (sections, count) = (bytes.u64(40)?, u64::from(bytes.u16(60)?));
        let header = |index: u64| {
            let at = sections.checked_add(index * SECTION);
            at.ok_or_else(|| Refusal::Damaged("a section is outside the address space".into()))
        };
        let mut names = Vec::new();
        for index in 0..count {
            let at = header(index)?;
            bytes.at(at, SECTION)?;
            if bytes.u32(at + 4)? != DYNAMIC_SYMBOLS {
                continue;
            }
            let (start, len) = (bytes.u64(at + 24)?, bytes.u64(at + 32)?);
            bytes.at(start, len)?;
            let strings = header(u64::from(bytes.u32(at + 40)?))?;
            bytes.at(strings, SECTION)?;
            let (text, text_len) = (bytes.u64(strings + 24)?, bytes.u64(strings + 32)?);
            bytes.at(text, text_len)?;
            for symbol in 0..len / SYMBOL {
                let at = start + symbol * SYMBOL;
                if bytes.u8(at + 4)? & 15 != OBJECT || bytes.u16(at + 6)? == 0 {
                    continue;
                }
                let (address, size) = (bytes.u64(at + 8)?, bytes.u64(at + 16)?);
                let relro =
                    self.layout.segment(segment::RELRO).is_some_and(|r| r.has(address, size));
                if !relro
                    && self.layout.loads().any(|load| load.is_writable() && load.has(address, size))
                {
                    let at = text.saturating_add(u64::from(bytes.u32(at)?));
                    let name = bytes.text(at, text + text_len)?;
                    names.push(String::from_utf8_lossy(name).into_owned());
                    if names.len() == MOST {
                        return Ok(names);
                    }
                }
            }
        }
        Ok(names)
    }
}
