//! What a file exports.

use super::Elf;
use super::bytes::Bytes;
use super::segment::{self, Segment};
use super::symbol::Symbol;
use crate::refusal::Refusal;

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
        for symbol in self.exported(file)? {
            let symbol = symbol?;
            let is_at = |load: &Segment| load.has(symbol.value, symbol.size);
            let is_variable = symbol.is_variable()
                && !relro.is_some_and(is_at)
                && self.layout.loads().any(|load| load.is_writable() && is_at(load));
            if is_variable {
                names.push(String::from_utf8_lossy(symbol.name).into_owned());
                if names.len() == MOST {
                    break;
                }
            }
        }
        Ok(names)
    }

    /// The first of `names` that the file exports.
    pub(crate) fn exports(&self, file: &[u8], names: &[&str]) -> Result<Option<String>, Refusal> {
        for symbol in self.exported(file)? {
            let name = symbol?.name;
            if let Some(known) = names.iter().find(|known| known.as_bytes() == name) {
                return Ok(Some((*known).to_owned()));
            }
        }
        Ok(None)
    }

    /// The symbols that the file, from which `self` was read, exports.
    fn exported<'a>(
        &self,
        file: &'a [u8],
    ) -> Result<impl Iterator<Item = Result<Symbol<'a>, Refusal>>, Refusal> {
        let symbols = Symbol::all(Bytes(file), &self.layout, &self.dynamic)?;
        Ok(symbols.filter(|symbol| !matches!(symbol, Ok(Symbol { is_defined: false, .. }))))
    }
}
