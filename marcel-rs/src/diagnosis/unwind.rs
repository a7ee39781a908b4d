//! Unwinds a copied stack to return addresses.
//!
//! `framehop` walks the copy by the unwind tables of the loaded modules. The tables are copied too, under the loader's
//! lock, so that a library may be unloaded meanwhile.
//!
//! # Rejected
//! * `_Unwind_Backtrace` on the thread's own stack: it needs a running thread, and more stack than a small green thread
//!   has left.
//! * Frame pointers: the standard library is built without them.

use std::ffi::CStr;
use std::ops::Range;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module,
    UnwindRegsNative, Unwinder as _, UnwinderNative,
};

use super::frames::{Frames, Registers};

/// Largest number of frames of a thread.
const MOST: usize = 512;

pub(super) struct Unwinder {
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinder {
    /// An unwinder for the modules that are loaded now.
    pub(super) fn new() -> Unwinder {
        let mut unwinder = UnwinderNative::new();
        for module in modules() {
            unwinder.add_module(module);
        }
        Unwinder { unwinder, cache: CacheNative::new() }
    }

    /// The code addresses of the frames, the innermost first, as `backtrace::resolve` takes them.
    pub(super) fn walk(&mut self, frames: &Frames) -> Vec<usize> {
        self.walk_by(&frames.registers, |at| {
            let from = at.checked_sub(frames.from)?;
            let word = frames.stack.get(from..)?.first_chunk()?;
            Some(usize::from_ne_bytes(*word))
        })
    }

    /// As [`Unwinder::walk`], of a stack whose words `read` gives; `None` ends the walk.
    pub(super) fn walk_by(
        &mut self,
        registers: &Registers,
        mut read: impl FnMut(usize) -> Option<usize>,
    ) -> Vec<usize> {
        let pc = registers.pc as u64;
        let mut read = |at: u64| read(at as usize).map(|word| word as u64).ok_or(());
        let registers = native(registers);
        let mut walk = self.unwinder.iter_frames(pc, registers, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        // An error ends the walk: the copy ends, or a module has no tables.
        while addresses.len() < MOST
            && let Ok(Some(address)) = walk.next()
        {
            addresses.push(match address {
                // `resolve` subtracts one, which is right for a return address only.
                FrameAddress::InstructionPointer(at) => at as usize + 1,
                FrameAddress::ReturnAddress(at) => u64::from(at) as usize,
            });
        }
        addresses
    }
}

#[cfg(target_arch = "x86_64")]
fn native(at: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(at.pc as u64, at.sp as u64, at.fp as u64)
}

#[cfg(target_arch = "aarch64")]
fn native(at: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(at.lr as u64, at.sp as u64, at.fp as u64)
}

/// How many modules have been loaded and unloaded so far, as far as the loader counts them.
pub(super) fn loads() -> u64 {
    unsafe extern "C" fn count(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `loads` passes its number; the loader a valid description.
        unsafe { *data.cast::<u64>() = (*info).dlpi_adds.wrapping_add((*info).dlpi_subs) };
        1 // the first module tells
    }
    let mut loads = 0u64;
    // SAFETY: the callback gets the number, which nothing else uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut loads).cast()) };
    loads
}

fn modules() -> Vec<Module<Vec<u8>>> {
    let mut modules = Vec::new();
    let data: *mut Vec<Module<Vec<u8>>> = &mut modules;
    // SAFETY: the callback gets `data` back, and nothing else uses it meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(callback), data.cast()) };
    modules
}

unsafe extern "C" fn callback(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: `modules` passes its vector; the loader a valid description.
    let (modules, info) = unsafe { (&mut *data.cast::<Vec<Module<Vec<u8>>>>(), &*info) };
    // SAFETY: as above: the module stays loaded during the callback.
    modules.extend(unsafe { module(info) });
    0
}

/// # Safety
/// `info` describes a module that stays loaded during the call.
unsafe fn module(info: &libc::dl_phdr_info) -> Option<Module<Vec<u8>>> {
    // SAFETY: the loader's description is valid.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let loaded = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
    let range = |h: &libc::Elf64_Phdr| h.p_vaddr..h.p_vaddr + h.p_memsz;
    let index = range(headers.iter().find(|h| h.p_type == libc::PT_GNU_EH_FRAME)?);
    // The difference from the addresses in the file, which is negative for one that is linked high up: the kernel's page
    // of functions under User-Mode Linux is.
    let loaded_at = |address: u64| info.dlpi_addr.wrapping_add(address);
    // SAFETY: the segment is mapped, and read only.
    let copy = |r: &Range<u64>| unsafe {
        let at = loaded_at(r.start) as *const u8;
        std::slice::from_raw_parts(at, (r.end - r.start) as usize).to_vec()
    };
    let eh_frame_hdr = copy(&index);
    let start = eh_frame(&eh_frame_hdr, index.start)?;
    // The section marks its own end, so the segment's end is a sufficient bound.
    let eh_frame = start..loaded().map(range).find(|r| r.contains(&start))?.end;
    // SAFETY: null or a C string.
    let name = match info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    };
    let start = loaded().map(|h| h.p_vaddr).min()?;
    let end = loaded().map(|h| h.p_vaddr + h.p_memsz).max()?;
    Some(Module::new(
        name.to_string_lossy().into_owned(),
        loaded_at(start)..loaded_at(end),
        info.dlpi_addr,
        ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame: Some(copy(&eh_frame)),
            eh_frame_svma: Some(eh_frame),
            eh_frame_hdr: Some(eh_frame_hdr),
            eh_frame_hdr_svma: Some(index),
            ..Default::default()
        },
    ))
}

/// The address of `.eh_frame`, from the index at `at`. Reads the one encoding that linkers write.
fn eh_frame(index: &[u8], at: u64) -> Option<u64> {
    const VERSION: u8 = 1;
    const RELATIVE_I32: u8 = 0x1b;
    if index.first() != Some(&VERSION) || index.get(1) != Some(&RELATIVE_I32) {
        return None;
    }
    let distance = i32::from_ne_bytes(*index.get(4..)?.first_chunk()?);
    (at + 4).checked_add_signed(distance as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_the_c_library_have_tables() {
        assert!(modules().len() >= 2);
    }
}
