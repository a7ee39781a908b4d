//! Sources that the manager makes by itself: descriptors, deadlines, files by `io_uring`.

pub(crate) mod fd;
pub(crate) mod timer;
pub(crate) mod uring;
