//! A file of which each rank has a copy: the program, or a library that is private to ranks.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::pointers::{self, Redirected};
use super::template::Template;
use crate::calls;
use crate::elf::{Copied, Elf, Own, References};
use crate::error::Error;
use crate::linker::Object;
use crate::refusal::Refusal;

/// A file that is read, and what is done to each copy.
#[derive(Debug)]
pub(super) struct Image {
    path: PathBuf,
    c_path: CString,
    elf: Arc<Elf>,
    own: Vec<Own>,
    redirected: Vec<Redirected>,
    /// Words that hold addresses of symbols, whoever defines them.
    words: Vec<u64>,
    copied: Vec<Copied>,
    template: Template,
}

/// A copy in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) object: Object,
    pub(super) base: usize,
}

impl Image {
    /// Makes the template of `contents`, the file at `path`, from which `elf` was read.
    pub(super) fn new(
        path: &Path,
        contents: Vec<u8>,
        elf: Elf,
    ) -> io::Result<Result<Image, Refusal>> {
        let References { pointers, own, copied, has_resolvers, .. } =
            match elf.references(&contents) {
                Ok(references) => references,
                Err(refusal) => return Ok(Err(refusal)),
            };
        let redirected = pointers::plan(&pointers, calls::find);
        let words = pointers.iter().map(|word| word.place);
        let words = words.chain(own.iter().map(|word| word.place)).collect();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let template = match Template::new(&name, contents, &elf, has_resolvers)? {
            Ok(template) => template,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let c_path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let (path, elf) = (path.to_owned(), Arc::new(elf));
        Ok(Ok(Image { path, c_path, elf, own, redirected, words, copied, template }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn c_path(&self) -> &CString {
        &self.c_path
    }

    pub(super) fn elf(&self) -> &Arc<Elf> {
        &self.elf
    }

    pub(super) fn copied(&self) -> &[Copied] {
        &self.copied
    }

    /// Loads one more copy, for the rank `number`. Its code does not run, unless it chooses addresses.
    pub(super) fn load(&self, number: usize) -> Result<Copy, Error> {
        let kernel = |error| Error::Kernel(number, error);
        let file = self.template.copy().map_err(kernel)?;
        let name = unused_name(file.as_raw_fd());
        // All functions are looked up now: what is missing shows before any rank runs, and no call of a green thread
        // enters the dynamic linker.
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: constructors are not run by the linker; code that chooses addresses is trusted as the program is.
        let object = unsafe { Object::open(&name, flags) };
        let object = object.map_err(|why| {
            Error::Copy(number, why.replace(&*name.to_string_lossy(), &self.path.to_string_lossy()))
        })?;
        let base = object.base();
        let base = base.ok_or_else(|| Error::Copy(number, "its address is not told".into()))?;
        // SAFETY: the copy has just been loaded there, and no thread knows it. The plan is that of the same file. Code that
        // chooses addresses is trusted as the program is.
        unsafe {
            self.template.share(base).map_err(kernel)?;
            pointers::bind(base, object.locals(), &self.own);
        }
        // Now that the code is there: a debugger puts breakpoints into it.
        object.rename(&self.c_path);
        Ok(Copy { object, base })
    }

    /// Has `change` look at the addresses that a copy uses, then redirects its calls.
    ///
    /// # Safety
    /// A copy of this file is loaded at `base`, and no thread runs it. `change` gives addresses of the same symbols.
    pub(super) unsafe fn settle(&self, base: usize, change: impl Fn(usize) -> usize) {
        for word in &self.words {
            let word = (base + *word as usize) as *mut usize;
            // SAFETY: the parser has checked that relocated words are in writable segments; the copy is ours.
            unsafe { word.write_unaligned(change(word.read_unaligned())) };
        }
        // SAFETY: as above.
        unsafe { pointers::redirect(base, &self.redirected) };
    }
}

/// A path of the descriptor that has not been used before: the dynamic linker answers a name that it knows with the
/// object that it has. Each bit of a counter adds `/` or `/.`, neither of which changes the path's meaning.
///
/// The path names a thread, and so no file in any other process: a debugger opens what the dynamic linker has loaded,
/// and would wait for ever where its own descriptor of that number is a pipe.
fn unused_name(descriptor: i32) -> CString {
    static USED: AtomicU64 = AtomicU64::new(1);
    let mut count = USED.fetch_add(1, Relaxed);
    // SAFETY: has no preconditions.
    let thread = unsafe { libc::gettid() };
    let mut name = format!("/proc/self/task/{thread}/fd");
    while count > 0 {
        name.push_str(if count & 1 == 1 { "/." } else { "/" });
        count >>= 1;
    }
    name.push_str(&format!("/{descriptor}"));
    CString::new(name).unwrap_or_default()
}
