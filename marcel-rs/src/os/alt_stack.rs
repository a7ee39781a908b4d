//! A stack for signal handlers: those of green threads are small.

/// Gives the calling kernel thread an alternate stack for signal handlers; taken back when dropped.
pub(crate) struct AltStack {
    memory: *mut libc::c_void,
    before: libc::stack_t,
}

const ALT_STACK: usize = 128 * 1024;

impl AltStack {
    /// Installs it; `None` when there is no memory.
    pub(crate) fn install() -> Option<AltStack> {
        // SAFETY: a fresh anonymous mapping, then valid stack_t values.
        unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                ALT_STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if memory == libc::MAP_FAILED {
                return None;
            }
            let new = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: ALT_STACK };
            let mut before: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(&new, &mut before);
            Some(AltStack { memory, before })
        }
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
