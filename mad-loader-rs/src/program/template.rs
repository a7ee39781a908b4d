//! The file from which copies are loaded.
//!
//! The *master* is a memory file with the whole program, changed so that `dlopen` takes it. Each copy is a memory file
//! of its own, since the dynamic linker loads a file once. A copy's file holds what the linker reads or a process writes;
//! code and constants are holes in it. After the linker is done, code and constants are mapped from the master, which all
//! copies share.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::pwrite;

use crate::elf::{Elf, PAGE};
use crate::refusal::Refusal;

/// A part of the file that all copies map from the master.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constant {
    offset: u64,
    address: u64,
    len: u64,
    executable: bool,
    /// Whether a copy's file has a hole there.
    is_hole: bool,
}

/// The master, and which parts of it a copy needs.
#[derive(Debug)]
pub(crate) struct Template {
    contents: Vec<u8>,
    master: OwnedFd,
    name: CString,
    /// Ranges of the file that each copy's file gets.
    written: Vec<(usize, usize)>,
    constants: Vec<Constant>,
}

impl Template {
    /// Makes the master of `contents`, from which `elf` was read.
    pub(crate) fn new(
        name: &str,
        mut contents: Vec<u8>,
        elf: &Elf,
        has_resolvers: bool,
    ) -> io::Result<Result<Template, Refusal>> {
        if let Err(refusal) = elf.release(&mut contents) {
            return Ok(Err(refusal));
        }
        // Every copy is as large.
        pioman::plumbing::check_file_size(contents.len() as u64)?;
        let name = CString::new(name).unwrap_or_default();
        let master = memfd_create(&name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        write_all(&master, &contents, 0)?;
        fcntl_add_seals(&master, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW)?;
        let (written, constants) = parts(elf, has_resolvers, contents.len());
        Ok(Ok(Template { contents, master, name, written, constants }))
    }

    /// The file of one more copy.
    pub(crate) fn copy(&self) -> io::Result<OwnedFd> {
        let file = memfd_create(&self.name, MemfdFlags::CLOEXEC)?;
        ftruncate(&file, self.contents.len() as u64)?;
        for (start, end) in &self.written {
            write_all(&file, &self.contents[*start..*end], *start as u64)?;
        }
        Ok(file)
    }

    /// Maps code and constants of a copy that is loaded at `base` from the master.
    ///
    /// # Safety
    /// A copy of this template is loaded at `base`, and no thread runs it yet.
    pub(crate) unsafe fn share(&self, base: usize) -> io::Result<()> {
        for constant in &self.constants {
            let protection = if constant.executable { libc::PROT_EXEC } else { 0 };
            // SAFETY: the range is the copy's own, with the same contents; the caller vouches for the rest.
            let mapped = unsafe {
                libc::mmap(
                    (base + constant.address as usize) as *mut _,
                    constant.len as usize,
                    libc::PROT_READ | protection,
                    libc::MAP_PRIVATE | libc::MAP_FIXED,
                    self.master.as_fd().as_raw_fd(),
                    constant.offset as libc::off_t,
                )
            };
            // A hole must be filled; what else is not shared only costs memory.
            if mapped == libc::MAP_FAILED && constant.is_hole {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// The ranges that each copy's file gets, and the parts that all map from the master.
pub(super) fn parts(
    elf: &Elf,
    has_resolvers: bool,
    len: usize,
) -> (Vec<(usize, usize)>, Vec<Constant>) {
    let headers =
        (elf.layout.headers.0 as usize, (elf.layout.headers.0 + elf.layout.headers.1) as usize);
    let (mut written, mut constants) = (vec![(0, 64), headers], Vec::new());
    for load in elf.layout.loads() {
        let constant = !load.is_writable()
            && load.in_file == load.in_memory
            && !elf.dynamic.has_text_relocations();
        let is_hole = constant && !elf.is_read_by_linker(load) && !has_resolvers;
        if !is_hole {
            let start = load.offset as usize;
            written.push((start, start + load.in_file as usize));
        }
        if constant && load.in_file > 0 {
            let before = load.address % PAGE;
            constants.push(Constant {
                offset: load.offset - before.min(load.offset),
                address: load.address - before,
                len: load.in_file + before,
                executable: load.is_executable(),
                is_hole,
            });
        }
    }
    debug_assert!(written.iter().all(|(start, end)| start <= end && *end <= len));
    debug_assert!(constants.iter().all(|part| part.offset + part.len <= len as u64));
    (written, constants)
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = pwrite(file, bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
