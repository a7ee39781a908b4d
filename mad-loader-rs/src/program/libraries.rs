//! A program's shared libraries: found by the dynamic linker itself, loaded once for all ranks.
//!
//! The libraries are loaded before the first copy, for the whole process to see. So their own references bind to one
//! another, and never to a copy; their constructors have run when a copy takes the values of their variables.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::check::ALLOCATOR;
use crate::elf::Elf;
use crate::error::Error;
use crate::linker::Object;
use crate::lister::{self, LINKER};
use crate::refusal::Refusal;

/// A shared library that a program asks for, itself or through another library.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    pub(crate) name: String,
    /// Where it was found.
    pub(crate) path: Option<PathBuf>,
}

/// Libraries whose state this crate or the C library itself looks after.
const KNOWN: [&str; 9] = [
    "libc.so.",
    "libm.so.",
    "libpthread.so.",
    "libdl.so.",
    "librt.so.",
    "libgcc_s.so.",
    "ld-linux",
    "libmpi_abi.so.",
    "libmvec.so.",
];

/// Whether a library is one that a process has once, with state that ranks need not know of. A name may be a path.
pub(crate) fn is_the_process_own(library: &str) -> bool {
    let file = library.rsplit('/').next().unwrap_or_default();
    KNOWN.iter().any(|known| file.starts_with(known))
}

/// Whether a library is known to hold no mutex of its own where it waits: C++'s, whose `std::this_thread` sleeps there.
pub(crate) fn waits_without_locks(library: &Path) -> bool {
    let file = library.file_name().unwrap_or_default().as_encoded_bytes();
    file.starts_with(b"libstdc++.so.") || file.starts_with(b"libc++.so.")
}

/// Asks the dynamic linker of `program` which libraries it would load, and from where. The program's code does not run.
///
/// # Errors
/// Also when the program names another dynamic linker than [`check`](crate::check::check) lets it name.
pub(crate) fn list(program: &Path, elf: &Elf) -> io::Result<Vec<Library>> {
    let linker = elf.interpreter.as_deref().unwrap_or(LINKER);
    let run = lister::same_as(linker).ok_or(io::ErrorKind::NotFound)?;
    // As `ldd` does: its own option `--list` stops at the first library that it does not find.
    let listing = Command::new(run)
        .arg(program)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .env_remove("LD_WARN")
        .env_remove("LD_BIND_NOW")
        .env_remove("LD_VERBOSE")
        .stdin(Stdio::null())
        .output()?;
    if !listing.status.success() {
        let words = String::from_utf8_lossy(&listing.stderr);
        return Err(io::Error::other(format!("its dynamic linker says: {}", words.trim())));
    }
    let text = String::from_utf8_lossy(&listing.stdout);
    Ok(text.lines().filter_map(|line| read_line(line, linker)).collect())
}

/// `NAME => PATH (ADDRESS)`, or `NAME => not found`, or `PATH (ADDRESS)` for a library that is asked for by its path, which
/// is its name, too. The dynamic linker names itself as `linker`, and the kernel's object without a path.
fn read_line(line: &str, linker: &str) -> Option<Library> {
    let line = line.trim();
    if let Some((name, found)) = line.split_once(" => ") {
        // It was run by another path than the program names.
        if name == linker {
            return None;
        }
        let path = found.rsplit_once(" (").map(|(path, _)| PathBuf::from(path));
        return Some(Library { name: name.to_owned(), path });
    }
    let (name, _) = line.rsplit_once(" (")?;
    let is_library = name.contains('/') && name != linker;
    is_library.then(|| Library { name: name.to_owned(), path: Some(PathBuf::from(name)) })
}

/// madmpi's part in Fortran: it compares what it is given with addresses of common blocks, which bind to the process's own
/// copy of the program, or of a library.
const BOUND: &str = "libmadmpi_fortran.so";

/// Those common blocks. What has none of them in itself, such as a program in C with a library in Fortran, gives no address
/// that differs from rank to rank.
const COMMON_BLOCKS: [&str; 10] = [
    "madmpi_bottom_",
    "madmpi_in_place_",
    "madmpi_buffer_automatic_",
    "madmpi_unweighted_",
    "madmpi_weights_empty_",
    "madmpi_errcodes_ignore_",
    "madmpi_status_ignore_",
    "madmpi_statuses_ignore_",
    "madmpi_argv_null_",
    "madmpi_argvs_null_",
];

/// Why a program with these libraries cannot run as ranks: names that were not found, or a library that knows one copy.
/// The program is read from `file`.
pub(crate) fn check(libraries: &[Library], elf: &Elf, file: &[u8]) -> Result<(), Refusal> {
    let missing: Vec<_> = libraries
        .iter()
        .filter(|library| library.path.is_none() && Object::loaded(&library.name).is_none())
        .map(|library| library.name.clone())
        .collect();
    if !missing.is_empty() {
        return Err(Refusal::MissingLibraries(missing));
    }
    check_bound(libraries, elf, file)
}

