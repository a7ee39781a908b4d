//! Memory that an adapter may read and write: allocated, locked, registered.

use std::io;
use std::ptr::NonNull;

use super::library::constant::{ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE};
use super::library::{Domain, Ibverbs, Registration};
use super::owned::Owned;

/// A mapping of its own.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: memory, which any thread may use; it is written through raw pointers only, under its users' rules.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping where the kernel likes.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        let Some(start) = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED)
        else {
            return Err(io::Error::last_os_error());
        };
        // After a fork the kernel would give one of the two processes copies of pages that the adapter knows.
        // SAFETY: the mapping from above. A refusal leaves it as it is.
        unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTFORK) };
        Ok(Mapping { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: a mapping of this type's own, whose owner is done with it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Registered memory. Its owner drops it behind the queue pairs that use it, and before the adapter.
pub(super) struct Pages {
    // Before the memory: fields are dropped in this order.
    registration: Owned<Registration>,
    mapping: Mapping,
}

/// What refused memory means, with the way out.
fn refusal(error: io::Error, len: usize) -> io::Error {
    let memory = matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EAGAIN | libc::EPERM));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    match limit {
        Some(limit) if memory => io::Error::other(format!(
            "{len} bytes cannot be locked in memory for the adapter ({error}); the limit is {} KiB in all: raise it with \
             `ulimit -l unlimited`, or in /etc/security/limits.conf (memlock)",
            limit / 1024
        )),
        _ => error,
    }
}

impl Pages {
    /// # Errors
    /// The kernel refuses memory, or to lock it.
    pub(super) fn new(
        lib: &'static Ibverbs,
        domain: &Owned<Domain>,
        len: usize,
    ) -> io::Result<Pages> {
        Pages::with_access(lib, domain, len, ACCESS_LOCAL_WRITE)
    }

    /// As [`Pages::new`], of memory that peers may write.
    ///
    /// # Errors
    /// The same.
    pub(super) fn for_peers(
        lib: &'static Ibverbs,
        domain: &Owned<Domain>,
        len: usize,
    ) -> io::Result<Pages> {
        Pages::with_access(lib, domain, len, ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE)
    }

    fn with_access(
        lib: &'static Ibverbs,
        domain: &Owned<Domain>,
        len: usize,
        access: i32,
    ) -> io::Result<Pages> {
        let mapping = Mapping::new(len)?;
        let start = mapping.start.as_ptr().cast();
        // SAFETY: the domain lives, the mapping is `len` bytes long.
        let made = unsafe { (lib.reg_mr)(domain.as_ptr(), start, len, access) };
        // SAFETY: just made; the owner of the pages keeps the domain.
        let registration = unsafe { Owned::new(made, lib.dereg_mr) };
        let registration = registration.map_err(|error| refusal(error, len))?;
        Ok(Pages { registration, mapping })
    }

    /// The first address, and the key by which peers reach it.
    pub(super) fn remote(&self) -> (u64, u32) {
        // SAFETY: the registration lives as long as this.
        let key = unsafe { (*self.registration.as_ptr()).rkey };
        (self.mapping.start.as_ptr() as u64, key)
    }

    /// Address and key of the `len` bytes at `from`, if they are inside.
    #[inline]
    pub(super) fn at(&self, from: usize, len: usize) -> Option<(*mut u8, u32)> {
        let inside = from.checked_add(len).is_some_and(|end| end <= self.mapping.len);
        // SAFETY: the registration lives as long as this.
        let key = unsafe { (*self.registration.as_ptr()).lkey };
        // SAFETY: inside, as checked.
        inside.then(|| (unsafe { self.mapping.start.as_ptr().add(from) }, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_memory_tells_the_way_out() {
        let refused = |errno| refusal(io::Error::from_raw_os_error(errno), 4096).to_string();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        assert_eq!(refused(libc::ENOMEM).contains("ulimit -l"), limit.is_some());
        assert!(!refused(libc::EINVAL).contains("ulimit"));
    }
}
