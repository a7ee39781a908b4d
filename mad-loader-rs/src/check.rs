//! Judges whether a well-formed file can run as a rank.

use crate::elf::{Elf, References};
use crate::lister;
use crate::refusal::Refusal;

/// The function by which every program of the C library starts.
const START: &[u8] = b"__libc_start_main";

/// Functions that the C library replaces by the executable's, for itself and all libraries, if it has them. A copy is no
/// executable: its own code would free what the C library has allocated, or the reverse.
pub(crate) const ALLOCATOR: [&str; 7] =
    ["malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"];

/// Why `elf` cannot run as a rank, if it cannot. Its libraries are not looked at.
///
/// The order is that of what the user should hear first.
pub(crate) fn check(elf: &Elf, references: &References<'_>, file: &[u8]) -> Result<(), Refusal> {
    if elf.layout.is_executable_at_fixed_addresses() {
        let dynamic = elf.is_dynamic() && elf.interpreter.is_some();
        return Err(if dynamic { Refusal::FixedAddresses } else { Refusal::Static });
    }
    if !elf.layout.is_shared_object() {
        return Err(Refusal::NotExecutable);
    }
    if elf.interpreter.is_none() && elf.dynamic.is_pie() {
        return Err(Refusal::Static);
    }
    if let Some(linker) = &elf.interpreter
        && lister::same_as(linker).is_none()
    {
        return Err(Refusal::OtherLinker(linker.clone()));
    }
    // Its code would run as soon as the dynamic linker is asked for the program's libraries.
    if elf.dynamic.has_auditor() {
        return Err(Refusal::Auditor);
    }
    if !starts(elf, references) {
        // What the linker of an executable writes; a library has neither.
        let is_program = elf.interpreter.is_some() || elf.dynamic.is_pie();
        return Err(if is_program { Refusal::OtherStart } else { Refusal::Library });
    }
    if !elf.is_dynamic() || elf.dynamic.needed.is_empty() {
        return Err(Refusal::Static);
    }
    if elf.layout.thread_locals().is_some() {
        let has_fixed = elf.dynamic.has_static_tls() || references.has_fixed_locals;
        if elf.dynamic.is_pie() {
            return Err(Refusal::ThreadLocals);
        }
        if references.has_local_descriptors {
            return Err(Refusal::LocalDescriptors);
        }
        // Local-exec leaves no trace but that nothing else is there.
        if has_fixed || !references.has_asked_locals {
            return Err(Refusal::StaticThreadLocals);
        }
    }
    if elf.dynamic.is_not_for_dlopen() {
        return Err(Refusal::NotForDlopen);
    }
    if elf.layout.needs_executable_stack() {
        return Err(Refusal::ExecutableStack);
    }
    if let Ok(Some(name)) = elf.exports(file, &ALLOCATOR) {
        return Err(Refusal::Allocator(name));
    }
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Refusal::Platform);
    }
    Ok(())
}

/// Whether the program starts as those of the C library do.
fn starts(elf: &Elf, references: &References<'_>) -> bool {
    let entry = elf.layout.entry;
    references.pointers.iter().any(|pointer| pointer.name == START)
        && elf.layout.loads().any(|load| load.is_executable() && load.has(entry, 1))
}
