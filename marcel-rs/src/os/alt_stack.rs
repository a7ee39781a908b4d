//! A stack for signal handlers: those of green threads are small.

use crate::os::memory;

/// Gives the calling kernel thread an alternate stack for signal handlers; taken back when dropped.
pub(crate) struct AltStack {
    memory: *mut libc::c_void,
    before: libc::stack_t,
}

const ALT_STACK: usize = 128 * 1024;

impl AltStack {
    /// Installs it; `None` when there is no memory.
    pub(crate) fn install() -> Option<AltStack> {
        let memory = memory::map(ALT_STACK, 0).ok()?;
        let new = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: ALT_STACK };
        // SAFETY: valid stack_t values; all-zero is one.
        let before = unsafe {
            let mut before: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(&new, &mut before);
            before
        };
        Some(AltStack { memory, before })
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        // SAFETY: restores what was there, then unmaps memory that no handler uses any more.
        unsafe {
            libc::sigaltstack(&self.before, std::ptr::null_mut());
            libc::munmap(self.memory, ALT_STACK);
        }
    }
}
