//! A thread's frames as lines of text.
//!
//! A backtrace shows the program's own functions. Of the frames of this crate on top of them it shows the function that
//! the program called, and of the frames below them, which started the thread, none. `RUST_BACKTRACE=full` shows every
//! frame.

use std::path::PathBuf;

use super::frames::Frames;
use super::symbols::{Symbol, Symbols};
use super::unwind::Unwinder;

/// Turns frames into lines.
pub(super) struct Backtracer {
    unwinder: Unwinder,
    symbols: Symbols,
    full: bool,
    directory: Option<PathBuf>,
}

impl Backtracer {
    /// A backtracer for the modules that are loaded now.
    pub(super) fn new() -> Backtracer {
        Backtracer {
            unwinder: Unwinder::new(),
            symbols: Symbols::default(),
            full: std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v == "full"),
            directory: std::env::current_dir().ok(),
        }
    }

    /// The code addresses of the frames, the innermost first.
    pub(super) fn walk(&mut self, frames: &Frames) -> Vec<usize> {
        self.unwinder.walk(frames)
    }

    /// One line per function.
    pub(super) fn lines(&mut self, addresses: &[usize]) -> Vec<String> {
        let found: Vec<_> = addresses.iter().map(|at| self.symbols.at(*at)).collect();
        let all: Vec<&Symbol> = found.iter().flat_map(|symbols| symbols.iter()).collect();
        let shown = if self.full { &all[..] } else { essence(&all) };
        shown.iter().map(|symbol| self.line(symbol)).collect()
    }

    fn line(&self, symbol: &Symbol) -> String {
        if symbol.file.is_empty() {
            return symbol.function.clone();
        }
        let mut file = symbol.file.as_str();
        if !self.full {
            let ours = self.directory.as_deref().and_then(|d| d.to_str());
            let rest = ours.and_then(|d| file.strip_prefix(d)).map(|f| f.trim_start_matches('/'));
            // Of the standard library's files, and of packages', the path inside is enough.
            let library =
                || file.starts_with("/rustc/").then(|| file.splitn(4, '/').nth(3)).flatten();
            let package =
                || file.split_once("/registry/src/").and_then(|(_, f)| Some(f.split_once('/')?.1));
            file = rest.or_else(library).or_else(package).unwrap_or(file);
        }
        format!("{} ({file}:{})", symbol.function, symbol.line)
    }
}

/// The program's own frames, with the function of this crate that they called.
fn essence<'a, 'b>(all: &'b [&'a Symbol]) -> &'b [&'a Symbol] {
    let inner = |s: &&&Symbol| is_ours(s) || is_foundation(s) || s.function == "syscall";
    let inner = all.iter().take_while(inner).count();
    let start = all[..inner].iter().rposition(|s| is_ours(s)).unwrap_or(0);
    let outer = all.iter().rev().take_while(|s| is_ours(s) || is_foundation(s)).count();
    let shown = all.get(start..all.len() - outer).unwrap_or_default();
    if shown.is_empty() { all } else { shown }
}

fn is_ours(symbol: &Symbol) -> bool {
    let sources = file!().trim_end_matches("diagnosis/backtrace.rs");
    symbol.file.contains(sources)
}

/// Whether a frame is below a thread's first function.
fn is_foundation(symbol: &Symbol) -> bool {
    const FUNCTIONS: [&str; 5] = ["__libc_start", "start_thread", "clone", "main", "_start"];
    symbol.file.is_empty()
        || symbol.file.starts_with("/rustc/")
        || symbol.file.contains("/rustlib/src/rust/library/")
        || symbol.file.contains("/corosensei-")
        || FUNCTIONS.iter().any(|function| {
            symbol
                .function
                .strip_prefix(function)
                .is_some_and(|r| r.is_empty() || r.starts_with('_'))
        }) && !symbol.file.ends_with(".rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(function: &str, file: &str) -> Symbol {
        Symbol { function: function.into(), file: file.into(), line: 1 }
    }

    #[test]
    fn the_machinery_above_and_below_is_left_out() {
        let ours = |file: &str| file!().replace("diagnosis/backtrace.rs", file);
        let all = [
            symbol(
                "core::sync::atomic::AtomicBool::store",
                "/rustc/5980/library/core/src/atomic.rs",
            ),
            symbol("switch", &ours("tcb/block.rs")),
            symbol("marcel::sync::mutex::Mutex<T>::lock", &ours("sync/mutex.rs")),
            symbol("app::waits", "/home/me/app/src/main.rs"),
            symbol("core::ops::function::FnOnce::call_once", "/rustc/5980/library/core/src/ops.rs"),
            symbol("__rust_try", ""),
            symbol("{closure#0}", &ours("thread/spawn.rs")),
            symbol("stack_init_trampoline", ""),
        ];
        let all: Vec<_> = all.iter().collect();
        let shown: Vec<_> = essence(&all).iter().map(|s| s.function.as_str()).collect();
        assert_eq!(shown, ["marcel::sync::mutex::Mutex<T>::lock", "app::waits"]);
        assert_eq!(essence(&all[..1]).len(), 1, "something is always shown");
    }
}
