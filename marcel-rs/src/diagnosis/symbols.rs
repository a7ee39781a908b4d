//! Names of functions, and lines, for addresses; each address is looked up once.

use std::collections::HashMap;
use std::rc::Rc;

/// One function at one address; several where functions are inlined.
pub(super) struct Symbol {
    pub(super) function: String,
    /// Where it is, if the program says; or empty.
    pub(super) file: String,
    pub(super) line: u32,
}

#[derive(Default)]
pub(super) struct Symbols {
    known: HashMap<usize, Rc<[Symbol]>>,
}

impl Symbols {
    /// What is at `address`, the innermost function first.
    pub(super) fn at(&mut self, address: usize) -> Rc<[Symbol]> {
        self.known.entry(address).or_insert_with(|| resolve(address).into()).clone()
    }
}

fn resolve(address: usize) -> Vec<Symbol> {
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
