//! Which dynamic linker may be run to list a program's libraries.
//!
//! A program names its dynamic linker, which is a program itself. A file that is not trusted may name any: only a file
//! that this machine, or this process, has as its own dynamic linker is run.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The dynamic linker of programs that name none: its place is a part of the machine's binary interface.
pub(crate) const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The path of the machine's or the process's own dynamic linker that is the same file as `named`; `None`: it is neither.
///
/// What is run is this path. The one that the file names may lead elsewhere a moment later.
pub(crate) fn same_as(named: &str) -> Option<PathBuf> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let named = identity(Path::new(named))?;
    let known = [Some(PathBuf::from(LINKER)), own()];
    known.into_iter().flatten().find(|path| identity(path) == Some(named))
}

/// The dynamic linker that this process's executable names.
fn own() -> Option<PathBuf> {
    /// Reads it from the first object that is reported: the executable.
    unsafe extern "C" fn first(
        object: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: `found` is the caller's, below. The dynamic linker describes a loaded object, whose headers and strings
        // are in memory.
        unsafe {
            let object = &*object;
            let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
            if let Some(at) = headers.iter().find(|header| header.p_type == libc::PT_INTERP) {
                let name = (object.dlpi_addr + at.p_vaddr) as *const c_char;
                *found.cast::<Option<Vec<u8>>>() = Some(CStr::from_ptr(name).to_bytes().to_vec());
            }
        }
        1
    }
    let mut found: Option<Vec<u8>> = None;
    // SAFETY: the function is called during this call only, with the address of `found`.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
    found.map(|name| PathBuf::from(std::ffi::OsString::from_vec(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_the_machines_dynamic_linker() {
        let own = own().unwrap();
        assert_eq!(own.canonicalize().unwrap(), Path::new(LINKER).canonicalize().unwrap());
        assert_eq!(same_as(own.to_str().unwrap()), Some(LINKER.into()));
        assert_eq!(same_as("/bin/sh"), None);
        assert_eq!(same_as("/no/such/ld-linux-x86-64.so.2"), None);
    }
}
