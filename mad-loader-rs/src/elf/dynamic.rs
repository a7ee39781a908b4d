//! The dynamic section.

use super::bytes::Bytes;
use super::layout::Layout;
use crate::refusal::Refusal;

const NULL: u64 = 0;
const NEEDED: u64 = 1;
const RELA_PLT_SIZE: u64 = 2;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const RELA: u64 = 7;
const RELA_SIZE: u64 = 8;
const STRINGS_SIZE: u64 = 10;
const INIT: u64 = 12;
const FINI: u64 = 13;
const SONAME: u64 = 14;
const TEXT_RELOCATIONS: u64 = 22;
const RELA_PLT: u64 = 23;
const INIT_ARRAY: u64 = 25;
const FINI_ARRAY: u64 = 26;
const INIT_ARRAY_SIZE: u64 = 27;
const FINI_ARRAY_SIZE: u64 = 28;
const FLAGS: u64 = 30;
const PREINIT_ARRAY: u64 = 32;
const PREINIT_ARRAY_SIZE: u64 = 33;
const DEPENDENCY_AUDIT: u64 = 0x6fff_fefb;
const AUDIT: u64 = 0x6fff_fefc;
const FLAGS_1: u64 = 0x6fff_fffb;
const HASH: u64 = 4;
const RELATIVE: u64 = 36;
const GNU_HASH: u64 = 0x6fff_fef5;
const VERSIONS: u64 = 0x6fff_fff0;
const VERSIONS_DEFINED: u64 = 0x6fff_fffc;
const VERSIONS_NEEDED: u64 = 0x6fff_fffe;

/// Tables that the dynamic linker reads.
const TABLES: [u64; 10] = [
    STRINGS,
    SYMBOLS,
    RELA,
    RELA_PLT,
    HASH,
    RELATIVE,
    GNU_HASH,
    VERSIONS,
    VERSIONS_DEFINED,
    VERSIONS_NEEDED,
];

const FLAG_TEXT_RELOCATIONS: u64 = 4;
const FLAG_STATIC_TLS: u64 = 16;
const FLAG_1_NO_OPEN: u64 = 0x40;
const FLAG_1_PIE: u64 = 0x0800_0000;

/// Most libraries that a file may ask for: a bound on the memory that their names take.
const MOST_NEEDED: usize = 1024;

/// A tag that no dynamic linker knows: such entries are passed over.
const IGNORED: u64 = 0x6000_0fff;

/// An array of addresses of functions in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Functions {
    pub(crate) address: u64,
    /// In bytes.
    pub(crate) len: u64,
}

/// What the dynamic section says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dynamic {
    pub(crate) needed: Vec<String>,
    pub(crate) soname: Option<String>,
    pub(crate) init: u64,
    pub(crate) fini: u64,
    pub(crate) preinit_array: Functions,
    pub(crate) init_array: Functions,
    pub(crate) fini_array: Functions,
    pub(super) strings: Functions,
    pub(super) symbols: u64,
    /// Addresses of the tables of symbols' hashes.
    pub(super) hash: Option<u64>,
    pub(super) gnu_hash: Option<u64>,
    pub(super) relocations: [Functions; 2],
    /// Addresses of what the dynamic linker reads.
    pub(super) tables: Vec<u64>,
    flags: u64,
    flags_1: u64,
    text_relocations: bool,
    has_auditor: bool,
    /// File offset and number of the entries.
    entries: (u64, u64),
}

