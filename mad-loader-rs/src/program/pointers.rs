//! Redirects calls of a loaded object to this crate.
//!
//! An object calls functions of others through words that the dynamic linker fills in. The words of the functions in
//! [`crate::calls`] are overwritten. So only calls of the program and its libraries are redirected: those of the runtime, of
//! libraries that it uses itself, and of the C library are not, and the executable that hosts the ranks need not export
//! anything.
//!
//! Rejected: symbols of the host that come first in the search order. They catch the runtime's own reads and sleeps too,
//! which then have to be told from the program's.

use std::path::Path;

use crate::calls;
use crate::elf::{Elf, Own, OwnValue, Pointer};
use crate::linker::Object;

/// A word, by its distance from the object's base, and the value that it gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redirected {
    place: u64,
    value: usize,
}

#[cfg(any(test, fuzzing))]
impl Redirected {
    pub(crate) fn place(&self) -> u64 {
        self.place
    }
}

/// Names a function's place taker.
type Find = fn(&[u8]) -> Option<usize>;

/// The words of a file that are overwritten.
pub(crate) fn plan(pointers: &[Pointer<'_>], find: Find) -> Vec<Redirected> {
    let redirected = pointers.iter().filter_map(|pointer| {
        let value = find(pointer.name)?;
        Some(Redirected {
            place: pointer.place,
            value: value.wrapping_add(pointer.addend as usize),
        })
    });
    redirected.collect()
}

/// Overwrites the words of the object at `base`.
///
/// # Safety
/// The plan is that of the object's file, the words are writable, and no thread runs the object's code.
pub(crate) unsafe fn redirect(base: usize, plan: &[Redirected]) {
    for word in plan {
        // SAFETY: the caller's; relocated words are in writable segments, which the parser has checked.
        unsafe { ((base + word.place as usize) as *mut usize).write_unaligned(word.value) };
    }
}

/// Has the copy at `base` use its own symbols, and its own thread-locals, of which `module` is the number.
///
/// Words whose value a resolver of the copy chooses come last: resolvers may use what the others lead to.
///
/// # Safety
/// As [`redirect`]. The copy's code is there; resolvers of it run.
pub(crate) unsafe fn bind(base: usize, module: Option<usize>, words: &[Own]) {
    let write = |word: &Own, value: usize| {
        // SAFETY: as in `redirect`.
        unsafe { ((base + word.place as usize) as *mut usize).write_unaligned(value) };
    };
    for word in words {
        match (word.value, module) {
            (OwnValue::Address(address), _) => write(word, base.wrapping_add(address as usize)),
            (OwnValue::Offset(offset), _) => write(word, offset as usize),
            (OwnValue::Module, Some(module)) => write(word, module),
            (OwnValue::Module, None) | (OwnValue::Resolved { .. }, _) => {}
        }
    }
    for word in words {
        if let OwnValue::Resolved { resolver, addend } = word.value {
            let resolver = base + resolver as usize;
            // SAFETY: the parser has checked that the address is in the file's code. The dynamic linker calls such functions
            // so, before constructors.
            let resolve: extern "C" fn() -> usize = unsafe { std::mem::transmute(resolver) };
            write(word, resolve().wrapping_add(addend as usize));
        }
    }
}

/// Redirects those calls of a shared library that `find` knows.
///
/// What cannot be read or made writable stays as it is: the library then blocks its virtual processor where it waits.
///
/// # Safety
/// No thread runs the library's code.
pub(crate) unsafe fn redirect_library(path: &Path, object: Object, find: Find) {
    let Ok(file) = std::fs::read(path) else { return };
    let Ok(elf) = Elf::parse(&file) else { return };
    let (Ok(references), Some(base)) = (elf.references(&file), object.base()) else { return };
    let mut words = plan(&references.pointers, find);
    // A library calls its own exported functions through such words, too.
    words.extend(plan(&references.named, calls::find_private));
    for word in words {
        let page = (base + word.place as usize) & !(crate::elf::PAGE as usize - 1);
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let len = 2 * crate::elf::PAGE as usize;
        let crosses = (base + word.place as usize) % crate::elf::PAGE as usize > 4088;
        let len = if crosses { len } else { len / 2 };
        // SAFETY: the pages are the library's, and hold relocated words.
        if unsafe { libc::mprotect(page as *mut _, len, writable) } == 0 {
            // SAFETY: as above; now writable.
            unsafe { redirect(base, &[word]) };
        }
    }
}
