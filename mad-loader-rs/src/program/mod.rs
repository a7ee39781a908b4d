//! A program that is ready to be loaded as often as wished.

mod image;
pub(crate) mod libraries;
mod pointers;
mod private;
mod template;

use std::path::Path;
use std::sync::Arc;

use self::image::Image;
use self::libraries::Loaded;
use self::private::Private;
use crate::calls;
use crate::check::check;
use crate::elf::Elf;
use crate::error::Error;
use crate::file;
use crate::job;
use crate::linker::{self, Object};
use crate::rank::{Part, Rank, current};
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
    image: Image,
    private: Vec<Private>,
}

impl Program {
    /// Reads and checks the executable at `path`, and loads its shared libraries, whose constructors run.
    ///
    /// From then on a thread of the process that dies of a signal is named on standard error, with its rank
    /// ([`marcel::diagnosis::name_faults`]). So is a rank for which a function of the C library, such as `errx`, ends the
    /// process.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason and the way out, if it cannot run several times in a process; the file
    /// cannot be read; a library cannot be loaded.
    pub fn open(path: &Path) -> Result<Program, Error> {
        Program::open_with_private(path, &[])
    }

    /// As [`Program::open`]; of the libraries that are named in `private` each rank has a copy, with variables,
    /// constructors and destructors of its own. Names are those by which the program asks for them, as in
    /// [`SharedData::library`](crate::SharedData::library).
    ///
    /// # Errors
    /// Also [`Error::Private`]: the program does not use a library of that name, another one that ranks share uses it,
    /// or it cannot be copied.
    pub fn open_with_private(path: &Path, private: &[&str]) -> Result<Program, Error> {
        job::process();
        // SAFETY: the label reads a thread-local word and a string of a rank, which is kept for good.
        unsafe { marcel::diagnosis::name_faults(|| current::rank().map(Rank::label)) };
        calls::watch_ends();
        let unreadable = |error| Error::Read(path.to_owned(), error);
        let refused = |refusal: Refusal| Error::Refused(path.to_owned(), refusal);
        let path = path.canonicalize().map_err(unreadable)?;
        let contents = file::read(&path).map_err(unreadable)?;
        let elf = Elf::parse(&contents).map_err(refused)?;
        let references = elf.references(&contents).map_err(refused)?;
        check(&elf, &references, &contents).map_err(refused)?;
        let libraries = libraries::list(&path, &elf).map_err(unreadable)?;
        libraries::check(&libraries, &elf, &contents).map_err(refused)?;
        // SAFETY: the program's libraries are trusted as the program is.
        let loaded = unsafe { libraries::load(&libraries) }?;
        for library in &loaded {
            // Libraries that the process had before are the ranks' too: where the process was started as the program, all are.
            let find = match library {
                Loaded { serves_runtime: true, .. } => calls::find_private,
                _ if libraries::waits_without_locks(&library.path) => calls::find,
                _ => calls::find_shared,
            };
            // SAFETY: no copy of the program runs yet. What libraries are redirected to does what the C library does for
            // threads that belong to no rank.
            unsafe { pointers::redirect_library(&library.path, library.object, find) };
        }
        initialise_streams();
        let private = private::read(private, &libraries, &loaded)?;
        let image = Image::new(&path, contents, elf).map_err(unreadable)?.map_err(refused)?;
        Ok(Program { image, private })
    }

    /// The executable's path, absolute.
    pub fn path(&self) -> &Path {
        self.image.path()
    }

    /// Loads one more copy, with variables of its own. Its code does not run before [`Rank::run`].
    ///
    /// A copy stays loaded until the process ends: others may have been given addresses in it.
    ///
    /// # Errors
    /// The dynamic linker's, and the kernel's limits, with the way out.
    pub fn load(&self, number: usize) -> Result<Arc<Rank>, Error> {
        let libraries: Vec<_> = self
            .private
            .iter()
            .map(|library| library.image.load(number))
            .collect::<Result<_, _>>()?;
        let copy = self.image.load(number)?;
        // SAFETY: the copies have just been loaded, and no thread knows them.
        unsafe {
            self.take_variables(copy.base, copy.object);
            private::join(&self.private, &libraries, &self.image, copy.base);
        }
        linker::tell_debugger();
        let part = |image: &Image, base| Part::new(base, image.elf().clone());
        let own = self.private.iter().zip(&libraries);
        let libraries = own.map(|(library, copy)| part(&library.image, copy.base)).collect();
        let program = part(&self.image, copy.base);
        let path = self.image.c_path().clone();
        Ok(Arc::new(Rank::new(number, path, program, libraries, self.image.copied())))
    }

    /// Gives a copy the values that variables of libraries have now.
    ///
    /// The dynamic linker did so before constructors of libraries had run, and may have found the copy itself.
    ///
    /// # Safety
    /// A copy is loaded at `base`, and no thread runs it.
    unsafe fn take_variables(&self, base: usize, object: Object) {
        for variable in self.image.copied() {
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
    assert!(
        pointers::plan(&references.pointers, calls::find)
            .iter()
            .all(|word| is_written(word.place()))
    );
    assert!(references.own.iter().all(|word| is_written(word.place)));
    template::parts(elf, references.has_resolvers, file.len());
    let _ = elf.release(&mut file);
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
