//! Waiting for several things at once: any of them, or all.
//!
//! Each of them gets a node, a *member*; all members tell one *group*, and the thread waits for that. Members and group
//! are on the waiter's stack (above [`FEW`] members in a vector). Nothing is allocated per wait for a small set.
//!
//! ```text
//!   member   listed ──fire: count the group up; completes it? ──▶ FIRED (the last touch of the member)
//!   waiter   enlist all ─ sleep on the group ─ leave with each; a member that cannot leave is about to be FIRED: wait for that
//! ```
//!
//! The group is touched before the member is FIRED, and the waiter stays until each member has left or is FIRED.
//!
//! Rejected: a claim by which only one member is ever served (`marcel`'s channels have it). It needs a lock over all
//! lists or a second phase for every semaphore; here a permit that comes to a wait that has ended is given back.

use std::ptr::NonNull;

use crate::completion::node::{After, Node};
use crate::completion::one_shot::Completion;
use crate::completion::waitable::{Enlist, Waitable};
use crate::shim::{AtomicU8, AtomicUsize, Ordering::*};

/// Up to so many members are on the stack.
const FEW: usize = 8;
const NONE: usize = usize::MAX;

struct Group {
    fired: AtomicUsize,
    /// The group is complete when so many have fired.
    goal: usize,
    /// Which one made it complete.
    last: AtomicUsize,
    done: Completion,
}

impl Group {
    fn new(goal: usize) -> Group {
        let done = Completion::new();
        Group { fired: AtomicUsize::new(0), goal, last: AtomicUsize::new(NONE), done }
    }

    fn count(&self, index: usize) {
        if self.fired.fetch_add(1, AcqRel) + 1 == self.goal {
            self.last.store(index, Release);
            self.done.complete();
        }
    }
}

#[repr(C)]
struct Member {
    node: Node,
    group: *const Group,
    index: usize,
    /// 1 when it is.
    fired: AtomicU8,
}

impl Member {
    fn new(group: &Group, index: usize) -> Member {
        unsafe fn fire(node: *const Node) -> After {
            // SAFETY: the first field of a member, which stays, with its group, until `fired`: the last touch.
            unsafe {
                let member = node.cast::<Member>();
                (*(*member).group).count((*member).index);
                (*member).fired.store(1, Release);
            }
            None
        }
        // SAFETY: two stores and a completion.
        Member { node: unsafe { Node::new(fire) }, group, index, fired: AtomicU8::new(0) }
    }
}

#[cfg(loom)]
impl Drop for Member {
    /// Stands for the end of the memory: loom reports a touch that may come later.
    fn drop(&mut self) {
        self.fired.with_mut(|_| ());
    }
}

#[cfg(loom)]
impl Drop for Group {
    /// As for a member.
    fn drop(&mut self) {
        self.fired.with_mut(|_| ());
    }
}

/// Members that may be listed; whatever ends the wait, they leave.
struct Listed<'a, 'w> {
    what: &'a [Waitable<'w>],
    members: &'a [Member],
    /// How many have been enlisted, or found to be there already.
    len: usize,
    /// The wait has ended with what it waited for, this one the last: that is kept. If not: nothing is.
    last: Option<usize>,
    goal: usize,
}

impl Drop for Listed<'_, '_> {
    fn drop(&mut self) {
        for (index, member) in self.members[..self.len].iter().enumerate() {
            let what = &self.what[index];
            let left = what.leave_or_fired(&member.node, || member.fired.load(Acquire) == 1);
            let kept = self.last.is_some_and(|last| self.goal > 1 || last == index);
            if !left && !kept {
                what.give_back();
            }
        }
    }
}

/// Waits until `goal` of them are there; which came last. `sleep` sleeps until the completion is complete, or gives up.
fn wait_for(
    what: &[Waitable<'_>],
    goal: usize,
    sleep: impl FnOnce(&Completion) -> bool,
) -> Option<usize> {
    let group = Group::new(goal);
    let (few, many): ([Member; FEW], Vec<Member>);
    let members: &[Member] = if what.len() <= FEW {
        few = std::array::from_fn(|index| Member::new(&group, index));
        &few
    } else {
        many = (0..what.len()).map(|index| Member::new(&group, index)).collect();
        &many
    };
    let mut listed = Listed { what, members, len: 0, last: None, goal };
    for (index, what) in what.iter().enumerate() {
        // SAFETY: the member stays until `listed` has seen to it.
        if !unsafe { what.enlist(NonNull::from(&members[index]).cast()) } {
            group.count(index);
            members[index].fired.store(1, Release);
        }
        listed.len = index + 1;
        if group.done.is_done() {
            break;
        }
    }
    sleep(&group.done);
    // From here on nothing unwinds.
    let last = Some(group.last.load(Acquire)).filter(|last| *last != NONE);
    listed.last = last;
    drop(listed);
    last
}

/// Waits until one of them is there; which. `sleep` as for a single wait.
pub(crate) fn wait_any(
    what: &[Waitable<'_>],
    sleep: impl FnOnce(&Completion) -> bool,
) -> Option<usize> {
    what.iter().position(Waitable::take).or_else(|| wait_for(what, 1, sleep))
}

/// Waits until all of them are there; false if `sleep` gave up before.
pub(crate) fn wait_all(what: &[Waitable<'_>], sleep: impl FnOnce(&Completion) -> bool) -> bool {
    what.is_empty() || wait_for(what, what.len(), sleep).is_some()
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::completion::semaphore::Semaphore;
    use loom::thread;
    use std::sync::Arc;

    fn sleep(done: &Completion) -> bool {
        done.latch().wait("a model");
        true
    }

    #[test]
    fn any_of_two_completions() {
        loom::model(|| {
            let both = Arc::new([Completion::new(), Completion::new()]);
            let others = [0, 1].map(|i| {
                let both = both.clone();
                thread::spawn(move || both[i].complete())
            });
            let which = wait_any(&[(&both[0]).into(), (&both[1]).into()], sleep).unwrap();
            assert!(both[which].is_done());
            others.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn all_of_two_completions() {
        loom::model(|| {
            let both = Arc::new([Completion::new(), Completion::new()]);
            let others = [0, 1].map(|i| {
                let both = both.clone();
                thread::spawn(move || both[i].complete())
            });
            assert!(wait_all(&[(&both[0]).into(), (&both[1]).into()], sleep));
            assert!(both[0].is_done() && both[1].is_done());
            others.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    /// A permit and a completion at the same time: the permit is taken or comes back.
    #[test]
    fn a_permit_that_comes_too_late_is_given_back() {
        loom::model(|| {
            let pair = Arc::new((Semaphore::new(0), Completion::new()));
            let (giver, completer) = (pair.clone(), pair.clone());
            let giver = thread::spawn(move || giver.0.release());
            let completer = thread::spawn(move || completer.1.complete());
            let which = wait_any(&[pair.0.permit(), (&pair.1).into()], sleep).unwrap();
            giver.join().unwrap();
            completer.join().unwrap();
            assert_eq!(pair.0.available(), which as u64);
        });
    }
}
