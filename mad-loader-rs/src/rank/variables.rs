//! Variables of the C library that an executable has copies of, and that the library changes later.
//!
//! In a process of its own the library uses the executable's copy. Here each rank has a copy and the library has its own,
//! so what changes is carried over: the environment's address to all ranks, the state of `getopt` around its calls.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

use crate::elf::Copied;

/// Addresses of a rank's copies; `None` where the program does not use the variable.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    pub(crate) optind: Option<usize>,
    pub(crate) opterr: Option<usize>,
    pub(crate) optopt: Option<usize>,
    pub(crate) optarg: Option<usize>,
    names: Vec<usize>,
    short_names: Vec<usize>,
    /// What the C library clears in its own variable when the process gets a second thread.
    single_threaded: Option<usize>,
}

/// The copies of `environ` in all ranks.
static ENVIRONMENTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Variables {
    pub(super) fn new(base: usize, copied: &[Copied]) -> Variables {
        let mut this = Variables::default();
        for variable in copied {
            let place = base + variable.place as usize;
            let size = variable.size as usize;
            match &*variable.name {
                "optind" if size == size_of::<c_int>() => this.optind = Some(place),
                "opterr" if size == size_of::<c_int>() => this.opterr = Some(place),
                "optopt" if size == size_of::<c_int>() => this.optopt = Some(place),
                "optarg" if size == size_of::<usize>() => this.optarg = Some(place),
                "environ" | "_environ" | "__environ" if size == size_of::<usize>() => {
                    ENVIRONMENTS.lock().unwrap_or_else(PoisonError::into_inner).push(place);
                }
                "program_invocation_name" | "__progname_full" if size == size_of::<usize>() => {
                    this.names.push(place);
                }
                "program_invocation_short_name" | "__progname" if size == size_of::<usize>() => {
                    this.short_names.push(place);
                }
                "__libc_single_threaded" if size == 1 => this.single_threaded = Some(place),
                _ => {}
            }
        }
        this
    }

    /// Says that the process has several threads. (C++ counts the owners of a `shared_ptr` without atomic operations otherwise.)
    ///
    /// # Safety
    /// The rank has not begun.
    pub(crate) unsafe fn has_threads(&self) {
        if let Some(place) = self.single_threaded {
            // SAFETY: the rank's own byte, which no other thread uses yet.
            unsafe { (place as *mut u8).write(0) };
        }
    }

    /// Gives the variables of `getopt` the values with which a process begins. The library's own, from which the copies
    /// were made, may be those after another rank's options.
    ///
    /// # Safety
    /// The rank has not begun.
    pub(crate) unsafe fn begin_options(&self) {
        let numbers = [(self.optind, 1), (self.opterr, 1), (self.optopt, c_int::from(b'?'))];
        for (place, value) in numbers {
            if let Some(place) = place {
                // SAFETY: the rank's own `int`, which no other thread uses yet.
                unsafe { (place as *mut c_int).write_unaligned(value) };
            }
        }
        if let Some(place) = self.optarg {
            // SAFETY: the rank's own pointer, which no other thread uses yet.
            unsafe { (place as *mut *const c_char).write_unaligned(std::ptr::null()) };
        }
    }

    /// Sets the names by which the program calls itself.
    ///
    /// # Safety
    /// `name` is a valid text that stays; the rank has not begun.
    pub(crate) unsafe fn set_name(&self, name: *const c_char) {
        // SAFETY: a valid text.
        let short = unsafe {
            let slash = libc::strrchr(name, b'/'.into());
            if slash.is_null() { name } else { slash.add(1).cast_const() }
        };
        for (places, value) in [(&self.names, name), (&self.short_names, short)] {
            for place in places {
                // SAFETY: the rank's own word, which no other thread uses yet.
                unsafe { (*place as *mut *const c_char).write_unaligned(value) };
            }
        }
    }
}

/// The address of the environment may have changed: tells all ranks.
pub(crate) fn changed_environment() {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let places = ENVIRONMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    for place in &*places {
        // SAFETY: words of copies, which stay loaded. A rank that reads its own meanwhile would race with the change
        // in a process of its own, too.
        unsafe { (*place as *mut *const *const c_char).write_unaligned(environ) };
    }
}
