//! Values of which each rank has one.
//!
//! A process is one rank, as a rule, and a value costs one look more than a static. Where the process has several ranks
//! ([`crate::ranks`]), the calling thread says whose value is meant. Threads of the library are no rank's: code that they
//! run must not use such values, but what it was given.
//!
//! Handles and their tables are not among these values: a handle is a number that one rank was given, and means nothing to
//! the others.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ranks of this process, once there are several; else 0.
static RANKS: AtomicUsize = AtomicUsize::new(0);

/// A value for each rank of the process.
pub(crate) struct PerRank<T: 'static> {
    first: T,
    others: OnceLock<Box<[T]>>,
    make: fn() -> T,
}

impl<T> PerRank<T> {
    /// That of the first rank, and what makes those of others. [`per_rank!`] writes both.
    pub(crate) const fn new(first: T, make: fn() -> T) -> PerRank<T> {
        PerRank { first, others: OnceLock::new(), make }
    }

    /// That of the rank at this place in the process.
    #[inline]
    pub(crate) fn of(&self, place: usize) -> &T {
        let Some(place) = place.checked_sub(1) else { return &self.first };
        let others = match self.others.get() {
            Some(others) => others,
            None => self.make_others(),
        };
        &others[place]
    }

    #[cold]
    #[inline(never)]
    fn make_others(&self) -> &[T] {
        let others = RANKS.load(Ordering::Acquire).saturating_sub(1);
        self.others.get_or_init(|| (0..others).map(|_| (self.make)()).collect())
    }
}

impl<T> Deref for PerRank<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match RANKS.load(Ordering::Relaxed) {
            0 => &self.first,
            _ => self.of(place()),
        }
    }
}

marcel::thread_local! {
    /// For whose rank the thread acts whose program does not run, or does not run any more.
    static ACTS: Cell<usize> = const { Cell::new(0) };
}

/// The place in the process of the calling thread's rank.
#[cold]
#[inline(never)]
fn place() -> usize {
    mad_loader::current_rank().unwrap_or_else(|| ACTS.try_with(Cell::get).unwrap_or(0))
}

/// The place in the process of the calling thread's rank: for threads that are to act for it, and for callers that use
/// several values.
#[inline]
pub(crate) fn own_place() -> usize {
    if are_several() { place() } else { 0 }
}

/// The calling green thread acts for the rank at this place, before and after its program runs there.
pub(crate) fn acts_for(place: usize) {
    ACTS.set(place);
}

/// The process has so many ranks. Called once, before any of them has begun.
pub(crate) fn has(ranks: usize) {
    RANKS.store(ranks, Ordering::Release);
}

/// Whether the process has several ranks.
#[inline]
pub(crate) fn are_several() -> bool {
    RANKS.load(Ordering::Relaxed) != 0
}

/// The calling rank has looked for something in vain, and will look again: it gives way to other ranks of its process, one
/// of which may be the one that is to send.
#[inline]
pub(crate) fn give_way() {
    if are_several() && marcel::is_green() {
        marcel::yield_now();
    }
}

/// Declares a [`PerRank`] as one declares a static.
macro_rules! per_rank {
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $type:ty = $value:expr;)*) => { $(
        $(#[$meta])*
        $vis static $name: $crate::per_rank::PerRank<$type> =
            $crate::per_rank::PerRank::new($value, || $value);
    )* };
}
pub(crate) use per_rank;
