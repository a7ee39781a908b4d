//! How far a rank is in its command line's options.

use std::ffi::c_int;

/// Where a rank is in its options.
#[derive(Debug, Default)]
pub(crate) struct OptionsPlace {
    /// For each call of `getopt` since the beginning: by how much the program has moved `optind` before it. The first one
    /// is counted from 1.
    pub(crate) moves: Vec<c_int>,
    /// `optind` after the last call.
    pub(crate) index: c_int,
}
