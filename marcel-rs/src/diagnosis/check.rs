//! The checked mode (`MARCEL_CHECK`): a wait where a thread-local of the kernel thread must not wait ends the process.
//!
//! Green threads of one virtual processor share its kernel thread's thread-locals. Two habits of sound Rust rely on the
//! kernel thread running one stack, in the order of its frames; a wait in their middle breaks them:
//!
//! * The *initialiser* of a lazy `std::thread_local!`. A second thread finds no value, makes one and borrows it. The
//!   first goes on, replaces the value and drops the borrowed one.
//! * A *scope* that sets a thread-local to a reference, runs a closure, and restores what was there. A second thread's
//!   scope that ends out of turn restores a reference to a frame that is gone.
//!
//! No type shows either. So the scheduler shows each thread that has just waited or yielded to [`look`], which walks its
//! stack and looks for frames of such functions, by name.
//!
//! `LocalKey::with` is not looked for. Its closure gets a shared reference to a value that stays until the kernel thread
//! ends. Another green thread's `with` is to the value what a nested `with` is, which any closure may make; a `RefCell`
//! that is found borrowed panics.
//!
//! # Where it looks
//! On the kernel thread's own stack, after the switch: green threads' stacks are small. The thread is suspended, and no
//! worker can resume it, so its stack is read in place.
//!
//! # Cost
//! A walk takes microseconds, so walks are remembered ([`Path`]). A walk is a function of its first registers and of the
//! words that it reads. A thread whose stack has the same words in the same places has the same frames. Symbols are
//! looked up once per address.
//!
//! # What it does not see
//! Functions that are inlined where there is no debug information, functions whose module has no symbols, and crates
//! that set and restore thread-locals by functions that [`SCOPES`] does not name.

use std::collections::{HashMap, HashSet};

use super::backtrace::Backtracer;
use super::frames::Registers;
use super::symbols::{Symbol, resolve};
use super::unwind::{Unwinder, loads};
use super::{snapshot, thread::title, trace_exit};
use crate::error::Error;
use crate::knobs;
use crate::os::KernelMutex;
use crate::os::stderr::to_stderr;
use crate::tcb::block::Tcb;
use crate::tcb::debug_info::{self, Seen};

/// A function that a thread must not wait in. Debug information may give its bare name only, so its file tells as well.
struct Function {
    path: &'static str,
    file: &'static str,
}

impl Function {
    fn is(&self, symbol: &Symbol) -> bool {
        let path = path_of(&symbol.function);
        path == self.path || path == last(self.path) && symbol.file.contains(self.file)
    }
}

/// What `std` calls to make a lazy thread-local's value, by target.
const INITIALISERS: [Function; 2] = [
    Function {
        path: "std::sys::thread_local::native::lazy::Storage::get_or_init_slow",
        file: "std/src/sys/thread_local/native/lazy.rs",
    },
    Function {
        path: "std::sys::thread_local::os::Storage::try_initialize",
        file: "std/src/sys/thread_local/os.rs",
    },
];

/// Functions that set a thread-local to a reference, run a closure, and restore what was there.
const SCOPES: [Function; 3] = [
    Function { path: "scoped_tls::ScopedKey::set", file: "/scoped-tls" },
    Function { path: "scoped_tls_hkt::ScopedKey::set", file: "/scoped-tls-hkt" },
    Function {
        path: "tokio::runtime::context::scoped::Scoped::set",
        file: "/src/runtime/context/scoped.rs",
    },
];

/// Most paths that are remembered.
const PATHS: usize = 1 << 14;

/// The check, if `MARCEL_CHECK` asks for it.
///
/// # Errors
/// The knob does not accept its variable's value.
pub(crate) fn from_env() -> Result<Option<fn(&'static Tcb)>, Error> {
    let on = match knobs::CHECK.text()?.as_str() {
        "auto" => cfg!(debug_assertions),
        text => text == "1",
    };
    Ok(on.then_some(look))
}

/// A word that a walk has read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// A code address, on which the walk depends.
    Code(usize),
    /// An address in the same stack: bytes below its end.
    Stack(usize),
    /// A register that the walk has only carried along.
    Other,
}

/// The words that a walk without a find has read, and where: bytes below the stack's end.
struct Path(Box<[(usize, Word)]>);

/// What is known of the program's code.
struct Known {
    unwinder: Unwinder,
    loads: u64,
    /// By the address where the threads have switched, and their stack pointer's distance from the end of the stack.
    paths: HashMap<(usize, usize), Vec<Path>>,
    count: usize,
    /// Addresses of no such function.
    harmless: HashSet<usize>,
}

