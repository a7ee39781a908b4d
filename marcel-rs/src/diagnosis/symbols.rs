//! Functions, files and lines of addresses. Each address is looked up once.

use std::collections::HashMap;
use std::rc::Rc;

/// A function at an address. An address has several where functions are inlined.
pub(super) struct Symbol {
    pub(super) function: String,
    /// Its source file; empty if unknown.
    pub(super) file: String,
    pub(super) line: u32,
}

#[derive(Default)]
pub(super) struct Symbols {
    known: HashMap<usize, Rc<[Symbol]>>,
}

impl Symbols {
    /// The functions at `address`, the innermost first.
    pub(super) fn at(&mut self, address: usize) -> Rc<[Symbol]> {
        self.known.entry(address).or_insert_with(|| resolve(address).into()).clone()
    }
}

/// As [`Symbols::at`], of a single address.
pub(super) fn resolve(address: usize) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    backtrace::resolve(address as *mut std::ffi::c_void, |symbol| {
        let function = match symbol.name() {
            Some(name) => format!("{name:#}"),
            None => format!("{address:#x}"),
        };
        let file = symbol.filename().map_or(String::new(), |f| f.display().to_string());
        symbols.push(Symbol { function, file, line: symbol.lineno().unwrap_or(0) });
    });
    if symbols.is_empty() {
        symbols.push(Symbol { function: format!("{address:#x}"), file: String::new(), line: 0 });
    }
    symbols
}
