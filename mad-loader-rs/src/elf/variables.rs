//! What a file exports.

use super::Elf;
use super::bytes::Bytes;
use super::segment::{self, Segment};
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
    pub(crate) fn writable_names(&self, file: &[u8]) -> Result<Vec<String>, Refusal> {
        let mut names = Vec::new();
        let relro = self.layout.segment(segment::RELRO);
        for symbol in defined(Bytes(file))? {
            let symbol = symbol?;
            let is_at = |load: &Segment| load.has(symbol.address, symbol.size);
            let is_variable = symbol.kind == OBJECT
                && !relro.is_some_and(is_at)
                && self.layout.loads().any(|load| load.is_writable() && is_at(load));
            if is_variable {
                names.push(String::from_utf8_lossy(symbol.name()?).into_owned());
                if names.len() == MOST {
                    break;
                }
            }
        }
        Ok(names)
    }

    /// The first of `names` that the file exports.
    pub(crate) fn exports(&self, file: &[u8], names: &[&str]) -> Result<Option<String>, Refusal> {
        for symbol in defined(Bytes(file))? {
            let name = symbol?.name()?;
            if let Some(known) = names.iter().find(|known| known.as_bytes() == name) {
                return Ok(Some((*known).to_owned()));
            }
        }
        Ok(None)
    }
}

/// A symbol that a file exports.
struct Exported<'a> {
    bytes: Bytes<'a>,
    /// File range of its name, to the end of all names.
    text: (u64, u64),
    kind: u8,
    address: u64,
    size: u64,
}

impl<'a> Exported<'a> {
    fn name(&self) -> Result<&'a [u8], Refusal> {
        self.bytes.text(self.text.0, self.text.1)
    }
}

/// The symbols that a file exports. They are in the table of dynamic symbols, whose length only the section headers tell;
/// a file without those has none here.
fn defined(
    bytes: Bytes<'_>,
) -> Result<impl Iterator<Item = Result<Exported<'_>, Refusal>>, Refusal> {
    let (sections, count) = (bytes.u64(40)?, u64::from(bytes.u16(60)?));
    let header = |index: u64| {
        let at = sections.checked_add(index * SECTION);
        let at =
            at.ok_or_else(|| Refusal::Damaged("a section is outside the address space".into()))?;
        bytes.at(at, SECTION).map(|_| at)
    };
    let (mut symbols, mut text) = ((0, 0), (0, 0));
    for index in 0..count {
        let at = header(index)?;
        if bytes.u32(at + 4)? == DYNAMIC_SYMBOLS {
            let range = |at| -> Result<(u64, u64), Refusal> {
                let (start, len) = (bytes.u64(at + 24)?, bytes.u64(at + 32)?);
                bytes.at(start, len).map(|_| (start, len))
            };
            symbols = range(at)?;
            text = range(header(u64::from(bytes.u32(at + 40)?))?)?;
            break;
        }
    }
    let read = move |at: u64| -> Result<Option<Exported<'_>>, Refusal> {
        if bytes.u16(at + 6)? == 0 {
            return Ok(None);
        }
        let name = text.0.saturating_add(u64::from(bytes.u32(at)?));
        Ok(Some(Exported {
            bytes,
            text: (name, text.0 + text.1),
            kind: bytes.u8(at + 4)? & 15,
            address: bytes.u64(at + 8)?,
            size: bytes.u64(at + 16)?,
        }))
    };
    let places = (0..symbols.1 / SYMBOL).map(move |index| symbols.0 + index * SYMBOL);
    Ok(places.filter_map(move |at| read(at).transpose()))
}