impl Dynamic {
    /// Reads the section of `len` bytes at `offset`.
    pub(super) fn read(
        bytes: Bytes<'_>,
        layout: &Layout,
        offset: u64,
        len: u64,
    ) -> Result<Dynamic, Refusal> {
        bytes.at(offset, len)?;
        let mut this = Dynamic { entries: (offset, len / 16), ..Dynamic::default() };
        let (mut needed, mut soname) = (Vec::new(), None);
        for (tag, value) in this.entries(bytes)? {
            if TABLES.contains(&tag) {
                this.tables.push(value);
            }
            match tag {
                NEEDED => needed.push(value),
                SONAME => soname = Some(value),
                STRINGS => this.strings.address = value,
                STRINGS_SIZE => this.strings.len = value,
                SYMBOLS => this.symbols = value,
                HASH => this.hash = Some(value),
                GNU_HASH => this.gnu_hash = Some(value),
                RELA => this.relocations[0].address = value,
                RELA_SIZE => this.relocations[0].len = value,
                RELA_PLT => this.relocations[1].address = value,
                RELA_PLT_SIZE => this.relocations[1].len = value,
                INIT => this.init = value,
                FINI => this.fini = value,
                PREINIT_ARRAY => this.preinit_array.address = value,
                PREINIT_ARRAY_SIZE => this.preinit_array.len = value,
                INIT_ARRAY => this.init_array.address = value,
                INIT_ARRAY_SIZE => this.init_array.len = value,
                FINI_ARRAY => this.fini_array.address = value,
                FINI_ARRAY_SIZE => this.fini_array.len = value,
                TEXT_RELOCATIONS => this.text_relocations = true,
                AUDIT | DEPENDENCY_AUDIT => this.has_auditor = true,
                FLAGS => this.flags = value,
                FLAGS_1 => this.flags_1 = value,
                _ => {}
            }
        }
        for array in [this.preinit_array, this.init_array, this.fini_array] {
            if array.len > 0 && !layout.loads().any(|load| load.has(array.address, array.len)) {
                return Err(Refusal::Damaged(format!(
                    "the functions at {:#x} are in no segment",
                    array.address
                )));
            }
        }
        if needed.len() > MOST_NEEDED {
            return Err(Refusal::Damaged(format!("it asks for {} libraries", needed.len())));
        }
        let names = Names::new(bytes, layout, this.strings)?;
        let name = |value| names.text(value).map(|name| String::from_utf8_lossy(name).into_owned());
        this.needed = needed.into_iter().map(name).collect::<Result<_, _>>()?;
        this.soname = soname.map(name).transpose()?;
        Ok(this)
    }

    fn entries(&self, bytes: Bytes<'_>) -> Result<Vec<(u64, u64)>, Refusal> {
        let (offset, count) = self.entries;
        let mut entries = Vec::new();
        for entry in 0..count {
            let at = offset + entry * 16;
            let (tag, value) = (bytes.u64(at)?, bytes.u64(at + 8)?);
            if tag == NULL {
                return Ok(entries);
            }
            entries.push((tag, value));
        }
        // The dynamic linker would read on.
        Err(Refusal::Damaged("its dynamic section has no end".into()))
    }

    /// Whether the linker made an executable: it then turned every model of thread-local access into local-exec.
    pub(crate) fn is_pie(&self) -> bool {
        self.flags_1 & FLAG_1_PIE != 0
    }

    /// Whether the file forbids `dlopen`.
    pub(crate) fn is_not_for_dlopen(&self) -> bool {
        self.flags_1 & FLAG_1_NO_OPEN != 0
    }

    /// Whether the dynamic linker is to run a library that watches it.
    pub(crate) fn has_auditor(&self) -> bool {
        self.has_auditor
    }

    pub(crate) fn has_text_relocations(&self) -> bool {
        self.text_relocations || self.flags & FLAG_TEXT_RELOCATIONS != 0
    }

    /// Whether code of the file expects thread-locals at a fixed distance from the thread pointer.
    pub(crate) fn has_static_tls(&self) -> bool {
        self.flags & FLAG_STATIC_TLS != 0
    }

    /// Makes the copy in `file` one that `dlopen` takes, whose constructors and destructors it leaves alone, and which it
    /// does not take for the file itself.
    pub(super) fn release(&self, file: &mut [u8]) -> Result<(), Refusal> {
        let entries = self.entries(Bytes(file))?;
        for (index, (tag, value)) in entries.into_iter().enumerate() {
            let at = self.entries.0 as usize + index * 16;
            match tag {
                FLAGS_1 => {
                    let value = value & !FLAG_1_PIE;
                    file[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
                }
                SONAME | INIT | FINI | PREINIT_ARRAY | PREINIT_ARRAY_SIZE | INIT_ARRAY
                | INIT_ARRAY_SIZE | FINI_ARRAY | FINI_ARRAY_SIZE => {
                    file[at..at + 8].copy_from_slice(&IGNORED.to_le_bytes());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The names of the dynamic section and of its symbols.
pub(super) struct Names<'a> {
    bytes: Bytes<'a>,
    start: u64,
    end: u64,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        bytes: Bytes<'a>,
        layout: &Layout,
        strings: Functions,
    ) -> Result<Names<'a>, Refusal> {
        let start = layout.offset_of(strings.address, strings.len)?;
        Ok(Names { bytes, start, end: start + strings.len })
    }

    pub(super) fn text(&self, index: u64) -> Result<&'a [u8], Refusal> {
        let offset =
            self.start.checked_add(index).filter(|at| *at < self.end).ok_or_else(|| {
                Refusal::Damaged(format!("there is no name at {index} of the table of names"))
            })?;
        self.bytes.text(offset, self.end)
    }
}