static KNOWN: KernelMutex<Option<Known>> = KernelMutex::new(None);

/// Ends the process if `tcb`, a thread that has just been suspended, waits where it must not.
///
/// # Context
/// The scheduler that holds the thread.
fn look(tcb: &'static Tcb) {
    let seen = tcb.info.see();
    if !seen.stack.contains(&seen.sp) {
        return; // the switch tells no registers on this architecture
    }
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_with(Known::new);
    if known.has_path(&seen) {
        return;
    }
    if let Some(breach) = known.walk(&seen) {
        end(tcb, &breach);
    }
}

/// The word at `at` of the suspended thread's stack.
fn word(seen: &Seen, at: usize) -> Option<usize> {
    let end = at.checked_add(size_of::<usize>())?;
    if at < seen.sp || end > seen.stack.end || !at.is_multiple_of(align_of::<usize>()) {
        return None;
    }
    // SAFETY: between the stack pointer and the end of a stack that is mapped while its thread lives. The caller of
    // `look` holds the thread, which is suspended.
    Some(unsafe { std::ptr::with_exposed_provenance::<usize>(at).read_volatile() })
}

impl Known {
    fn new() -> Known {
        Known {
            unwinder: Unwinder::new(),
            loads: loads(),
            paths: HashMap::new(),
            count: 0,
            harmless: HashSet::new(),
        }
    }

    fn has_path(&self, seen: &Seen) -> bool {
        let key = (seen.pc, seen.stack.end - seen.sp);
        let same = |&(below, then): &(usize, Word)| {
            let now = word(seen, seen.stack.end - below);
            now.is_some_and(|now| match then {
                Word::Code(code) => now == code,
                Word::Stack(below) => seen.stack.end.wrapping_sub(now) == below,
                Word::Other => !seen.stack.contains(&now),
            })
        };
        self.paths.get(&key).is_some_and(|paths| paths.iter().any(|path| path.0.iter().all(same)))
    }

    /// Walks the stack, and remembers the path unless it finds a breach.
    fn walk(&mut self, seen: &Seen) -> Option<Breach> {
        if self.loads != loads() || self.count >= PATHS {
            *self = Known::new();
        }
        let registers = Registers { pc: seen.pc, sp: seen.sp, fp: seen.fp, lr: 0 };
        let mut reads = Vec::new();
        let addresses = self.unwinder.walk_by(&registers, |at| {
            let word = word(seen, at)?;
            reads.push((seen.stack.end - at, word));
            Some(word)
        });
        if addresses.iter().any(|at| !self.harmless.contains(at)) {
            if let Some(breach) = Breach::find(&addresses) {
                return Some(breach);
            }
            self.harmless.extend(&addresses);
        }
        let kind = |word: usize| match word {
            _ if seen.stack.contains(&word) => Word::Stack(seen.stack.end - word),
            _ if addresses.contains(&word) => Word::Code(word),
            _ => Word::Other,
        };
        let path = reads.into_iter().map(|(below, word)| (below, kind(word))).collect();
        self.paths.entry((seen.pc, seen.stack.end - seen.sp)).or_default().push(Path(path));
        self.count += 1;
        None
    }
}

/// A wait where a thread must not wait.
struct Breach {
    what: String,
    addresses: Vec<usize>,
}

impl Breach {
    fn find(addresses: &[usize]) -> Option<Breach> {
        let symbols: Vec<Symbol> = addresses.iter().flat_map(|at| resolve(*at)).collect();
        let is_of_program = |symbol: &&Symbol| !is_of_std(symbol);
        let what = symbols.iter().enumerate().find_map(|(place, symbol)| {
            if INITIALISERS.iter().any(|of| of.is(symbol)) {
                let init = symbols[..place].iter().rev().find(is_of_program);
                let init =
                    init.map_or("of unknown place".into(), |s| with_place(s, thread_local_of(s)));
                return Some(format!("the initialiser of the std::thread_local! {init}"));
            }
            let scope = SCOPES.iter().find(|of| of.is(symbol))?;
            let caller = symbols[place + 1..].iter().find(is_of_program);
            let caller =
                caller.map_or("a function of unknown name".into(), |s| with_place(s, &s.function));
            Some(format!(
                "{}, which sets a thread-local and restores it, called by {caller}",
                scope.path
            ))
        });
        what.map(|what| Breach { what, addresses: addresses.to_vec() })
    }
}

