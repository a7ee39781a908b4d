//! An object of the library that is destroyed once, by its owner.

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

/// See the module.
pub(super) struct Owned<T> {
    object: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
}

// SAFETY: the library's objects may be used by any thread, and by several.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// What a function of the library has just made; null: it has failed, and `errno` says why.
    ///
    /// # Safety
    /// The object is the caller's, `destroy` ends it, and what it was made of outlives it.
    pub(super) unsafe fn new(
        made: *mut T,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> io::Result<Owned<T>> {
        match NonNull::new(made) {
            Some(object) => Ok(Owned { object, destroy }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// The object, which lives as long as this.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: by `new`'s promise the object is there, and nothing else ends it.
        unsafe { (self.destroy)(self.object.as_ptr()) };
    }
}
