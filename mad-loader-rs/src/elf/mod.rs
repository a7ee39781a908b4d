//! Reads executables and shared libraries that are not trusted.
//!
//! Every offset is checked against the file before it is used, every address against the segments. A file that breaks
//! the format is [`Refusal::Damaged`], with what was found. What a well-formed file may do is not judged here.
//!
//! Only files of this machine are read further than their first 20 bytes: 64 bits, little-endian.

mod bytes;
mod dynamic;
mod hashes;
mod layout;
mod references;
mod segment;
mod symbol;
mod variables;

use self::bytes::Bytes;
use self::dynamic::Dynamic;
pub(crate) use self::layout::Layout;
use self::segment::Segment;
use crate::refusal::Refusal;

pub(crate) use self::dynamic::Functions;
pub(crate) use self::references::{Copied, Own, OwnValue, Pointer, References};
pub(crate) use self::segment::PAGE;

/// What a file says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Elf {
    pub(crate) layout: Layout,
    pub(crate) interpreter: Option<String>,
    pub(crate) dynamic: Dynamic,
    has_dynamic: bool,
}

impl Elf {
    /// Reads `file`.
    pub(crate) fn parse(file: &[u8]) -> Result<Elf, Refusal> {
        let bytes = Bytes(file);
        check_machine(bytes)?;
        let layout = Layout::read(bytes)?;
        let mut elf =
            Elf { layout, interpreter: None, dynamic: Dynamic::default(), has_dynamic: false };
        if let Some(at) = elf.layout.segment(segment::INTERPRETER) {
            let name = bytes.text(at.offset, at.offset.saturating_add(at.in_file))?;
            elf.interpreter = Some(String::from_utf8_lossy(name).into_owned());
        }
        if let Some(at) = elf.layout.segment(segment::DYNAMIC) {
            // The dynamic linker reads it by its address.
            let offset = elf.layout.offset_of(at.address, at.in_file)?;
            elf.dynamic = Dynamic::read(bytes, &elf.layout, offset, at.in_file)?;
            elf.has_dynamic = true;
        }
        Ok(elf)
    }

    /// The relocations of `file`, from which `self` was read.
    pub(crate) fn references<'a>(&self, file: &'a [u8]) -> Result<References<'a>, Refusal> {
        if !self.has_dynamic {
            return Ok(References::default());
        }
        References::read(Bytes(file), &self.layout, &self.dynamic)
    }

    pub(crate) fn is_dynamic(&self) -> bool {
        self.has_dynamic
    }

    /// Whether the dynamic linker needs the contents of a segment while it loads the file: it reads headers and tables,
    /// and writes to data. Other segments may come later.
    pub(crate) fn is_read_by_linker(&self, load: &Segment) -> bool {
        load.is_writable()
            || load.offset < PAGE
            || self.dynamic.tables.iter().any(|table| load.has(*table, 1))
    }

    /// Makes of `file`, from which `self` was read, one that `dlopen` takes: no executable by its flags, constructors
    /// and destructors left to the caller, addresses of functions writable for good.
    pub(crate) fn release(&self, file: &mut [u8]) -> Result<(), Refusal> {
        if let Some(relro) = self.layout.segment(segment::RELRO) {
            let at = relro.header as usize;
            file[at..at + 4].fill(0);
        }
        self.dynamic.release(file)
    }
}

fn check_machine(bytes: Bytes<'_>) -> Result<(), Refusal> {
    if bytes.0.starts_with(b"#!") {
        let line = bytes.0[2..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = &line[..line.len().min(200)];
        return Err(Refusal::Script(String::from_utf8_lossy(line).trim().to_owned()));
    }
    if !bytes.0.starts_with(b"\x7fELF") {
        return Err(Refusal::NotElf);
    }
    if bytes.u8(4)? == 1 {
        return Err(Refusal::Bits32);
    }
    let machine = bytes.u16(18)?;
    if (bytes.u8(4)?, bytes.u8(5)?, machine) != (2, 1, 62) {
        return Err(Refusal::OtherMachine(machine_name(machine)));
    }
    Ok(())
}

fn machine_name(machine: u16) -> String {
    let name = match machine {
        3 => "i386",
        21 => "ppc64",
        22 => "s390",
        40 => "arm",
        62 => "x86-64",
        183 => "aarch64",
        243 => "riscv",
        258 => "loongarch",
        other => return format!("machine number {other}"),
    };
    name.to_owned()
}
