//! The waiters of a latch, when they are more than one thread.
//!
//! ```text
//!   word ──▶ node ──▶ node ──▶ the thread that came first, or nothing
//! ```
//!
//! A link is a word like the latch's own: nothing, a control block, or a node with the bit LIST. Nodes are pushed on
//! top without a lock. A thread that takes one off, from anywhere, sets LOCKED first: that excludes others that push or
//! take off, and turns the setter of the latch away (see `latch`).
//!
//! The owner of a set latch's list *fires* each node: a function of the node's, which touches it for the last time.

use std::sync::atomic::Ordering::*;

use crate::os::{AtomicPtr, UnsafeCell, yield_now};
use crate::task::park::unpark;
use crate::tcb::block::Tcb;

/// The word of a latch that is set.
pub(super) const DONE: *mut () = std::ptr::without_provenance_mut(1);
/// The word is a node.
pub(super) const LIST: usize = 2;
/// A thread changes the list.
pub(super) const LOCKED: usize = 4;

/// A call to be made when a [`Latch`](crate::Latch) is set: put it at the start of a `repr(C)` structure that the
/// function `fire` knows. For I/O managers: threads have [`Latch::wait`](crate::Latch::wait).
#[derive(Debug)]
#[repr(align(8))]
pub struct LatchNode {
    /// Under the list's lock.
    next: UnsafeCell<*mut ()>,
    fire: unsafe fn(*const LatchNode) -> After,
}

/// What is to be called when every node of the list has fired, if anything.
pub(super) type After = Option<fn()>;

impl LatchNode {
    /// A node in no list. `fire` is called once for each time that the node is enlisted and does not leave, by the
    /// thread that sets the latch or was changing its list at that moment. When the whole list is through, one of the
    /// functions that were returned is called; it may be called in the tick's handler, too.
    ///
    /// # Safety
    /// `fire` may be called on any thread, and in the tick's handler: see the rules of the progress path. What it
    /// does with the node it does before the node may be freed.
    pub unsafe fn new(fire: unsafe fn(*const LatchNode) -> Option<fn()>) -> LatchNode {
        LatchNode { next: UnsafeCell::new(std::ptr::null_mut()), fire }
    }
}

/// The latch is set, and `word` was swapped out of it.
#[cold]
#[inline(never)]
pub(super) fn set(word: *mut ()) {
    if word.addr() & LOCKED == 0 {
        fire_all(word);
    } // else the holder of the lock will find that it is set
}

/// Fires a list that the caller owns.
fn fire_all(mut word: *mut ()) {
    let mut after = None;
    while let Some(node) = node_of(word) {
        // SAFETY: a node stays until it is fired, and this is the only one to do it; `next` is read before.
        unsafe {
            word = (*node).next.with_mut(|next| *next);
            after = ((*node).fire)(node).or(after);
        }
    }
    if !word.is_null() {
        // SAFETY: control blocks are immortal.
        unpark(unsafe { &*word.cast::<Tcb>() });
    }
    if let Some(after) = after {
        after();
    }
}

fn node_of(word: *mut ()) -> Option<*const LatchNode> {
    let node = word.map_addr(|addr| addr & !LIST).cast_const().cast();
    (word.addr() & LIST != 0).then_some(node)
}

/// Adds a node to those that are fired when the latch is set; false, and it is not, if the latch is set already.
///
/// # Context
/// Not the progress path (it may wait for a moment).
///
/// # Safety
/// The node is in no list, and stays where it is until it is fired or has left. `Latch::reset` is not called
/// before that, either.
pub(super) unsafe fn enlist(at: &AtomicPtr<()>, node: *const LatchNode) -> bool {
    let link = link(node);
    let mut word = at.load(Acquire);
    while word != DONE {
        if word.addr() & LOCKED != 0 {
            yield_now();
            word = at.load(Acquire);
            continue;
        }
        // SAFETY: the caller's node, which no other thread knows yet.
        unsafe { (*node).next.with_mut(|next| *next = word) };
        match at.compare_exchange(word, link, AcqRel, Acquire) {
            Ok(_) => return true,
            Err(seen) => word = seen,
        }
    }
    false
}

/// What stands for a node in a word.
pub(super) fn link(node: *const LatchNode) -> *mut () {
    node.cast_mut().cast::<()>().map_addr(|addr| addr | LIST)
}

/// Takes off what `link` stands for. False if the list is not there any more.
pub(super) fn leave(word: &AtomicPtr<()>, link: *mut ()) -> bool {
    let Some((locked, mut head)) = lock(word) else { return false };
    let mut at: *mut *mut () = &raw mut head;
    let mut found = false;
    // SAFETY: the list is ours: the lock is held, and nodes stay as long as they are listed.
    unsafe {
        loop {
            if *at == link {
                *at = match node_of(link) {
                    Some(node) => (*node).next.with_mut(|next| *next),
                    None => std::ptr::null_mut(),
                };
                found = true;
                break;
            }
            match node_of(*at) {
                Some(node) => at = (*node).next.with_mut(|next| next),
                None => break,
            }
        }
    }
    unlock(word, locked, head);
    found
}

/// The locked word, and what it was before; `None` if the latch is set.
fn lock(at: &AtomicPtr<()>) -> Option<(*mut (), *mut ())> {
    loop {
        let word = at.load(Acquire);
        if word == DONE {
            return None;
        }
        let locked = word.map_addr(|addr| addr | LOCKED);
        if word != locked && at.compare_exchange(word, locked, AcqRel, Acquire).is_ok() {
            return Some((locked, word));
        }
        yield_now();
    }
}

fn unlock(at: &AtomicPtr<()>, locked: *mut (), head: *mut ()) {
    // Only `set` changes a locked word.
    if at.compare_exchange(locked, head, AcqRel, Acquire).is_err() {
        fire_all(head);
    }
}
