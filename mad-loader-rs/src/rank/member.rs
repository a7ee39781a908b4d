//! What a thread is to a rank.
//!
//! Green threads and kernel threads have marcel's thread-locals. A rank is known here by an address only.

use std::cell::Cell;
use std::ptr;

/// A thread's rank, and its part in it.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// Address of the rank; null for a thread without one.
    pub(super) rank: *const (),
    /// Whether the thread runs the rank's `main`.
    pub(super) is_main: bool,
}

const NONE: Member = Member { rank: ptr::null(), is_main: false };

marcel::thread_local! {
    static MEMBER: Cell<Member> = const { Cell::new(NONE) };
}

/// The calling thread's. In signal handlers, too.
pub(super) fn member() -> Member {
    MEMBER.if_made(Cell::get).unwrap_or(NONE)
}

/// The calling thread is `member`.
pub(super) fn set(member: Member) {
    let _ = MEMBER.try_with(|own| own.set(member));
}
