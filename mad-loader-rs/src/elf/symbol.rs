//! Symbols of the dynamic linker's table.

use super::bytes::Bytes;
use super::dynamic::{Dynamic, Names};
use super::hashes;
use super::layout::Layout;
use crate::refusal::Refusal;

/// Size of an entry.
const SYMBOL: u64 = 24;

/// Kind of a symbol: a variable.
const OBJECT: u8 = 1;
/// Kind of a symbol: a function whose address a resolver chooses (`STT_GNU_IFUNC`).
const INDIRECT: u8 = 10;
/// Section of a symbol whose value is no address.
const NUMBER: u16 = 0xfff1;

/// An entry of the table.
pub(super) struct Symbol<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: u64,
    pub(super) size: u64,
    pub(super) is_defined: bool,
    kind: u8,
    section: u16,
}

impl<'a> Symbol<'a> {
    /// Whether the value is an address, not a number.
    pub(super) fn has_address(&self) -> bool {
        self.section != NUMBER
    }

    /// Whether the address is that of a resolver: a function that chooses the address which the symbol stands for.
    pub(super) fn is_indirect(&self) -> bool {
        self.kind == INDIRECT
    }

    pub(super) fn is_variable(&self) -> bool {
        self.kind == OBJECT
    }

    /// The symbols that the dynamic linker may find in the file.
    pub(super) fn all(
        bytes: Bytes<'a>,
        layout: &Layout,
        dynamic: &Dynamic,
    ) -> Result<impl Iterator<Item = Result<Symbol<'a>, Refusal>>, Refusal> {
        let names = Names::new(bytes, layout, dynamic.strings)?;
        let count = hashes::count(bytes, layout, dynamic)?;
        // A bound on the number.
        layout.offset_of(dynamic.symbols, count * SYMBOL)?;
        let read = move |index| Symbol::read(bytes, (layout, dynamic), &names, index);
        Ok((0..count).map(read))
    }

    /// The symbol with the number `index`.
    pub(super) fn read(
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
            value: bytes.u64(at + 8)?,
            size: bytes.u64(at + 16)?,
            is_defined: bytes.u16(at + 6)? != 0,
            kind: bytes.u8(at + 4)? & 15,
            section: bytes.u16(at + 6)?,
        })
    }
}