/// Why ranks cannot have copies of `file`, a program or library among `libraries`: one of these knows one copy.
pub(crate) fn check_bound(libraries: &[Library], elf: &Elf, file: &[u8]) -> Result<(), Refusal> {
    match bound(libraries) {
        Some(name) if elf.exports(file, &COMMON_BLOCKS)?.is_some() => {
            Err(Refusal::BoundLibrary(name.to_owned()))
        }
        _ => Ok(()),
    }
}

fn bound(libraries: &[Library]) -> Option<&str> {
    let is_bound =
        |name: &&str| name.rsplit('/').next().is_some_and(|file| file.starts_with(BOUND));
    libraries.iter().map(|library| &*library.name).find(is_bound)
}

/// A library in memory.
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) object: Object,
    /// Whether this process's runtime calls it, too: its calls wait as the runtime expects.
    pub(crate) serves_runtime: bool,
}

/// Whether the runtime calls a library that the process had before the program: one that has the C library's part, or
/// that brings the process's allocator. (An allocator that comes with the program comes too late to be the process's.)
fn serves_runtime(name: &str, path: &Path) -> bool {
    let brings_allocator = || {
        let file = std::fs::read(path).ok()?;
        Elf::parse(&file).ok()?.exports(&file, &ALLOCATOR).ok()?
    };
    is_the_process_own(name) || brings_allocator().is_some()
}

/// Loads those libraries that the process does not have yet, and returns all.
///
/// A library may find what it needs only by the program's own search path; then that is loaded first. The order is not
/// told by the listing, so what fails is tried again after the others.
///
/// # Safety
/// The libraries' constructors run.
pub(crate) unsafe fn load(libraries: &[Library]) -> Result<Vec<Loaded>, Error> {
    let (mut left, mut loaded) = (Vec::new(), Vec::new());
    for library in libraries {
        match (Object::loaded(&library.name), &library.path) {
            (None, _) => left.push(library),
            (Some(object), Some(path)) => {
                let serves_runtime = serves_runtime(&library.name, path);
                loaded.push(Loaded { path: path.clone(), object, serves_runtime });
            }
            (Some(_), None) => {}
        }
    }
    while !left.is_empty() {
        let before = left.len();
        let mut failure = None;
        left.retain(|library| {
            let path = library.path.clone().unwrap_or_else(|| PathBuf::from(&library.name));
            let name = CString::new(path.to_string_lossy().as_bytes()).unwrap_or_default();
            // SAFETY: the caller's.
            match unsafe { Object::open(&name, libc::RTLD_NOW | libc::RTLD_GLOBAL) } {
                Ok(object) => {
                    let serves_runtime = is_the_process_own(&library.name);
                    loaded.push(Loaded { path, object, serves_runtime });
                    false
                }
                Err(why) => {
                    failure = Some(Error::Library(library.name.clone(), why));
                    true
                }
            }
        });
        if let Some(failure) = failure.filter(|_| left.len() == before) {
            return Err(failure);
        }
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_dynamic_linker_are_read() {
        let read = |line| read_line(line, LINKER).map(|library| (library.name, library.path));
        let library = |name: &str, path: &str| Some((name.to_owned(), Some(PathBuf::from(path))));
        for (line, expected) in [
            ("\tlibm.so.6 => /lib/libm.so.6 (0x00007f00)", library("libm.so.6", "/lib/libm.so.6")),
            ("\tlibx.so => ./a (b)/libx.so (0x00007f00)", library("libx.so", "./a (b)/libx.so")),
            ("\tlibx.so => not found", Some(("libx.so".to_owned(), None))),
            ("\t./libx.so => not found", Some(("./libx.so".to_owned(), None))),
            ("\t./libx.so (0x00007f00)", library("./libx.so", "./libx.so")),
            ("\t/a (b)/libx.so (0x00007f00)", library("/a (b)/libx.so", "/a (b)/libx.so")),
            ("\t/lib64/ld-linux-x86-64.so.2 (0x00007f00)", None),
            ("\t/lib64/ld-linux-x86-64.so.2 => /lib/ld-linux-x86-64.so.2 (0x00007f00)", None),
            ("\tlinux-vdso.so.1 (0x00007f00)", None),
            ("\tstatically linked", None),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn a_library_that_knows_one_copy_of_the_program_is_found() {
        let is_bound = |name: &str| {
            let path = Some(PathBuf::from("/lib/any"));
            bound(&[Library { name: name.to_owned(), path }]) == Some(name)
        };
        for name in ["libmadmpi_fortran.so.1", "/a b/libmadmpi_fortran.so.2"] {
            assert!(is_bound(name), "{name}");
        }
        for name in ["libmpi_abi.so.1", "libgfortran.so.5", "/libmadmpi_fortran.so/libx.so"] {
            assert!(!is_bound(name), "{name}");
        }
    }

    #[test]
    fn a_path_does_not_hide_a_library_of_the_process() {
        assert!(is_the_process_own("libc.so.6") && is_the_process_own("/lib/libm.so.6"));
        assert!(!is_the_process_own("./libfoo.so") && !is_the_process_own("libc.so.6/libfoo.so"));
    }
}
