//! Libraries of which each rank has a copy.
//!
//! The library itself is loaded as all others are: the dynamic linker finds it there, with its versions. Each rank then
//! gets a copy beside the program's, and whatever in the rank's copies points into the library is made to point to the
//! same place of the rank's copy of it.

use std::fs;
use std::path::Path;

use super::image::{Copy, Image};
use super::libraries::{self, Library, Loaded};
use crate::elf::{Copied, Elf};
use crate::error::Error;
use crate::linker;
use crate::refusal::Refusal;

/// A library of which each rank has a copy.
#[derive(Debug)]
pub(super) struct Private {
    pub(super) image: Image,
    /// Where the library itself is.
    base: usize,
}

/// Reads the libraries that are called `names`, those first that others of them need.
///
/// # Errors
/// [`Error::Private`]: the program does not use it, another one that ranks share does, or it cannot be copied.
pub(super) fn read(
    names: &[&str],
    listed: &[Library],
    loaded: &[Loaded],
) -> Result<Vec<Private>, Error> {
    let fail = |name: &str, why: String| Err(Error::Private(name.to_owned(), why));
    let mut found = Vec::new();
    for name in names {
        if libraries::is_the_process_own(name) {
            return fail(name, "a process has it once; leave it out".into());
        }
        let Some(path) = listed.iter().find(|l| l.name == *name).and_then(|l| l.path.as_deref())
        else {
            let names: Vec<_> = listed.iter().map(|library| &*library.name).collect();
            return fail(name, format!("the program does not use it, but {}", names.join(", ")));
        };
        let Some(base) = loaded.iter().find(|l| l.path == path).and_then(|l| l.object.base())
        else {
            return fail(name, "its address is not told".into());
        };
        found.push((*name, path, base));
    }
    let mut read = Vec::new();
    for library in listed {
        let Some(path) = library.path.as_deref() else { continue };
        let needed = read_file(path).map(|(_, elf)| elf.dynamic.needed).unwrap_or_default();
        if !names.contains(&&*library.name)
            && !libraries::is_the_process_own(&library.name)
            && let Some(name) = names.iter().find(|name| needed.iter().any(|n| n == *name))
        {
            return fail(
                name,
                format!("{}, which ranks share, uses it; make that private, too", library.name),
            );
        }
        if let Some((name, path, base)) = found.iter().find(|found| found.0 == library.name) {
            let image =
                image(path, listed).map_err(|why| Error::Private((*name).to_owned(), why))?;
            read.push((*name, needed, Private { image, base: *base }));
        }
    }
    Ok(sort(read))
}

fn read_file(path: &Path) -> Result<(Vec<u8>, Elf), String> {
    let file = fs::read(path).map_err(|error| error.to_string())?;
    let elf = Elf::parse(&file).map_err(|refusal| refusal.to_string())?;
    Ok((file, elf))
}

fn image(path: &Path, listed: &[Library]) -> Result<Image, String> {
    let (file, elf) = read_file(path)?;
    libraries::check_bound(listed, &elf, &file).map_err(|refusal| refusal.to_string())?;
    let references = elf.references(&file).map_err(|refusal| refusal.to_string())?;
    // The dynamic linker may give a copy the places of the library's own.
    let refusal = if elf.dynamic.has_static_tls() || references.has_fixed_locals {
        Some(Refusal::StaticThreadLocals)
    } else {
        references.has_local_descriptors.then_some(Refusal::LocalDescriptors)
    };
    if let Some(refusal) = refusal {
        return Err(refusal.to_string());
    }
    let image = Image::new(path, file, elf).map_err(|error| error.to_string())?;
    image.map_err(|refusal| refusal.to_string())
}

/// Puts libraries before those that need them. In a circle one is first.
fn sort(mut left: Vec<(&str, Vec<String>, Private)>) -> Vec<Private> {
    let mut sorted = Vec::new();
    while !left.is_empty() {
        let waits =
            |needed: &[String]| left.iter().any(|other| needed.iter().any(|n| n == other.0));
        let next = left.iter().position(|(_, needed, _)| !waits(needed)).unwrap_or(0);
        sorted.push(left.remove(next).2);
    }
    sorted
}

/// A private library's copy, and the variables of it that the program has instead.
struct Moved {
    /// Addresses of the library itself.
    from: usize,
    to: usize,
    len: usize,
}

impl Moved {
    fn apply(&self, address: usize) -> Option<usize> {
        let inside = address.wrapping_sub(self.from);
        (inside < self.len).then(|| self.to + inside)
    }
}

/// Makes the copies of a rank use one another: `copies` are those of `libraries`, `program` is the program's at `base`.
///
/// # Safety
/// The copies have just been loaded, and no thread runs them.
pub(super) unsafe fn join(libraries: &[Private], copies: &[Copy], program: &Image, base: usize) {
    let move_of = |(library, copy): (&Private, &Copy)| Moved {
        from: library.base,
        to: copy.base,
        len: library.image.elf().layout.span() as usize,
    };
    let moves: Vec<_> = libraries.iter().zip(copies).map(move_of).collect();
    let moved = |address| moves.iter().find_map(|library| library.apply(address));
    // Variables that the program has instead of the library: all use the program's.
    let mut instead = Vec::new();
    for Copied { place, size, name } in program.copied() {
        let address = linker::global_symbol(name).and_then(|at| moved(at.as_ptr() as usize));
        if let Some(from) = address {
            let to = base + *place as usize;
            // SAFETY: the variable has this size in the library, by the dynamic linker's word.
            unsafe {
                std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, *size as usize)
            };
            instead.push(Moved { from, to, len: *size as usize });
        }
    }
    let change = |address| {
        let address = moved(address).unwrap_or(address);
        instead.iter().find_map(|variable| variable.apply(address)).unwrap_or(address)
    };
    // SAFETY: the caller's; the copies have the same contents at the same distances as the library itself.
    unsafe {
        for (library, copy) in libraries.iter().zip(copies) {
            library.image.settle(copy.base, change);
        }
        program.settle(base, change);
    }
}
