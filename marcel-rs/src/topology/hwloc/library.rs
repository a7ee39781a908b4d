//! The functions of `libhwloc.so.15`, behind one safe call.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

/// The name under which all versions 2.x of the library are installed.
const NAME: &str = "libhwloc.so.15";

/// `HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED`: sets of cores are whole, as in the kernel's files.
const INCLUDE_DISALLOWED: c_ulong = 1;

/// hwloc's opaque topology.
type Handle = *mut c_void;

/// The functions in use, with the types of `hwloc.h` and `hwloc/export.h` of version 2.
pub(super) struct Hwloc {
    api: c_uint,
    init: unsafe extern "C" fn(*mut Handle) -> c_int,
    set_flags: unsafe extern "C" fn(Handle, c_ulong) -> c_int,
    load: unsafe extern "C" fn(Handle) -> c_int,
    is_thissystem: unsafe extern "C" fn(Handle) -> c_int,
    export: unsafe extern "C" fn(Handle, *mut *mut c_char, *mut c_int, c_ulong) -> c_int,
    free: unsafe extern "C" fn(Handle, *mut c_char),
    destroy: unsafe extern "C" fn(Handle),
}

/// The library, loaded at the first call and never unloaded, since libraries that it has loaded may not bear that.
pub(super) fn get() -> Result<&'static Hwloc, String> {
    static LOADED: OnceLock<Result<Hwloc, String>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Hwloc, String> {
    // SAFETY: initialisers of this library, and of those that it needs, set up their own data.
    let library = unsafe { Library::new(NAME) }.map_err(|e| absent(&e))?;
    // Never unloaded, so the functions below stay valid.
    let library = &*ManuallyDrop::new(library);
    fn function<T: Copy>(library: &Library, name: &CStr) -> Result<T, String> {
        // SAFETY: every caller below asks for the type that hwloc 2 declares for the name.
        let found = unsafe { library.get::<T>(name) };
        let why = |_| format!("{NAME} has no function {}", name.to_string_lossy());
        found.map(|function| *function).map_err(why)
    }
    let version: unsafe extern "C" fn() -> c_uint = function(library, c"hwloc_get_api_version")?;
    // SAFETY: takes nothing, gives a constant.
    let api = unsafe { version() };
    if api >> 16 != 2 {
        return Err(format!("{NAME} has interface {api:#x}, not that of hwloc 2"));
    }
    Ok(Hwloc {
        api,
        init: function(library, c"hwloc_topology_init")?,
        set_flags: function(library, c"hwloc_topology_set_flags")?,
        load: function(library, c"hwloc_topology_load")?,
        is_thissystem: function(library, c"hwloc_topology_is_thissystem")?,
        export: function(library, c"hwloc_topology_export_xmlbuffer")?,
        free: function(library, c"hwloc_free_xmlbuffer")?,
        destroy: function(library, c"hwloc_topology_destroy")?,
    })
}

/// The usual error in a few words, any other in the loader's.
fn absent(why: &libloading::Error) -> String {
    let why = why.source().map_or_else(|| why.to_string(), ToString::to_string);
    if why.contains("No such file") { format!("{NAME} is not installed") } else { why }
}

impl Hwloc {
    /// Version of the library's interface, which may be older than the library.
    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.api >> 16, self.api >> 8 & 0xff)
    }

    /// Describes this machine in hwloc's XML.
    pub(super) fn describe(&self) -> Result<String, String> {
        let mut topology = null_mut();
        // SAFETY: `topology` is writable, and a topology from here on if this succeeds.
        if unsafe { (self.init)(&mut topology) } != 0 {
            return Err("hwloc_topology_init failed".into());
        }
        // SAFETY: `topology` was initialised above, no other thread has its address, and it is not used afterwards.
        unsafe {
            let text = self.discover(topology);
            (self.destroy)(topology);
            text
        }
    }

    /// # Safety
    /// `topology` is initialised, not loaded, and only the caller uses it.
    unsafe fn discover(&self, topology: Handle) -> Result<String, String> {
        // SAFETY: the caller's promise; the topology is loaded before the other calls.
        unsafe {
            (self.set_flags)(topology, INCLUDE_DISALLOWED);
            if (self.load)(topology) != 0 {
                return Err("hwloc_topology_load failed".into());
            }
            if (self.is_thissystem)(topology) == 0 {
                return Err("it describes another machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC)".into());
            }
        }
        let (mut buffer, mut length) = (null_mut(), 0);
        // SAFETY: a loaded topology and two variables to write to; the buffer ends with a zero byte.
        unsafe {
            if (self.export)(topology, &mut buffer, &mut length, 0) != 0 || buffer.is_null() {
                return Err("hwloc_topology_export_xmlbuffer failed".into());
            }
            let text = CStr::from_ptr(buffer).to_string_lossy().into_owned();
            (self.free)(topology, buffer);
            Ok(text)
        }
    }
}
