//! Calls of the dynamic linker.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

/// What the dynamic linker tells debuggers about an object (`link.h`): the part that is public.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: *mut LinkMap,
    previous: *mut LinkMap,
}

unsafe extern "C" {
    fn dlinfo(handle: *mut c_void, request: c_int, info: *mut c_void) -> c_int;
}

const LINK_MAP: c_int = 2;
const TLS_MODULE: c_int = 9;

/// A loaded object. It is never unloaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    handle: NonNull<c_void>,
}

// SAFETY: the dynamic linker locks; the handle is a name for it.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Loads what `name` names, with the flags of `dlopen`.
    ///
    /// # Safety
    /// The object's constructors run, as does code that chooses addresses.
    pub(crate) unsafe fn open(name: &CStr, flags: c_int) -> Result<Object, String> {
        // SAFETY: a valid name; the caller vouches for the object.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        NonNull::new(handle).map(|handle| Object { handle }).ok_or_else(last_error)
    }

    /// The object that is loaded as `name`, by its path or by its own name for itself.
    pub(crate) fn loaded(name: &str) -> Option<Object> {
        let name = CString::new(name).ok()?;
        // SAFETY: nothing is loaded.
        unsafe { Object::open(&name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()
    }

    fn link_map(self) -> Option<NonNull<LinkMap>> {
        let mut map: *mut LinkMap = ptr::null_mut();
        // SAFETY: the handle is one of an object that stays loaded; the answer is a pointer.
        let failed = unsafe { dlinfo(self.handle.as_ptr(), LINK_MAP, (&raw mut map).cast()) };
        if failed == 0 { NonNull::new(map) } else { None }
    }

    /// The address at which its address 0 is.
    pub(crate) fn base(self) -> Option<usize> {
        // SAFETY: the dynamic linker's structure lives as long as the object is loaded.
        self.link_map().map(|map| unsafe { (*map.as_ptr()).base })
    }

    /// The number by which code finds the object's thread-locals; `None` if it has none.
    pub(crate) fn locals(self) -> Option<usize> {
        let mut module: usize = 0;
        // SAFETY: as in `link_map`; the answer is a number.
        let failed = unsafe { dlinfo(self.handle.as_ptr(), TLS_MODULE, (&raw mut module).cast()) };
        (failed == 0 && module != 0).then_some(module)
    }

    /// Gives the object another path, by which debuggers, profilers and backtraces find its symbols.
    pub(crate) fn rename(self, path: &CStr) {
        if let Some(map) = self.link_map() {
            // SAFETY: a string of malloc's, as the dynamic linker's own. The old one is not freed: a walk over the
            // objects may be reading it.
            unsafe {
                let name = libc::strdup(path.as_ptr());
                if !name.is_null() {
                    ptr::write_volatile(&raw mut (*map.as_ptr()).name, name.cast_const());
                }
            }
        }
    }

    /// The address of a symbol of the object or of what it depends on.
    pub(crate) fn symbol(self, name: &str) -> Option<NonNull<c_void>> {
        let name = CString::new(name).ok()?;
        // SAFETY: a valid handle and name.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }
}

/// Has a debugger that traces this process look at the objects again: it has seen a copy before [`Object::rename`].
///
/// The dynamic linker tells debuggers when it loads or unloads something, so a small library of the C library comes and
/// goes. A debugger that is attached later sees the new names at once.
pub(crate) fn tell_debugger() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    if tracer.is_some_and(|tracer| tracer.trim() != "0") {
        // SAFETY: a library of the C library, without constructors of note; nothing of it is used.
        unsafe {
            let handle = libc::dlopen(c"libBrokenLocale.so.1".as_ptr(), libc::RTLD_NOW);
            if !handle.is_null() {
                libc::dlclose(handle);
            }
        }
    }
}

/// The address of a symbol that the whole process sees.
pub(crate) fn global_symbol(name: &str) -> Option<NonNull<c_void>> {
    let name = CString::new(name).ok()?;
    // SAFETY: a valid name.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

fn last_error() -> String {
    // SAFETY: the text stays until this thread's next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "the dynamic linker gives no reason".to_owned()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}