fn is_of_std(symbol: &Symbol) -> bool {
    let path = path_of(&symbol.function);
    symbol.file.starts_with("/rustc/")
        || symbol.file.contains("/rustlib/src/rust/library/")
        || ["std", "core", "alloc"].iter().any(|of| path.split("::").next() == Some(of))
}

fn with_place(symbol: &Symbol, name: &str) -> String {
    match symbol.file.is_empty() {
        true => name.to_owned(),
        false if name.is_empty() => format!("at {}:{}", symbol.file, symbol.line),
        false => format!("{name} ({}:{})", symbol.file, symbol.line),
    }
}

/// The name of the thread-local whose initialiser the function is, as std's macro nests it.
fn thread_local_of(symbol: &Symbol) -> &str {
    const NESTED: [&str; 4] = ["{constant#", "{{constant}}", "__rust_std_internal", "__init"];
    let function = symbol.function.as_str();
    let end = NESTED.iter().filter_map(|of| function.find(of)).min().unwrap_or(function.len());
    function[..end].trim_end_matches("::")
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The path of a function's name without generic arguments, for both manglings: `<a::B<C>>::d::<E>` and `a::B<C>::d` are
/// `a::B::d`.
fn path_of(function: &str) -> String {
    let mut path = String::new();
    let (mut depth, mut before) = (0usize, ' ');
    // A leading bracket opens a path of its own, whose first level counts.
    let (text, inner) = match function.strip_prefix('<') {
        Some(rest) => (rest, true),
        None => (function, false),
    };
    let mut inner = inner;
    for letter in text.chars() {
        match letter {
            '<' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth == 0 && inner => inner = false,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => path.push(letter),
            _ => {}
        }
        before = letter;
    }
    // `a::B::<C>::d` has left an empty part.
    path.split("::").filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::")
}

#[cold]
fn end(tcb: &'static Tcb, breach: &Breach) -> ! {
    to_stderr(|out| {
        let name = match snapshot::take(tcb, debug_info::now(), false) {
            Some(snapshot) => title(&snapshot.thread),
            None => format!("{} <unnamed>", tcb.info.number()),
        };
        writeln!(
            out,
            "\nmarcel: thread {name} waits or yields inside {}. Other green threads share this thread-local and would \
             invalidate what its users hold. Use marcel::thread_local!, which has a value for each green thread, or \
             wait before or after (MARCEL_CHECK=0 turns this check off)",
            breach.what
        )?;
        let lines = Backtracer::new().lines(&breach.addresses);
        lines.iter().try_for_each(|line| writeln!(out, "    at {line}"))
    });
    trace_exit::save_now();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_manglings_lose_their_generic_arguments() {
        for name in [
            "scoped_tls::ScopedKey<T>::set",
            "<scoped_tls::ScopedKey<alloc::string::String>>::set::<app::f::{closure#0}, ()>",
            "scoped_tls::ScopedKey<T>::set::<fn() -> u32>",
        ] {
            assert_eq!(path_of(name), "scoped_tls::ScopedKey::set", "{name}");
        }
        assert_eq!(path_of("main"), "main");
    }

    #[test]
    fn a_function_that_is_only_an_argument_of_another_is_not_that_function() {
        let outer = "app::run::<<scoped_tls::ScopedKey<u8>>::set::<app::f, ()>>";
        assert_eq!(path_of(outer), "app::run");
    }

    #[test]
    fn an_initialiser_s_name_is_that_of_its_thread_local() {
        for name in [
            "app::NAME::{{constant}}::__rust_std_internal_init_fn",
            "app::NAME::{constant#0}::__rust_std_internal_init_fn",
            "app::NAME::__init",
            "app::NAME",
        ] {
            let symbol = Symbol { function: name.into(), file: String::new(), line: 0 };
            assert_eq!(thread_local_of(&symbol), "app::NAME");
        }
    }

    #[test]
    fn a_bare_name_is_known_by_its_file() {
        let symbol = |file: &str| Symbol {
            function: "get_or_init_slow<u8, (), fn() -> u8>".into(),
            file: file.into(),
            line: 1,
        };
        let std = symbol("/rustc/5980/library/std/src/sys/thread_local/native/lazy.rs");
        assert!(INITIALISERS[0].is(&std));
        assert!(!INITIALISERS[0].is(&symbol("/home/me/app/src/lazy.rs")));
        // A path that is known is not doubted for its file.
        let other = Symbol { function: "app::Cache::get_or_init_slow".into(), ..std };
        assert!(!INITIALISERS[0].is(&other));
    }
}
