//! Relocations that name a symbol: what a file takes from others, and where it keeps it.

use super::bytes::Bytes;
use super::dynamic::{Dynamic, Names};
use super::layout::Layout;
use super::symbol::Symbol;
use crate::refusal::Refusal;

const RELOCATION: u64 = 24;

/// Most bytes of names of copied variables: they may overlap in the file.
const MOST_COPIED_NAMES: usize = 16 << 20;

const ABSOLUTE: u32 = 1;
const COPY: u32 = 5;
const GLOB_DAT: u32 = 6;
const JUMP_SLOT: u32 = 7;
const MODULE: u32 = 16;
const OFFSET: u32 = 17;
const THREAD_OFFSET: u32 = 18;
const DESCRIPTOR: u32 = 36;
const INDIRECT_RELATIVE: u32 = 37;

/// A word that holds the address of a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer<'a> {
    /// Address of the word.
    pub(crate) place: u64,
    pub(crate) name: &'a [u8],
    pub(crate) addend: u64,
}

/// A word that refers to a symbol that the file defines itself. The dynamic linker may find another object's symbol of
/// that name first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// Address of the word.
    pub(crate) place: u64,
    pub(crate) value: OwnValue,
}

/// What a word of [`Own`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnValue {
    /// An address of the file.
    Address(u64),
    /// What the function of the file at `resolver` returns, and the addend.
    Resolved { resolver: u64, addend: u64 },
    /// The number of the file's thread-locals.
    Module,
    /// An offset in them.
    Offset(u64),
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
    pub(crate) own: Vec<Own>,
    /// Words with addresses of functions and variables that the file does define, by name.
    pub(crate) named: Vec<Pointer<'a>>,
    pub(crate) copied: Vec<Copied>,
    /// Bytes of their names.
    copied_names: usize,
    /// Whether functions of the file choose addresses while it is relocated.
    pub(crate) has_resolvers: bool,
    /// Whether code of the file asks `__tls_get_addr` for its thread-locals.
    pub(crate) has_asked_locals: bool,
    /// Whether code of the file expects its thread-locals at a fixed distance from the thread pointer.
    pub(crate) has_fixed_locals: bool,
    /// Whether code of the file finds thread-locals by descriptors, without `__tls_get_addr`.
    pub(crate) has_local_descriptors: bool,
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
                this.has_local_descriptors |= kind == DESCRIPTOR;
                if matches!(
                    kind,
                    ABSOLUTE | COPY | GLOB_DAT | JUMP_SLOT | MODULE | OFFSET | THREAD_OFFSET
                ) {
                    let symbol = Symbol::read(bytes, (layout, dynamic), &names, info >> 32)?;
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
        match kind {
            COPY => {
                let name = String::from_utf8_lossy(symbol.name).into_owned();
                self.copied_names += name.len();
                if self.copied_names > MOST_COPIED_NAMES {
                    return Err(Refusal::Damaged("it copies too many variables".into()));
                }
                self.copied.push(Copied { place, size: symbol.size, name });
            }
            // Without a symbol these are the file's own already.
            MODULE | OFFSET => {
                self.has_asked_locals |= symbol.is_defined || symbol.name.is_empty();
                if symbol.is_defined {
                    let value = match kind {
                        MODULE => OwnValue::Module,
                        _ => OwnValue::Offset(symbol.value.wrapping_add(addend)),
                    };
                    self.own.push(Own { place, value });
                }
            }
            THREAD_OFFSET => self.has_fixed_locals |= symbol.is_defined || symbol.name.is_empty(),
            _ => {
                let addend = if kind == ABSOLUTE { addend } else { 0 };
                if !symbol.is_defined {
                    self.pointers.push(Pointer { place, name: symbol.name, addend });
                } else if symbol.has_address() {
                    let value = if symbol.is_indirect() {
                        self.has_resolvers = true;
                        OwnValue::Resolved { resolver: check_resolver(layout, symbol)?, addend }
                    } else {
                        OwnValue::Address(symbol.value.wrapping_add(addend))
                    };
                    self.own.push(Own { place, value });
                    self.named.push(Pointer { place, name: symbol.name, addend });
                }
            }
        }
        Ok(())
    }
}

/// The address of the resolver, if it is one of code.
fn check_resolver(layout: &Layout, symbol: &Symbol<'_>) -> Result<u64, Refusal> {
    let address = symbol.value;
    if layout.loads().any(|load| load.is_executable() && load.has(address, 1)) {
        return Ok(address);
    }
    let name = String::from_utf8_lossy(symbol.name);
    Err(Refusal::Damaged(format!("the resolver of {name} at {address:#x} is in no code")))
}
