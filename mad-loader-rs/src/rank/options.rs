//! How far a rank is in its command line's options.

use std::ffi::c_int;

/// Where a rank is in its options.
#[derive(Debug, Default)]
pub(crate) struct OptionsPlace {
    /// Calls of `getopt` since the beginning.
    pub(crate) calls: usize,
    /// `optind` after the last call.
    pub(crate) index: c_int,
}
