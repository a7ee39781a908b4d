//! A waiter's place in a list.

use std::mem::ManuallyDrop;

/// How a waiter gets out of the list that it is in.
pub trait Leave {
    /// Takes the waiter's node out of its list. False: another thread has taken it out to serve it, and no thread
    /// touches it any more when this returns.
    fn leave(&self) -> bool;

    /// The waiter was served, and will not make use of it.
    fn pass_on(&self) {}
}

/// A waiter whose node is in a list, or was until it was served.
///
/// Dropped while the waiter's stack is unwound, it leaves the list, or passes on what the waiter was given.
#[must_use = "dropped, it leaves the list at once"]
#[derive(Debug)]
pub struct Listed<L: Leave>(L);

impl<L: Leave> Listed<L> {
    /// For a waiter whose node has just been listed.
    #[inline]
    pub fn new(waiter: L) -> Listed<L> {
        Listed(waiter)
    }

    /// The wait has ended without being served, as far as the waiter knows. False: it was served meanwhile.
    #[inline]
    pub fn leave(self) -> bool {
        self.served().leave()
    }

    /// The waiter knows that it was served: its node is out of the list.
    #[inline]
    pub fn served(self) -> L {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and not dropped.
        unsafe { std::ptr::read(&this.0) }
    }
}

impl<L: Leave> Drop for Listed<L> {
    fn drop(&mut self) {
        if !self.0.leave() {
            self.0.pass_on();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Waiter<'a> {
        served: bool,
        left: &'a Cell<u32>,
        passed_on: &'a Cell<u32>,
    }

    impl Leave for Waiter<'_> {
        fn leave(&self) -> bool {
            self.left.set(self.left.get() + 1);
            !self.served
        }
        fn pass_on(&self) {
            self.passed_on.set(self.passed_on.get() + 1);
        }
    }

    #[test]
    fn a_waiter_leaves_once_however_its_wait_ends() {
        let (left, passed_on) = (Cell::new(0), Cell::new(0));
        let listed = |served| Listed::new(Waiter { served, left: &left, passed_on: &passed_on });
        assert!(listed(false).leave());
        assert!(!listed(true).leave());
        assert_eq!((left.get(), passed_on.get()), (2, 0));
        drop(listed(false));
        assert_eq!((left.get(), passed_on.get()), (3, 0));
        drop(listed(true));
        assert_eq!((left.get(), passed_on.get()), (4, 1));
        listed(true).served();
        assert_eq!((left.get(), passed_on.get()), (4, 1));
    }
}
