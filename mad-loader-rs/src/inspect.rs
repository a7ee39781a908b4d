//! What a file is, whether it can run as a rank, and what its ranks would share.

use std::io;
use std::path::{Path, PathBuf};

use crate::check::check;
use crate::elf::Elf;
use crate::file;
use crate::program::libraries;
use crate::refusal::Refusal;

/// What [`inspect`] has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// Why the program cannot run as ranks; `None` if it can.
    pub refusal: Option<Refusal>,
    /// The names of all its shared libraries, and of theirs. Empty if the file could not be read that far.
    pub libraries: Vec<String>,
    /// Its shared libraries, apart from the C library, that have variables: all ranks of a process share them.
    pub shared: Vec<SharedData>,
    /// Variables of such libraries that the program itself uses. Each rank has copies of them, which the libraries do
    /// not see.
    pub parted: Vec<String>,
}

/// Writable data of a shared library.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SharedData {
    /// The library's name, as the program asks for it.
    pub library: String,
    /// Where it was found.
    pub path: PathBuf,
    /// Bytes of variables.
    pub bytes: u64,
    /// Names of exported variables: at most 64, and none of those that a library keeps to itself.
    pub names: Vec<String>,
}

/// Looks at the file at `path`. None of its code runs.
///
/// # Errors
/// The file cannot be read, is no regular file, or its dynamic linker cannot be run to find its libraries.
pub fn inspect(path: &Path) -> io::Result<Inspection> {
    let path = path.canonicalize()?;
    let file = file::read(&path)?;
    let refused = |refusal| Inspection {
        refusal: Some(refusal),
        libraries: vec![],
        shared: vec![],
        parted: vec![],
    };
    let elf = match Elf::parse(&file) {
        Ok(elf) => elf,
        Err(refusal) => return Ok(refused(refusal)),
    };
    let references = match elf.references(&file) {
        Ok(references) => references,
        Err(refusal) => return Ok(refused(refusal)),
    };
    if let Err(refusal) = check(&elf, &references, &file) {
        return Ok(refused(refusal));
    }
    let listed = libraries::list(&path, &elf)?;
    let refusal = libraries::check(&listed, &elf, &file).err();
    let names = listed.iter().map(|library| library.name.clone()).collect();
    let mut shared = Vec::new();
    for library in listed {
        let known = libraries::is_the_process_own(&library.name);
        if let Some(path) = library.path.filter(|_| !known)
            && let Some(data) = shared_data(library.name, path)
        {
            shared.push(data);
        }
    }
    let is_shared = |name: &String| shared.iter().any(|data| data.names.contains(name));
    let parted =
        references.copied.into_iter().map(|copied| copied.name).filter(is_shared).collect();
    Ok(Inspection { refusal, libraries: names, shared, parted })
}

/// The variables of the library at `path`; `None` when it has none, or cannot be read.
fn shared_data(library: String, path: PathBuf) -> Option<SharedData> {
    let file = std::fs::read(&path).ok()?;
    let elf = Elf::parse(&file).ok()?;
    let bytes = elf.writable_bytes();
    let names = elf.writable_names(&file).unwrap_or_default();
    (bytes > 0).then_some(SharedData { library, path, bytes, names })
}
