//! Relocations that name a symbol: what a file takes from others, and where it keeps it.

use super::bytes::Bytes;
use super::dynamic::{Dynamic, Names};
use super::layout::Layout;
use crate::refusal::Refusal;

const SYMBOL: u64 = 24;
const RELOCATION: u64 = 24;

const ABSOLUTE: u32 = 1;
const COPY: u32 = 5;
const GLOB_DAT: u32 = 6;
const JUMP_SLOT: u32 = 7;
const INDIRECT_RELATIVE: u32 = 37;

/// A word that holds the address of a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer<'a> {
    /// Address of the word.
    pub(crate) place: u64,
    pub(crate) name: &'a [u8],
    pub(crate) addend: u64,
}

/// A library's variable of which the executable has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Address of the copy.
    pub(crate) place: u64,
    pub(crate) size: u64,
    pub(crate) name: String,
}

/// The references of a file.
#[derive(Debug, Default)]
pub(crate) struct References<'a> {
    /// Words with addresses of symbols that the file does not define.
    pub(crate) pointers: Vec<Pointer<'a>>,
    pub(crate) copied: Vec<Copied>,
    /// Whether functions of the file choose addresses while it is relocated.
    pub(crate) has_resolvers: bool,
}

impl<'a> References<'a> {
    pub(super) fn read(
        bytes: Bytes<'a>,
        layout: &Layout,
        dynamic: &Dynamic,
    ) -> Result<References<'a>, Refusal> {
        let mut this = References::default();
        let names = Names::new(bytes, layout, dynamic.strings)?;
        for table in dynamic.relocations {
            if table.len == 0 {
                continue;
            }
            let start = layout.offset_of(table.address, table.len)?;
            for index in 0..table.len / RELOCATION {
                let at = start + index * RELOCATION;
                let (place, info) = (bytes.u64(at)?, bytes.u64(at + 8)?);
                let addend = bytes.u64(at + 16)?;
                let kind = info as u32;
                this.has_resolvers |= kind == INDIRECT_RELATIVE;
                if matches!(kind, ABSOLUTE | COPY | GLOB_DAT | JUMP_SLOT) {
                    let symbol = Symbol::read(bytes, (layout, dynamic), &names, info >> 32)?;
                    let addend = if kind == ABSOLUTE { addend } else { 0 };
                    this.add(layout, kind, place, addend, &symbol)?;
                }
            }
        }
        Ok(this)
    }

    fn add(
        &mut self,
        layout: &Layout,
        kind: u32,
        place: u64,
        addend: u64,
        symbol: &Symbol<'a>,
    ) -> Result<(), Refusal> {
        let len = if kind == COPY { symbol.size } else { 8 };
        if !layout.loads().any(|load| load.is_writable() && load.has(place, len)) {
            return Err(Refusal::Damaged(format!(
                "the relocation of {} bytes at {place:#x} is in no writable segment",
                len
            )));
        }
        if kind == COPY {
            let name = String::from_utf8_lossy(symbol.name).into_owned();
            self.copied.push(Copied { place, size: symbol.size, name });
        } else if !symbol.is_defined {
            self.pointers.push(Pointer { place, name: symbol.name, addend });
        }
        Ok(())
    }
}

struct Symbol<'a> {
    name: &'a [u8],
    size: u64,
    is_defined: bool,
}

impl<'a> Symbol<'a> {
    fn read(
        bytes: Bytes<'a>,
        (layout, dynamic): (&Layout, &Dynamic),
        names: &Names<'a>,
        index: u64,
    ) -> Result<Symbol<'a>, Refusal> {
        let address = dynamic.symbols.checked_add(index * SYMBOL);
        let address = address
            .ok_or_else(|| Refusal::Damaged("a symbol is outside the address space".into()))?;
        let at = layout.offset_of(address, SYMBOL)?;
        Ok(Symbol {
            name: names.text(u64::from(bytes.u32(at)?))?,
            size: bytes.u64(at + 16)?,
            is_defined: bytes.u16(at + 6)? != 0,
        })
    }
}
