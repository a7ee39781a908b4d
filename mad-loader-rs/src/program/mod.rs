//! A program that is ready to be loaded as often as wished.

pub(crate) mod libraries;
mod pointers;
mod template;

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use self::pointers::Redirected;
use self::template::Template;
use crate::calls;
use crate::check::check;
use crate::elf::{Copied, Elf, Own};
use crate::error::Error;
use crate::job;
use crate::linker::{self, Object};
use crate::rank::{Rank, current};
use crate::refusal::Refusal;

/// A program that is read and checked, whose shared libraries are loaded.
///
/// ```no_run
/// # fn main() -> Result<(), mad_loader::Error> {
/// let program = mad_loader::Program::open("./a.out".as_ref())?;
/// let ranks = (0..4).map(|number| program.load(number)).collect::<Result<Vec<_>, _>>()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    c_path: CString,
    elf: Arc<Elf>,
    copied: Vec<Copied>,
    own: Vec<Own>,
    redirected: Vec<Redirected>,
    template: Template,
}

impl Program {
    /// Reads and checks the executable at `path`, and loads its shared libraries, whose constructors run.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason and the way out, if it cannot run several times in a process; the file
    /// cannot be read; a library cannot be loaded.
    pub fn open(path: &Path) -> Result<Program, Error> {
        job::process();
        marcel::diagnosis::name_faults(|| current::rank().map(Rank::label));
        let unreadable = |error| Error::Read(path.to_owned(), error);
        let refused = |refusal: Refusal| Error::Refused(path.to_owned(), refusal);
        let path = path.canonicalize().map_err(unreadable)?;
        let contents = std::fs::read(&path).map_err(unreadable)?;
        let elf = Elf::parse(&contents).map_err(refused)?;
        let references = elf.references(&contents).map_err(refused)?;
        check(&elf, &references, &contents).map_err(refused)?;
        let libraries = libraries::list(&path, &elf).map_err(unreadable)?;
        libraries::check(&libraries).map_err(refused)?;
        // SAFETY: the program's libraries are trusted as the program is.
        for library in unsafe { libraries::load(&libraries) }? {
            let find = if library.is_old { calls::find_private } else { calls::find };
            // SAFETY: no copy of the program runs yet. What old libraries are redirected to does the same for threads
            // that belong to no rank.
            unsafe { pointers::redirect_library(&library.path, library.object, find) };
        }
        initialise_streams();
        let redirected = pointers::plan(&references, calls::find);
        let (copied, own) = (references.copied, references.own);
        let has_resolvers = references.has_resolvers;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let template = Template::new(&name, contents, &elf, has_resolvers)
            .map_err(unreadable)?
            .map_err(refused)?;
        let c_path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        Ok(Program { path, c_path, elf: Arc::new(elf), copied, own, redirected, template })
    }

    /// The executable's path, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Loads one more copy, with variables of its own. Its code does not run before [`Rank::run`].
    ///
    /// A copy stays loaded until the process ends: others may have been given addresses in it.
    ///
    /// # Errors
    /// The dynamic linker's, and the kernel's limits, with the way out.
    pub fn load(&self, number: usize) -> Result<Arc<Rank>, Error> {
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
        // SAFETY: the copy has just been loaded there, and no thread knows it. The plan is that of the same file.
        unsafe {
            self.template.share(base).map_err(kernel)?;
            pointers::bind(base, object.locals(), &self.own);
            pointers::redirect(base, &self.redirected);
            self.take_variables(base, object);
        }
        // Now that the code is there: a debugger puts breakpoints into it.
        object.rename(&self.c_path);
        linker::tell_debugger();
        Ok(Arc::new(Rank::new(number, self.c_path.clone(), base, self.elf.clone(), &self.copied)))
    }

    /// Gives a copy the values that variables of libraries have now.
    ///
    /// The dynamic linker did so before constructors of libraries had run, and may have found the copy itself.
    ///
    /// # Safety
    /// A copy is loaded at `base`, and no thread runs it.
    unsafe fn take_variables(&self, base: usize, object: Object) {
        for variable in &self.copied {
            let place = base + variable.place as usize;
            let own = |at: &std::ptr::NonNull<_>| at.as_ptr() as usize != place;
            let found = linker::global_symbol(&variable.name);
            let found = found.or_else(|| object.symbol(&variable.name)).filter(own);
            if let Some(original) = found {
                // SAFETY: the size is the copy's, which the linker has taken from the library's.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        original.as_ptr().cast::<u8>(),
                        place as *mut u8,
                        variable.size as usize,
                    );
                }
            }
        }
    }
}

/// Does with a file that is not trusted what [`Program::open`] does, but makes no memory file: for tests.
#[cfg(any(test, fuzzing))]
pub(crate) fn rehearse(elf: &Elf, mut file: Vec<u8>, references: &crate::elf::References<'_>) {
    let is_written = |place: u64| elf.layout.loads().any(|l| l.is_writable() && l.has(place, 8));
    assert!(pointers::plan(references, calls::find).iter().all(|word| is_written(word.place())));
    assert!(references.own.iter().all(|word| is_written(word.place)));
    template::parts(elf, references.has_resolvers, file.len());
    let _ = elf.release(&mut file);
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

/// Makes `std::cout` and its like ready, if the process has libstdc++: copies take their state. Before GCC 13 a
/// constructor of the program did that, which would come too late.
fn initialise_streams() {
    if let Some(constructor) = linker::global_symbol("_ZNSt8ios_base4InitC1Ev") {
        static OBJECT: [u64; 1] = [0];
        // SAFETY: the constructor of `std::ios_base::Init`, an empty class. It is never destroyed.
        unsafe {
            let constructor: unsafe extern "C" fn(*const u64) =
                std::mem::transmute(constructor.as_ptr());
            constructor(OBJECT.as_ptr());
        }
    }
}
