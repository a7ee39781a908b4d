//! Judges whether a well-formed file can run as a rank.

use crate::elf::{Elf, References};
use crate::refusal::Refusal;

/// The function by which every program of the C library starts.
pub(crate) const START: &[u8] = b"__libc_start_main";

/// Why `elf` cannot run as a rank, if it cannot. Its libraries are not looked at.
///
/// The order is that of what the user should hear first.
pub(crate) fn check(elf: &Elf, references: &References<'_>) -> Result<(), Refusal> {
    if elf.layout.is_executable_at_fixed_addresses() {
        let dynamic = elf.is_dynamic() && elf.interpreter.is_some();
        return Err(if dynamic { Refusal::FixedAddresses } else { Refusal::Static });
    }
    if !elf.layout.is_shared_object() {
        return Err(Refusal::NotExecutable);
    }
    let Some(linker) = &elf.interpreter else {
        let program = elf.dynamic.is_pie();
        return Err(if program { Refusal::Static } else { Refusal::Library });
    };
    if !linker.rsplit('/').next().is_some_and(|name| name.starts_with("ld-linux")) {
        return Err(Refusal::OtherLinker(linker.clone()));
    }
    if !elf.is_dynamic() || elf.dynamic.needed.is_empty() {
        return Err(Refusal::Static);
    }
    if elf.layout.has_thread_locals() {
        if elf.dynamic.is_pie() {
            return Err(Refusal::ThreadLocals);
        }
        if elf.dynamic.has_static_tls() {
            return Err(Refusal::StaticThreadLocals);
        }
    }
    if elf.dynamic.is_not_for_dlopen() {
        return Err(Refusal::NotForDlopen);
    }
    if elf.layout.needs_executable_stack() {
        return Err(Refusal::ExecutableStack);
    }
    let starts = references.pointers.iter().any(|pointer| pointer.name == START);
    if !starts
        || !elf.layout.loads().any(|load| load.is_executable() && load.has(elf.layout.entry, 1))
    {
        return Err(Refusal::OtherStart);
    }
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Refusal::Platform);
    }
    Ok(())
}
