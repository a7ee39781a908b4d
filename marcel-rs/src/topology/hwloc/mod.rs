//! What hwloc says about this machine, where it is installed.
//!
//! hwloc knows machines that the kernel's files describe wrongly or not at all. Its library is loaded at run time:
//! whoever installs it gets it without building anew, and a build needs no system library. Nothing of its data
//! structures is looked into: it writes the tree as XML ([`xml`]), whose format is documented and the same for all
//! versions 2.x, so that eight functions are all that has to fit. Their types have not changed since 2.0, and the
//! library's name (`libhwloc.so.15`) changes when they do; the version is checked nevertheless.
//!
//! Rejected: the `hwlocality` crate, which links the library (a cargo feature, so users would have to build anew);
//! its structures read in place, which have to be declared a second time here and are trusted to stay as they are.
//!
//! Asking takes some milliseconds, once per process: 4 on a machine of 4 cores, 10 where hwloc's plugins are installed,
//! which bring libraries for X11 and OpenCL with them; the kernel's files take 1. `MARCEL_HWLOC=0` saves the
//! difference.

mod library;
mod xml;

use super::tree::Group;

/// What hwloc knows, and its version.
pub(super) struct Known {
    pub(super) version: String,
    pub(super) groups: Vec<Group>,
}

/// Asks hwloc for the sets of cores.
///
/// On a kernel thread of its own: the caller may be on a green thread's small stack, and hwloc may bind the thread
/// on which it looks around to one core after the other.
///
/// # Errors
/// Why there is nothing to be had from it, in a few words.
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
