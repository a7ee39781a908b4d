//! The source that asks the library hwloc, where it is installed.
//!
//! hwloc knows machines that the kernel's files describe wrongly or not at all. The library is loaded at run time, so
//! a build needs no system library, and an installed hwloc is used without another build. hwloc exports its tree as
//! XML ([`xml`]), whose format is documented and the same for all versions 2.x, so none of its data structures is
//! declared here. The eight functions in use have not changed since 2.0, and the library's name (`libhwloc.so.15`)
//! changes when they do. The version is checked nevertheless.
//!
//! Rejected:
//! * The crate `hwlocality`, which links the library, so that users would need a cargo feature and another build.
//! * hwloc's structures read in place: a second declaration of them, which a new version could make wrong.
//! * The XML by `serde`: an event loop of twenty lines reads it, and this crate needs no other derive.
//!
//! Asking takes some milliseconds, once per process: 4 on a machine of 4 cores, 10 where hwloc's plugins load the
//! libraries of X11 and OpenCL. The kernel's files take 1. `MARCEL_HWLOC=0` saves the difference.

mod library;
mod xml;

use super::tree::Group;

/// The sets of cores that hwloc knows, and its version.
pub(super) struct Known {
    pub(super) version: String,
    pub(super) groups: Vec<Group>,
}

/// Asks hwloc for the sets of cores, on a kernel thread of its own.
///
/// The caller may be on a green thread's small stack, and hwloc may bind its kernel thread to one core after the other.
///
/// # Errors
/// The reason why hwloc cannot be used, in a few words.
pub(super) fn ask() -> Result<Known, String> {
    let aside = std::thread::Builder::new().name("marcel-hwloc".into()).spawn(ask_here);
    let aside = aside.map_err(|e| format!("no kernel thread to ask it on: {e}"))?;
    aside.join().unwrap_or_else(|_| Err("asking it has panicked".into()))
}

fn ask_here() -> Result<Known, String> {
    let library = library::get()?;
    let (version, groups) = xml::read(&library.describe()?)?;
    if groups.is_empty() {
        return Err("it knows no core".into());
    }
    Ok(Known { version: version.unwrap_or_else(|| library.version()), groups })
}
